"""The prior of the latent derivative of LDBLL."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from bdkn_paper.baselines.learners.evidence import LinearModel
from bdkn_paper.baselines.learners.features import TorchFeatures

_BLOCK_CELLS = 2**22
"""Cells of the Jacobians that are held at once: rows times features times inputs."""

_LEAST_VARIANCE = 1e-6


@dataclass(frozen=True)
class DerivativePrior:
    """β times the mean, over rows near the training rows, of KL(N(0, γ) ‖ p(∂f/∂xⱼ | x, y)) summed over the inputs j.

    Under the posterior ∂f/∂x = Jᵀw is Gaussian with mean Jᵀμₙ and variances σ² diag(Jᵀ Λₙ⁻¹ J), J = ∂φ/∂x. The rows are
    new in every call: all training rows, or ``rows`` of them, plus noise N(0, jitter²).
    """

    features: TorchFeatures
    X: Tensor
    beta: float
    variance: float
    jitter: float
    rows: int | None
    generator: torch.Generator

    def __call__(self, model: LinearModel, noise: Tensor) -> Tensor:
        """Return the penalty under the posterior of a linear model."""
        points = self._points()
        step = max(1, _BLOCK_CELLS // (model.L.shape[0] * points.shape[1]))
        if len(points) <= step:
            return self.beta * self._divergence(points, model.L, model.μ, noise) / len(points)
        total = torch.zeros((), dtype=points.dtype, device=points.device)
        for chunk in torch.split(points, step):
            # Jacobians are computed again in the backward pass, so that only those of one chunk are held at once.
            total = total + checkpoint(self._divergence, chunk, model.L, model.μ, noise, use_reentrant=False)
        return self.beta * total / len(points)

    def _points(self) -> Tensor:
        X = self.X
        if self.rows is not None and self.rows < len(X):
            X = X[torch.randperm(len(X), generator=self.generator)[: self.rows].to(X.device)]
        noise = torch.randn(X.shape, generator=self.generator, dtype=X.dtype)
        return X + self.jitter * noise.to(X.device)

    def _divergence(self, X: Tensor, L: Tensor, μ: Tensor, noise: Tensor) -> Tensor:
        mean, variance = derivative(self.features, X, L, μ, noise)
        v = variance.clamp_min(_LEAST_VARIANCE)
        return ((self.variance + mean.square()) / v - 1 + (v / self.variance).log()).sum() / 2


def derivative(features: TorchFeatures, X: Tensor, L: Tensor, μ: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return posterior mean and variance of ∂f/∂x, each (n, n_inputs); the last weight is that of the constant."""
    _, J = features.with_derivatives(X)
    J = torch.cat([J, torch.zeros_like(J[:, :, :1])], dim=2)
    n, P, D = J.shape
    whitened = torch.linalg.solve_triangular(L, J.reshape(n * P, D).mT, upper=False)
    return J @ μ, noise * whitened.square().sum(0).reshape(n, P)
