"""The end of an epoch: losses are recorded, the hook is called, jobs stop early."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from bdkn.networks import Networks, Predictor
from bdkn.training.config import TrainingConfig
from bdkn.training.job import EpochReport, Hook, Trained
from bdkn.typing import Array, BoolArray, Float32Array

Outputs = Callable[[Float32Array], tuple[Array, Array]]
"""Maps rows to the means and variances of all networks, each (J, n)."""


class Progress:
    """The epochs of J jobs that train side by side with the same settings; ``numbers`` are their numbers in reports."""

    def __init__(
        self,
        numbers: Sequence[int],
        config: TrainingConfig,
        watch: Float32Array | None = None,
        on_epoch: Hook | None = None,
    ) -> None:
        n = len(numbers)
        self._numbers, self._config, self._watch, self._on_epoch = numbers, config, watch, on_epoch
        self._running = np.ones(n, dtype=bool)
        self._best = np.full(n, np.inf)
        # Warm-up epochs do not count, so patience begins with the last of them.
        self._best_epoch = np.full(n, config.warmup_epochs - 1)
        self._losses: list[list[float]] = [[] for _ in range(n)]
        self._validation_losses: list[list[float]] = [[] for _ in range(n)]

    def __iter__(self) -> Iterator[int]:
        """Yield epochs until all jobs have ended."""
        for epoch in range(self._config.epochs):
            if not self._running.any():
                return
            yield epoch

    def record(self, epoch: int, losses: Array, validation: Array | None, outputs: Outputs) -> BoolArray:
        """Record an epoch and return, per job, whether its present weights are to be kept.

        They are kept at a new best validation loss, and at the end of a job that never had one. ``outputs`` is called
        only if the hook gets outputs of watched rows.
        """
        improved = self._improved(epoch, validation)
        ended: BoolArray = self._running & (epoch == self._config.epochs - 1)
        if validation is not None:
            ended |= self._running & ~improved & (epoch - self._best_epoch >= self._config.patience)
        self._append(epoch, losses, validation)
        self._report(epoch, outputs, ended)
        self._running &= ~ended
        never_improved: BoolArray = ended & np.isinf(self._best)
        return improved | never_improved

    def trained(self, networks: Predictor) -> Trained:
        """Return the kept networks with the record of their training."""
        last = np.array([len(curve) - 1 for curve in self._losses])
        return Trained(
            networks,
            tuple(np.array(curve) for curve in self._losses),
            tuple(np.array(curve) for curve in self._validation_losses),
            tuple(np.where(np.isinf(self._best), last, self._best_epoch).tolist()),
        )

    def _improved(self, epoch: int, validation: Array | None) -> BoolArray:
        if validation is None or epoch < self._config.warmup_epochs:
            return np.zeros_like(self._running)
        improved: BoolArray = self._running & (validation < self._best - self._config.tol)
        self._best[improved] = validation[improved]
        self._best_epoch[improved] = epoch
        return improved

    def _append(self, epoch: int, losses: Array, validation: Array | None) -> None:
        for i in np.flatnonzero(self._running):
            self._losses[i].append(float(losses[i]))
            if validation is not None:
                self._validation_losses[i].append(float(validation[i]))

    def _report(self, epoch: int, outputs: Outputs, ended: BoolArray) -> None:
        if self._on_epoch is None:
            return
        means, variances = self._watched(outputs)
        for i in np.flatnonzero(self._running).tolist():
            mean, variance = (None, None) if means is None or variances is None else (means[i], variances[i])
            validation = self._validation_losses[i][-1] if self._validation_losses[i] else None
            loss, is_last = self._losses[i][-1], bool(ended[i])
            self._on_epoch(EpochReport(self._numbers[i], epoch, loss, validation, mean, variance, is_last))

    def _watched(self, outputs: Outputs) -> tuple[Array, Array] | tuple[None, None]:
        if self._watch is None:
            return None, None
        with np.errstate(all="ignore"):
            return outputs(self._watch)


def choose_networks(chosen: BoolArray, new: Networks, old: Networks) -> Networks:
    """Return the ``chosen`` networks of ``new`` and the other networks of ``old``."""

    def choose(a: Array, b: Array) -> Array:
        return np.where(chosen.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    pairs = zip(new.layers, old.layers, strict=True)
    return Networks(new.spec, tuple((choose(W, W_old), choose(b, b_old)) for (W, b), (W_old, b_old) in pairs))
