"""A linear member: the lasso as networks without hidden layers, cross-fitted as other networks are.

In tables with more columns than rows, few of which matter, networks fit the noise; a sparse linear function does not.
The first output of such a network is the linear function, the second, the raw variance, is constant.
"""

from __future__ import annotations

import warnings

import numpy as np

from bdkn.members.cross_fitting import Candidates, FoldGrid, FoldNetworks, NetworkGrid, predict_held_out
from bdkn.members.fold_plan import FoldPlan
from bdkn.networks import Networks, NetworkSpec
from bdkn.networks.head import MIN_VARIANCE
from bdkn.rows import Rows
from bdkn.stages import stage
from bdkn.training import Trained
from bdkn.typing import Float32Array, FloatArray

LINEAR = "linear"
"""The name of the linear member."""

_FEWEST = 4
"""Rows below which the penalty cannot be chosen; the function is then the mean."""

_PENALTIES = 40
"""Number of penalties to choose from."""

_COLUMNS_PER_ROW = 0.5
"""Columns per row from which a linear member is added by default."""


def needs_linear(n_rows: int, n_columns: int) -> bool:
    """Return whether a table is so wide that a linear member is added by default."""
    return n_columns >= _COLUMNS_PER_ROW * n_rows


def fit_linear(rows: Rows, plan: FoldPlan, *, own_variance: bool) -> Candidates:
    """Return the linear member as a candidate, with the folds of the first member of ``plan``."""
    own = _plan_of_first(plan)
    with stage("train"):
        trained = Trained.join([_fit(rows, None if numbers is None else np.asarray(numbers)) for numbers in own.rows])
    last = len(own.rows) - plan.refit
    crossed = NetworkGrid(trained[range(last)], FoldGrid(last, 1))
    used = NetworkGrid(trained[[last]], FoldGrid(1, 1)) if plan.refit else crossed
    is_finite = np.array([trained.networks.is_finite().all()])
    networks = FoldNetworks(crossed, used, is_finite, own_variance)
    return Candidates(own.names, used, is_finite, predict_held_out(networks, rows, own), own_variance)


def _plan_of_first(plan: FoldPlan) -> FoldPlan:
    """Return the plan of one linear member, which leaves out the rows that the first member leaves out."""
    H = len(plan.names)
    seeds, rows = plan.seeds[::H], plan.rows[::H]
    return FoldPlan((LINEAR,), seeds, [0] * len(rows), rows, plan.fold_of[:, :1], plan.held_out, plan.refit)


def _fit(rows: Rows, numbers: FloatArray | None) -> Trained:
    """Return the lasso of some of the rows (None: all) as a network; its only loss is its NLL on held-out rows."""
    chosen = slice(None) if numbers is None else numbers
    counts = None if rows.counts is None else rows.counts[chosen]
    slope, intercept, error = _lasso(rows.X[chosen], np.asarray(rows.y[chosen], dtype=np.float64), counts)
    loss = np.array([(np.log(2.0 * np.pi * error) + 1.0) / 2.0])
    return Trained(_network(slope, intercept, error), (loss,), (np.empty(0),), (0,))


def _network(slope: FloatArray, intercept: float, variance: float) -> Networks:
    """Return a network without hidden layers that predicts a linear function with a constant variance."""
    raw = variance - MIN_VARIANCE
    W = np.zeros((1, 2, len(slope)), dtype=np.float32)
    W[0, 0] = slope
    # The inverse of softplus, log(exp(v) - 1), without overflow.
    b = np.array([[intercept, raw + np.log(-np.expm1(-raw))]], dtype=np.float32)
    return Networks(NetworkSpec(n_inputs=len(slope), hidden=()), ((W, b),))


def _lasso(X: Float32Array, y: FloatArray, counts: FloatArray | None) -> tuple[FloatArray, float, float]:
    """Return slope, intercept and squared error on held-out rows of the lasso whose penalty has the smallest."""
    mean = float(np.average(y, weights=counts))
    spread = float(np.average((y - mean) ** 2, weights=counts))
    if len(y) < _FEWEST or spread == 0.0:
        return np.zeros(X.shape[1]), mean, max(spread, 2.0 * MIN_VARIANCE)
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LassoCV

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LassoCV(cv=min(5, len(y) // 2), alphas=_PENALTIES, tol=1e-3).fit(X.astype(np.float64), y, counts)
    error = float(model.mse_path_.mean(axis=1).min())
    return model.coef_, float(model.intercept_), max(error, 2.0 * MIN_VARIANCE)
