"""The mixture of a Student-t and Gaussians: its checks, blocks of rows, points, many degrees of freedom."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln

from bdkn.errors import InvalidParameterError
from bdkn.predictive import Gaussian, StudentT, StudentTMixture
from bdkn.predictive.mixture import _precisions


def mixture(df=5.0, loc=(0.0, 1.0), scale=(1.0, 2.0), kept=0.5, mass=((0.2, 0.3), (0.5, 0.0)), width=0.3):
    n = len(loc)
    return StudentTMixture(df, loc, scale, kept, np.tile([-1.0, 2.0], (n, 1)), np.full((n, 2), width), mass)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mass": ((0.2, 0.3), (0.5, 0.1))}, "sum to 1 in each row"),
        ({"mass": ((0.2, 0.3), (0.1, 0.1))}, "sum to 1 in each row"),
        ({"mass": ((0.2, 0.3), (0.7, -0.2))}, "width must be > 0 and mass >= 0"),
        ({"kept": -0.1, "mass": ((0.6, 0.5), (0.1, 1.0))}, "kept and mass must be >= 0"),
        ({"df": (5.0, 2.0)}, "df must be > 2"),
    ],
)
def test_parameters_that_are_wrong_in_one_row(options, message):
    with pytest.raises(InvalidParameterError, match=message):
        mixture(**options)


def test_a_width_counts_only_where_there_is_mass():
    part = [[-1.0, 2.0]]
    assert len(StudentTMixture(5.0, [0.0], [1.0], 0.5, part, [[0.3, 0.0]], [[0.5, 0.0]])) == 1
    for width in (0.0, -1.0):
        with pytest.raises(InvalidParameterError, match="width must be > 0"):
            StudentTMixture(5.0, [0.0], [1.0], 0.5, part, [[0.3, width]], [[0.2, 0.3]])


def test_what_rounding_of_the_masses_leaves_is_kept_by_the_student_t():
    dist = mixture(mass=((0.2, 0.3000001), (0.5000001, 0.0)))
    np.testing.assert_allclose(dist.kept + dist.mass.sum(axis=1, dtype=np.float64), 1.0, rtol=1e-15)


@pytest.mark.no_cover
def test_no_rows():
    dist = StudentTMixture(5.0, np.empty(0), np.empty(0), 0.5, np.empty((0, 2)), np.empty((0, 2)), np.empty((0, 2)))
    assert len(dist) == 0
    for found in (dist.mean(), dist.var(), dist.ppf(0.3), dist.logpdf([]), dist.cdf([]), dist.crps([])):
        assert found.shape == (0,)
    assert dist.rvs(3, 0).shape == (0, 3)


@pytest.mark.no_cover
def test_rows_in_blocks_are_rows_one_by_one():
    rng, n = np.random.default_rng(0), 4096 + 3
    dist = StudentTMixture(
        rng.uniform(2.5, 9.0, n), rng.normal(size=n), 1.0, 0.4,
        rng.normal(size=(n, 2)), rng.uniform(0.1, 1.0, (n, 2)), np.tile([0.2, 0.4], (n, 1)),
    )  # fmt: skip
    y, last = rng.normal(size=n), slice(n - 5, n)
    for name in ("logpdf", "cdf", "crps"):
        np.testing.assert_allclose(getattr(dist, name)(y)[last], getattr(dist[last], name)(y[last]), rtol=1e-12)
    np.testing.assert_allclose(dist.ppf(0.3)[last], dist[last].ppf(0.3), rtol=1e-9)


def test_rows_with_degrees_of_freedom_of_their_own():
    dist = mixture(df=(3.0, 30.0))
    levels = np.array([1e-200, 1e-150, 0.01, 0.4, 1.0])
    for i in range(2):
        one = mixture(df=(3.0, 30.0)[i])[i : i + 1]
        np.testing.assert_allclose(dist.ppf(levels)[i], one.ppf(levels)[0], rtol=1e-9)
    whole = mixture(df=(3.0, 30.0), kept=1.0, mass=np.zeros((2, 2)))
    np.testing.assert_allclose(whole.ppf(levels), StudentT([3.0, 30.0], whole.loc, whole.scale).ppf(levels), rtol=1e-9)


def test_points_and_numbers_that_overflow():
    dist = mixture(scale=(0.0, 1e200))
    np.testing.assert_array_equal(dist.ppf([0.0, 0.5, 1.0])[0], 0.0)
    np.testing.assert_array_equal(dist.crps([[-2.0, 3.0]] * 2)[0], [2.0, 3.0])
    np.testing.assert_array_equal(dist._absolute_mean(np.array([[-2.0, 0.0, 3.0]] * 2))[0], [2.0, 0.0, 3.0])
    np.testing.assert_array_equal(dist.var(), [0.0, np.inf])
    narrow = mixture(scale=(1e-300, 1e-300))
    np.testing.assert_allclose(narrow.crps([1e300, -1e300]), 1e300)
    np.testing.assert_array_equal(narrow.logpdf([1e300, -1e300]), -np.inf)


def test_the_mean_distance_of_each_row():
    dist, y = mixture(), np.array([[-1.0, 0.4], [2.0, 7.0]])
    draws = dist.rvs(200_000, 1)
    expected = [[np.abs(draws[i] - y[i, k]).mean() for k in range(2)] for i in range(2)]
    np.testing.assert_allclose(dist._absolute_mean(y), expected, rtol=0.01)


def test_infinite_degrees_of_freedom_are_a_gaussian():
    dist = mixture(df=np.inf, kept=1.0, mass=np.zeros((2, 2)))
    gaussian, y = Gaussian(dist.loc, dist.scale), np.array([0.3, -2.0])
    for name in ("logpdf", "cdf", "crps"):
        np.testing.assert_allclose(getattr(dist, name)(y), getattr(gaussian, name)(y), rtol=1e-6)
    assert np.isfinite(dist.rvs(5, 0)).all()


@pytest.mark.parametrize("ν", [2.05, 3.0, 20.0, 99.0, 120.0, 9e3, 2e4, 1e6])
def test_precisions_have_the_moments_of_their_gamma_distribution(ν):
    λ, share = (part[1] for part in _precisions(np.array([2.5, ν])))
    assert share.sum() == pytest.approx(1.0, abs=3e-5)
    assert share @ λ == pytest.approx(1.0, abs=3e-5)
    assert share @ (λ - 1.0) ** 2 == pytest.approx(2.0 / ν, rel=5e-4)
    root = np.sqrt(ν / 2.0) * np.exp(gammaln((ν - 1.0) / 2.0) - gammaln(ν / 2.0))
    assert share @ np.where(share > 0.0, λ, 1.0) ** -0.5 == pytest.approx(root, rel=3e-5)
