"""The learner of MFVI: mean-field variational inference over all weights of a network, with Pyro."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

import numpy as np
import pyro
import torch
from numpy.typing import NDArray
from pyro import distributions as dist
from pyro.infer.autoguide import AutoDiagonalNormal, init_to_value
from torch import Tensor

from bdkn.data.rows import Rows
from bdkn.networks import ACTIVATIONS
from bdkn.predictive import GaussianMixture
from bdkn_paper.baselines.feature_map import FeatureMap
from bdkn_paper.baselines.learners.batches import Batches
from bdkn_paper.baselines.learners.features import as_array

_PYRO = RLock()
"""Pyro keeps its state in one place for all threads of a process."""


class MeanFieldLearner:
    """Learner of y = network(x; w) + N(0, σ²), w ~ N(0, prior²), with a diagonal Gaussian as the posterior of w.

    All weights are one vector, which makes no difference to a diagonal guide and takes Pyro a fifth of the time. The
    standard deviation σ is a parameter. Model and guide are Pyro's. The bound is that of Pyro's ``Trace_ELBO``, written
    out, which halves the time again (``benchmarks/bounds.py``), as Pyro's bookkeeping took most of a step.
    """

    def __init__(
        self,
        rows: Rows,
        held_out: Rows | None,
        start: FeatureMap,
        like: Tensor,
        seed: np.random.SeedSequence,
        *,
        batch_size: int | None,
        prior_scale: float,
        initial_scale: float,
        n_particles: int,
        n_samples: int,
    ) -> None:
        self.batches, self._held_out = Batches.of(rows, like, batch_size, seed), held_out
        self._activation, self._shapes = ACTIVATIONS[start.activation].torch, [W.shape for W, _ in start.layers]
        self._name, self._n_samples = start.activation, n_samples
        self._prior = torch.tensor(_prior_scales(self._shapes, prior_scale)).to(like)
        self._log_noise = torch.zeros((), dtype=like.dtype, device=like.device, requires_grad=True)
        first = np.concatenate([part.ravel() for layer in start.layers for part in layer])
        with _local():
            at = init_to_value(values={"w": torch.tensor(first).to(like)})
            self.guide = AutoDiagonalNormal(self.model, init_loc_fn=at, init_scale=float(initial_scale))
            self.guide(*next(iter(self.batches)))
        self._n_particles = n_particles

    def model(self, X: Tensor, y: Tensor) -> None:
        """Define the joint distribution of weights and targets for Pyro; a batch represents all rows."""
        w = pyro.sample("w", dist.Normal(torch.zeros_like(self._prior), self._prior).to_event(1))
        with pyro.poutine.scale(scale=len(self.batches) / len(y)):
            pyro.sample("y", dist.Normal(self._network(w, X), self._log_noise.exp()).to_event(1), obs=y)

    def parameters(self) -> list[Tensor]:
        """Return means and scales of the weights, and the logarithm of σ."""
        return [*self.guide.parameters(), self._log_noise]

    def decayed(self) -> list[Tensor]:
        """Return the means of the weights."""
        return [self.guide.loc]

    def losses(self) -> Iterator[Tensor]:
        """Yield the negative evidence lower bound per row of each batch."""
        for X, y in self.batches:
            yield -self.bound(X, y) / len(self.batches)

    def bound(self, X: Tensor, y: Tensor) -> Tensor:
        """Return E_q[log p(y ∣ w) + log p(w) - log q(w)] over a few draws of w; a batch represents all rows."""
        loc: Tensor = self.guide.loc
        scale: Tensor = self.guide.scale
        log_σ = self._log_noise
        ε = torch.randn(self._n_particles, len(loc), dtype=loc.dtype, device=loc.device)
        w = torch.addcmul(loc, scale, ε)
        error = (y - self._network(w, X)).square().mean() * (-2 * log_σ).exp()
        log_likelihood = -len(self.batches) * ((error + math.log(2 * math.pi)) / 2 + log_σ)
        exponents = ((w / self._prior).square().sum() - ε.square().sum()) / (2 * self._n_particles)
        return log_likelihood - exponents + scale.log().sum() - self._prior.log().sum()

    def held_out_nll(self) -> float:
        """Return the mean negative log density of the held-out targets under the mixture of drawn networks."""
        if self._held_out is None:
            raise ValueError("held_out_nll needs held-out rows; got None")
        means = self.draws().outputs(self._held_out.X)
        return -float(GaussianMixture(means, np.sqrt(self.noise)).logpdf(self._held_out.y).mean())

    @property
    def noise(self) -> float:
        """The variance σ²."""
        return (2 * self._log_noise).exp().item()

    @torch.no_grad()
    def draws(self) -> FeatureMap:
        """Return a stack of networks with weights drawn from the guide."""
        loc, scale = self.guide.loc, self.guide.scale
        w = loc + scale * torch.randn(self._n_samples, len(loc), dtype=loc.dtype).to(loc.device)
        parts = [as_array(part) for part in torch.split(w, self._sizes, dim=1)]
        weights = [W.reshape(-1, *shape) for W, shape in zip(parts[::2], self._shapes, strict=True)]
        return FeatureMap(self._name, tuple(zip(weights, parts[1::2], strict=True)), linear_last=True)

    @property
    def _sizes(self) -> list[int]:
        return [size for n_out, n_in in self._shapes for size in (n_out * n_in, n_out)]

    def _network(self, w: Tensor, X: Tensor) -> Tensor:
        """Return the outputs (..., n) of networks with weights (..., n_weights) for rows."""
        parts, last = torch.split(w, self._sizes, dim=-1), len(self._shapes) - 1
        for layer, shape in enumerate(self._shapes):
            z = X @ parts[2 * layer].reshape(*w.shape[:-1], *shape).mT + parts[2 * layer + 1].unsqueeze(-2)
            X = z if layer == last else self._activation(z)
        return X[..., 0]


def _prior_scales(shapes: list[Any], omega: float) -> NDArray[np.float64]:
    """Return the prior standard deviation of each weight, ω/√n_in, and of each bias, 1."""
    scales = [part for n_out, n_in in shapes for part in (np.full(n_out * n_in, omega / np.sqrt(n_in)), np.ones(n_out))]
    return np.concatenate(scales)


@contextmanager
def _local() -> Iterator[None]:
    """Keep Pyro's parameters out of its store for the whole process, and other threads out of Pyro."""
    with _PYRO, pyro.settings.context(module_local_params=True):
        yield
