"""Feature maps: the layers of a network as a function of its inputs, with its derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from bdkn.networks.spec import ACTIVATIONS, NUMPY, Layer
from bdkn.typing import FloatArray

_ROWS_AT_ONCE = 1024
"""Rows per block of a stack of maps, whose layers of all rows would not fit into memory."""


@dataclass(frozen=True)
class FeatureMap:
    """x ↦ φ(x): layers (W, b) with W of shape (..., n_out, n_in), each followed by the activation.

    With ``linear_last`` the last layer is linear. Leading dimensions of the weights are those of a stack of maps.
    Without layers φ(x) = x.
    """

    activation: str
    layers: tuple[Layer, ...]
    linear_last: bool = False

    @classmethod
    def draw(
        cls, widths: Sequence[int], activation: str, generator: np.random.Generator, *, linear_last: bool = False
    ) -> FeatureMap:
        """Return a map with weights and biases uniform in ±1/√fan_in, as PyTorch's ``nn.Linear`` draws them."""
        layers = []
        for n_in, n_out in pairwise(widths):
            bound = 1 / np.sqrt(n_in)
            layers.append((generator.uniform(-bound, bound, (n_out, n_in)), generator.uniform(-bound, bound, n_out)))
        return cls(activation, tuple(layers), linear_last)

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Return the features (..., n, n_out) of the rows, in double precision."""
        z = np.asarray(X, dtype=np.float64)
        for layer, (W, b) in enumerate(self.layers):
            z = z @ np.swapaxes(W, -1, -2) + b[..., None, :]
            z = z if self._is_linear(layer) else np.asarray(ACTIVATIONS[self.activation].value(z))
        return z

    def rescaled(self, factor: float, shift: float) -> FeatureMap:
        """Return the map whose features, linear in its last layer, are ``factor`` φ(x) + ``shift``."""
        *before, (W, b) = self.layers
        return replace(self, layers=(*before, (factor * W, factor * b + shift)))

    def preceded(self, scale: FloatArray, shift: FloatArray) -> FeatureMap:
        """Return the map x ↦ φ(``scale`` x + ``shift``), with one scale and one shift per input."""
        (W, b), *after = self.layers
        return replace(self, layers=((W * scale, b + W @ shift), *after))

    def outputs(self, X: ArrayLike) -> FloatArray:
        """Return the outputs (n, n_maps) of a stack of maps with one output each, computed in blocks of rows."""
        rows = np.asarray(X)
        starts = range(0, len(rows), _ROWS_AT_ONCE)
        return np.concatenate([self(rows[i : i + _ROWS_AT_ONCE])[:, :, 0].T for i in starts])

    def derivatives(self, X: ArrayLike) -> FloatArray:
        """Return ∂φ/∂x (n, n_out, n_in) at the rows, by forward mode: the chain rule from first to last layer."""
        z, activation = np.asarray(X, dtype=np.float64), ACTIVATIONS[self.activation]
        J = np.broadcast_to(np.eye(z.shape[1]), (len(z), z.shape[1], z.shape[1]))
        for layer, (W, b) in enumerate(self.layers):
            z, J = z @ W.T + b, W @ J
            if not self._is_linear(layer):
                J = activation.slope(NUMPY, z)[:, :, None] * J
                z = np.asarray(activation.value(z))
        return np.asarray(J)

    def _is_linear(self, layer: int) -> bool:
        return self.linear_last and layer == len(self.layers) - 1
