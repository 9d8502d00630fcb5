from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bdkn.networks import ACTIVATIONS, MIN_VARIANCE, Networks, NetworkSpec, initial_networks, softplus

RNG = np.random.default_rng(7)
X = RNG.normal(size=(2100, 3)).astype(np.float32)  # more than two chunks


def networks_of(spec: NetworkSpec, n: int = 3) -> Networks:
    return initial_networks(spec, [np.random.default_rng(seed) for seed in range(n)])


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("hidden", [(), (6,), (6, 4, 5)])
def test_outputs_are_those_of_the_same_torch_modules(activation: str, hidden: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    networks = networks_of(NetworkSpec(n_inputs=3, hidden=hidden, activation=activation))
    means, variances = networks.outputs(X)
    for h in range(len(networks)):
        value = torch.tensor(X).double()
        for i, (W, b) in enumerate(networks.layers):
            value = torch.nn.functional.linear(value, torch.tensor(W[h]).double(), torch.tensor(b[h]).double())
            if i < len(hidden):
                value = getattr(torch.nn.functional, activation)(value)
        np.testing.assert_allclose(means[h], value[:, 0].numpy(), rtol=1e-12, atol=1e-13)
        variance = torch.nn.functional.softplus(value[:, 1], threshold=40) + MIN_VARIANCE
        np.testing.assert_allclose(variances[h], variance.numpy(), rtol=1e-12)


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(st.integers(0, len(X) - 1), min_size=1, max_size=1200))
def test_a_row_is_answered_alike_in_any_company(rows: list[int]) -> None:
    networks = networks_of(NetworkSpec(n_inputs=3, hidden=(8, 8)), n=2)
    for whole, part in zip(networks.outputs(X), networks.outputs(X[rows]), strict=True):
        np.testing.assert_allclose(part, whole[:, rows], rtol=1e-12, atol=1e-14)


def test_members_are_answered_alike_in_any_company() -> None:
    networks = networks_of(NetworkSpec(n_inputs=3, hidden=(8,)), n=5)
    chosen = [4, 1]
    assert len(networks[chosen]) == 2
    for whole, part in zip(networks.outputs(X), networks[np.array(chosen)].outputs(X), strict=True):
        np.testing.assert_array_equal(part, whole[chosen])


def test_no_rows_give_no_outputs() -> None:
    means, variances = networks_of(NetworkSpec(n_inputs=3), n=2).outputs(np.empty((0, 3)))
    assert means.shape == variances.shape == (2, 0)


def test_is_finite_names_the_diverged_members() -> None:
    networks = networks_of(NetworkSpec(n_inputs=3, hidden=(4,)), n=4)
    networks.layers[0][0][1, 2, 0] = np.nan
    networks.layers[1][1][3, 1] = np.inf
    np.testing.assert_array_equal(networks.is_finite(), [True, False, True, False])


def test_softplus_neither_overflows_nor_vanishes() -> None:
    raw = np.array([-800.0, -40.0, 0.0, 40.0, 800.0])
    np.testing.assert_allclose(softplus(raw), [0, np.exp(-40), np.log(2), 40 + np.exp(-40), 800], rtol=1e-14)
    assert softplus(raw.astype(np.float32)).dtype == np.float32
