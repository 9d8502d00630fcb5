"""The engine that trains members on threads, each from first to last step in compiled code."""

from __future__ import annotations

import heapq
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import joblib
import numpy as np

from bdkn.networks import Networks, NetworkSpec
from bdkn.training.config import TrainingConfig
from bdkn.training.engine import EpochReport, Float32, Hook, Rows, Trained, start_networks

if TYPE_CHECKING:
    from bdkn.training.fused.run import Run

ANNOUNCE_AFTER_S = 1.0
"""Loading compiled code from disk takes less; a longer wait is a compilation."""

_CALL_S = 0.01
"""How long one call of compiled code should take: short enough to balance the threads and to be interrupted."""


class FusedEngine:
    """Trains each member in one thread, without Python between its steps; the same bits for any ``n_jobs``."""

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
        watch: Float32 | None = None,
        on_epoch: Hook | None = None,
    ) -> Trained:
        """Train one network a seed."""
        prepare()
        from bdkn.training.fused.run import Run

        start, streams = start_networks(spec, seeds)
        runs = [Run.start(start[[h]], streams[h], rows, config) for h in range(len(seeds))]
        hook = _Hook(on_epoch, watch) if on_epoch is not None else None
        queue = _Queue(runs, hook)
        try:
            workers = min(joblib.effective_n_jobs(n_jobs), len(runs))
            joblib.Parallel(n_jobs=workers, require="sharedmem")(joblib.delayed(queue.work)() for _ in range(workers))
        finally:
            queue.cancel()
        return Trained(
            networks=Networks.concatenate([run.networks() for run in runs]),
            loss_curves=tuple(run.losses() for run in runs),
            validation_curves=tuple(run.held_losses() for run in runs),
            best_epochs=tuple(run.best_epoch() for run in runs),
        )


class _Hook:
    """Calls the user's hook from one thread at a time."""

    def __init__(self, on_epoch: Hook, watch: Float32 | None) -> None:
        self.on_epoch, self.watch, self.lock = on_epoch, watch, threading.Lock()

    def __call__(self, run: Run, member: int) -> None:
        mean, variance = (None, None) if self.watch is None else run.outputs(self.watch)
        held = run.held_losses()
        report = EpochReport(
            member=member,
            epoch=run.epoch - 1,
            loss=float(run.losses()[-1]),
            validation_loss=float(held[-1]) if len(held) else None,
            mean=mean,
            variance=variance,
        )
        with self.lock:
            self.on_epoch(report)


class _Queue:
    """Runs waiting for a thread: whoever is free takes the one that is furthest behind, so all end together.

    A thread a member would leave one core idle for a sixth of the time with five members on two cores.
    """

    def __init__(self, runs: Sequence[Run], hook: _Hook | None) -> None:
        self.hook, self.lock = hook, threading.Lock()
        self.waiting = [(0, member, 1, run) for member, run in enumerate(runs)]

    def cancel(self) -> None:
        """Let the threads end after their current call."""
        with self.lock:
            self.waiting.clear()

    def work(self) -> None:
        """Advance runs until none is waiting."""
        while (taken := self._take()) is not None:
            _, member, epochs, run = taken
            began = time.perf_counter()
            run.advance(epochs)
            if self.hook is not None:
                self.hook(run, member)
            else:
                epochs = max(1, int(epochs * min(_CALL_S / (time.perf_counter() - began), 4)))
            if not run.is_done():
                with self.lock:
                    heapq.heappush(self.waiting, (run.epoch, member, epochs, run))

    def _take(self) -> tuple[int, int, int, Run] | None:
        with self.lock:
            return heapq.heappop(self.waiting) if self.waiting else None


@cache
def prepare() -> None:
    """Compile the engine for this CPU, or load it from disk, by training a tiny network."""
    with announced():
        from bdkn.training.fused.run import Run

        rows = Rows(np.ones((2, 1), np.float32), np.ones(2, np.float32))
        spec, config = NetworkSpec(n_inputs=1, hidden=(1,)), TrainingConfig(epochs=1)
        start, streams = start_networks(spec, [np.random.SeedSequence(0)])
        run = Run.start(start, streams[0], rows, config)
        run.advance(1)
        run.outputs(rows.X)


@contextmanager
def announced(after_s: float = ANNOUNCE_AFTER_S) -> Iterator[None]:
    """Tell the user why nothing happens while the engine is compiled."""
    text = "bdkn: compiling the training engine for this CPU (once, some 10 s; later runs load it from disk) ..."
    timer = threading.Timer(after_s, lambda: print(text, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
