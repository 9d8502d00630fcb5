from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bdkn.errors import InvalidParameterError
from bdkn.predictive import Gaussian, StudentT

DF = [0.4, 0.75, 1.0, 1.5, 2.0, 3.7, 30.0, 1e3, 1e6]


@pytest.fixture
def dist() -> StudentT:
    return StudentT(DF, np.linspace(-3, 3, len(DF)), np.linspace(0.2, 5, len(DF)))


@pytest.fixture
def reference(dist: StudentT) -> object:
    return stats.t(dist.df, dist.loc, dist.scale)


def test_agrees_with_scipy(dist: StudentT, reference) -> None:
    y = np.linspace(-9, 9, len(DF))
    np.testing.assert_allclose(dist.pdf(y), reference.pdf(y), rtol=1e-9)
    np.testing.assert_allclose(dist.logpdf(y), reference.logpdf(y), rtol=1e-9)
    np.testing.assert_allclose(dist.cdf(y), reference.cdf(y), rtol=1e-11)
    np.testing.assert_allclose(dist.std(), np.where(dist.df > 2, reference.std(), np.inf), rtol=1e-12)
    for q in (1e-9, 0.05, 0.5, 0.8):
        np.testing.assert_allclose(dist.ppf(q), reference.ppf(q), rtol=1e-9, atol=1e-12)


def test_mean_is_the_centre_even_without_a_first_moment() -> None:
    np.testing.assert_array_equal(StudentT(0.5, [1.0, -4.0], 1.0).mean(), [1.0, -4.0])


def test_variance_needs_more_than_two_degrees_of_freedom() -> None:
    np.testing.assert_allclose(StudentT([1.0, 2.0, 4.0, np.inf], np.zeros(4), 3.0).var(), [np.inf, np.inf, 18.0, 9.0])


@given(st.floats(1e-2, 1e9), st.floats(-40.0, 40.0))
def test_log_density_keeps_its_digits_at_any_df(df: float, z: float) -> None:
    with mpmath.workdps(40):
        ν, x = mpmath.mpf(df), mpmath.mpf(z)
        gammas = mpmath.loggamma((ν + 1) / 2) - mpmath.loggamma(ν / 2)
        exact = gammas - mpmath.log(ν * mpmath.pi) / 2 - (ν + 1) / 2 * mpmath.log1p(x**2 / ν)
    assert StudentT(df, [0.0], 1.0).logpdf(z)[0] == pytest.approx(float(exact), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("df", [1e6, 1e9, 1e12, 1e300, np.inf])
def test_many_degrees_of_freedom_are_the_gaussian(df: float) -> None:
    t, limit = StudentT(df, [0.0, 1.0, -2.0], [1.0, 0.5, 3.0]), Gaussian([0.0, 1.0, -2.0], [1.0, 0.5, 3.0])
    y = np.array([0.3, 2.0, -9.0])
    gap = 20 / df + 1e-12
    np.testing.assert_allclose(t.logpdf(y), limit.logpdf(y), rtol=gap)
    np.testing.assert_allclose(t.cdf(y), limit.cdf(y), rtol=gap)
    np.testing.assert_allclose(t.ppf([0.01, 0.9]), limit.ppf([0.01, 0.9]), rtol=gap)
    np.testing.assert_allclose(t.crps(y), limit.crps(y), rtol=gap)
    np.testing.assert_allclose(t.var(), limit.var(), rtol=gap)
    assert stats.kstest(t[:1].rvs(2000, 5)[0], "norm").pvalue > 1e-3


def exact_crps(df: float, y: float) -> float:
    """Integrate the squared gap in 20 digits; in the tail F(x)² falls like x^(-2 df), so x = ±e^u."""

    def lower(x: mpmath.mpf) -> mpmath.mpf:
        tail = mpmath.betainc(mpmath.mpf(df) / 2, 0.5, 0, df / (df + x**2), regularized=True) / 2
        return tail if x < 0 else 1 - tail

    with mpmath.workdps(20):
        cut = abs(y) + 5
        middle = mpmath.quad(lambda x: lower(x) ** 2, [-cut, min(0, y), y])
        middle += mpmath.quad(lambda x: lower(-x) ** 2, [y, max(0, y), cut])
        # Beyond the cut both sides are alike: the integral of F(-x)² dx with x = cut e^u.
        tail = mpmath.quad(lambda u: lower(-cut * mpmath.exp(u)) ** 2 * cut * mpmath.exp(u), [0, 5, 20, 80])
        return float(middle + 2 * tail)


@pytest.mark.parametrize("df", [0.8, 0.95, 1.0, 1.05, 1.3, 3.0, 25.0])
@pytest.mark.parametrize("y", [0.0, 0.7, -4.0])
def test_crps_is_its_integral_also_where_moments_are_missing(df: float, y: float) -> None:
    assert StudentT(df, [0.0], 1.0).crps(y)[0] == pytest.approx(exact_crps(df, y), rel=1e-7)


def test_crps_is_continuous_at_one_degree_of_freedom() -> None:
    beside, at = StudentT([1 - 1e-5, 1.0, 1 + 1e-5], np.zeros(3), 2.0).crps(3.0), StudentT(1.0, [0.0], 2.0).crps(3.0)
    np.testing.assert_allclose(beside, np.repeat(at, 3), rtol=1e-5)


@pytest.mark.parametrize("df", [1e2, 1e4, 1e6, 9e7, 1.1e8])
def test_crps_at_large_df_follows_its_first_correction(df: float) -> None:
    """Expanding in 1/df: crps = Gaussian crps + c/df; c from df = 1e4 must predict every larger df."""
    y = [0.5]

    def gap(at: float) -> float:
        return float(StudentT(at, [0.0], 1.0).crps(y)[0] - Gaussian([0.0], 1.0).crps(y)[0])

    assert gap(df) == pytest.approx(gap(1e4) * 1e4 / df, rel=0.02, abs=1e-8)


def test_crps_is_infinite_only_where_the_integral_diverges() -> None:
    scores = StudentT([0.1, 0.5, 0.51], np.zeros(3), 1.0).crps(0.0)
    np.testing.assert_array_equal(np.isinf(scores), [True, True, False])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, [1.0], [1.0]), r"df must be > 0; got 0.0"),
        ((np.nan, [1.0], [1.0]), r"df must be > 0; got nan"),
        ((3.0, [np.nan, 1.0], 1.0), r"loc must be finite; 1 of 2 values are not"),
        ((3.0, [1.0], [-1.0]), r"scale must be finite and >= 0; got -1.0"),
        ((3.0, [1.0, 2.0], [1.0]), r"loc must be 1-D and the rest numbers or of its length; got .*loc \(2,\)"),
        ((3.0, 1.0, 1.0), r"loc must be 1-D"),
    ],
)
def test_impossible_parameters_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        StudentT(*arguments)


def test_parameters_cannot_be_changed() -> None:
    dist = StudentT(3.0, [1.0, 2.0], 1.0)
    with pytest.raises(AttributeError):
        dist.df = np.ones(2)  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        dist.scale[0] = 7.0
