"""The engine that trains members on threads, each from first to last step in compiled code."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from bdkn.networks import Networks, NetworkSpec
from bdkn.training.config import TrainingConfig
from bdkn.training.engine import EpochReport, Hook, Rows, Trained, start_networks
from bdkn.typing import Float32Array

if TYPE_CHECKING:
    from bdkn.training.fused.run import Run


class FusedEngine:
    """Trains members on threads, without Python between their steps; the same bits for any ``n_jobs``."""

    def __repr__(self) -> str:
        return "FusedEngine()"

    def train(
        self,
        spec: NetworkSpec,
        rows: Rows,
        config: TrainingConfig,
        seeds: Sequence[np.random.SeedSequence],
        *,
        n_jobs: int | None = None,
        watch: Float32Array | None = None,
        on_epoch: Hook | None = None,
    ) -> Trained:
        """Train one network a seed."""
        prepare()
        from bdkn.training.fused.queue import Queue, threads
        from bdkn.training.fused.run import Run

        start, streams = start_networks(spec, seeds)
        runs = [Run.start(start[[h]], streams[h], rows, config, h) for h in range(len(seeds))]
        queue = Queue(runs, _Reporter(on_epoch, watch) if on_epoch is not None else None)
        queue.finish(min(threads(n_jobs), len(runs)))
        return Trained(
            networks=Networks.concatenate([run.networks() for run in runs]),
            loss_curves=tuple(run.losses() for run in runs),
            validation_curves=tuple(run.held_losses() for run in runs),
            best_epochs=tuple(run.best_epoch() for run in runs),
        )


class _Reporter:
    """Calls the user's hook, from one thread at a time."""

    def __init__(self, on_epoch: Hook, watch: Float32Array | None) -> None:
        self._on_epoch, self._watch, self._lock = on_epoch, watch, threading.Lock()

    def __call__(self, member: int, run: Run) -> None:
        mean, variance = (None, None) if self._watch is None else run.outputs(self._watch)
        held = run.held_losses()
        validation_loss = float(held[-1]) if len(held) else None
        loss, is_last = float(run.losses()[-1]), run.is_done()
        report = EpochReport(member, run.epoch - 1, loss, validation_loss, mean, variance, is_last)
        with self._lock:
            self._on_epoch(report)


@cache
def prepare() -> None:
    """Compile the engine for this CPU, or load it from disk, by training a tiny network."""
    from bdkn.kernels.compiled import announce
    from bdkn.training.fused import epochs
    from bdkn.training.fused.run import Run

    announce(epochs.train, "the training engine", 10)
    rows = Rows(np.ones((2, 1), np.float32), np.ones(2, np.float32))
    start, streams = start_networks(NetworkSpec(n_inputs=1, hidden=(1,)), [np.random.SeedSequence(0)])
    run = Run.start(start, streams[0], rows, TrainingConfig(epochs=1))
    run.advance(1)
    run.outputs(rows.X)
