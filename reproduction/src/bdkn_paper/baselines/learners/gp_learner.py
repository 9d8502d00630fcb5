"""The learner of GP and DKL: a Gaussian process on inputs or learned features, with GPyTorch's kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gpytorch
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bdkn.data.rows import Rows
from bdkn_paper.baselines.conditioned_gp import BOUND, ConditionedGP, condition, safe_cholesky
from bdkn_paper.baselines.feature_map import FeatureMap
from bdkn_paper.baselines.learners.batches import Batches
from bdkn_paper.baselines.learners.features import TorchFeatures, as_array, to_bounds


class GPLearner:
    """Learner of a Gaussian process with constant mean, RBF kernel and Gaussian noise.

    The kernel has ``n_scales`` length scales, one per feature; None is one for all. Parameters start at GPyTorch's
    values, length scales at ``lengthscale`` if it is given. Without ``features`` the kernel receives the inputs. With
    ``batch_size``, a step uses the marginal likelihood of one batch; with ``n_inducing``, that many inducing points are
    learned. ``bounded`` maps each input, and all features together, linearly so that the training rows fill a fixed
    range; in batches, the features of the batch.
    """

    def __init__(
        self,
        rows: Rows,
        held_out: Rows | None,
        like: Tensor,
        seed: np.random.SeedSequence,
        *,
        features: TorchFeatures | None = None,
        n_scales: int | None,
        lengthscale: float | None = None,
        minimum_noise: float,
        batch_size: int | None = None,
        n_inducing: int | None = None,
        bounded: bool = False,
    ) -> None:
        self._inputs = _to_bounds(rows.X) if bounded else None
        self.batches = Batches.of(self._bounded(rows), like, batch_size, seed)
        self.features, self._like = features, like
        self._held_out = None if held_out is None else self._bounded(held_out)
        self._inducing = self._first_inducing(n_inducing)
        self.mean = gpytorch.means.ConstantMean().to(like)
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=n_scales)).to(like)
        if lengthscale is not None:
            self.kernel.base_kernel.lengthscale = lengthscale
        floor = gpytorch.constraints.GreaterThan(minimum_noise)
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=floor).to(like)

    def parameters(self) -> list[Tensor]:
        """Return the hyperparameters and, if there are features, their weights."""
        modules: tuple[torch.nn.Module, ...] = (self.mean, self.kernel, self.likelihood)
        own = [part for module in modules for part in module.parameters()]
        points = [] if self._inducing is None else [self._inducing]
        return own + points + (self.features.parameters() if self.features else [])

    def decayed(self) -> list[Tensor]:
        """Return the weights of the features, if there are any."""
        return self.features.parameters() if self.features else []

    def losses(self) -> Iterator[Tensor]:
        """Yield the negative log marginal likelihood per row of each batch."""
        for X, y in self.batches:
            yield self.loss(X, y)

    def loss(self, X: Tensor, y: Tensor) -> Tensor:
        """Return -log N(y; mean, K + noise I) per row, with inducing points its upper bound."""
        z = self.kernel_inputs(X)
        if self._inducing is not None:
            return self._bound(self._inducing, z, y - self.mean(z)) / len(y)
        K = self.kernel(z).to_dense() + torch.diag(self.likelihood.noise.expand(len(y)))
        return negative_log_density(K, y - self.mean(z)) / len(y)

    def kernel_inputs(self, X: Tensor) -> Tensor:
        """Return rows, or their features, as the kernel receives them."""
        if self.features is None:
            return X
        z = self.features(X)
        if self._inputs is None:
            return z
        factor, shift = to_bounds(z)
        return factor * z + shift

    def _bound(self, u: Tensor, z: Tensor, r: Tensor) -> Tensor:
        """Return -log N(r; 0, Q + noise I) + tr(K - Q)/(2 noise) with Q = K_fu K_uu⁻¹ K_uf."""
        noise, n = self.likelihood.noise[0], len(r)
        _, LB, c, A = condition(self.kernel(u).to_dense(), self.kernel(u, z).to_dense(), r, noise)
        unexplained = n * self.kernel.outputscale / noise - A.square().sum()
        fit = n * (2 * math.pi * noise).log() + r @ r / noise - c @ c
        loss: Tensor = (fit + unexplained) / 2 + LB.diagonal().log().sum()
        return loss

    @torch.no_grad()
    def _first_inducing(self, count: int | None) -> Tensor | None:
        """Return the first inducing points: ``count`` rows drawn at random, or their features."""
        if count is None:
            return None
        chosen = self.batches.generator.permutation(len(self.batches))[:count]
        rows = self.batches.X[torch.as_tensor(chosen, device=self.batches.X.device)]
        return self.kernel_inputs(rows).clone().requires_grad_()

    def held_out_nll(self) -> float:
        """Return the mean negative log density of the held-out targets."""
        if self._held_out is None:
            raise ValueError("held_out_nll needs held-out rows; got None")
        predicted = self.frozen().predictive(self._values(self._held_out.X))
        return -float(predicted.logpdf(self._held_out.y).mean())

    def frozen(self) -> ConditionedGP:
        """Return the present process, conditioned on the training rows, as arrays."""
        return ConditionedGP(
            X=self._values(self.batches.X.numpy(force=True)),
            y=as_array(self.batches.y),
            mean=self.mean.constant.item(),
            outputscale=self.kernel.outputscale.item(),
            lengthscale=as_array(self.kernel.base_kernel.lengthscale[0]),
            noise=self.likelihood.noise.item(),
            device=str(self._like.device),
            dtype=str(self._like.dtype).removeprefix("torch."),
            inducing=None if self._inducing is None else as_array(self._inducing),
        )

    def frozen_features(self) -> FeatureMap | None:
        """Return the map from inputs to what the kernel receives; None if that is the inputs."""
        features = self._frozen_features()
        return features if features is None or self._inputs is None else features.preceded(*self._inputs)

    @torch.no_grad()
    def _frozen_features(self) -> FeatureMap | None:
        if self.features is None or self._inputs is None:
            return None if self.features is None else self.features.frozen()
        factor, shift = to_bounds(self.features(self.batches.X))
        return self.features.frozen().rescaled(factor.item(), shift.item())

    def _values(self, X: Any) -> Any:
        features = self._frozen_features()
        if features is None:
            return np.asarray(X, dtype=np.float64)
        return features(X) if self._inputs is None else np.clip(features(X), -BOUND, BOUND)

    def _bounded(self, rows: Rows) -> Rows:
        if self._inputs is None:
            return rows
        scale, shift = self._inputs
        return replace(rows, X=(scale * rows.X + shift).astype(np.float32))


def _to_bounds(X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the scale and the shift that map each input to [-1, 1], and a constant input to zero."""
    low, high = np.asarray(X, dtype=np.float64).min(axis=0), np.asarray(X, dtype=np.float64).max(axis=0)
    scale = 2.0 / np.where(high > low, high - low, np.inf)
    return scale, -scale * (high + low) / 2.0


def negative_log_density(K: Tensor, r: Tensor) -> Tensor:
    """Return -log N(r; 0, K), with its gradient by K in closed form, ½ (K⁻¹ - K⁻¹ r rᵀ K⁻¹).

    Differentiating the Cholesky factorisation takes more than twice as long.
    """
    value: Tensor = _NegativeLogDensity.apply(K, r)  # type: ignore[no-untyped-call]
    return value


class _NegativeLogDensity(torch.autograd.Function):
    """-log N(r; 0, K) and its gradient by K and r."""

    @staticmethod
    def forward(ctx: Any, K: Tensor, r: Tensor) -> Tensor:
        L = safe_cholesky(K)
        α = torch.cholesky_solve(r[:, None], L)[:, 0]
        by_K = torch.cholesky_inverse(L) if ctx.needs_input_grad[0] else torch.empty(0)
        ctx.save_for_backward(by_K, α)
        return (r @ α + len(r) * math.log(2 * math.pi)) / 2 + L.diagonal().log().sum()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor]:
        inverse, α = ctx.saved_tensors
        by_K = inverse.addr(α, α, alpha=-1).mul_(upstream[0] / 2)
        return by_K, α * upstream[0]
