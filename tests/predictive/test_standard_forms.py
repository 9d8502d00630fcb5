"""Densities, quantiles and scores of a Student-t where formulas are near their limits, against mpmath and SciPy."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import stats

from bdkn.errors import InvalidParameterError
from bdkn.predictive import Gaussian, StudentT
from bdkn.predictive.location_scale import log_density, standardise, student_t_logpdf


def lower_tail(df, t):
    """Return F(t) for t < 0 by mpmath."""
    x = mpmath.mpf(df) / (mpmath.mpf(df) + mpmath.mpf(t) ** 2)
    return mpmath.betainc(mpmath.mpf(df) / 2, mpmath.mpf(1) / 2, 0, x, regularized=True) / 2


@pytest.mark.parametrize("df", [0.7, 1.0, 3.0, 40.0, 1000.0])
def test_quantiles_far_down_and_far_up(df):
    levels = np.array([1e-250, 1e-100, 1e-31, 1e-20, 1e-12, 1e-8, 1e-3])
    if df < 1.0:  # -1e357 is no number
        levels = levels[1:]
    found = StudentT(df, [0.0], [1.0]).ppf(levels)[0]
    assert [float(lower_tail(df, t) / q) for t, q in zip(found, levels, strict=True)] == pytest.approx(
        [1.0] * len(levels)
    )
    np.testing.assert_allclose(StudentT(df, [2.0], [3.0]).ppf(levels)[0], 2.0 + 3.0 * found, rtol=1e-12)


@pytest.mark.parametrize(("df", "level"), [(0.001, 0.3), (0.003, 0.1), (0.005, 0.05), (0.5, 1e-140), (1.0, 1e-200)])
def test_quantiles_whose_squares_are_no_numbers(df, level):
    """Here SciPy's quantile is that of another level, or infinite; its distribution function is 0 or 1."""
    dist = StudentT(df, [0.0], [1.0])
    low, high = dist.ppf([level, 1.0 - level])[0]
    a = mpmath.mpf(df) / 2
    log_tail = a * mpmath.log(mpmath.mpf(df) / mpmath.mpf(low) ** 2) - mpmath.log(2 * a * mpmath.beta(a, 0.5))
    assert float(mpmath.exp(log_tail)) == pytest.approx(level)
    assert dist.cdf([low])[0] == pytest.approx(level)
    log_density = -(2 * a + 1) * mpmath.log(abs(low)) + a * mpmath.log(2 * a) - mpmath.log(mpmath.beta(0.5, a))
    assert dist.logpdf([low])[0] == pytest.approx(float(log_density))
    if level > 1e-10:
        assert high == pytest.approx(-low)
        assert dist.cdf([high])[0] == pytest.approx(1.0 - level)


@pytest.mark.parametrize("df", [5e-324, 1e-310, 1e-300, 1e-30, 1e-5])
def test_quantiles_at_next_to_no_degrees_of_freedom_are_infinite_on_their_side(df):
    found = StudentT(df, [0.0], [1.0]).ppf([0.0, 0.05, 0.5, 0.9, 1.0])[0]
    np.testing.assert_array_equal(found, [-np.inf, -np.inf, 0.0, np.inf, np.inf])
    assert StudentT(df, [0.0], [1.0]).cdf([1e140])[0] == pytest.approx(0.5, abs=0.01)


def test_rows_of_few_and_of_infinitely_many_degrees_of_freedom_are_computed_together():
    dist = StudentT([1e-3, 3.0, np.inf], np.zeros(3), 1.0)
    np.testing.assert_array_equal(dist.ppf([0.05, 0.9])[1:], StudentT([3.0, np.inf], np.zeros(2), 1.0).ppf([0.05, 0.9]))
    np.testing.assert_array_equal(dist.cdf(np.full(3, np.inf)), 1.0)
    np.testing.assert_array_equal(
        dist.cdf([np.inf, 1.0, 2.0])[1:], StudentT([3.0, np.inf], [0, 0], 1.0).cdf([1.0, 2.0])
    )
    np.testing.assert_array_equal(dist.cdf(np.full(3, -1e200))[1:], 0.0)
    np.testing.assert_array_equal(dist.logpdf(np.full(3, np.inf)), -np.inf)


@pytest.mark.parametrize("df", [0.3, 4.0, 1e9, np.inf])
def test_levels_zero_and_one_are_the_ends(df):
    np.testing.assert_array_equal(
        StudentT(df, [0.0, 5.0], [1.0, 0.0]).ppf([0.0, 0.5, 1.0]), [[-np.inf, 0, np.inf], [5.0] * 3]
    )


def test_the_log_density_of_arrays():
    y, df, loc, scale = np.array([0.5, 2.0]), np.array([3.0, 8.0]), np.array([1.0, -1.0]), np.array([0.5, 2.0])
    np.testing.assert_allclose(student_t_logpdf(y, df, loc, scale), stats.t.logpdf(y, df, loc, scale))
    np.testing.assert_allclose(student_t_logpdf(y, 3.0, loc, scale), stats.t.logpdf(y, 3.0, loc, scale))


def test_point_masses_and_numbers_that_overflow():
    loc, scale = np.array([0.0, 0.0, 0.0, -1e308]), np.array([0.0, 0.0, 0.0, 1e-5])
    y = np.array([-1.0, 0.0, 1.0, 1e308])
    np.testing.assert_array_equal(standardise(y, loc, scale), [-np.inf, np.inf, np.inf, np.inf])
    np.testing.assert_array_equal(log_density(np.zeros(4), y, loc, scale)[:3], [-np.inf, np.inf, -np.inf])
    assert Gaussian(loc, scale).logpdf(y)[3] == -np.inf
    np.testing.assert_array_equal(StudentT(3.0, loc, scale).cdf(y), [0.0, 1.0, 1.0, 1.0])


def test_variances_at_few_degrees_of_freedom():
    dist = StudentT([1.0, 2.0, 2.0, 2.5, 4.0], np.zeros(5), [1.0, 1.0, 0.0, 2.0, 3.0])
    np.testing.assert_allclose(dist.var(), [np.inf, np.inf, 0.0, 20.0, 18.0])
    np.testing.assert_array_equal(Gaussian([0.0], [3.0]).var(), 9.0)


@pytest.mark.parametrize("df", [0.6, 1.0, 1.0 + 1e-9, 1.0 + 1e-7, 3.0, 1e6, np.inf])
def test_the_score_is_the_integral_of_its_definition(df):
    """∫ (F(x) - 1{x >= y})² dx over the line, whose tails far out are those of a power."""
    dist, y = StudentT(df, [0.3], [2.0]), 1.7
    if df < 1.0:
        assert dist.crps([y])[0] > StudentT(1.0, [0.3], [2.0]).crps([y])[0]
        return
    F = stats.t(df, 0.3, 2.0) if np.isfinite(df) else stats.norm(0.3, 2.0)
    u = np.linspace(-np.pi / 2, np.pi / 2, 400_001)[1:-1]
    x = y + 2.0 * np.tan(u)
    values = np.where(x < y, F.cdf(x) ** 2, F.sf(x) ** 2) * 2.0 / np.cos(u) ** 2
    assert dist.crps([y])[0] == pytest.approx(np.sum(values) * (u[1] - u[0]), rel=1e-4)


def test_scales_that_are_wrong():
    with pytest.raises(InvalidParameterError, match="df must be > 0; got 0"):
        StudentT([1.0, 0.0], [0.0, 0.0], 1.0)
    with pytest.raises(InvalidParameterError, match="df must be > 0; got nan"):
        StudentT(np.nan, [0.0], 1.0)
    for scale in (0.0, -1.0):
        with pytest.raises(InvalidParameterError, match="scale must be a number > 0"):
            Gaussian([0.0], [1.0]).affine(scale, 0.0)
