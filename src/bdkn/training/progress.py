"""What happens between two epochs: curves grow, hooks are told, members stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bdkn.networks import Networks, Predictor
from bdkn.training.config import TrainingConfig
from bdkn.training.engine import EpochReport, Hook, Trained
from bdkn.typing import Array, Float32Array

Outputs = Callable[[Float32Array], tuple[Array, Array]]


class Progress:
    """The epochs of the given members, trained side by side."""

    def __init__(
        self,
        members: Sequence[int],
        config: TrainingConfig,
        watch: Float32Array | None = None,
        on_epoch: Hook | None = None,
    ) -> None:
        n = len(members)
        self._members, self._config, self._watch, self._on_epoch = members, config, watch, on_epoch
        self._running = np.ones(n, dtype=bool)
        self._best = np.full(n, np.inf)
        # Warm-up epochs do not count, so patience begins with the last of them.
        self._best_epoch = np.full(n, config.warmup_epochs - 1)
        self._losses: list[list[float]] = [[] for _ in range(n)]
        self._validation_losses: list[list[float]] = [[] for _ in range(n)]

    def __iter__(self) -> Iterator[int]:
        """Yield epochs for as long as some member trains."""
        for epoch in range(self._config.epochs):
            if not self._running.any():
                return
            yield epoch

    def record(self, epoch: int, losses: Array, validation: Array | None, outputs: Outputs) -> NDArray[np.bool_]:
        """Record an epoch and return which members are to be remembered as they are now.

        ``outputs`` maps rows to the members' present means and variances; it is called only if a hook watches.
        They are those with a new best validation loss, and those that end without ever having had one.
        """
        improved = self._improve(epoch, validation)
        ended: NDArray[np.bool_] = self._running & (epoch == self._config.epochs - 1)
        if validation is not None:
            ended |= self._running & ~improved & (epoch - self._best_epoch >= self._config.patience)
        self._note(epoch, losses, validation, outputs, ended)
        self._running &= ~ended
        unbeaten: NDArray[np.bool_] = ended & np.isinf(self._best)
        return improved | unbeaten

    def trained(self, networks: Predictor) -> Trained:
        """Return the remembered networks together with the record of their training."""
        last = np.array([len(curve) - 1 for curve in self._losses])
        return Trained(
            networks,
            tuple(np.array(curve) for curve in self._losses),
            tuple(np.array(curve) for curve in self._validation_losses),
            tuple(np.where(np.isinf(self._best), last, self._best_epoch).tolist()),
        )

    def _improve(self, epoch: int, validation: Array | None) -> NDArray[np.bool_]:
        if validation is None or epoch < self._config.warmup_epochs:
            return np.zeros_like(self._running)
        improved: NDArray[np.bool_] = self._running & (validation < self._best - self._config.tol)
        self._best[improved] = validation[improved]
        self._best_epoch[improved] = epoch
        return improved

    def _note(
        self, epoch: int, losses: Array, validation: Array | None, outputs: Outputs, ended: NDArray[np.bool_]
    ) -> None:
        means, variances = self._watched(outputs)
        for i in np.flatnonzero(self._running).tolist():
            loss, held_out = float(losses[i]), None if validation is None else float(validation[i])
            self._losses[i].append(loss)
            if held_out is not None:
                self._validation_losses[i].append(held_out)
            if self._on_epoch is not None:
                mean, variance = (None, None) if means is None or variances is None else (means[i], variances[i])
                report = EpochReport(self._members[i], epoch, loss, held_out, mean, variance, bool(ended[i]))
                self._on_epoch(report)

    def _watched(self, outputs: Outputs) -> tuple[Array, Array] | tuple[None, None]:
        if self._on_epoch is None or self._watch is None:
            return None, None
        with np.errstate(all="ignore"):
            return outputs(self._watch)


def take_over(members: NDArray[np.bool_], new: Networks, old: Networks) -> Networks:
    """Return the networks with ``members`` taken from ``new`` and the others from ``old``."""

    def choose(a: Array, b: Array) -> Array:
        return np.where(members.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    pairs = zip(new.layers, old.layers, strict=True)
    return Networks(new.spec, tuple((choose(W, W_old), choose(b, b_old)) for (W, b), (W_old, b_old) in pairs))
