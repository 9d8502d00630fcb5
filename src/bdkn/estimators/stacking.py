"""Bayesian stacking: a name for ``BDKNRegressor`` with members of the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bdkn.ensemble.estimators import Pair
from bdkn.estimators.bdkn import BDKNRegressor
from bdkn.estimators.docs import with_inherited_docs


@with_inherited_docs
@dataclass(kw_only=True, eq=False, repr=False)
class BayesianStackingRegressor(BDKNRegressor):
    """Models of any kind, weighted by their posterior: ``BDKNRegressor`` with other defaults.

    Every member is fitted to all folds but one and predicts the held-out fold. These predictions are the basis of a
    Bayesian linear model, whose weights and noise are integrated out in closed form. Standard deviations of members
    that have them enter the noise of a row, unless they are unrelated to the errors on held-out rows; the disagreement
    of all members enters its uncertainty. By default members are "auto", fitted one after the other.

    Parameters
    ----------
    <Parameters of BDKNRegressor>

    Attributes
    ----------
    <Attributes of BDKNRegressor>

    See Also
    --------
    BDKNRegressor : The same, with networks by default.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> from bdkn import BayesianStackingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (200, 2))
    >>> y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=200)
    >>> members = [("forest", RandomForestRegressor(20)), ("near", KNeighborsRegressor())]
    >>> model = BayesianStackingRegressor(members, random_state=0).fit(X, y)
    >>> mean, std = model.predict(X[:3], return_std=True)
    >>> mean.shape, std.shape
    ((3,), (3,))
    >>> model.drop_members("near").member_names_
    ('forest',)
    >>> bool(model.set_params(forest__n_estimators=10).fit(X, y).score(X, y) > 0.9)
    True
    """

    members: str | Sequence[str] | list[Pair] = field(default="auto", kw_only=False)
    n_jobs: int | None = None
