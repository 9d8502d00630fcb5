"""The shape of a network, and its initial weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from bdkn.errors import InvalidParameterError, check_choice, check_number
from bdkn.networks.activation import ACTIVATIONS
from bdkn.networks.head import MEAN_VARIANCE, Head, MeanVarianceHead
from bdkn.persistence.fields import Part, floats, stored
from bdkn.typing import Array

Weights = Annotated[Array, floats(..., types=("f4", "f8"))]

Layer = tuple[Weights, Weights]
"""A weight matrix W (..., n_out, n_in) and a bias b (..., n_out)."""


@stored
@dataclass(frozen=True, kw_only=True)
class NetworkSpec:
    """A fully connected network: its inputs, hidden layers, activation, and the head that reads its outputs."""

    n_inputs: int
    hidden: tuple[int, ...] = (50, 50)
    activation: str = "relu"
    head: Annotated[Head, Part(MeanVarianceHead)] = MEAN_VARIANCE

    def __post_init__(self) -> None:
        check_number("n_inputs", self.n_inputs, low=1, whole=True)
        for width in self.hidden:
            check_number("each of hidden_layer_sizes", width, low=1, whole=True)
        check_choice("activation", self.activation, ACTIVATIONS)

    @property
    def widths(self) -> tuple[int, ...]:
        """Units per layer, inputs first, outputs last."""
        return (self.n_inputs, *self.hidden, self.head.n_outputs)

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """(outputs, inputs) of each layer's weight matrix."""
        widths = self.widths
        return tuple(zip(widths[1:], widths[:-1], strict=True))

    @property
    def n_parameters(self) -> int:
        """Weights and biases of one network."""
        return sum(n_out * (n_in + 1) for n_out, n_in in self.shapes)

    def check_layers(self, layers: Sequence[Layer]) -> None:
        """Raise unless layers of stacked networks, W (H, n_out, n_in) and b (H, n_out), have this shape."""
        H = len(layers[0][0]) if layers and layers[0][0].ndim else 0
        wanted = [((H, n_out, n_in), (H, n_out)) for n_out, n_in in self.shapes]
        found = [(W.shape, b.shape) for W, b in layers]
        if found != wanted:
            raise InvalidParameterError(f"layers must have the shapes {wanted}; got {found}")

    def initial_layers(self, generator: np.random.Generator) -> list[Layer]:
        """Draw weights and biases uniform in ±1/√n_in, as PyTorch's ``nn.Linear`` does, in single precision."""
        layers: list[Layer] = []
        for n_out, n_in in self.shapes:
            bound = 1 / np.sqrt(n_in)
            W = generator.uniform(-bound, bound, (n_out, n_in)).astype(np.float32)
            b = generator.uniform(-bound, bound, n_out).astype(np.float32)
            layers.append((W, b))
        return layers
