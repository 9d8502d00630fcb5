"""A variational Bayesian last layer, by the package ``vbll``."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
import vbll
from torch import Tensor

from bdkn.members import TrainingRows
from bdkn.predictive import Gaussian
from bdkn.regressors.last_layer import VariationalLastLayer
from bdkn.regressors.learners.batches import Batches
from bdkn.regressors.learners.features import TorchFeatures, as_array


class LastLayerLearner:
    """Features and ``vbll.Regression`` on them."""

    def __init__(
        self,
        rows: TrainingRows,
        held_out: TrainingRows | None,
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
        if (
            initial_noise is not None
        ):  # else a random one: the package draws its logarithm with scale log(wishart_scale)
            torch.nn.init.constant_(self.head.noise_logdiag, math.log(initial_noise) / 2)

    def parameters(self) -> list[Tensor]:
        """Return the weights of the features and the parameters of the last layer."""
        return self.features.parameters() + [part for part in self.head.parameters() if part.requires_grad]

    def decayed(self) -> list[Tensor]:
        """Return the weights of the features."""
        return self.features.parameters()

    def losses(self) -> Iterator[Tensor]:
        """Yield the negative bound a row, one batch after another."""
        for X, y in self.batches:
            yield -bound(self.head, self.features(X), y)

    def held_out_nll(self) -> float:
        """Return the mean negative log density of the targets held out."""
        if self._held_out is None:
            raise ValueError("no rows were held out")
        mean, variance = self.frozen().moments(self.features.frozen()(self._held_out.X))
        return -float(Gaussian(mean, np.sqrt(variance)).logpdf(self._held_out.y).mean())

    @torch.no_grad()
    def frozen(self) -> VariationalLastLayer:
        """Return the last layer as it is now."""
        W = self.head.W()
        root = as_array(W.chol_covariance[0])
        return VariationalLastLayer(as_array(W.mean[0]), root @ root.T, self.head.noise().scale.item() ** 2)


def bound(head: vbll.Regression, φ: Tensor, y: Tensor) -> Tensor:
    """Return the lower bound of the log evidence a row, E_q[log p(y ∣ w, σ²)] + (log p(σ²) - KL(q ‖ p)) / n.

    It is what the package's ``train_loss_fn`` negates. That builds a predictive distribution at every step, which
    training does not need, and copies the root of the covariance for every row: three times as long.
    """
    parts: tuple[Tensor, ...] = head.W_mean[0], head.W_logdiag[0], head.noise_logdiag[0]
    m, log_s, log_σ = parts
    σ2, s = (2 * log_σ).exp(), log_s.exp()
    root = torch.tril(head.W_offdiag[0], -1) + torch.diag(s) if hasattr(head, "W_offdiag") else torch.diag(s)
    error = (y - φ @ m).square() + (φ @ root).square().sum(dim=1)
    log_likelihood = -(error.mean() / σ2 + math.log(2 * math.pi)) / 2 - log_σ
    log_p_noise = -2 * float(head.dof) * log_σ - float(head.wishart_scale) / (2 * σ2)
    t, weight = float(head.prior_scale), float(head.regularization_weight)
    kl = (m.square().sum() / t + root.square().sum() / t + len(m) * math.log(t)) / 2 - log_s.sum()
    return log_likelihood + weight * (log_p_noise - kl)
