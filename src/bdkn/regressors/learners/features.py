"""A ``FeatureMap`` in the course of its training."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bdkn.networks import FeatureMap
from bdkn.training.torch_models import ACTIVATIONS


class TorchFeatures:
    """The layers of a feature map as parameters."""

    def __init__(self, start: FeatureMap, like: Tensor) -> None:
        self._start = start
        self.layers = [tuple(torch.tensor(part).to(like).requires_grad_() for part in layer) for layer in start.layers]

    def parameters(self) -> list[Tensor]:
        """Return all weights and biases."""
        return [part for layer in self.layers for part in layer]

    def __call__(self, X: Tensor) -> Tensor:
        """Return the features (n, n_out) of rows."""
        for layer, (W, b) in enumerate(self.layers):
            X = self._activated(layer, torch.addmm(b, X, W.mT))
        return X

    def with_derivatives(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Return the features and ∂φ/∂x (n, n_out, n_in), by forward mode, both differentiable by the weights."""
        J = torch.eye(X.shape[1], dtype=X.dtype, device=X.device).expand(len(X), -1, -1)
        for layer, (W, b) in enumerate(self.layers):
            z = torch.addmm(b, X, W.mT)
            X, slopes = torch.func.jvp(partial(self._activated, layer), (z,), (torch.ones_like(z),))
            J = slopes[:, :, None] * (W @ J)
        return X, J

    def frozen(self) -> FeatureMap:
        """Return the map as it is now."""
        layers = tuple((as_array(W), as_array(b)) for W, b in self.layers)
        return FeatureMap(self._start.activation, layers, self._start.linear_last)

    def _activated(self, layer: int, z: Tensor) -> Tensor:
        if self._start.linear_last and layer == len(self.layers) - 1:
            return z
        return ACTIVATIONS[self._start.activation](z)


def as_array(part: Tensor) -> NDArray[np.float64]:
    """Return a copy of a tensor in double precision."""
    return part.numpy(force=True).astype(np.float64)
