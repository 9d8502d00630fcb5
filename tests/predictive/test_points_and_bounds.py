"""Transformed distributions on their bounds: rows that are points, rows moved into the image, ends and heavy tails."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from bdkn.predictive import Gaussian, GaussianMixture, IdentityLink, LogLink, StudentT, StudentTMixture, Transformed
from bdkn.predictive.transformed import row_quantiles


@pytest.mark.no_cover
def test_rows_that_are_points_among_others():
    base = GaussianMixture([[0.5, 0.5], [0.0, 1.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.5], [0.1, 0.4]])
    for dist, point in (
        (Transformed(base, LogLink()), np.exp(0.5)),
        (Transformed(base, IdentityLink(-9.0, 9.0)), 0.5),
        (Transformed(base, LogLink(), unit=2.0, shift=1.0), 1.0 + 2.0 * np.exp(0.5)),
    ):
        y = point + np.array([-0.2, 0.0, 0.3])
        assert (dist.scale[0], dist.var()[0]) == (0.0, 0.0)
        assert dist.mean()[0] == dist.median()[0] == pytest.approx(point)
        one = dist.mean()[0]
        y = one + np.array([-0.2, 0.0, 0.3])
        np.testing.assert_array_equal(dist.cdf(np.tile(y, (3, 1)))[0], [0.0, 1.0, 1.0])
        np.testing.assert_array_equal(dist.logpdf(np.tile(y, (3, 1)))[0], [-np.inf, np.inf, -np.inf])
        np.testing.assert_allclose(dist.crps(np.tile(y, (3, 1)))[0], [0.2, 0.0, 0.3], atol=1e-15)
        np.testing.assert_array_equal(dist.ppf([0.0, 0.2, 1.0])[0], one)
        np.testing.assert_array_equal(dist.rvs(5, 0)[0], one)
        np.testing.assert_array_equal(dist.row_quantiles(np.array([[0.1], [0.2], [0.3]]))[0], one)
        assert (dist.scale[1:] > 0.0).all()
        np.testing.assert_allclose(dist.cdf(np.tile(y, (3, 1)))[2], dist[2:].cdf(y[None])[0])
        np.testing.assert_allclose(dist.logpdf(np.tile(y, (3, 1)))[2], dist[2:].logpdf(y[None])[0])


def test_the_scale_is_the_widest_of_the_components_times_the_slope():
    base = GaussianMixture([[0.0, 0.1], [0.2, 0.2]], [[0.1, 0.3], [0.4, 0.2]])
    np.testing.assert_allclose(Transformed(base, LogLink()).scale, [0.3, 0.4] * np.exp(base.median()))


def test_intervals_go_to_the_bounds_from_the_nearest_targets_on():
    dist = Transformed(Gaussian([5.0] * 3, [1.0] * 3), IdentityLink(0.0, 10.0, near=(1.0, 9.0)), unit=2.0, shift=1.0)
    lower, upper = dist.to_bounds(np.array([3.0, 2.0, 3.1]), np.array([19.0, 20.0, 18.9]))
    np.testing.assert_array_equal(lower, [1.0, 1.0, 3.1])
    np.testing.assert_array_equal(upper, [21.0, 21.0, 18.9])
    np.testing.assert_array_equal(dist.interval(), dist.interval(0.9))
    np.testing.assert_allclose(dist.interval()[0], 11.0 - 2.0 * stats.norm.ppf(0.95), rtol=1e-5)


@pytest.mark.parametrize("link", [LogLink(), IdentityLink(0.0, 2.0)], ids=["whole", "truncated"])
@pytest.mark.parametrize(
    "base",
    [
        StudentT(4.0, [0.3, 1.0], [0.5, 0.8]),
        GaussianMixture([[-1.0, 1.0], [0.0, 0.5]], [[0.5, 0.2], [0.3, 0.6]]),
        StudentTMixture(5.0, [0.3, 1.0], [0.5, 0.8], 0.5, [[0.5], [1.0]], [[0.3], [0.2]], [[0.5], [0.5]]),
    ],
    ids=["t", "gaussians", "mixture"],
)
def test_levels_of_each_row_and_draws_of_the_base(base, link):
    dist, levels = Transformed(base, link), np.array([[0.1, 0.5, 0.999], [0.03, 0.7, 0.8]])
    expected = np.array([dist[i : i + 1].ppf(levels[i])[0] for i in range(2)])
    np.testing.assert_allclose(dist.row_quantiles(levels), expected, rtol=1e-9)
    np.testing.assert_allclose(row_quantiles(dist, levels), expected, rtol=1e-9)
    np.testing.assert_allclose(dist.carry(row_quantiles(base, levels)), expected, rtol=1e-9)
    if isinstance(link, LogLink):
        np.testing.assert_array_equal(dist.rvs(4, 7), np.exp(base.rvs(4, 7)))
    else:
        assert stats.kstest(dist[:1].rvs(4000, 0)[0], lambda y: dist[:1].cdf(y[None])[0]).pvalue > 1e-3
    np.testing.assert_array_equal(dist.ppf([0.0, 1.0]), np.tile(link.support, (2, 1)))


@pytest.mark.parametrize("loc", [-50.0, 0.4, 50.0])
def test_a_row_outside_of_the_image_is_moved_to_its_end(loc):
    dist = Transformed(Gaussian([loc], [0.5]), IdentityLink(-1.0, 2.0))
    centre = np.clip(loc, -1.0, 2.0)
    expected = stats.truncnorm((-1.0 - centre) / 0.5, (2.0 - centre) / 0.5, centre, 0.5)
    y = np.linspace(-0.9, 1.9, 8)
    np.testing.assert_allclose(dist.cdf(y[None])[0], expected.cdf(y), atol=1e-5)
    np.testing.assert_allclose(dist.logpdf(y[None])[0], expected.logpdf(y), atol=1e-3)
    assert (dist.mean()[0], dist.std()[0]) == pytest.approx((expected.mean(), expected.std()), rel=1e-4)
    np.testing.assert_array_equal(dist.cdf([[-1.5, -1.0, 2.0, 2.5]])[0], [0.0, 0.0, 1.0, 1.0])


@pytest.mark.parametrize("loc", [-3.0, 0.2])
@pytest.mark.parametrize("kept", [0.0, 0.6, 1.0])
def test_moments_of_a_mixture_that_a_bound_cuts(loc, kept):
    base = StudentTMixture(5.0, [loc], [1.0], kept, [[0.5, -1.0]], [[0.2, 0.7]], [[0.7 * (1 - kept), 0.3 * (1 - kept)]])
    dist = Transformed(base, IdentityLink(lower=0.0), unit=2.0, shift=1.0)

    def moment(power):
        edges = [1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 100.0, 1e4]
        return sum(quad(lambda y: y**power * dist.pdf([y])[0], a, b, limit=200)[0] for a, b in pairwise(edges))

    assert moment(0) == pytest.approx(1.0, abs=1e-6)
    mean = moment(1)
    assert dist.mean()[0] == pytest.approx(mean, rel=1e-3)
    assert dist.var()[0] == pytest.approx(moment(2) - mean**2, rel=2e-3)


@pytest.mark.parametrize("df", [1.1, 1.3, 1.7])
def test_the_mean_of_heavy_tails_behind_a_bound(df):
    """E[Z | Z > α] = f(α) (ν + α²) / ((ν - 1) (1 - F(α))) of a standard Student-t."""
    dist, α = Transformed(StudentT(df, [0.3], [2.0]), IdentityLink(lower=-1.0)), -0.65
    expected = 0.3 + 2.0 * stats.t.pdf(α, df) * (df + α**2) / ((df - 1.0) * stats.t.sf(α, df))
    assert dist.mean()[0] == pytest.approx(expected, rel=1e-5)
    mirrored = Transformed(StudentT(df, [-0.3], [2.0]), IdentityLink(upper=1.0))
    assert mirrored.mean()[0] == pytest.approx(-expected, rel=1e-5)


@pytest.mark.parametrize("df", [0.6, 0.8])
def test_the_score_of_heavy_tails_behind_a_bound(df):
    dist = Transformed(StudentT(df, [0.0], [1.0]), IdentityLink(lower=-1.0))
    t = np.linspace(-1.0, 200.0, 200_001)  # x = sinh t
    x = np.sinh(t[t > np.arcsinh(-1.0)])
    share = stats.t.sf(-1.0, df)
    with np.errstate(over="ignore"):
        survival = stats.t.sf(x, df) / share
    squares = np.where(x >= 2.0, survival**2, (1.0 - survival) ** 2) * np.hypot(1.0, x)
    assert dist.crps([2.0])[0] == pytest.approx(np.trapezoid(squares, np.arcsinh(x)), rel=2e-3)


def test_the_score_beyond_a_bound_grows_by_the_distance():
    dist = Transformed(Gaussian([0.3], [0.5]), IdentityLink(-1.0, 2.0), unit=2.0, shift=1.0)
    at = dist.crps([[-1.0, 5.0]])[0]
    np.testing.assert_allclose(dist.crps([[-1.7, 6.5]])[0], at + np.array([0.7, 1.5]), rtol=1e-9)
    whole = Transformed(Gaussian([0.3], [0.5]), LogLink())
    np.testing.assert_allclose(whole.crps([[-0.5, -2.0]])[0], whole.crps([0.0])[0] + np.array([0.5, 2.0]), rtol=1e-6)
