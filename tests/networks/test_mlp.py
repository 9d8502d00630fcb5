from __future__ import annotations

import pickle

import numpy as np

from bdkn.networks import Networks, NetworkSpec, initial_networks
from bdkn.networks.mlp import exact_outputs

RNG = np.random.default_rng(7)
X = RNG.normal(size=(2100, 3)).astype(np.float32)  # more than two chunks


def networks_of(spec: NetworkSpec, n: int = 3) -> Networks:
    return initial_networks(spec, [np.random.default_rng(seed) for seed in range(n)])


def test_outputs_of_a_network_do_not_depend_on_the_other_networks() -> None:
    networks = networks_of(NetworkSpec(n_inputs=3, hidden=(8,)), n=5)
    chosen = [4, 1]
    assert len(networks[chosen]) == 2
    for whole, part in zip(networks.outputs(X), networks[np.array(chosen)].outputs(X), strict=True):
        np.testing.assert_array_equal(part, whole[chosen])


def test_no_rows_give_no_outputs() -> None:
    means, variances = networks_of(NetworkSpec(n_inputs=3), n=2).outputs(np.empty((0, 3)))
    assert means.shape == variances.shape == (2, 0)


def test_is_finite_finds_the_diverged_networks() -> None:
    networks = networks_of(NetworkSpec(n_inputs=3, hidden=(4,)), n=4)
    networks.layers[0][0][1, 2, 0] = np.nan
    networks.layers[1][1][3, 1] = np.inf
    np.testing.assert_array_equal(networks.is_finite(), [True, False, True, False])


def test_compiled_code_predicts_with_single_precision_and_numpy_with_double() -> None:
    single = networks_of(NetworkSpec(n_inputs=3, hidden=(8, 8), activation="silu"))
    double = Networks(single.spec, tuple((W.astype(np.float64), b.astype(np.float64)) for W, b in single.layers))
    for truth, exact, fast in zip(
        exact_outputs(double.spec, double.layers, X), double.outputs(X), single.outputs(X), strict=True
    ):
        np.testing.assert_array_equal(exact, truth)
        assert exact.dtype == fast.dtype == np.float64
        np.testing.assert_allclose(fast, truth, rtol=1e-5, atol=1e-6)
        assert (fast != truth).any()


def test_packed_weights_are_not_pickled() -> None:
    networks = networks_of(NetworkSpec(n_inputs=3))
    before, expected = len(pickle.dumps(networks)), networks.outputs(X)
    assert len(pickle.dumps(networks)) == before
    copy = pickle.loads(pickle.dumps(networks))
    assert copy.spec == networks.spec
    for mine, theirs in zip(copy.outputs(X), expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)
