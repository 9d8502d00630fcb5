"""When the expectation of a function is refused, and when what is left over is close enough."""

from __future__ import annotations

import numpy as np
import pytest

from bdkn.errors import InvalidParameterError
from bdkn.predictive import Gaussian, LogLink, StudentT, Transformed
from bdkn.predictive import expectation as module
from bdkn.predictive.expectation import expectation

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
    ends = module._Integral(dist, lambda y, row: y, 1e-6)._ends(np.array([1]))
    assert ends.shape == (1,)
    reached = dist.cdf(-3.0 * np.sinh(ends[[0, 0]]))[1]
    assert (
        reached == pytest.approx(2.3e-16, rel=0.02)
        if 1.0 <= df <= 30.0
        else ends[0] == pytest.approx(np.arcsinh(1e100 if df < 1.0 else 9.0))
    )


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_what_is_left_after_the_last_halving_is_counted_if_it_is_close_and_refused_if_not(monkeypatch, unit):
    monkeypatch.setattr(module, "_MOST_HALVINGS", 2)
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 2)
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
