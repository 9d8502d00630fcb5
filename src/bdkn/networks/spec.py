"""The shape of a network."""

from __future__ import annotations

from dataclasses import dataclass

from bdkn.errors import check_choice, check_number
from bdkn.networks.activation import ACTIVATIONS

OUTPUTS = 2
"""A mean and a raw variance."""


@dataclass(frozen=True, kw_only=True)
class NetworkSpec:
    """A fully connected network with two outputs, the mean and the raw (pre-softplus) variance."""

    n_inputs: int
    hidden: tuple[int, ...] = (50, 50)
    activation: str = "relu"

    def __post_init__(self) -> None:
        check_number("n_inputs", self.n_inputs, low=1, whole=True)
        for width in self.hidden:
            check_number("each of hidden_layer_sizes", width, low=1, whole=True)
        check_choice("activation", self.activation, ACTIVATIONS)

    @property
    def widths(self) -> tuple[int, ...]:
        """Units per layer, inputs first, outputs last."""
        return (self.n_inputs, *self.hidden, OUTPUTS)

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """(outputs, inputs) of each layer's weight matrix."""
        widths = self.widths
        return tuple(zip(widths[1:], widths[:-1], strict=True))

    @property
    def n_parameters(self) -> int:
        """Weights and biases of one network."""
        return sum(n_out * (n_in + 1) for n_out, n_in in self.shapes)
