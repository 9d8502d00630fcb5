"""Initial weights, as PyTorch's ``nn.Linear`` draws them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bdkn.networks.exact import Layer
from bdkn.networks.mlp import Networks
from bdkn.networks.spec import NetworkSpec


def initial_networks(spec: NetworkSpec, generators: Sequence[np.random.Generator]) -> Networks:
    """Draw one network from each generator: weights and biases uniform in ±1/√fan_in, in single precision."""
    drawn = [_draw(spec, generator) for generator in generators]
    stacked = tuple(
        (np.stack([member[i][0] for member in drawn]), np.stack([member[i][1] for member in drawn]))
        for i in range(len(spec.shapes))
    )
    return Networks(spec, stacked)


def _draw(spec: NetworkSpec, generator: np.random.Generator) -> list[Layer]:
    layers: list[Layer] = []
    for n_out, n_in in spec.shapes:
        bound = 1 / np.sqrt(n_in)
        W = generator.uniform(-bound, bound, (n_out, n_in)).astype(np.float32)
        b = generator.uniform(-bound, bound, n_out).astype(np.float32)
        layers.append((W, b))
    return layers
