"""Adam of the fused engine, by cache lines, against the formula in double precision."""

from __future__ import annotations

import numpy as np

from bdkn.kernels.code_cache import compiled
from bdkn.networks import NetworkSpec
from bdkn.networks.compiled import CACHE_LINE
from bdkn.networks.fused import N_PARAMETERS, NO_UPDATE, Update, layout_of, update_at, update_lines
from bdkn.networks.job import BETA_1, BETA_2, EPSILON

LAYOUT = layout_of(NetworkSpec(n_inputs=3, hidden=(5,)), 8)
N = int(LAYOUT.places[N_PARAMETERS])


@compiled
def updated(mem: np.ndarray, update: Update, first: int, stop: int) -> int:
    return update_lines(mem, update, first, stop)


def workspace() -> np.ndarray:
    """Return parameters, first and second moments and gradients, and some numbers behind them."""
    rng = np.random.default_rng(0)
    mem = rng.normal(size=4 * N + CACHE_LINE).astype(np.float32)
    mem[2 * N : 3 * N] **= 2
    return mem


def test_is_the_formula() -> None:
    step, rate, decay = 7, 0.01, 0.3
    mem = workspace()
    p, m, v, g = mem[: 4 * N].astype(np.float64).reshape(4, N)
    m, v = BETA_1 * m + (1 - BETA_1) * g, BETA_2 * v + (1 - BETA_2) * g**2
    p = p * (1 - rate * decay) - rate * (m / (1 - BETA_1**step)) / (np.sqrt(v / (1 - BETA_2**step)) + EPSILON)
    after = mem.copy()
    assert updated(after, update_at(LAYOUT.places, step, rate, decay), 0, N) == N
    np.testing.assert_allclose(after[: 3 * N], np.concatenate([p, m, v]), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(after[3 * N :], mem[3 * N :])


def test_only_the_given_lines_are_updated() -> None:
    whole, some = workspace(), workspace()
    update = update_at(LAYOUT.places, 1, 0.01, 0.0)
    updated(whole, update, 0, N)
    assert updated(some, update, CACHE_LINE, CACHE_LINE + 1) == 2 * CACHE_LINE
    changed = np.zeros(len(some), bool)
    for part in range(3):
        changed[part * N + CACHE_LINE : part * N + 2 * CACHE_LINE] = True
    np.testing.assert_array_equal(some, np.where(changed, whole, workspace()))


def test_tiny_moments_become_zero() -> None:
    mem = np.full(4 * N, 1e-31, np.float32)
    mem[N + 1], mem[2 * N + 1], mem[3 * N :] = -1e-31, 1e-29, 0
    updated(mem, update_at(LAYOUT.places, 1, 0.01, 0.0), 0, N)
    assert mem[N] == mem[N + 1] == mem[2 * N] == 0
    assert mem[2 * N + 1] > 0


def test_no_update_changes_nothing() -> None:
    mem = workspace()
    updated(mem, NO_UPDATE, 0, NO_UPDATE.n_parameters)
    np.testing.assert_array_equal(mem, workspace())
