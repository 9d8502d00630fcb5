"""When the expectation of a function is refused, and when what is left over is close enough."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
from scipy.integrate import quad

from bdkn.errors import InvalidParameterError
from bdkn.predictive import Gaussian, GaussianMixture, LogLink, StudentT, StudentTMixture, Transformed
from bdkn.predictive import expectation as module
from bdkn.predictive.expectation import expectation
from bdkn.predictive.links import ContinuedLink

HEAVY = StudentT(3.0, [1000.0, -1000.0], [1.0, 2.0])


@pytest.mark.parametrize("unit", [1e-9, 1.0, -1.0, 1e9])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_function_that_grows_too_fast_on_one_side_is_refused_in_any_unit_and_place(unit, side):
    def function(y, row):
        away = side * (y - HEAVY.loc[row, None])
        return unit * np.maximum(away, 0.0) ** 3.5

    with pytest.raises(InvalidParameterError, match="the expectation of row 0 cannot be computed"):
        expectation(HEAVY, function)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_function_may_grow_fast_where_that_does_not_count(unit):
    dist = StudentT(12.0, [0.0, 0.0], [1.0, 0.5])
    found = expectation(dist, lambda y, row: unit * y**6)
    np.testing.assert_allclose(found, unit * 15.0 * 12.0**3 / (10.0 * 8.0 * 6.0) * np.array([1.0, 0.5**6]), rtol=2e-6)


@pytest.mark.parametrize("df", [0.05, 1.0, 3.0, 30.0, 1e6])
def test_tails_are_followed_to_a_level_of_a_rounding_error(df):
    dist = StudentT(df, [0.0, 0.0], [1.0, 3.0])
    ends = module._Terms.of(dist).edges()[:, [0, -1]]
    np.testing.assert_array_equal(ends, [[-ends[0, 1], ends[0, 1]]] * 2)
    reached = dist.cdf(3.0 * np.sinh(ends[:, 0]))[1]
    assert (
        reached == pytest.approx(2.3e-16, rel=0.02)
        if 1.0 <= df <= 30.0
        else ends[0, 1] == pytest.approx(np.arcsinh(1e100 if df < 1.0 else 9.0))
    )


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_what_is_left_after_the_last_halving_is_counted_if_it_is_close_and_refused_if_not(monkeypatch, unit):
    monkeypatch.setattr(module, "_MAX_HALVINGS", 2)
    monkeypatch.setattr(module, "_TERMS_AT_ONCE", 2)
    dist, size = Gaussian(np.zeros(5), 1.0), unit * np.array([1.0, 1e6, 1e6, 1.0, 1e3])

    def jump(y, row):
        return size[row, None] * (y > 0.05)

    found = expectation(dist, jump, tolerance=0.02)
    np.testing.assert_allclose(found, size * (1.0 - dist.cdf(np.full(5, 0.05))), rtol=0.2)
    one = expectation(dist, lambda y, row: np.where(row[:, None] == 2, jump(y, row), 1.0), tolerance=0.02)
    np.testing.assert_allclose(one, [1.0, 1.0, found[2], 1.0, 1.0])
    with pytest.raises(InvalidParameterError, match="the expectation of row 0 cannot be computed to the tolerance"):
        expectation(dist, jump, tolerance=1e-4)
    with pytest.raises(InvalidParameterError, match="the expectation of row 3 cannot be computed to the tolerance"):
        expectation(dist, lambda y, row: np.where(row[:, None] == 3, jump(y, row), 1.0), tolerance=1e-4)


def test_rows_without_width_have_the_value_at_their_location():
    dist = Gaussian([1.0, 2.0], [0.0, 1.0])
    np.testing.assert_allclose(expectation(dist, lambda y, row: y**2), [1.0, 5.0], rtol=1e-9)


def test_a_function_is_asked_for_targets_within_their_bounds_only():
    dist = Transformed(Gaussian([1.0, 0.0], [3.0, 0.1]), LogLink())
    np.testing.assert_allclose(expectation(dist, lambda y, row: np.log(y)), [1.0, 0.0], atol=1e-5)


POSITION, WIDTH, MASS = [[-1.0, 0.5, 3.0], [0.0, 1.0, 4.0]], [[0.3, 0.02, 0.1]] * 2, [[0.2, 0.2, 0.1]] * 2
MIXED = StudentTMixture(5.0, [12.0, 12.5], [0.3, 0.1], 0.5, POSITION, WIDTH, MASS)
GAUSSIANS = GaussianMixture([[12.0, 12.1], [12.5, 13.0]], [[0.3, 0.05], [0.1, 0.1]])
CONTINUED = ContinuedLink(LogLink(), 0.05, 20.0)
KINDS = {
    "gaussian": Gaussian([12.0, 12.5], [0.3, 0.1]),
    "student-t": StudentT(4.0, [12.0, 12.5], [0.3, 0.1]),
    "gaussians": GAUSSIANS,
    "mixed": MIXED,
    "exponentials": Transformed(GAUSSIANS.affine(0.5, 0.0), LogLink()),
    "bounded": Transformed(StudentT(5.0, [0.0, -2.0], [1.0, 0.7]), CONTINUED, unit=2.0),
}


def by_quad(dist, function, points):
    """Return the expectation of one row by another quadrature, in pieces that end at points."""
    pieces = itertools.pairwise(np.unique(points))
    return sum(
        quad(lambda y: function(y) * dist.pdf(y)[0], *ends, epsabs=0.0, epsrel=1e-9, limit=200)[0] for ends in pieces
    )


@pytest.mark.parametrize("level", [0.3, 0.999, 1.0 - 1e-9, 1.0 - 1e-14])
@pytest.mark.parametrize("kind", KINDS)
def test_a_hinge_is_integrated_wherever_it_bends(kind, level):
    """The cost above a threshold, however unlikely, has the relative error asked for, and no tail is refused."""
    dist = KINDS[kind]
    bend = dist.ppf(level)
    found = expectation(dist, lambda y, row: -np.maximum(y - bend[row, None], 0.0))
    for i in range(2):
        one = dist[i]
        inner = one.ppf(np.linspace(level, 1.0 - 1e-15, 12))[0]
        far = bend[i] + np.ptp(one.ppf([0.25, 0.75])[0]) * np.geomspace(1e-2, 1e8, 25)
        exact = by_quad(one, lambda y, i=i: bend[i] - y, np.concatenate([[bend[i]], inner, far]))
        assert exact < 0.0
        assert found[i] == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("df", [389.0, np.inf])
def test_a_hinge_near_the_last_level_is_no_function_that_grows_too_fast(df):
    dist, away = StudentT(df, np.zeros(40), 0.15), 0.15 * np.linspace(6.0, 8.9, 40)
    found = expectation(dist, lambda y, row: np.maximum(y - away[row, None], 0.0))
    for i in range(0, 40, 3):
        exact = by_quad(dist[i], lambda y, i=i: y - away[i], np.linspace(away[i], away[i] + 1.0, 12))
        assert found[i] == pytest.approx(exact, rel=1e-6)


def test_a_hinge_of_many_rows_takes_little_memory():
    """390 rows, most of them far below the bend, as for the improvement on the best of 390 targets."""
    loc = 12.5 + 0.3 * np.random.default_rng(0).normal(size=390)
    tracemalloc.start()
    try:
        found = expectation(StudentT(389.0, loc, 0.15), lambda y, row: np.maximum(y - 13.6, 0.0))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5e8
    assert (np.diff(found[np.argsort(loc)]) >= 0.0).all()
    assert found.max() > 1e-3


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_tails_are_followed_until_they_do_not_count(sign):
    """With 2.2 degrees of freedom, 0.2 % of the second moment lies beyond the ends at first."""
    dist = StudentT([2.2, 30.0], [0.0, 0.0], [1.0, 1.0])
    found = expectation(dist, lambda y, row: np.maximum(sign * y, 0.0) ** 2)
    np.testing.assert_allclose(found, dist.var() / 2.0, rtol=2e-6)


@pytest.mark.no_cover
@pytest.mark.parametrize("function", [np.log, lambda y: np.power(y, -0.5)], ids=["logarithm", "root"])
def test_a_function_may_be_infinite_at_a_bound_if_its_expectation_exists(function):
    dist, points = KINDS["bounded"], np.geomspace(1e-30, 1e9, 80)
    found = expectation(dist, lambda y, row: function(y))
    for i in range(2):
        assert found[i] == pytest.approx(by_quad(dist[i], function, points), rel=2e-6)


def test_a_function_without_an_expectation_at_a_bound_is_refused():
    with pytest.raises(InvalidParameterError, match="the function grows too fast"):
        expectation(KINDS["bounded"], lambda y, row: 1.0 / y)


def test_memory_is_bounded_and_rows_do_not_depend_on_each_other(monkeypatch):
    whole = expectation(MIXED, lambda y, row: np.maximum(y - 13.0, 0.0))
    monkeypatch.setattr(module, "_PIECES_AT_ONCE", 5)
    monkeypatch.setattr(module, "_TERMS_AT_ONCE", 1)
    asked = []

    def hinge(y, row):
        asked.append(len(y))
        return np.maximum(y - 13.0, 0.0)

    np.testing.assert_allclose(expectation(MIXED, hinge), whole, rtol=1e-12)
    assert max(asked) == 5


def test_a_function_that_jumps_too_often_is_refused(monkeypatch):
    monkeypatch.setattr(module, "_MAX_PIECES", 500)
    with pytest.raises(InvalidParameterError, match=r"row 1 cannot be computed .* jumps too often"):
        expectation(Gaussian([0.0, 0.0], 1.0), lambda y, row: np.where(row[:, None] == 1, np.sin(1e6 * y), y))


def test_targets_whose_rounding_errors_are_as_large_as_their_scale():
    dist = Gaussian([12.5, 12.5], [1e-12, 0.0])
    np.testing.assert_allclose(expectation(dist, lambda y, row: y), 12.5, rtol=1e-14)
    found = expectation(dist, lambda y, row: np.maximum(y - 12.5, 0.0))
    np.testing.assert_allclose(found, [1e-12 / np.sqrt(2.0 * np.pi), 0.0], rtol=1e-2)
