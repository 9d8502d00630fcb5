"""Checks that a predictive distribution does what this library relies on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bdkn.predictive import Predictive
from bdkn.testing.encoders import require, require_close, require_equal
from bdkn.typing import FloatArray

_LEVELS = np.array([0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999])
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_STEPS = 64
"""Number of subintervals for numerical integrals between two quantiles."""


def check_predictive(dist: Predictive, *, n_draws: int = 20_000, random_state: int = 0) -> None:
    """Check that a predictive distribution does what metrics, plots and regressors rely on.

    Checked are shapes; agreement of ``logpdf``, ``pdf``, ``cdf``, ``ppf``, ``interval``, ``mean``, ``var``, ``std``,
    ``median``, ``crps`` and ``rvs`` by quadrature and by draws; indexing; ``affine``; very small and very large units;
    point masses, which are rows of scale zero; and the refusal of invalid arguments.

    Parameters
    ----------
    dist : Predictive
        Distributions of at least two rows, with scales between 1e-100 and 1e100.
    n_draws : int, default=20_000
        Number of draws per row that are compared with the distribution function.
    random_state : int, default=0
        Seed of the draws.

    Raises
    ------
    AssertionError
        If a check fails; the message is the statement that does not hold.

    Examples
    --------
    >>> from bdkn.predictive import StudentT
    >>> from bdkn.testing import check_predictive
    >>> check_predictive(StudentT(5.0, [0.0, 10.0], [1.0, 2.0]))
    """
    n = len(dist)
    require(n >= 2, "a predictive to check has at least two rows")
    _check_interface(dist)
    _check_affine(dist)
    calls: dict[str, Callable[[], object]] = {
        "y has one row per prediction": lambda: dist.cdf(np.zeros(n + 1)),
        "levels of quantiles are probabilities": lambda: dist.ppf(1.5),
        "coverage is a probability": lambda: dist.interval(-0.1),
        "the scale of affine is positive": lambda: dist.affine(0.0, 1.0),
        "the number of draws is not negative": lambda: dist.rvs(-1),
    }
    for statement, call in calls.items():
        try:
            call()
        except ValueError:
            continue
        require(False, f"{statement}, or there is a ValueError")
    certain = dist.std() == 0.0
    if certain.any():
        _check_point_masses(dist[certain])
    if not certain.all():
        _check_functions(dist[~certain])
        _check_moments(dist[~certain])
        _check_draws(dist[~certain], n_draws, random_state)
        _check_units(dist[~certain])


def _check_interface(dist: Predictive) -> None:
    """Check the shapes of results, and the selection of rows by indices."""
    n, y = len(dist), dist.median()
    for name in ("mean", "var", "std", "median"):
        found = getattr(dist, name)()
        require(found.shape == (n,) and found.dtype == np.float64, f"{name}() is an array (n,) of floats")
    for name in ("logpdf", "pdf", "cdf", "crps"):
        function = getattr(dist, name)
        require(function(0.0).shape == (n,), f"{name} of a number is (n,)")
        require(function(np.zeros(n)).shape == (n,), f"{name} of one value per row is (n,)")
        require(function(np.zeros((n, 3))).shape == (n, 3), f"{name} of three values per row is (n, 3)")
        require_equal(function(np.full((n, 1), 0.3))[:, 0], function(0.3), f"{name} of a number is that for every row")
    require(dist.ppf(0.5).shape == (n,) and dist.ppf([0.1, 0.9]).shape == (n, 2), "ppf of k levels is (n, k)")
    require(all(end.shape == (n,) for end in dist.interval(0.9)), "interval() is two arrays (n,)")
    require(dist.rvs(3, random_state=0).shape == (n, 3), "rvs(size) is (n, size)")
    require(dist.rvs(0).shape == (n, 0), "rvs(0) is (n, 0)")
    require_equal(dist.rvs(3, random_state=0), dist.rvs(3, random_state=0), "draws depend on random_state alone")
    draws = dist.rvs(3, random_state=np.random.default_rng(0))
    require_equal(draws, dist.rvs(3, random_state=0), "random_state is a seed or a generator")
    expected = dist.cdf(y), dist.ppf(0.9), dist.mean()
    for index in (slice(0, 1), slice(None, None, -1), [1, 0], np.arange(n) % 2 == 0, np.array([n - 1])):
        part = dist[index]
        require(type(part) is type(dist), "dist[rows] has the same class")
        found = part.cdf(y[index]), part.ppf(0.9), part.mean()
        for one, other in zip(found, expected, strict=True):
            require_close(one, other[index], "dist[rows] are the distributions of these rows", rtol=1e-12)
    require(len(dist[1]) == 1, "dist[i] is the distribution of one row, with length one")


def _check_affine(dist: Predictive) -> None:
    y, scale = dist.ppf([0.2, 0.7]), 2.5
    shift = -3.0 * (float(np.diff(y).max()) or 1.0)
    moved, at = dist.affine(scale, shift), scale * y + shift
    size = 1e-9 * scale * (np.abs(y).max() + abs(shift))
    require(type(moved) is type(dist), "affine() has the same class")
    require_close(moved.mean(), scale * dist.mean() + shift, "affine moves the mean", rtol=1e-9, atol=size)
    require_close(moved.std(), scale * dist.std(), "affine scales the standard deviation", rtol=1e-9)
    require_close(moved.ppf([0.2, 0.7]), at, "affine moves the quantiles", rtol=1e-9, atol=size)
    require_close(moved.crps(at), scale * dist.crps(y), "affine scales the CRPS", rtol=1e-6, atol=size)
    wide = dist.std() > 0.0
    expected = (dist.logpdf(y) - np.log(scale))[wide]
    require_close(moved.logpdf(at)[wide], expected, "affine divides the density", rtol=1e-6, atol=1e-6)


def _check_point_masses(dist: Predictive) -> None:
    point = dist.mean()
    beside = point + np.maximum(1.0, np.abs(point))
    require_equal(dist.ppf(0.1), point, "every quantile of a point mass is the point")
    require_equal(dist.rvs(2, random_state=0)[:, 0], point, "every draw of a point mass is the point")
    require_equal(dist.cdf(np.nextafter(point, -np.inf)), np.zeros(len(dist)), "below the point the cdf is zero")
    require_equal(dist.cdf(point), np.ones(len(dist)), "from the point on the cdf is one")
    require_equal(dist.logpdf(point), np.full(len(dist), np.inf), "the log density at the point is +inf")
    require_equal(dist.logpdf(beside), np.full(len(dist), -np.inf), "the log density elsewhere is -inf")
    require_close(dist.crps(beside), beside - point, "the CRPS of a point mass is the absolute error", rtol=1e-9)


def _check_functions(dist: Predictive) -> None:
    """Check quantiles, distribution function, density and CRPS against each other, by quadrature."""
    y = dist.ppf(_LEVELS)
    require(np.all(np.diff(y, axis=1) > 0), "quantiles rise with their level")
    require_close(dist.cdf(y), np.broadcast_to(_LEVELS, y.shape), "cdf(ppf(q)) is q", rtol=1e-6, atol=1e-9)
    require_close(dist.median(), dist.ppf(0.5), "median() is the quantile of level 0.5", rtol=1e-9, atol=_small(dist))
    lower, upper = dist.interval(0.8)
    low, high = dist.ppf([0.0, 0.1, 0.9, 1.0]).reshape(len(dist), 2, 2).swapaxes(0, 1)
    lower, upper = np.where(lower == low[:, 0], low[:, 1], lower), np.where(upper == high[:, 1], high[:, 0], upper)
    ends = np.column_stack([low[:, 1], high[:, 0]])
    message = "interval(0.8) goes from 10 % to 90 %, or to a bound"
    require_close(np.column_stack([lower, upper]), ends, message, rtol=1e-9)
    cdf = dist.cdf(np.column_stack([y[:, :1] - 1e3 * (y[:, -1:] - y[:, :1]), y, np.full(len(y), np.inf)]))
    require(np.all((cdf >= 0.0) & (cdf <= 1.0)) and np.all(np.diff(cdf) >= 0), "the cdf rises from 0 to 1")
    require_close(cdf[:, -1], np.ones(len(y)), "the cdf at infinity is one")
    require_close(dist.pdf(y), np.exp(dist.logpdf(y)), "pdf is the exponential of logpdf", rtol=1e-9)
    mass = _integral(dist.pdf, y[:, 0], y[:, -1])
    require_close(mass, np.full(len(dist), 0.998), "the integral of the density is the probability", rtol=1e-5)
    score = dist.crps(y[:, [4, -1]])
    if np.isfinite(score).all():
        rise = _integral(lambda x: 2.0 * dist.cdf(x) - 1.0, y[:, 4], y[:, -1])
        require_close(score[:, 1] - score[:, 0], rise, "the derivative of the CRPS is 2 cdf - 1", rtol=1e-5)
        require(np.all(score > 0.0), "the CRPS is positive")


def _check_moments(dist: Predictive) -> None:
    """Compare mean and variance with integrals of the quantile function, where these converge."""
    u = np.linspace(-36.0, 36.0, 1441)  # logits of the levels α, which reach far into both tails
    α = 1.0 / (1.0 + np.exp(-u))
    weight = α * (1.0 - α) * (u[1] - u[0])
    deviation = dist.ppf(α) - dist.mean()[:, None]
    for power, name, found in ((1, "mean", dist.mean() * 0.0), (2, "variance", dist.var())):
        parts = deviation**power * weight
        total, size = parts.sum(axis=1), np.abs(parts).sum(axis=1)
        known = (np.abs(parts[:, [0, -1]]).max(axis=1) < 1e-9 * size) & np.isfinite(found)
        gap = np.abs(total - found)[known] / size[known]  # the sum is less exact if quantiles jump
        require(np.all(gap < 0.01), f"the {name} is that of the quantiles")
    with np.errstate(over="ignore"):
        require_close(dist.std() ** 2, dist.var(), "var() is the square of std()", rtol=1e-9)


def _check_draws(dist: Predictive, n_draws: int, random_state: int) -> None:
    draws = dist.rvs(n_draws, random_state=random_state)
    pit = np.sort(dist.cdf(draws), axis=1)
    steps = (np.arange(n_draws) + 0.5) / n_draws
    distance = np.abs(pit - steps).max(axis=1) * np.sqrt(n_draws)
    require(np.all(distance < 2.5), "draws have the distribution function cdf (Kolmogorov-Smirnov)")
    if len(dist) > 1:
        first, last = dist.cdf(draws)[[0, -1]] - 0.5
        tied = float(np.mean(first * last)) * 12.0 * np.sqrt(n_draws)
        require(abs(tied) < 5.0, "draws of different rows are independent")
    finite = np.isfinite(dist.var())
    for rows in np.flatnonzero(finite):
        x, y = draws[rows], dist.mean()[rows]
        sample = np.abs(x - y) - np.abs(x - np.roll(x, 1)) / 2.0
        error = 6.0 * sample.std() / np.sqrt(n_draws)
        require(abs(dist[[rows]].crps(y)[0] - sample.mean()) < error, "the CRPS is E|Y - y| - E|Y - Y'|/2")


def _check_units(dist: Predictive) -> None:
    y = dist.ppf([0.2, 0.7])
    for unit in (1e-150, 1e150):
        far = dist.affine(unit, 0.0)
        require_close(far.std() / unit, dist.std(), f"std() holds in units of {unit:g}", rtol=1e-6)
        require_close(far.ppf([0.2, 0.7]) / unit, y, f"ppf holds in units of {unit:g}", rtol=1e-6, atol=_small(dist))
        require_close(far.cdf(unit * y), dist.cdf(y), f"cdf holds in units of {unit:g}", rtol=1e-6)
        expected = dist.logpdf(y) - np.log(unit)
        require_close(far.logpdf(unit * y), expected, f"logpdf holds in units of {unit:g}", rtol=1e-6)


def _small(dist: Predictive) -> float:
    """Return a tolerance that is small compared with the widths of the distributions."""
    lower, upper = dist.interval(0.5)
    return float(1e-9 * (upper - lower).max())


def _integral(function: Callable[[FloatArray], FloatArray], lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return the integral of a function for each row, by Gauss-Legendre quadrature on equal subintervals."""
    half = (upper - lower) / (2.0 * _STEPS)
    middles = lower[:, None] + half[:, None] * (2.0 * np.arange(_STEPS) + 1.0)
    x = middles[:, :, None] + half[:, None, None] * _NODES
    values = function(x.reshape(len(lower), -1)).reshape(x.shape)
    return np.asarray(half * np.sum(values @ _WEIGHTS, axis=1))
