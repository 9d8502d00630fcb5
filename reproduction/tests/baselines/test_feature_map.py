import numpy as np
import pytest

from bdkn.networks import ACTIVATIONS
from bdkn_paper.baselines.feature_map import FeatureMap

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 3))


def drawn(seed=0, **others):
    return FeatureMap.draw((3, 6, 2), "tanh", np.random.default_rng(seed), **others)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("linear_last", [True, False])
def test_layer_by_layer(activation, linear_last):
    features = FeatureMap.draw((3, 6, 2), activation, RNG, linear_last=linear_last)
    (W1, b1), (W2, b2) = features.layers
    hidden = ACTIVATIONS[activation].value(X @ W1.T + b1)
    out = hidden @ W2.T + b2
    np.testing.assert_allclose(features(X), out if linear_last else ACTIVATIONS[activation].value(out))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("linear_last", [True, False])
def test_derivatives_are_central_differences(activation, linear_last):
    features, step = FeatureMap.draw((3, 6, 2), activation, np.random.default_rng(1), linear_last=linear_last), 1e-6
    J = features.derivatives(X)
    assert J.shape == (5, 2, 3)
    for j, e in enumerate(step * np.eye(3)):
        np.testing.assert_allclose(J[:, :, j], (features(X + e) - features(X - e)) / (2 * step), atol=1e-8)


def test_a_stack_is_its_maps_one_by_one():
    one, two = drawn(0), drawn(1)
    layers = tuple((np.stack([W, V]), np.stack([b, c])) for (W, b), (V, c) in zip(one.layers, two.layers, strict=True))
    np.testing.assert_allclose(FeatureMap("tanh", layers)(X), np.stack([one(X), two(X)]))


def test_without_layers_it_is_the_identity():
    features = FeatureMap.draw((3,), "relu", RNG)
    np.testing.assert_array_equal(features(X), X)
    np.testing.assert_array_equal(features.derivatives(X), np.broadcast_to(np.eye(3), (5, 3, 3)))


def test_weights_begin_as_in_pytorch():
    (W, b), _ = FeatureMap.draw((100, 400, 1), "relu", np.random.default_rng(0)).layers
    for part in (W, b):
        assert np.abs(part).max() <= 0.1
        assert part.std() == pytest.approx(0.1 / np.sqrt(3), rel=0.1)
