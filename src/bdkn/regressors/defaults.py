"""The members of a stack whose user names none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from bdkn.regressors.deep_ensemble import DeepEnsembleRegressor

MOST_ROWS = 500
"""Rows up to which an exact Gaussian process is quick enough to take part."""

MANY_ROWS = 5000
"""Rows from which on fewer trees do, and would fill the memory if they were more."""

_MARGIN = 1e-3

Objective = Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]


def default_estimators(n_rows: int, n_features: int, *, weighted: bool = False) -> list[tuple[str, Any]]:
    """Return members as unlike one another as can be: networks, boosting, trees, and a Gaussian process.

    The networks are those of ``BDKNRegressor``, with a member for each activation and weight decay. The process, whose
    time grows with the cube of the rows, takes part with few rows; as it cannot weigh them, only where all count the
    same.
    """
    from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor

    members: list[tuple[str, Any]] = [
        (f"{activation} {decay}", _networks(activation, decay))
        for decay in (0.0, 0.3, 1.0)
        for activation in ("silu", "relu")
    ]
    members.append(("boosting", HistGradientBoostingRegressor(learning_rate=0.05, max_iter=400)))
    members.append(("trees", ExtraTreesRegressor(n_estimators=300 if n_rows <= MANY_ROWS else 100)))
    if n_rows <= MOST_ROWS and not weighted:
        members.append(("process", _process(n_features)))
    return members


def _networks(activation: str, decay: float) -> DeepEnsembleRegressor:
    return DeepEnsembleRegressor(n_members=2, activation=activation, weight_decay=decay, predictive="gaussian")


def _process(n_features: int) -> Any:
    """Return a process on standardised columns with a length scale for each."""
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
    """Minimise a little inside the bounds.

    A column that does not matter has its length scale there, which is no reason to warn as scikit-learn would.
    """
    inner = bounds + _MARGIN * np.array([1.0, -1.0])
    found = minimize(objective, start, method="L-BFGS-B", jac=True, bounds=inner)
    return found.x, float(found.fun)
