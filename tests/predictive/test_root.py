from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bdkn.predictive.mixture import increasing_root


@given(st.lists(st.floats(-9.0, 9.0), min_size=1, max_size=5))
def test_cubes(roots: list[float]) -> None:
    """x³ is flat at its root, the worst case for Newton's method."""
    r = np.array(roots)
    x = increasing_root(
        lambda x: ((x - r) ** 3, 3 * (x - r) ** 2), np.full(r.shape, -10.0), np.full(r.shape, 11.0), np.zeros(r.shape)
    )
    np.testing.assert_allclose(x, r, atol=5e-5)  # (5e-5)³ is zero to rounding


def test_a_jump_is_found_by_halving() -> None:
    x = increasing_root(
        lambda x: (np.where(x < 0.3, -1.0, 1.0), np.zeros(1)), np.array([-1.0]), np.array([2.0]), np.zeros(1)
    )
    np.testing.assert_allclose(x, 0.3, rtol=1e-15)


def test_misleading_slopes_cannot_leave_the_bracket() -> None:
    calls = []

    def function(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        calls.append(x.copy())
        return x - 0.25, np.array([1e-9, np.inf, np.nan])

    x = increasing_root(function, np.full(3, -1.0), np.full(3, 1.0), np.full(3, 1e-12))
    np.testing.assert_allclose(x, 0.25, atol=1e-11)
    assert np.abs(calls).max() <= 1.0
    assert len(calls) < 60


def test_smooth_rows_take_few_steps() -> None:
    calls = []

    def function(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        calls.append(1)
        return np.expm1(x - 0.1), np.exp(x - 0.1)

    increasing_root(function, np.full(4, -5.0), np.full(4, 6.0), np.full(4, 1e-14))
    assert len(calls) <= 10


def test_creeping_steps_give_way_to_halving() -> None:
    """A slope a million times too steep makes Newton's steps too short to arrive, though all point the right way."""
    x = increasing_root(lambda x: (x - 0.25, np.full(1, 1e6)), np.array([-1.0]), np.array([1.0]), np.full(1, 1e-12))
    np.testing.assert_allclose(x, 0.25, atol=1e-5)
