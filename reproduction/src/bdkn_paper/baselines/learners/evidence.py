"""The learner of BLL and LDBLL: the marginal likelihood of a Bayesian linear model, differentiable by its features."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Normal, StudentT

from bdkn.data.rows import Rows
from bdkn.inference import Posterior, Prior, Statistics, posterior
from bdkn.typing import FloatArray
from bdkn_paper.baselines.fitted import CERTAIN
from bdkn_paper.baselines.learners.features import TorchFeatures, as_array

LEAST_NOISE = 1e-12
"""Noise variance that is always added, in scaled units: without it a perfect fit has infinite evidence."""


@dataclass(frozen=True)
class LinearModel:
    """Posterior of y = Φw + ε, w | σ² ~ N(0, σ² t I), ε ~ N(0, σ²): Λₙ = ΦᵀΦ + I/t = L Lᵀ and μₙ = Λₙ⁻¹Φᵀy."""

    L: Tensor
    μ: Tensor
    energy: Tensor
    """‖y - Φμₙ‖² + ‖μₙ‖²/t, a sum of squares; the usual form yᵀy - μₙᵀΛₙμₙ subtracts large numbers."""
    log_ratio: Tensor
    """½ log |Λₙ|/|Λ₀|."""
    n: int

    @classmethod
    def of(cls, Φ: Tensor, y: Tensor, t: Tensor) -> LinearModel:
        """Return the posterior given the rows of Φ and their targets."""
        D = Φ.shape[1]
        L = torch.linalg.cholesky(Φ.mT @ Φ + torch.eye(D, dtype=Φ.dtype, device=Φ.device) / t)
        μ = torch.cholesky_solve((Φ.mT @ y)[:, None], L)[:, 0]
        energy = (y - Φ @ μ).square().sum() + μ.square().sum() / t
        return cls(L, μ, energy, L.diagonal().log().sum() + D / 2 * t.log(), len(y))

    def log_evidence(self, noise: Tensor | None) -> Tensor:
        """Return log p(y | Φ), with the weights integrated out and, if ``noise`` is None, σ² under Jeffreys' prior."""
        n, energy = self.n, self.energy + self.n * LEAST_NOISE
        if noise is None:
            return math.lgamma(n / 2) - n / 2 * (math.log(2 * math.pi) + (energy / 2).log()) - self.log_ratio
        return -(n * (2 * math.pi * noise).log() + energy / noise) / 2 - self.log_ratio

    def log_densities(self, Φ: Tensor, y: Tensor, noise: Tensor | None) -> Tensor:
        """Return the log densities of the targets of other rows: Gaussian, or Student-t with n degrees of freedom."""
        leverage = 1 + torch.linalg.solve_triangular(self.L, Φ.mT, upper=False).square().sum(dim=0)
        loc, scale = Φ @ self.μ, (self.noise(noise) * leverage).sqrt()
        predictive = StudentT(self.n, loc, scale) if noise is None else Normal(loc, scale)
        log_densities: Tensor = predictive.log_prob(y)  # type: ignore[no-untyped-call]
        return log_densities

    def noise(self, noise: Tensor | None) -> Tensor:
        """Return σ², or its posterior scale b/a if it is integrated out."""
        return self.energy / self.n + LEAST_NOISE if noise is None else noise


Penalty = Callable[[LinearModel, Tensor], Tensor]
"""Function of a linear model and its noise variance that is added to the loss."""


class EvidenceLearner:
    """Learner of features, prior variance and noise by the exact evidence of all rows.

    ``noise`` is a number if it is known, None if it is integrated out, "learned" if it is a parameter.
    ``prior_variance`` of the weights is a number or "learned"; if the noise is integrated out, it is relative to the
    noise. ``penalty`` is added to the loss. With ``stale``, the posterior is computed from the features before the last
    step.
    """

    def __init__(
        self,
        rows: Rows,
        held_out: Rows | None,
        features: TorchFeatures,
        like: Tensor,
        *,
        noise: float | str | None,
        prior_variance: float | str,
        penalty: Penalty | None = None,
        stale: bool = False,
    ) -> None:
        self.X, self.y = _on_device(rows, like)
        self.features, self._penalty = features, penalty
        self._held_out = None if held_out is None else _on_device(held_out, like)
        self._before = features.copied() if stale else None
        self._log_noise = None if noise is None else _logarithm(noise, like)
        self._log_variance = _logarithm(prior_variance, like)

    def parameters(self) -> list[Tensor]:
        """Return the weights of the features, and noise and prior variance if they are learned."""
        scales = [part for part in (self._log_noise, self._log_variance) if part is not None and part.requires_grad]
        return self.features.parameters() + scales

    def decayed(self) -> list[Tensor]:
        """Return the weights of the features."""
        return self.features.parameters()

    def losses(self) -> Iterator[Tensor]:
        """Yield the negative log evidence per row plus the penalty."""
        if self._before is not None:
            self._before = self.features.copied()
        model = self._model(self.features)
        loss = -model.log_evidence(self._noise) / model.n
        yield loss if self._penalty is None else loss + self._penalty(model, model.noise(self._noise))

    @torch.no_grad()
    def held_out_nll(self) -> float:
        """Return the mean negative log density of the held-out targets, faster than by way of ``posterior``."""
        if self._held_out is None:
            raise ValueError("held_out_nll needs held-out rows; got None")
        X, y = self._held_out
        model = self._model(self._before or self.features)
        return -model.log_densities(design(self.features(X)), y, self._noise).mean().item()

    @torch.no_grad()
    def posterior(self) -> Posterior:
        """Return the posterior of weights and noise; known noise is the limit of very many degrees of freedom."""
        features = self._before or self.features
        Φ = _with_constant(features.frozen()(self.X.numpy(force=True)))
        prior = Prior.isotropic(Φ.shape[1], self._t.item(), b0=len(Φ) * LEAST_NOISE / 2)
        found = posterior(Statistics.from_rows(Φ, as_array(self.y)), prior)
        if self._noise is None:
            return found
        return Posterior(found.mean, found.root, CERTAIN, CERTAIN * self._noise.item(), prior)

    def _model(self, features: TorchFeatures) -> LinearModel:
        return LinearModel.of(design(features(self.X)), self.y, self._t)

    @property
    def _noise(self) -> Tensor | None:
        return None if self._log_noise is None else self._log_noise.exp()

    @property
    def _t(self) -> Tensor:
        """The prior variance of the weights relative to the noise."""
        log_t = self._log_variance if self._log_noise is None else self._log_variance - self._log_noise
        return log_t.exp()


def design(φ: Tensor) -> Tensor:
    """Return features with a constant appended."""
    return torch.cat([φ, torch.ones_like(φ[:, :1])], dim=1)


def _on_device(rows: Rows, like: Tensor) -> tuple[Tensor, Tensor]:
    return torch.tensor(rows.X).to(like), torch.tensor(rows.y).to(like)


def _with_constant(φ: FloatArray) -> FloatArray:
    return np.concatenate([φ, np.ones((len(φ), 1))], axis=1)


def _logarithm(given: float | str, like: Tensor) -> Tensor:
    """Return the logarithm of a number, or a parameter that starts at log 1 if ``given`` is "learned"."""
    learned = isinstance(given, str)
    value = 0.0 if isinstance(given, str) else math.log(given)
    return torch.full((), value, dtype=like.dtype, device=like.device, requires_grad=learned)
