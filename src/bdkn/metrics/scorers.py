"""Metrics as scikit-learn scorers: functions of (estimator, X, y) for ``scoring=``, where greater is better."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from bdkn.metrics.estimators import route_of
from bdkn.metrics.scores import coverage, crps, nll
from bdkn.predictive import Predictive


def predictive_of(estimator: Any, X: Any) -> Predictive:
    """Return the predicted distributions of a fitted estimator, also inside a pipeline, search or transformed target.

    Parameters
    ----------
    estimator : estimator
        A fitted regressor with ``predict_dist``, or a pipeline, search or transformed target that ends with one.
    X : array-like or data frame
        Rows.

    Returns
    -------
    Predictive
        One distribution per row.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bdkn import BDKNRegressor
    >>> from bdkn.metrics import predictive_of
    >>> X = np.linspace(0.0, 1.0, 40)[:, None]
    >>> model = make_pipeline(StandardScaler(), BDKNRegressor(n_members=2, epochs=2, random_state=0)).fit(X, X[:, 0])
    >>> len(predictive_of(model, X))
    40
    """
    return route_of(estimator, X).dist()


def neg_nll(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Return the mean log predictive density, the negative of ``nll``.

    Parameters
    ----------
    estimator : estimator
        A fitted regressor with ``predict_dist``, or a pipeline, search or transformed target that ends with one.
    X : array-like or data frame
        Rows.
    y : array-like (n,)
        Observed targets.

    Returns
    -------
    float
        The score in nats per row; greater is better.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from bdkn import BDKNRegressor
    >>> from bdkn.metrics import neg_nll
    >>> X = np.random.default_rng(0).uniform(size=(60, 1))
    >>> model = BDKNRegressor(n_members=2, epochs=2, random_state=0)
    >>> cross_val_score(model, X, X[:, 0], scoring=neg_nll, cv=3).shape
    (3,)
    """
    return -nll(y, predictive_of(estimator, X))


def neg_crps(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Return the negative mean continuous ranked probability score.

    Parameters
    ----------
    estimator : estimator
        A fitted regressor with ``predict_dist``, or a pipeline, search or transformed target that ends with one.
    X : array-like or data frame
        Rows.
    y : array-like (n,)
        Observed targets.

    Returns
    -------
    float
        The score in the units of ``y``; greater is better.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from bdkn import BDKNRegressor
    >>> from bdkn.metrics import neg_crps
    >>> X = np.random.default_rng(0).uniform(size=(60, 1))
    >>> model = BDKNRegressor(n_members=2, epochs=2, random_state=0)
    >>> cross_val_score(model, X, X[:, 0], scoring=neg_crps, cv=3).shape
    (3,)
    """
    return -crps(y, predictive_of(estimator, X))


def neg_coverage_error(estimator: Any, X: Any, y: ArrayLike, level: float = 0.9) -> float:
    """Return the negative difference between nominal and observed coverage of central intervals.

    Parameters
    ----------
    estimator : estimator
        A fitted regressor with ``predict_dist``, or a pipeline, search or transformed target that ends with one.
    X : array-like or data frame
        Rows.
    y : array-like (n,)
        Observed targets.
    level : float, default=0.9
        Nominal coverage: the probability of the interval.

    Returns
    -------
    float
        The negative error, from -1 to 0; greater is better.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import BDKNRegressor
    >>> from bdkn.metrics import neg_coverage_error
    >>> X = np.linspace(0.0, 1.0, 60)[:, None]
    >>> model = BDKNRegressor(n_members=2, epochs=2, random_state=0).fit(X, X[:, 0])
    >>> -1.0 <= neg_coverage_error(model, X, X[:, 0]) <= 0.0
    True
    """
    return -abs(coverage(y, predictive_of(estimator, X), level) - level)
