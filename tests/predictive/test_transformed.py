from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from bdkn.predictive import (
    ContinuedLink,
    Gaussian,
    GaussianMixture,
    IdentityLink,
    LogitLink,
    LogLink,
    MirroredLink,
    StudentT,
    Transformed,
    YeoJohnsonLink,
)
from bdkn.testing import check_predictive

LINKS = {
    "bounds": IdentityLink(-1.0, np.inf),
    "two bounds": IdentityLink(-1.0, 1.5),
    "log": ContinuedLink(LogLink(), 0.05, 60.0),
    "mirrored log": ContinuedLink(MirroredLink(LogLink(-5.0)), -55.0, 4.9),
    "logit": ContinuedLink(LogitLink(), 0.02, 0.99),
    "power 0": ContinuedLink(YeoJohnsonLink(0.0, 0.5, 2.0), -40.0, 40.0),
    "power 1.5": ContinuedLink(YeoJohnsonLink(1.5, 1.0, 2.0), -20.0, 20.0),
    "power 0.5 and a bound": ContinuedLink(YeoJohnsonLink(0.5, 1.0, 2.0, lower=-1.0), -20.0, 20.0),
}
EACH_LINK = pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)


@EACH_LINK
def test_links_and_their_inverses(link):
    lower, upper = (max(link.support[0], -30.0), min(link.support[1], 90.0))
    y = np.linspace(lower, upper, 401)
    z = link.forward(y)
    assert np.all(np.diff(z) > 0)
    np.testing.assert_allclose(link.inverse(z), y, rtol=1e-9, atol=1e-9)
    step = 1e-6
    slope = (link.forward(y[1:-1] + step) - link.forward(y[1:-1] - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(link.log_derivative(y[1:-1])), slope, rtol=1e-4)


@EACH_LINK
def test_conformance_with_a_student_t(link):
    check_predictive(Transformed(StudentT(8.0, [0.0, 0.7], [0.4, 0.2]), link), n_draws=4000)


@pytest.mark.no_cover
def test_conformance_with_a_mixture_and_point_masses():
    base = GaussianMixture([[0.0, 1.0], [-1.0, 0.5]], [[0.5, 0.1], [0.6, 0.2]])
    check_predictive(Transformed(base, LINKS["log"]), n_draws=1000)
    check_predictive(Transformed(Gaussian([0.0, 0.4], [0.0, 0.3]), LINKS["log"]), n_draws=1000)


def slow(dist, base, function):
    """Return the expectation of a function of the target of the first row, by adaptive quadrature."""
    loc, scale = base.loc[0], base.scale[0]
    low, high = (
        float(end) for end in np.clip((dist.link.forward(np.array(dist.link.support)) - loc) / scale, -1e30, 1e30)
    )
    breaks = (dist.link.forward(np.array(dist.link.breaks)) - loc) / scale
    s = np.unique(
        np.clip(np.arcsinh([*breaks, low, high, *np.sinh(np.linspace(-12, 12, 25))]), *np.arcsinh([low, high]))
    )

    def part(u, weight):
        z = np.array(loc + scale * np.sinh(u))
        density = np.exp(base._standard_logpdf(np.array([[np.sinh(u)]])))[0, 0]
        return weight(float(dist.link.inverse(z))) * density * np.cosh(u)

    def total(weight):
        return sum(quad(part, a, b, (weight,), epsrel=1e-10, limit=200)[0] for a, b in pairwise(s))

    return total(function) / total(lambda y: 1.0)


@EACH_LINK
@pytest.mark.parametrize("df", [2.3, 5.0, 200.0])
def test_moments_equal_slow_integrals(link, df):
    base = StudentT(df, [0.3], [0.6])
    dist = Transformed(base, link)
    mean = slow(dist, base, lambda y: y)
    var = slow(dist, base, lambda y: (y - mean) ** 2)
    assert abs(dist.mean()[0] - mean) < 1e-6 * np.sqrt(var)
    np.testing.assert_allclose(dist.var()[0], var, rtol=2e-5)


@EACH_LINK
def test_crps_equals_a_slow_integral(link):
    base = StudentT(4.0, [0.3], [0.6])
    dist = Transformed(base, link)
    lower, upper = dist.ppf(1e-7)[0], dist.ppf(1 - 1e-7)[0]
    for y in dist.ppf([0.05, 0.6, 0.99])[0]:
        points = sorted({lower, y, upper, *dist.ppf(np.linspace(0.001, 0.999, 41))[0]})
        parts = pairwise(points)
        score = sum(quad(lambda x, y=y: (dist.cdf([x])[0] - (x >= y)) ** 2, a, b, limit=100)[0] for a, b in parts)
        np.testing.assert_allclose(dist.crps([y])[0], score, rtol=1e-5)


@given(
    name=st.sampled_from(sorted(LINKS)),
    df=st.floats(2.1, 100.0),
    loc=st.floats(-6.0, 6.0),
    scale=st.floats(1e-3, 3.0),
    q=st.floats(1e-4, 1 - 1e-4),
)
def test_quantiles_and_distribution_function_are_inverse(name, df, loc, scale, q):
    link = LINKS[name]
    dist = Transformed(StudentT(df, [loc], [scale]), link)
    y = dist.ppf(q)
    assert link.support[0] <= y[0] <= link.support[1]
    np.testing.assert_allclose(dist.cdf(y), q, rtol=1e-6, atol=1e-7)
    assert dist.cdf(link.support[0] - 1e-9)[0] == 0.0
    assert dist.cdf(link.support[1])[0] == 1.0
    assert np.isfinite(dist.logpdf(y)).all()
    assert dist.mean()[0] >= link.support[0]
    assert dist.mean()[0] <= link.support[1]


def test_no_density_beyond_a_bound_and_a_finite_one_at_it():
    dist = Transformed(StudentT(3.0, [-1.0, 2.0], [0.5, 0.3]), LINKS["log"])
    assert np.all(dist.logpdf(-1e-12) == -np.inf)
    assert np.all(np.isfinite(dist.logpdf(0.0)))


def test_a_row_far_beyond_a_bound_stays_a_distribution():
    dist = Transformed(Gaussian([-500.0, 0.0], [0.1, 0.1]), LINKS["log"])
    assert np.isfinite(dist.logpdf(dist.ppf(0.3))).all()
    np.testing.assert_allclose(dist.cdf(dist.ppf(0.3)), 0.3, rtol=1e-6)


@EACH_LINK
def test_only_a_known_bound_is_an_end_of_an_interval(link):
    """Rows far up and far down, where a link is continued: intervals have finite ends."""
    centre = link.forward(np.clip([-19.0, -54.0, 0.3, 39.0, 59.0], *link.support))
    dist = Transformed(StudentT(4.0, centre, 3.0), link)
    lower, upper = dist.interval(0.95)
    assert np.isfinite(lower).all()
    assert np.isfinite(upper).all()


def test_ends_near_a_bound_move_to_it():
    dist = Transformed(StudentT(5.0, [-3.0, 3.0], [0.5, 0.1]), LINKS["log"])
    lower, upper = dist.interval(0.9)
    assert lower[0] == 0.0
    np.testing.assert_allclose(lower[1], dist.ppf(0.05)[1])
    np.testing.assert_allclose(upper, dist.ppf(0.95))


def test_draws_of_the_base_are_carried_quantile_to_quantile():
    base = StudentT(5.0, [0.0, -2.5], [1.0, 1.0])
    dist = Transformed(base, LINKS["log"])
    levels = np.array([0.1, 0.5, 0.8])
    np.testing.assert_allclose(dist.carry(base.ppf(levels)), dist.ppf(levels), rtol=1e-6)


def test_the_mean_of_a_lognormal():
    base = Gaussian([0.2], [0.5])
    dist = Transformed(base, LogLink())
    np.testing.assert_allclose(dist.mean(), np.exp(0.2 + 0.125), rtol=1e-9)
    np.testing.assert_allclose(dist.var(), np.expm1(0.25) * np.exp(0.4 + 0.25), rtol=1e-7)


def test_without_moments_the_median_and_infinity():
    dist = Transformed(StudentT(0.9, [0.0], [1.0]), LINKS["log"])
    np.testing.assert_allclose(dist.mean(), dist.median())
    assert dist.var()[0] == np.inf
