"""Checks of a regressor's predictions: shapes, agreement of all ways to predict, joint predictions, and units."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from bdkn.errors import InvalidParameterError
from bdkn.metrics import crps, nll
from bdkn.testing.checks import require, require_close, require_equal
from bdkn.testing.regressor_case import N_NEW, Case, require_error

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def check_shapes(case: Case) -> None:
    """Check the shapes of predictions, and that they are finite."""
    model, new, n = case.fitted, case.new, N_NEW
    found: dict[str, tuple[Any, tuple[int, ...]]] = {
        "predict": (model.predict(new), (n,)),
        "predict with return_std": (model.predict(new, return_std=True)[1], (n,)),
        "predict with return_cov": (model.predict(new, return_cov=True)[1], (n, n)),
        "predict_interval": (model.predict_interval(new), (n, 2)),
        "predict_quantiles": (model.predict_quantiles(new, LEVELS), (n, len(LEVELS))),
        "predict_quantiles for one level": (model.predict_quantiles(new, 0.5), (n, 1)),
        "sample_y": (model.sample_y(new, 4), (n, 4)),
    }
    for name, (values, shape) in found.items():
        require(values.shape == shape, f"{name} has shape {shape}")
        require(values.dtype == np.float64, f"{name} is in double precision")
        require(bool(np.isfinite(values).all()), f"{name} is finite for rows like the training rows")
    require(len(case.dist) == n, "predict_dist has one distribution per row")


def check_agreement(case: Case) -> None:
    """Check that moments, quantiles, intervals and scores are those of ``predict_dist``."""
    model, new, dist = case.fitted, case.new, case.dist
    mean, std = model.predict(new, return_std=True)
    require_equal(model.predict(new), mean, "predict has the same means with and without return_std")
    require_equal(dist.mean(), mean, "predict has the means of predict_dist")
    require_equal(dist.std(), std, "predict has the standard deviations of predict_dist")
    require(bool((std > 0).all()), "standard deviations are positive")
    _check_quantiles(case)
    y = case.y[:N_NEW]
    require_close(model.log_score(new, y), -nll(y, dist), "log_score is the mean log density", rtol=1e-12)
    require_close(model.crps(new, y), crps(y, dist), "crps is the mean CRPS of predict_dist", rtol=1e-12)
    r2 = 1.0 - np.sum((y - mean) ** 2) / np.sum((y - y.mean()) ** 2)
    require_close(model.score(new, y), r2, "score is the coefficient of determination", rtol=1e-9)


def _check_quantiles(case: Case) -> None:
    model, new, dist, small = case.fitted, case.new, case.dist, 1e-8 * case.unit
    quantiles = model.predict_quantiles(new, LEVELS)
    require_close(quantiles, dist.ppf(LEVELS), "quantiles are those of predict_dist", atol=small)
    require(bool((np.diff(quantiles, axis=1) > 0).all()), "quantiles increase with their level")
    require_close(dist.cdf(quantiles), np.tile(LEVELS, (N_NEW, 1)), "cdf is the inverse of quantiles", atol=1e-6)
    require_close(model.predict_quantiles(new), quantiles[:, [0, 2, 4]], "quantiles have these defaults", atol=small)
    require_close(model.predict_interval(new), quantiles[:, [0, 4]], "an interval has coverage 0.9", atol=small)
    require_close(model.predict_interval(new, 0.5), quantiles[:, [1, 3]], "intervals have their coverage", atol=small)


def check_joint(case: Case) -> None:
    """Check the covariance of all rows, and joint draws, against the predictive of each row."""
    model, new, dist, small = case.fitted, case.new, case.dist, 1e-6 * case.unit
    mean, covariance = model.predict(new, return_cov=True)
    require_close(mean, dist.mean(), "return_cov does not change the means", atol=small)
    require_close(np.diag(covariance), dist.std() ** 2, "the covariance's diagonal is the squared std", rtol=1e-5)
    require_close(covariance, covariance.T, "the covariance is symmetric", atol=small**2)
    λ = np.linalg.eigvalsh(covariance)
    require(bool(λ[0] > -1e-8 * λ[-1]), "the covariance is positive semi-definite")
    draws = model.sample_y(new, 2000)
    for row in range(3):
        test = stats.kstest(draws[row], lambda values, row=row: dist[[row]].cdf(values[None])[0])
        require(bool(test.pvalue > 1e-4), "the joint draws of a row follow its predictive")
    require_equal(model.sample_y(new, 2), model.sample_y(new, 2, random_state=0), "draws have the seed 0 by default")
    generator = np.random.default_rng(1)
    first, second = (model.sample_y(new, 1, generator) for _ in range(2))
    require(not np.array_equal(first, second), "a generator gives new draws each time")


def check_rows(case: Case) -> None:
    """Check that the prediction of a row depends on that row alone."""
    model, new, dist, small = case.fitted, case.new, case.dist, 1e-5 * case.unit
    order = np.random.default_rng(0).permutation(N_NEW)
    for rows in (order, order[:1], np.arange(3, 7)):
        mean, std = model.predict(new[rows], return_std=True)
        require_close(mean, dist.mean()[rows], "the mean of a row depends on that row alone", atol=small)
        require_close(std, dist.std()[rows], "the std of a row depends on that row alone", rtol=1e-4)
    require_equal(model.predict(new.tolist()), model.predict(new), "a list gives the same bits as an array")


def check_units(case: Case) -> None:
    """Check that predictions follow the units of the target."""
    scaled = case.unfitted().fit(case.X, 8.0 * case.y + 512.0).predict_dist(case.new)  # exact in binary
    mean, std = 8.0 * case.dist.mean() + 512.0, 8.0 * case.dist.std()
    require_close(scaled.mean(), mean, "means are in the units of the target", atol=8e-3 * case.unit)
    require_close(scaled.std(), std, "standard deviations are in the units of the target", rtol=1e-2)


def check_bad_arguments(case: Case) -> None:
    """Check that wrong arguments are refused by an error that names them."""
    model, new = case.fitted, case.new
    require_error(InvalidParameterError, "at most one of return_std and return_cov", model.predict, new, True, True)
    require_error(InvalidParameterError, "coverage must be a number", model.predict_interval, new, 95)
    require_error(InvalidParameterError, "each level in quantiles must be", model.predict_quantiles, new, [0.1, 1.5])
    require_error(InvalidParameterError, "n_samples must be an integer", model.sample_y, new, 0)
    message = f"one value for each of the {N_NEW} predicted rows"
    require_error(InvalidParameterError, message, model.log_score, new, case.y[: N_NEW - 1])
