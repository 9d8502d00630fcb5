"""Networks of several shapes behave as a list of networks would."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bdkn.networks import MixedNetworks, Networks, NetworkSpec, initial_networks, join

SPECS = [
    NetworkSpec(n_inputs=2, hidden=hidden, activation=name) for hidden in ((3,), (4, 2)) for name in ("relu", "silu")
]
X = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)


def network(number):
    """Return a network whose shape and weights follow from its number."""
    return initial_networks(SPECS[number % len(SPECS)], [np.random.default_rng(number)])


def assert_networks(mixed, numbers):
    assert len(mixed) == len(numbers)
    means, variances = mixed.outputs(X)
    assert means.shape == variances.shape == (len(numbers), len(X))
    for h, number in enumerate(numbers):
        for mine, theirs in zip((means[h], variances[h]), network(number).outputs(X), strict=True):
            np.testing.assert_array_equal(mine, theirs[0])


@given(st.data())
def test_joined_and_chosen(data):
    parts = data.draw(st.lists(st.lists(st.integers(0, 11), min_size=1, max_size=4), min_size=1, max_size=3))
    joined = join([join([network(number) for number in part]) for part in parts])
    numbers = [number for part in parts for number in part]
    assert_networks(joined, numbers)
    chosen = data.draw(st.lists(st.integers(0, len(numbers) - 1), min_size=1, max_size=6, unique=True))
    assert_networks(joined[np.array(chosen)], [numbers[h] for h in chosen])
    np.testing.assert_array_equal(joined.is_finite(), np.ones(len(numbers), bool))


def test_a_single_shape_is_a_plain_stack():
    mixed = join([network(0), network(1), network(4)])
    assert isinstance(mixed, MixedNetworks)
    assert isinstance(mixed[np.array([0, 2])], Networks)
    assert isinstance(join([network(0), network(4)]), Networks)


def test_is_finite_finds_the_network_that_diverged():
    broken = network(1)
    broken.layers[0][0][...] = np.nan
    np.testing.assert_array_equal(join([network(0), broken, network(4)]).is_finite(), [True, False, True])
