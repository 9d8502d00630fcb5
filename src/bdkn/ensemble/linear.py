"""A linear member: the lasso as networks without hidden layers, cross-fitted as other networks are.

In tables with more columns than rows, few of which matter, networks fit the noise; a sparse linear function does not.
The first output of such a network is the linear function, the second, the raw variance, is constant.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from bdkn.data.folds import FoldPlan
from bdkn.data.rows import Rows
from bdkn.ensemble.cross_fitting import Candidates, FoldGrid, FoldNetworks, NetworkGrid, predict_held_out
from bdkn.networks import Networks, NetworkSpec, Trained
from bdkn.networks.mlp import MIN_VARIANCE
from bdkn.stages import stage
from bdkn.typing import Float32Array, FloatArray, IndexArray

LINEAR = "linear"
"""The name of the linear member."""

_FEWEST = 4
"""Rows below which the penalty cannot be chosen; the function is then the mean."""

_PENALTIES = 40
"""Number of penalties to choose from."""

_ROWS, _COLUMNS_PER_ROW = 10, 0.5
"""Rows, and columns per row, from which a linear member is added by default."""


def needs_linear(n_rows: int, n_columns: int) -> bool:
    """Return whether a table is so wide that a linear member is added by default."""
    return n_rows >= _ROWS and n_columns >= _COLUMNS_PER_ROW * n_rows


def fit_linear(rows: Rows, plan: FoldPlan, *, own_variance: bool) -> Candidates:
    """Return the linear member as a candidate, with the folds of the first member of ``plan``.

    The predictions of its fits for a row differ mostly by whether the row was among their training rows. No variance
    is assumed to be removed by averaging over the fits: the fold variance is zero.
    """
    own = plan.first_member(LINEAR)
    with stage("train"):
        trained = Trained.join([_fit(rows, None if numbers is None else np.asarray(numbers)) for numbers in own.rows])
    last = len(own.rows) - plan.refit
    crossed = NetworkGrid(trained[range(last)], FoldGrid(last, 1))
    used = NetworkGrid(trained[[last]], FoldGrid(1, 1)) if plan.refit else crossed
    is_finite = np.array([trained.networks.is_finite().all()])
    held_out = predict_held_out(FoldNetworks(crossed, used, is_finite, own_variance), rows, own)
    held_out = replace(held_out, fold_variance=np.zeros_like(held_out.means))
    return Candidates(own.names, used, is_finite, held_out, own_variance)


def _fit(rows: Rows, numbers: IndexArray | None) -> Trained:
    """Return the lasso of some of the rows (None: all) as a network; its only loss is its NLL on held-out rows.

    Where all inputs are average, it predicts the mean of all targets. The mean of a fold's training rows is high where
    that of its held-out rows is low, so that weights fitted to held-out predictions would be biased.
    """
    chosen = slice(None) if numbers is None else numbers
    counts = None if rows.counts is None else rows.counts[chosen]
    mean = float(np.average(rows.y, weights=rows.counts))
    slope, error = _lasso(rows.X[chosen], np.asarray(rows.y[chosen], dtype=np.float64) - mean, counts)
    loss = np.array([(np.log(2.0 * np.pi * error) + 1.0) / 2.0])
    return Trained(_network(slope, mean, error), (loss,), (np.empty(0),), (0,))


def _network(slope: FloatArray, intercept: float, variance: float) -> Networks:
    """Return a network without hidden layers that predicts a linear function with a constant variance."""
    raw = variance - MIN_VARIANCE
    W = np.zeros((1, 2, len(slope)), dtype=np.float32)
    W[0, 0] = slope
    # The inverse of softplus, log(exp(v) - 1), without overflow.
    b = np.array([[intercept, raw + np.log(-np.expm1(-raw))]], dtype=np.float32)
    return Networks(NetworkSpec(n_inputs=len(slope), hidden=()), ((W, b),))


def _lasso(X: Float32Array, y: FloatArray, counts: FloatArray | None) -> tuple[FloatArray, float]:
    """Return the slope, and the squared error on held-out rows, of the lasso whose penalty has the smallest."""
    spread = float(np.average(y**2, weights=counts))
    if len(y) < _FEWEST or spread <= MIN_VARIANCE:
        return np.zeros(X.shape[1]), max(spread, 2.0 * MIN_VARIANCE)
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LassoCV

    model = LassoCV(cv=min(5, len(y) // 2), alphas=_PENALTIES, tol=1e-3, fit_intercept=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X.astype(np.float64), y, counts)
    return model.coef_, max(float(model.mse_path_.mean(axis=1).min()), 2.0 * MIN_VARIANCE)
