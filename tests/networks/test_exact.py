"""The forward pass in NumPy, against torch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bdkn.networks import ACTIVATIONS, MIN_VARIANCE, Networks, NetworkSpec, initial_networks, softplus
from bdkn.networks.mlp import exact_outputs

RNG = np.random.default_rng(7)
X = RNG.normal(size=(4500, 3)).astype(np.float32)  # more than two chunks


def networks_of(spec: NetworkSpec, n: int = 3) -> Networks:
    return initial_networks(spec, [np.random.default_rng(seed) for seed in range(n)])


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("hidden", [(), (6,), (6, 4, 5)])
def test_outputs_are_those_of_the_same_torch_modules(activation: str, hidden: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    networks = networks_of(NetworkSpec(n_inputs=3, hidden=hidden, activation=activation))
    means, variances = exact_outputs(networks.spec, networks.layers, X)
    for h in range(len(networks)):
        value = torch.tensor(X).double()
        for i, (W, b) in enumerate(networks.layers):
            value = torch.nn.functional.linear(value, torch.tensor(W[h]).double(), torch.tensor(b[h]).double())
            if i < len(hidden):
                value = getattr(torch.nn.functional, activation)(value)
        np.testing.assert_allclose(means[h], value[:, 0].numpy(), rtol=1e-12, atol=1e-13)
        variance = torch.nn.functional.softplus(value[:, 1], threshold=40) + MIN_VARIANCE
        np.testing.assert_allclose(variances[h], variance.numpy(), rtol=1e-12)


@given(rows=st.lists(st.integers(0, len(X) - 1), min_size=1, max_size=1200))
def test_outputs_for_a_row_do_not_depend_on_the_other_rows(rows: list[int]) -> None:
    networks = networks_of(NetworkSpec(n_inputs=3, hidden=(8, 8)), n=2)
    whole, part = (exact_outputs(networks.spec, networks.layers, given) for given in (X, X[rows]))
    for one, other in zip(whole, part, strict=True):
        np.testing.assert_allclose(other, one[:, rows], rtol=1e-12, atol=1e-14)


def test_softplus_neither_overflows_nor_vanishes() -> None:
    raw = np.array([-800.0, -40.0, 0.0, 40.0, 800.0])
    np.testing.assert_allclose(softplus(raw), [0, np.exp(-40), np.log(2), 40 + np.exp(-40), 800], rtol=1e-14)
    assert softplus(raw.astype(np.float32)).dtype == np.float32
