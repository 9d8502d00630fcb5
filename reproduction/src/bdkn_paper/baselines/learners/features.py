"""A ``FeatureMap`` in training."""

from __future__ import annotations

from copy import copy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bdkn.networks import ACTIVATIONS
from bdkn.networks.spec import torch_functions
from bdkn.typing import Array
from bdkn_paper.baselines.conditioned_gp import BOUND
from bdkn_paper.baselines.feature_map import FeatureMap


class TorchFeatures:
    """The layers of a feature map as tensors that are trained."""

    def __init__(self, start: FeatureMap, like: Tensor) -> None:
        self._start = start
        self.layers = [(_parameter(W, like), _parameter(b, like)) for W, b in start.layers]

    def parameters(self) -> list[Tensor]:
        """Return all weights and biases."""
        return [part for layer in self.layers for part in layer]

    def __call__(self, X: Tensor) -> Tensor:
        """Return the features (n, n_out) of rows."""
        for layer, (W, b) in enumerate(self.layers):
            X = self._activated(layer, torch.addmm(b, X, W.mT))
        return X

    def with_derivatives(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Return the features and ∂φ/∂x (n, n_in, n_out), by forward mode; both are differentiable by the weights.

        With this order of axes a layer is one matrix product for all rows and inputs.
        """
        J = torch.eye(X.shape[1], dtype=X.dtype, device=X.device).expand(len(X), -1, -1)
        for layer, (W, b) in enumerate(self.layers):
            z = torch.addmm(b, X, W.mT)
            X, J = self._activated(layer, z), J @ W.mT
            J = J if self._is_linear(layer) else self._slope(z)[:, None, :] * J
        return X, J

    def copied(self) -> TorchFeatures:
        """Return a copy on the same device that is not trained."""
        copied = copy(self)
        copied.layers = [(W.detach().clone(), b.detach().clone()) for W, b in self.layers]
        return copied

    def frozen(self) -> FeatureMap:
        """Return the present map as arrays."""
        layers = tuple((as_array(W), as_array(b)) for W, b in self.layers)
        return FeatureMap(self._start.activation, layers, self._start.linear_last)

    def _slope(self, z: Tensor) -> Tensor:
        """Return the slope of the activation at ``z``; that of leaky_relu is rounded to single precision.

        All recorded results of LDBLL were computed in this way. Exact slopes change them by up to 1e-5.
        """
        slope: Tensor = ACTIVATIONS[self._start.activation].slope(torch_functions(), z)
        return slope.float().to(z) if self._start.activation == "leaky_relu" else slope

    def _activated(self, layer: int, z: Tensor) -> Tensor:
        return z if self._is_linear(layer) else ACTIVATIONS[self._start.activation].torch(z)

    def _is_linear(self, layer: int) -> bool:
        return self._start.linear_last and layer == len(self.layers) - 1


def to_bounds(z: Tensor) -> tuple[Tensor, Tensor]:
    """Return the factor and the shift, the same for all features, that map them to [-BOUND, BOUND]."""
    low, high = z.min(), z.max()
    factor = 2 * BOUND / (high - low).clamp_min(torch.finfo(z.dtype).eps)
    return factor, -BOUND - factor * low


def _parameter(part: Array, like: Tensor) -> Tensor:
    return torch.tensor(part).to(like).requires_grad_()


def as_array(part: Tensor) -> NDArray[np.float64]:
    """Return a copy of a tensor in double precision."""
    return part.numpy(force=True).astype(np.float64)
