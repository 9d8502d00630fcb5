from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bdkn.networks import Networks, NetworkSpec, initial_networks

SPEC = NetworkSpec(n_inputs=9, hidden=(400, 300))


def draw(*seeds: int) -> Networks:
    return initial_networks(SPEC, [np.random.default_rng(seed) for seed in seeds])


def test_weights_have_the_bounds_and_the_distribution_of_torch_linear() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    networks = draw(0)
    for (n_out, n_in), (W, b) in zip(SPEC.shapes, networks.layers, strict=True):
        theirs = torch.nn.Linear(n_in, n_out)
        bound = 1 / np.sqrt(n_in)
        for ours, other in ((W, theirs.weight), (b, theirs.bias)):
            assert max(np.abs(ours).max(), other.abs().max().item()) <= bound * (1 + 1e-6)
            assert stats.ks_2samp(ours.ravel(), other.detach().numpy().ravel()).pvalue > 1e-3
            assert stats.kstest(ours.ravel() / bound, stats.uniform(-1, 2).cdf).pvalue > 1e-3


def test_layers_are_stacked_in_single_precision() -> None:
    networks = draw(0, 1, 2)
    assert len(networks) == 3
    for (n_out, n_in), (W, b) in zip(SPEC.shapes, networks.layers, strict=True):
        assert W.shape == (3, n_out, n_in)
        assert b.shape == (3, n_out)
        assert W.dtype == b.dtype == np.float32


def test_a_network_depends_on_its_own_generator_alone() -> None:
    together, alone = draw(5, 6), draw(6)
    for (W, b), (W_alone, b_alone) in zip(together.layers, alone.layers, strict=True):
        np.testing.assert_array_equal(W[1:], W_alone)
        np.testing.assert_array_equal(b[1:], b_alone)
        assert not np.array_equal(W[0], W[1])
