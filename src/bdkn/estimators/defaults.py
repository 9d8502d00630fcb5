"""The default members of a stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from bdkn.ensemble.estimators import Pair
from bdkn.estimators.deep_ensemble import DeepEnsembleRegressor

MOST_ROWS = 500
"""Largest number of rows for which an exact Gaussian process is fast enough to be a member."""

MANY_ROWS = 5000
"""With more rows than this, members have fewer networks or trees, and all boosting bins its columns."""

_MARGIN = 1e-3

Objective = Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]


def default_estimators(n_rows: int, n_features: int, *, weighted: bool = False, effort: str = "balanced") -> list[Pair]:
    """Return members that differ as much as possible: networks, boosting, trees, and a Gaussian process.

    The networks are those of ``BDKNRegressor``: a member for each activation and weight decay, and one for each
    activation whose networks see their inputs through piecewise-linear encodings. The process is used with few rows
    only, as its time grows with the cube of their number, and only without sample weights, which it does not support.
    With ``effort="fast"`` there are two networks for each of two weight decays, one boosting and a third of the trees;
    with "best" twice as many networks and trees, and the process up to twice as many rows.
    """
    few, fast, more = n_rows <= MANY_ROWS, effort == "fast", 2 if effort == "best" else 1
    boosting = _slow_boosting() if few else _fast_boosting()
    networks = _few_networks() if fast else _networks(few, more)
    trees = (300 if few else 100) * more // (3 if fast else 1)
    members = [*networks, *boosting[: 1 if fast else 2], _trees(trees, 0.5 if few else 1.0)]
    if n_rows <= MOST_ROWS * more and not (weighted or fast):
        members.append(("process", _process(n_features)))
    return members


def slowest_last(members: list[Pair]) -> list[Pair]:
    """Return the default members in the order in which they are fitted within a time limit: networks last."""
    return sorted(members, key=lambda pair: isinstance(pair[1], DeepEnsembleRegressor))


def _networks(few_rows: bool, more: int) -> list[Pair]:
    """Return one network per activation and weight decay, and networks whose inputs are divided into bins."""
    decays = {0.0: 2, 0.3: 2, 1.0: 2} if few_rows else {0.0: 2, 0.3: 1}
    bins = (4, 8, 16, 4, 8, 16) if few_rows else (16, 16)
    plain = [
        (f"{activation} {decay}", _ensemble(more * n, activation, weight_decay=decay, n_bins=0))
        for decay, n in decays.items()
        for activation in ("silu", "relu")
    ]
    binned = [
        (f"{activation} bins", _ensemble(more * len(bins), activation, weight_decay=0.0, n_bins=bins))
        for activation in ("silu", "relu")
    ]
    return [*plain, *binned]


def _ensemble(n_members: int, activation: str, **parameters: Any) -> DeepEnsembleRegressor:
    return DeepEnsembleRegressor(n_members=n_members, activation=activation, predictive="gaussian", **parameters)


def _few_networks() -> list[Pair]:
    common: dict[str, Any] = {"activation": ("silu", "relu"), "predictive": "gaussian", "effort": "fast"}
    return [
        (f"networks {decay}", DeepEnsembleRegressor(n_members=2, weight_decay=decay, **common)) for decay in (0.0, 0.3)
    ]


def _slow_boosting() -> list[Pair]:
    """Return two models of boosted small trees, which use part of the columns and, in one model, part of the rows."""
    from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor

    small = {"max_leaf_nodes": 8, "min_samples_leaf": 5, "max_features": 0.3, "l2_regularization": 1.0}
    binned = HistGradientBoostingRegressor(learning_rate=0.05, max_iter=800, **small)
    part = {"max_depth": 4, "min_samples_leaf": 3, "max_features": 0.5, "subsample": 0.7}
    return [
        ("boosting", binned),
        ("stochastic boosting", GradientBoostingRegressor(learning_rate=0.05, n_estimators=800, **part)),
    ]


def _fast_boosting() -> list[Pair]:
    """Return two models of boosted larger trees, for many rows."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    common = {"learning_rate": 0.05, "max_features": 0.5}
    large = {"max_leaf_nodes": 127, "min_samples_leaf": 5, "max_iter": 600}
    return [
        ("boosting", HistGradientBoostingRegressor(max_leaf_nodes=63, max_iter=800, **common)),
        ("deep boosting", HistGradientBoostingRegressor(**large, **common)),
    ]


def _trees(count: int, share_of_columns: float) -> Pair:
    from sklearn.ensemble import ExtraTreesRegressor

    return "trees", ExtraTreesRegressor(n_estimators=count, max_features=share_of_columns)


def _process(n_features: int) -> Any:
    """Return a Gaussian process on standardised columns with one length scale per column."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    smooth = ConstantKernel(1.0, (1e-2, 1e3)) * Matern(np.full(n_features, 2.0), (1e-2, 1e3), nu=2.5)
    kernel = smooth + WhiteKernel(0.1, (1e-5, 1e1))
    return make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True, optimizer=_within))


def _within(
    objective: Objective, start: NDArray[np.float64], bounds: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Minimise within slightly narrower bounds.

    The length scale of a column without influence is at its bound, about which scikit-learn would warn.
    """
    inner = bounds + _MARGIN * np.array([1.0, -1.0])
    found = minimize(objective, start, method="L-BFGS-B", jac=True, bounds=inner)
    return found.x, float(found.fun)
