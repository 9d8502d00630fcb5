"""The fused engine: each network is trained by compiled code from its first to its last step, networks on threads."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, Protocol, TypeVar

import joblib
import numpy as np

from bdkn.errors import InvalidParameterError
from bdkn.kernels.compiled import announce
from bdkn.networks import ACTIVATIONS, MEAN_VARIANCE, Networks, NetworkSpec, join
from bdkn.networks.compiled import Packed, packing_of
from bdkn.rows import Rows
from bdkn.training.config import TrainingConfig
from bdkn.training.fused import epochs as compiled
from bdkn.training.fused.layout import Layout, layout_of
from bdkn.training.fused.step import BETA_NLL, MSE, NLL
from bdkn.training.job import EpochReport, Hook, Job, Trained
from bdkn.training.objective import OBJECTIVES, BetaNLL, GaussianNLL, SquaredError
from bdkn.training.rows import JobRows, RowNumbers, Streams, TrainingTable
from bdkn.typing import Array, Float32Array

_CALL_S = 0.01
"""How long one call of compiled code should take: short enough to balance the threads and to be interrupted."""

_NOTHING = np.empty(0, dtype=np.float32)

_CODES: dict[type, int] = {GaussianNLL: NLL, BetaNLL: BETA_NLL, SquaredError: MSE}
"""The objectives that are compiled."""


class FusedEngine:
    """Trains networks on threads, without Python between their steps; the same bits for any ``n_jobs``."""

    def __repr__(self) -> str:
        return "FusedEngine()"

    def train(
        self,
        jobs: Sequence[Job],
        rows: Rows,
        *,
        n_jobs: int | None = None,
        watch: Float32Array | None = None,
        on_epoch: Hook | None = None,
    ) -> Trained:
        """Train one network per job."""
        prepare()
        _check_compiled(jobs)
        table = TrainingTable.of(rows, jobs)
        own = [JobRows.of(job, len(table.y)) for job in jobs]
        runs = [Run.start(job, table, numbers) for job, numbers in zip(jobs, own, strict=True)]
        queue = Queue(runs, None if on_epoch is None else _Reporter(on_epoch, watch))
        queue.finish(min(threads(n_jobs), len(runs)))
        return Trained(
            loss_curves=tuple(run.losses() for run in runs),
            validation_curves=tuple(run.validation_losses() for run in runs),
            best_epochs=tuple(run.best_epoch() for run in runs),
            networks=join([run.networks() for run in runs]),
        )


@dataclass(frozen=True)
class Run:
    """One job in training: its rows and settings, which stay, and its state, which changes."""

    layout: Layout
    data: compiled.Data
    settings: compiled.Settings
    state: compiled.State

    @classmethod
    def start(cls, job: Job, table: TrainingTable, own: JobRows) -> Run:
        """Draw the initial weights and lay everything out in a workspace."""
        weight = _NOTHING if table.weight is None else table.weight
        data = compiled.Data(table.X, table.y, weight, own.training, own.validation)
        settings = _settings(job.spec, job.config, min(job.config.batch_size, len(own.training)))
        weights = packing_of(job.spec).pack(job.spec.initial_layers(own.streams.initial))
        layout = layout_of(job.spec, settings.batch)
        state = _state(layout, layout.workspace(weights), own.streams.order, job.config)
        return cls(layout, data, settings, state)

    @classmethod
    def resume(cls, job: Job, table: TrainingTable, order: RowNumbers, state: compiled.State | None) -> Run:
        """Return a job that goes on with other rows, those with the numbers ``order``; None: it begins.

        An epoch is then a pass over these rows. The state is not changed: the run works on a copy.
        """
        settings, layout = (
            _settings(job.spec, job.config, job.config.batch_size),
            layout_of(job.spec, job.config.batch_size),
        )
        if state is None:
            streams = Streams.of(job.seed)
            weights = packing_of(job.spec).pack(job.spec.initial_layers(streams.initial))
            state = _state(layout, layout.workspace(weights), streams.order, job.config)
        else:
            copies: list[Any] = [part.copy() for part in state]
            state = compiled.State(*copies)
        weight = _NOTHING if table.weight is None else table.weight
        data = compiled.Data(table.X, table.y, weight, order, np.empty(0, dtype=np.int32))
        return cls(layout, data, settings, state)

    @property
    def epoch(self) -> int:
        """Epochs run so far."""
        return int(self.state.clock[compiled.EPOCH])

    def is_done(self) -> bool:
        """Return whether all epochs are run or the job has stopped early."""
        return self.epoch >= self.settings.epochs or bool(self.state.clock[compiled.STOPPED])

    def advance(self, epochs: int) -> None:
        """Train for that many epochs, or fewer if the job ends before."""
        compiled.train(self.state, self.data, self.settings, min(self.epoch + epochs, self.settings.epochs))

    def outputs(self, X: Float32Array) -> tuple[Array, Array]:
        """Return the current means and variances of scaled rows, computed on this thread."""
        current = Packed(self.layout.spec, self.state.mem[: self.layout.n_parameters])
        means, variances = current.outputs(X, threads=1)
        return means[0], variances[0]

    def losses(self) -> Array:
        """Return the mean training loss of each epoch run."""
        return self.state.losses[: self.epoch]

    def validation_losses(self) -> Array:
        """Return the mean loss on the validation rows after each epoch run; empty without early stopping."""
        return self.state.validation_losses[: self.epoch if len(self.data.validation) else 0]

    def best_epoch(self) -> int:
        """Return the epoch whose weights are kept."""
        return int(self.state.clock[compiled.BEST_EPOCH]) if self._has_best() else self.epoch - 1

    def networks(self) -> Networks:
        """Return the network to keep: the best on the validation rows, else the last."""
        spec = self.layout.spec
        flat = self.state.best if self._has_best() else self.state.mem[: self.layout.n_parameters]
        return Networks(spec, tuple((W[None], b[None]) for W, b in packing_of(spec).unpack(flat)))

    def _has_best(self) -> bool:
        return bool(np.isfinite(self.state.score[0]))


def _settings(spec: NetworkSpec, config: TrainingConfig, batch: int) -> compiled.Settings:
    objective = config.main_objective
    return compiled.Settings(
        activation=ACTIVATIONS[spec.activation].code,
        objective=_CODES[type(objective)],
        beta=float(objective.beta if isinstance(objective, BetaNLL) else 0.0),
        warmup=int(config.warmup_epochs),
        epochs=int(config.epochs),
        batch=int(batch),
        rate=float(config.learning_rate),
        cosine=config.schedule == "cosine",
        weight_decay=float(config.weight_decay),
        patience=int(config.patience),
        tol=float(config.tol),
    )


def _state(layout: Layout, mem: Float32Array, random: int, config: TrainingConfig) -> compiled.State:
    clock = np.zeros(4, dtype=np.int64)
    clock[compiled.BEST_EPOCH] = config.warmup_epochs - 1  # patience counts from the end of the warm-up
    return compiled.State(
        mem=mem,
        layers=layout.layers,
        places=layout.places,
        best=mem[: layout.n_parameters].copy(),
        clock=clock,
        random=np.array([random], dtype=np.uint64),
        score=np.array([np.inf]),
        losses=np.empty(config.epochs),
        validation_losses=np.empty(config.epochs),
    )


def _check_compiled(jobs: Sequence[Job]) -> None:
    for job in jobs:
        objective, head = job.config.main_objective, job.spec.head
        if type(objective) in _CODES and head == MEAN_VARIANCE:
            continue
        raise InvalidParameterError(
            f"the fused engine trains {', '.join(map(repr, OBJECTIVES))} with a mean and a raw variance as outputs; "
            f"got the objective {objective.name!r} with the head {head!r}; try engine='reference' or engine='torch'"
        )


class Trains(Protocol):
    """What waits for a thread, such as a ``Run``."""

    @property
    def epoch(self) -> int:
        """Epochs run so far."""

    def is_done(self) -> bool:
        """Return whether nothing remains to be done."""

    def advance(self, epochs: int) -> None:
        """Train for that many epochs, or fewer."""


Task = TypeVar("Task", bound=Trains)


class Queue(Generic[Task]):
    """Runs waiting for a thread: a free thread takes the run with the fewest epochs, so that all end together.

    One thread per run would leave a core idle for a sixth of the time with five runs on two cores. ``after``, where
    given, is called with a run's number and the run after every epoch.
    """

    def __init__(self, runs: Sequence[Task], after: Callable[[int, Task], None] | None = None) -> None:
        self._after, self._lock, self._stopped = after, threading.Lock(), threading.Event()
        self._waiting = [(0, number, 1, run) for number, run in enumerate(runs)]

    def finish(self, workers: int) -> None:
        """Train all runs to their end on so many threads, this one among them."""
        with ThreadPoolExecutor(max_workers=max(1, workers - 1)) as pool:
            others = [pool.submit(self._work) for _ in range(workers - 1)]
            try:
                self._work()
                for other in others:
                    other.result()
            except BaseException:
                self._stopped.set()
                raise

    def _work(self) -> None:
        try:
            while (taken := self._take()) is not None:
                self._advance(*taken[1:])
        except BaseException:
            self._stopped.set()  # the other threads end after their present call
            raise

    def _take(self) -> tuple[int, int, int, Task] | None:
        with self._lock:
            return heapq.heappop(self._waiting) if self._waiting and not self._stopped.is_set() else None

    def _advance(self, number: int, epochs: int, run: Task) -> None:
        began = time.perf_counter()
        run.advance(epochs)
        if self._after is not None:
            self._after(number, run)
        else:
            epochs = max(1, int(epochs * min(_CALL_S / (time.perf_counter() - began), 4)))
        if not run.is_done():
            with self._lock:
                heapq.heappush(self._waiting, (run.epoch, number, epochs, run))


def threads(n_jobs: int | None) -> int:
    """Return how many threads ``n_jobs`` means, as scikit-learn defines it: None is 1, -1 all cores, -2 all but one."""
    if n_jobs == 0:
        raise InvalidParameterError("n_jobs must not be 0; got 0; 1 is one thread, -1 one thread per core")
    if n_jobs is None or n_jobs > 0:
        return n_jobs or 1
    return max(1, int(joblib.cpu_count()) + 1 + n_jobs)


class _Reporter:
    """Calls the user's hook, from one thread at a time."""

    def __init__(self, on_epoch: Hook, watch: Float32Array | None) -> None:
        self._on_epoch, self._watch, self._lock = on_epoch, watch, threading.Lock()

    def __call__(self, number: int, run: Run) -> None:
        mean, variance = (None, None) if self._watch is None else run.outputs(self._watch)
        validation = run.validation_losses()
        validation_loss = float(validation[-1]) if len(validation) else None
        loss, is_last = float(run.losses()[-1]), run.is_done()
        report = EpochReport(number, run.epoch - 1, loss, validation_loss, mean, variance, is_last)
        with self._lock:
            self._on_epoch(report)


@cache
def prepare() -> None:
    """Compile the engine for this CPU, or load it from disk, by training a tiny network."""
    announce(compiled.train, "the training engine", 10)
    job = Job(NetworkSpec(n_inputs=1, hidden=(1,)), TrainingConfig(epochs=1), np.random.SeedSequence(0))
    rows = Rows(np.ones((2, 1), np.float32), np.ones(2))
    run = Run.start(job, TrainingTable.of(rows, [job]), JobRows.of(job, len(rows)))
    run.advance(1)
    run.outputs(rows.X)
