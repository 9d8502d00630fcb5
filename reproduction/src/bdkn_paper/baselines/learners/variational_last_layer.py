"""The learner of VBLL: a variational Bayesian last layer of the package ``vbll``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import vbll
from torch import Tensor

from bdkn.data.rows import Rows
from bdkn.predictive import Gaussian
from bdkn_paper.baselines.fitted import VariationalLastLayer
from bdkn_paper.baselines.learners.batches import Batches
from bdkn_paper.baselines.learners.features import TorchFeatures, as_array


class LastLayerLearner:
    """Learner of features and of a ``vbll.Regression`` on them."""

    def __init__(
        self,
        rows: Rows,
        held_out: Rows | None,
        features: TorchFeatures,
        like: Tensor,
        seed: np.random.SeedSequence,
        *,
        n_features: int,
        batch_size: int | None,
        parameterization: str,
        prior_variance: float,
        wishart_scale: float,
        dof: float,
        initial_noise: float | None,
    ) -> None:
        self.features, self._held_out = features, held_out
        self.batches = Batches.of(rows, like, batch_size, seed)
        self.head = vbll.Regression(
            n_features,
            1,
            regularization_weight=1 / len(rows.y),
            parameterization=parameterization,
            prior_scale=prior_variance * n_features,  # the package divides by the number of features
            wishart_scale=wishart_scale,
            dof=dof,
        ).to(like)
        if initial_noise is not None:  # otherwise the package draws log σ with scale log(wishart_scale)
            torch.nn.init.constant_(self.head.noise_logdiag, math.log(initial_noise) / 2)

    def parameters(self) -> list[Tensor]:
        """Return the weights of the features and the parameters of the last layer."""
        return self.features.parameters() + [part for part in self.head.parameters() if part.requires_grad]

    def decayed(self) -> list[Tensor]:
        """Return the weights of the features."""
        return self.features.parameters()

    def losses(self) -> Iterator[Tensor]:
        """Yield the negative bound per row of each batch."""
        for X, y in self.batches:
            yield -bound(self.head, self.features(X), y)

    def held_out_nll(self) -> float:
        """Return the mean negative log density of the held-out targets."""
        if self._held_out is None:
            raise ValueError("held_out_nll needs held-out rows; got None")
        mean, variance = self.frozen().moments(self.features.frozen()(self._held_out.X))
        return -float(Gaussian(mean, np.sqrt(variance)).logpdf(self._held_out.y).mean())

    @torch.no_grad()
    def frozen(self) -> VariationalLastLayer:
        """Return the present last layer as arrays."""
        W = self.head.W()
        root = as_array(W.chol_covariance[0])
        return VariationalLastLayer(as_array(W.mean[0]), root @ root.T, self.head.noise().scale.item() ** 2)


def bound(head: vbll.Regression, φ: Tensor, y: Tensor) -> Tensor:
    """Return the lower bound of the log evidence per row, E_q[log p(y ∣ w, σ²)] + (log p(σ²) - KL(q ‖ p)) / n.

    It is the negative of the package's ``train_loss_fn``, which computes a predictive distribution in every step and
    copies the root of the covariance for every row: a step took three times as long (``benchmarks/bounds.py``).
    """
    below = getattr(head, "W_offdiag", None)
    prior = (float(head.prior_scale), float(head.dof), float(head.wishart_scale), float(head.regularization_weight))
    value: Tensor = _Bound.apply(φ, y, head.W_mean, head.W_logdiag, below, head.noise_logdiag, prior)  # type: ignore[no-untyped-call]
    return value


class _Bound(torch.autograd.Function):
    """The bound with its gradient in closed form, in few operations: for small layers the calls take most of the time.

    w ~ N(m, RRᵀ), with R lower triangular: exp(log_s) on the diagonal and ``below``, if not None, below it. All have
    a leading axis of one output, as in the package.
    """

    @staticmethod
    def forward(
        ctx: Any,
        φ: Tensor,
        y: Tensor,
        m: Tensor,
        log_s: Tensor,
        below: Tensor | None,
        log_σ: Tensor,
        prior: tuple[float, float, float, float],
    ) -> Tensor:
        t, dof, scale, weight = prior
        m, s = m[0], log_s[0].exp()
        log_noise, precision = log_σ.item(), (-2 * log_σ).exp().item()
        R = torch.diag(s) if below is None else torch.tril(below[0], -1).diagonal_scatter(s)
        φR, error = φ @ R, torch.addmv(y, φ, m, alpha=-1)
        squared = (_squared(error) + _squared(φR)) / len(y)
        log_likelihood = -(precision * squared + math.log(2 * math.pi)) / 2 - log_noise
        log_p_noise = -2 * dof * log_noise - scale * precision / 2
        kl = ((_squared(m) + _squared(R)) / t + len(m) * math.log(t)) / 2 - log_s.sum().item()
        ctx.save_for_backward(φ, m, s, R, φR, error)
        ctx.precision, ctx.squared, ctx.prior, ctx.dense = precision, squared, prior, below is not None
        return φ.new_tensor(log_likelihood + weight * (log_p_noise - kl))

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        (φ, m, s, R, φR, error), (t, dof, scale, weight) = ctx.saved_tensors, ctx.prior
        slope, precision = slopes[0].item(), ctx.precision
        by_row, by_prior = slope * precision / len(error), slope * weight / t
        to_φ = torch.addr(φR @ R.mT, error, m, beta=-by_row, alpha=by_row)
        to_m = torch.addmv(m, φ.mT, error, beta=-by_prior, alpha=by_row)
        to_R = torch.addmm(R, φ.mT, φR, beta=-by_prior, alpha=-by_row)
        to_log_s = to_R.diagonal() * s + slope * weight
        to_below = torch.tril(to_R, -1)[None] if ctx.dense else None
        to_log_σ = s.new_tensor([slope * (precision * ctx.squared - 1 + weight * (scale * precision - 2 * dof))])
        return to_φ, None, to_m[None], to_log_s[None], to_below, to_log_σ, None


def _squared(part: Tensor) -> float:
    """Return the sum of squares."""
    flat = part.ravel()
    return (flat @ flat).item()
