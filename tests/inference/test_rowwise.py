"""Compiled loops against the same loops in NumPy, and the switch between them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from designs import problem
from hypothesis import given
from hypothesis import strategies as st

from bdkn.inference import (
    Forecast,
    Prior,
    Statistics,
    combine,
    compiled,
    posterior,
    published_combination,
    rowwise,
)


@given(st.integers(0, 300), st.integers(1, 9), st.integers(0, 2**32 - 1), st.sampled_from([1.0, 1e-6, 1e6]))
def test_the_twins_agree(rows, weights, seed, unit):
    rng = np.random.default_rng(seed)
    R = np.triu(rng.normal(size=(weights, weights))) + 3 * np.eye(weights)
    R, Phi = R[:, rng.permutation(weights)], unit * rng.normal(size=(rows, weights))
    μ, v = rng.normal(size=weights), rng.uniform(size=rows)
    fast = rowwise.whitened(R, Phi), rowwise.leverage(R, Phi), *rowwise.location_scale(R, μ, Phi, v, 0.7)
    with compiled(False):
        slow = rowwise.whitened(R, Phi), rowwise.leverage(R, Phi), *rowwise.location_scale(R, μ, Phi, v, 0.7)
    for one, other in zip(fast, slow, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11 * unit**2 if unit < 1 else 1e-11 * unit)


def test_both_take_rounding_for_nothing():
    R, Phi = np.array([[3.0, 1.0], [0.0, 1e-14]]), np.array([[0.1 * 3.0, 0.1]])
    with compiled(False):
        assert rowwise.leverage(R, Phi) == pytest.approx(0.01)
    assert rowwise.leverage(R, Phi) == pytest.approx(0.01)


@given(st.integers(6, 300), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_the_published_model_has_a_twin(rows, weights, seed):
    Phi, y, _ = problem(rows + weights, weights, seed)
    fast = published_combination([(Phi, y)], "paper")
    assert rowwise.posterior_of_few(Phi, y) is not None
    with compiled(False):
        assert rowwise.posterior_of_few(Phi, y) is None
        slow = published_combination([(Phi, y)], "paper")
    for name in ("prior_variance", "evidence", "n"):
        assert getattr(fast, name) == pytest.approx(getattr(slow, name), rel=1e-9)
    scale = np.sqrt(np.diag(slow.posterior.scale_matrix))
    np.testing.assert_allclose(fast.weights / scale, slow.weights / scale, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(fast.posterior.b, slow.posterior.b, rtol=1e-9)


def test_a_combination_is_the_same_without_compiled_code():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(80, 1)) + 0.3 * rng.normal(size=(80, 4))
    forecast, y = Forecast.of(means, rng.uniform(0.1, 1.0, (80, 4))), means.mean(axis=1) + 0.2 * rng.normal(size=80)

    def numbers():
        found = combine(forecast, y).averaged(forecast, np.full((80, 4), 0.01))
        dist, left = found.predictive(forecast), found.leave_one_out(forecast, y)
        parts = found.variance(forecast)
        return [found.score, found.averaging, dist.loc, dist.scale, left.loc, left.scale, *parts.values()]

    fast = numbers()
    with compiled(False):
        slow = numbers()
    for one, other in zip(fast, slow, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


def test_the_switch_holds_inside_its_block_only():
    with compiled(False):
        with compiled(True):
            assert rowwise._are_compiled
        assert not rowwise._are_compiled
    assert rowwise._are_compiled
    with pytest.raises(ZeroDivisionError), compiled(False):
        1 / 0  # noqa: B018
    assert rowwise._are_compiled


@pytest.mark.no_cover
def test_without_compiled_code_numba_is_never_loaded():
    script = """
import sys
import numpy as np
from bdkn.inference import Prior, Statistics, compiled, posterior, published_combination
Phi, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20.0)
with compiled(False):
    post = posterior(Statistics.from_rows(Phi, y), Prior.isotropic(3, 1.0))
    post.predictive(Phi), post.joint(Phi), post.leave_one_out(Phi, y), published_combination([(Phi, y)], "paper")
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_leave_one_out_without_compiled_code():
    Phi, y, _ = problem(15, 3)
    post = posterior(Statistics.from_rows(Phi, y), Prior.isotropic(3, 1.0))
    fast = post.leave_one_out(Phi, y)
    with compiled(False):
        slow = post.leave_one_out(Phi, y)
    np.testing.assert_allclose(fast.scale, slow.scale, rtol=1e-12)
    np.testing.assert_allclose(fast.loc, slow.loc, rtol=1e-12, atol=1e-14)
