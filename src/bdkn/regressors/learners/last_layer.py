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
        """Yield the package's loss, one batch after another."""
        for X, y in self.batches:
            yield self.head(self.features(X)).train_loss_fn(y[:, None])

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
