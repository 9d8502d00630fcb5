"""Bayesian deep ensembles by microcanonical Langevin sampling, ``sklearn-contrib-bde``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bdkn.data.rows import Rows
from bdkn.data.scaling import Standardizer, TargetScaler
from bdkn.typing import FloatArray
from bdkn_paper.peers.mixture import SampledMixture
from bdkn_paper.peers.peer import Peer

_ROWS = 256
"""Rows predicted at once: all sampled networks hold their layers for these rows in memory."""

_LEAST_SCALE = 1e-6  # the library adds this to every scale


class BDE(Peer):
    """``bde.BdeRegressor`` with the settings of the regression example in its README.

    The library's own defaults are only for a first try. Inputs and targets are standardised with the training rows, as
    the example does.

    The prediction is the mixture of all sampled networks, ``n_members * n_samples / n_thinning`` Gaussians of equal
    weight. The library's mean and standard deviation are those of this mixture, and it estimates quantiles by draws
    from it. ``predict(raw=True)`` returns the means and, unlike its documentation says, the scales before the softplus.

    The number of cores is set once per process by ``XLA_FLAGS``, before JAX is imported; ``n_jobs`` has no effect.
    """

    module, packages = "bde", ("sklearn-contrib-bde", "jax", "blackjax")

    def __init__(
        self,
        *,
        hidden_layers: Sequence[int] = (16, 16),
        n_members: int = 8,
        epochs: int = 200,
        validation_split: float = 0.15,
        lr: float = 1e-3,
        weight_decay: float = 1e-4,
        warmup_steps: int = 5000,
        n_samples: int = 2000,
        n_thinning: int = 2,
        patience: int = 10,
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.hidden_layers = hidden_layers
        self.n_members = n_members
        self.epochs = epochs
        self.validation_split = validation_split
        self.lr = lr
        self.weight_decay = weight_decay
        self.warmup_steps = warmup_steps
        self.n_samples = n_samples
        self.n_thinning = n_thinning
        self.patience = patience
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: FloatArray, y: FloatArray) -> Self:
        """Fit to the rows of ``X`` and their targets."""
        given = self.get_params()
        seed, layers = given.pop("random_state"), list(given.pop("hidden_layers"))
        del given["n_jobs"]
        self.inputs_, self.target_ = Standardizer.fit(Rows(X, y)), TargetScaler.fit(y)
        self.model_ = self.library().BdeRegressor(hidden_layers=layers, seed=seed, **given)
        self.model_.fit(x=self.inputs_.transform(X), y=self.target_.transform(y))
        return self

    def predict_dist(self, X: FloatArray) -> SampledMixture:
        """Return the mixture of each row."""
        rows = self.inputs_.transform(X)
        parts = [self._networks(rows[start : start + _ROWS]) for start in range(0, len(rows), _ROWS)]
        mean, before = np.moveaxis(np.concatenate(parts), 2, 0)
        scale = np.logaddexp(0, before) + _LEAST_SCALE
        return SampledMixture(self.target_.scale * mean + self.target_.mean, self.target_.scale * scale)

    def _networks(self, rows: NDArray[np.float32]) -> FloatArray:
        """Return the raw outputs of all sampled networks, (n, networks, 2)."""
        raw = np.asarray(self.model_.predict(rows, raw=True), dtype=np.float64)
        return raw.reshape(-1, *raw.shape[2:]).swapaxes(0, 1)
