"""Compiled prediction: NumPy's numbers to single precision, the same bits for a row with any other rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from bdkn.errors import InvalidParameterError
from bdkn.networks import ACTIVATIONS, MIN_VARIANCE, Networks, NetworkSpec, initial_networks
from bdkn.networks.compiled import outputs_of, packing_of
from bdkn.networks.mlp import exact_outputs

RNG = np.random.default_rng(7)
ROWS = 3000


def outputs(networks: Networks, X: ArrayLike, threads: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the outputs by compiled code."""
    return outputs_of(networks.spec, packing_of(networks.spec).packed(networks.layers), X, threads=threads)


def networks_of(spec: NetworkSpec, n: int = 3) -> Networks:
    return initial_networks(spec, [np.random.default_rng(seed) for seed in range(n)])


def check(networks: Networks, X: np.ndarray) -> None:
    """Compare with double precision, the error measured in units of the largest answer."""
    exact = exact_outputs(networks.spec, networks.layers, X)
    for mine, truth in zip(outputs(networks, X), exact, strict=True):
        np.testing.assert_allclose(mine, truth, rtol=3e-6, atol=3e-6 * np.abs(truth).max())


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("hidden", [(), (1,), (5,), (17, 3), (64, 64), (33, 20, 12), (130, 64, 9, 31)])
def test_any_activation_depth_and_width(activation: str, hidden: tuple[int, ...]) -> None:
    X = RNG.normal(size=(150, 4)).astype(np.float32)
    check(networks_of(NetworkSpec(n_inputs=4, hidden=hidden, activation=activation)), X)


@pytest.mark.parametrize("n_inputs", [1, 2, 4, 8, 15, 16, 17, 31, 32, 90])
@pytest.mark.parametrize("n", [1, 3, 33, 200])
def test_any_number_of_inputs_and_rows(n_inputs: int, n: int) -> None:
    X = RNG.normal(size=(n, n_inputs)).astype(np.float32)
    check(networks_of(NetworkSpec(n_inputs=n_inputs, hidden=(10, 7), activation="silu")), X)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("size", [1e-3, 1e3, 1e18])
def test_far_rows(activation: str, size: float) -> None:
    check(networks_of(NetworkSpec(n_inputs=2, activation=activation)), size * RNG.normal(size=(50, 2)))


WIDE = networks_of(NetworkSpec(n_inputs=3, hidden=(40, 33), activation="silu"), n=40)
X = RNG.normal(size=(ROWS, 3)).astype(np.float32)


@given(rows=st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=200))
def test_outputs_for_a_row_have_the_same_bits_with_any_other_rows(rows: list[int]) -> None:
    for whole, part in zip(outputs(WIDE, X), outputs(WIDE, X[rows]), strict=True):
        np.testing.assert_array_equal(part, whole[:, rows])


@pytest.mark.parametrize("threads", [None, 2, 3])
def test_the_same_bits_for_any_number_of_threads(threads: int | None) -> None:
    assert WIDE.spec.n_parameters * len(WIDE) * ROWS > 2 * (1 << 26), "there should be work for several threads"
    for one, several in zip(outputs(WIDE, X, threads=1), outputs(WIDE, X, threads=threads), strict=True):
        np.testing.assert_array_equal(several, one)


def test_no_rows_and_no_networks() -> None:
    assert [part.shape for part in outputs(WIDE, np.empty((0, 3)))] == [(40, 0)] * 2
    assert [part.shape for part in outputs(WIDE[[]], X)] == [(0, ROWS)] * 2


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_networks_that_diverged_are_not_finite_and_do_not_change_the_others(activation: str) -> None:
    networks = networks_of(NetworkSpec(n_inputs=3, hidden=(6, 5), activation=activation), n=4)
    expected = networks.outputs(X[:40])
    networks.layers[0][0][1] = np.nan
    networks.layers[2][0][2] = np.inf
    for mine, before in zip(outputs(networks, X[:40]), expected, strict=True):
        np.testing.assert_array_equal(mine[[0, 3]], before[[0, 3]])
        assert not np.isfinite(mine[1:3]).any()


def test_rows_that_are_not_finite_leave_the_others_alone() -> None:
    rows = X[:70].copy()
    rows[[3, 66], [0, 1]] = np.nan, np.inf
    others = np.setdiff1d(np.arange(70), [3, 66])
    for mine, expected in zip(outputs(WIDE, rows), outputs(WIDE, X[:70]), strict=True):
        assert not np.isfinite(mine[:, [3, 66]]).all(axis=0).any()
        np.testing.assert_array_equal(mine[:, others], expected[:, others])


def test_variances_have_a_floor() -> None:
    networks = networks_of(NetworkSpec(n_inputs=3))
    networks.layers[-1][1][:, 1] = -1e30
    assert (outputs(networks, X[:5])[1] == MIN_VARIANCE).all()


def test_any_type_of_table() -> None:
    expected = outputs(WIDE, X[:9])
    locked = X[:9].copy()
    locked.flags.writeable = False
    for rows in (
        locked,
        X[:9].tolist(),
        np.asfortranarray(X[:9]),
        X[:9].astype(np.float64),
        np.repeat(X[:9], 2, 0)[::2],
    ):
        for mine, theirs in zip(outputs(WIDE, rows), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("shape", [(5, 2), (5, 4), (3,), (2, 3, 1)])
def test_rows_of_another_width_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidParameterError, match=r"rows must be of shape \(n, 3\); got shape"):
        outputs(WIDE, np.zeros(shape))
