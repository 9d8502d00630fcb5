"""Every link against its formula: values, inverse, derivative by differences, bounds and what happens on them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bdkn.predictive import (
    ContinuedLink,
    Gaussian,
    IdentityLink,
    LogitLink,
    LogLink,
    MirroredLink,
    Transformed,
    YeoJohnsonLink,
)
from bdkn.predictive.links import AsinhLink, BoxCoxLink, QuantileLink
from bdkn.predictive.transformed import TargetMap

INF = np.inf


def yeo_johnson(power):
    """Return the four cases of the original paper."""

    def g(x):
        if x >= 0:
            return np.log(x + 1) if power == 0 else ((x + 1) ** power - 1) / power
        return -np.log(1 - x) if power == 2 else -((1 - x) ** (2 - power) - 1) / (2 - power)

    return g


QUANTILES, LEVELS = np.array([1.0, 2.0, 4.0, 7.0]), np.array([0.0, 0.25, 0.75, 1.0])
LINKS = {
    "identity": (IdentityLink(), lambda y: y, (-INF, INF), (-3.0, 5.0)),
    "bounded": (IdentityLink(-1.0, 2.0), lambda y: y, (-1.0, 2.0), (-0.9, 1.9)),
    "log": (LogLink(1.5), lambda y: np.log(y - 1.5), (1.5, INF), (1.6, 40.0)),
    "logit": (LogitLink(-1.0, 3.0), lambda y: np.log((y + 1.0) / (3.0 - y)), (-1.0, 3.0), (-0.9, 2.9)),
    "upper": (MirroredLink(LogLink(-5.0)), lambda y: -np.log(5.0 - y), (-INF, 5.0), (-30.0, 4.9)),
    "root": (BoxCoxLink(0.5), lambda y: 2.0 * (np.sqrt(y) - 1.0), (0.0, INF), (0.1, 50.0)),
    "box-cox log": (BoxCoxLink(0.0), np.log, (0.0, INF), (0.1, 50.0)),
    "reciprocal": (BoxCoxLink(-1.0), lambda y: 1.0 - 1.0 / y, (0.0, INF), (0.1, 50.0)),
    "asinh": (AsinhLink(), lambda y: np.log(y + np.sqrt(1.0 + y**2)), (-INF, INF), (-2.0, 20.0)),
    "levels": (
        QuantileLink(QUANTILES, LEVELS, False),
        lambda y: np.interp(y, QUANTILES, LEVELS),
        (1.0, 7.0),
        (1.1, 6.9),
    ),
    "normal levels": (
        QuantileLink(QUANTILES, LEVELS, True),
        lambda y: stats.norm.ppf(np.interp(y, QUANTILES, LEVELS)),
        (1.0, 7.0),
        (1.1, 6.9),
    ),
    **{
        f"power {p}": (
            YeoJohnsonLink(p, centre=1.0, unit=2.0, lower=-40.0, upper=40.0),
            lambda y, p=p: yeo_johnson(p)((y - 1.0) / 2.0),
            (-40.0, 40.0),
            (-30.0, 30.0),
        )
        for p in (0.0, 0.4, 1.0, 1.7, 2.0)
    },
}
every_link = pytest.mark.parametrize(("link", "formula", "support", "ends"), LINKS.values(), ids=LINKS)


@every_link
def test_values_inverse_and_derivative(link, formula, support, ends):
    y = np.linspace(*ends, 41)[1:-1] + 0.0123
    z = link.forward(y)
    np.testing.assert_allclose(z, [formula(value) for value in y], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(link.inverse(z), y, rtol=1e-11, atol=1e-11)
    step = 1e-6
    slopes = np.array([(formula(value + step) - formula(value - step)) / (2 * step) for value in y])
    np.testing.assert_allclose(np.exp(link.log_derivative(y)), slopes, rtol=1e-6)
    assert link.support == support


@every_link
def test_bounds_and_far_numbers_give_no_warnings(link, formula, support, ends):
    bounds = np.clip(np.array(support), -1e300, 1e300)
    z = link.forward(bounds)
    assert z[0] < link.forward(np.array(ends))[0]
    assert z[1] > link.forward(np.array(ends))[1]
    link.log_derivative(bounds)
    far = link.inverse(np.array([-1e4, 1e4]))
    assert not np.isnan(far).any()
    assert far[0] < far[1]


def test_links_end_where_their_targets_do():
    np.testing.assert_array_equal(LogLink(1.5).forward(np.array([1.5])), -INF)
    np.testing.assert_array_equal(LogitLink(-1.0, 3.0).forward(np.array([-1.0, 3.0])), [-INF, INF])
    np.testing.assert_array_equal(BoxCoxLink(0.5).inverse(np.array([-2.0, -9.0])), 0.0)
    np.testing.assert_array_equal(BoxCoxLink(-1.0).inverse(np.array([1.0, 9.0])), INF)
    normal = QuantileLink(QUANTILES, LEVELS, True)
    np.testing.assert_allclose(
        normal.forward(np.array([-5.0, 1.0, 7.0, 9.0])), stats.norm.ppf([1e-7, 1e-7, 1 - 1e-7, 1 - 1e-7])
    )
    np.testing.assert_array_equal(QuantileLink(QUANTILES, LEVELS, False).forward(np.array([-5.0, 9.0])), [0.0, 1.0])


def test_places_without_a_second_derivative():
    assert IdentityLink().breaks == LogLink().breaks == ()
    assert YeoJohnsonLink(0.5, centre=3.0).breaks == (3.0,)
    assert ContinuedLink(YeoJohnsonLink(0.5, centre=3.0), 1.0, 9.0).breaks == (3.0, 1.0, 9.0)
    assert QuantileLink(QUANTILES, LEVELS, False).breaks == tuple(QUANTILES)
    many = QuantileLink(np.arange(161.0), np.linspace(0.0, 1.0, 161), False)
    assert many.breaks == tuple(np.arange(10.0, 160.0, 10.0))


def test_the_targets_nearest_to_the_bounds():
    assert LogLink(2.0).near == (2.0, INF)
    assert ContinuedLink(LogLink(), 0.5, 9.0).near == (0.5, INF)
    assert ContinuedLink(MirroredLink(LogLink(-10.0)), 0.5, 9.0).near == (-INF, 9.0)
    assert ContinuedLink(LogitLink(), 0.1, 0.9).near == (0.1, 0.9)
    assert ContinuedLink(YeoJohnsonLink(0.5, near=(1.0, 5.0)), 2.0, 4.0).near == (1.0, 5.0)


@pytest.mark.parametrize("inner", [LogLink(1.5), YeoJohnsonLink(0.3, centre=4.0)], ids=["log", "power"])
def test_a_continued_link_is_straight_outside(inner):
    link = ContinuedLink(inner, 2.0, 9.0)
    assert link.support == inner.support
    between = np.linspace(2.0, 9.0, 20)
    np.testing.assert_allclose(link.forward(between), inner.forward(between))
    np.testing.assert_allclose(link.log_derivative(between), inner.log_derivative(between))
    for end, beyond in ((2.0, np.array([1.5, 1.75])), (9.0, np.array([10.0, 1e6]))):
        slope = np.exp(inner.log_derivative(np.array(end)))
        np.testing.assert_allclose(link.forward(beyond), inner.forward(np.array(end)) + slope * (beyond - end))
        np.testing.assert_allclose(np.exp(link.log_derivative(beyond)), slope)
    y = np.array([1.5, 1.75, 2.0, 5.0, 9.0, 10.0, 1e6])
    np.testing.assert_allclose(link.inverse(link.forward(y)), y, rtol=1e-12)


def test_without_arguments_targets_have_no_bounds_and_their_own_units():
    y = np.array([-3.0, 0.0, 3.0])
    for power in (0.5, 1.5):
        np.testing.assert_allclose(YeoJohnsonLink(power).forward(y), [yeo_johnson(power)(value) for value in y])
    assert IdentityLink().near == YeoJohnsonLink(0.5).near == YeoJohnsonLink(0.5).support == (-INF, INF)
    assert (LogLink().support, LogitLink().support) == ((0.0, INF), (0.0, 1.0))


class TestTargetMap:
    """z = (g(y) - shift) / unit."""

    @every_link
    def test_of_every_link(self, link, formula, support, ends):
        y = np.linspace(*ends, 7)
        np.testing.assert_allclose(TargetMap(link, unit=2.0).inverse(link.forward(y) / 2.0), y, rtol=1e-11, atol=1e-11)
        low, high = TargetMap(link).inverse(np.array([-1e5, 1e5]))
        assert support[0] <= low < high <= support[1]

    def test_numbers_and_distributions_go_back_the_same_way(self):
        map_, dist = TargetMap(LogLink(), unit=2.0, shift=-1.0), Gaussian([0.3, 1.0], [0.2, 0.5])
        restored = map_.restore(dist)
        np.testing.assert_allclose(restored.ppf([0.1, 0.8]), np.exp(2.0 * dist.ppf([0.1, 0.8]) - 1.0))
        np.testing.assert_allclose(map_.inverse(np.array([0.0, 3.0])), np.exp([-1.0, 5.0]))

    def test_without_a_link_it_is_linear(self):
        dist = Gaussian([0.3, 1.0], [0.2, 0.5])
        assert TargetMap().restore(dist) is dist
        np.testing.assert_allclose(TargetMap(unit=3.0).restore(dist).scale, [0.6, 1.5])
        np.testing.assert_allclose(TargetMap(shift=3.0).restore(dist).loc, [3.3, 4.0])
        np.testing.assert_array_equal(TargetMap(unit=3.0, shift=1.0).inverse(np.array([0.0, 2.0])), [1.0, 7.0])

    def test_numbers_outside_of_the_image_go_to_the_bounds(self):
        levels = TargetMap(QuantileLink(QUANTILES, LEVELS, False))
        np.testing.assert_array_equal(levels.inverse(np.array([-1.0, 0.25, 2.0])), [1.0, 2.0, 7.0])
        assert isinstance(levels.restore(Gaussian([0.5], [0.1])), Transformed)
        np.testing.assert_allclose(TargetMap(LogLink(2.0)).inverse(np.array([-1e3])), 2.0)
