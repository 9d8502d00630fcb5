"""Chunks of encoded rows for tables that do not fit into memory, training of networks on them, and their statistics.

The networks of a member, one per fold, are trained on one chunk after another; each member has its own order of chunks.
A training pass over a chunk is a pure function of the networks' state and the chunk: any process can repeat it.

A ``ChunkStore`` keeps the chunks of a fit, on this machine or on a cluster. The results are the same in both cases.
"""

from __future__ import annotations

import os
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from bdkn.data.encoder import TableEncoder
from bdkn.data.folds import FoldPlan
from bdkn.data.rows import Rows, RowSource
from bdkn.data.sample import (
    MemberFolds,
    Numbers,
    Sample,
    chunk_of,
    counted_blocks,
    draw_sample,
    group_numbers,
    merged_in_tree,
)
from bdkn.data.scaling import Standardizer, TargetScaler
from bdkn.ensemble.networks import predict_held_out
from bdkn.errors import InvalidParameterError
from bdkn.inference import Statistics
from bdkn.inference.combination import features
from bdkn.networks import NetworkSettings, PiecewiseLinear, Predictor, Trained, with_encoding
from bdkn.networks.job import Job
from bdkn.storage.fields import NonNegative, stored
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from bdkn.networks.fused import State


@dataclass(frozen=True, eq=False)
class Chunk:
    """Part of the encoded rows, sorted by row number; ``units`` (row numbers or hashes of groups) define folds."""

    rows: Rows
    units: Numbers

    def __sizeof__(self) -> int:  # Dask decides by it what to move and what to keep in memory
        return sum(array.nbytes for array in (self.rows.X, self.rows.y, self.units)) + 8 * len(self.units)


@dataclass(frozen=True, eq=False)
class KnownInputs:
    """Encoded inputs of the rows in the random sample; target statistics in a row do not use its own target."""

    numbers: Numbers
    X: FloatArray

    def between(self, first: int, stop: int) -> KnownInputs:
        """Return the inputs of rows with numbers from ``first`` to ``stop`` - 1."""
        start, end = np.searchsorted(self.numbers, np.array([first, stop], dtype=np.uint64))
        return KnownInputs(self.numbers[start:end], self.X[start:end])

    def put_into(self, X: FloatArray, numbers: Numbers) -> None:
        """Replace the rows of ``X`` that are in the random sample by known inputs; its row numbers are ``numbers``."""
        if len(self.numbers):
            place = np.searchsorted(self.numbers, numbers)
            known = self.numbers[np.minimum(place, len(self.numbers) - 1)] == numbers
            X[known] = self.X[place[known]]


@dataclass(frozen=True, eq=False)
class RowEncoding:
    """Encoder of rows: ``table`` turns data frames to numbers (None: arrays); then inputs and targets are scaled."""

    table: TableEncoder | None
    n_columns: int
    inputs: Standardizer
    targets: TargetScaler
    n_inputs: int

    def __call__(self, numbers: Numbers, rows: Rows, known: KnownInputs) -> Chunk:
        """Return the encoded rows as a chunk; the inputs of sampled rows are taken from ``known``."""
        if self.table is not None:
            X = self.table.transform(rows.X)
        else:
            X = np.array(rows.X, dtype=np.float64)
            if X.ndim != 2 or X.shape[1] != self.n_columns:
                raise InvalidParameterError(
                    f"every block must have {self.n_columns} columns, as the first one; got shape {X.shape}"
                )
            if not np.isfinite(X).all():
                raise InvalidParameterError(
                    "rows must be finite; a block holds NaN or infinity: drop or impute such rows"
                )
        known.put_into(X, numbers)
        units = numbers if rows.groups is None else group_numbers(rows.groups)
        return Chunk(Rows(self.inputs.transform(X), self.targets.transform(rows.y), rows.counts), units)


# Training

_ORDER = 2**32 - 2
"""Spawn key (NumPy's ``SeedSequence``) for the random order of chunks in a member's training; folds have others."""


@dataclass(frozen=True, eq=False)
class MemberTraining:
    """State of the training of one member's networks after ``n_passes`` passes over chunks.

    There is one job per fold and, with a refit, one more for all rows. ``folds`` are the folds of this member only.
    ``mean_count`` is the average count of a row over all chunks; ``states`` is None before the first pass.
    ``first_fold`` is the fold that the network of the first job is not trained on.
    """

    jobs: tuple[Job, ...]
    encoding: PiecewiseLinear | None
    folds: MemberFolds
    seed: np.random.SeedSequence
    epochs: int
    n_chunks: int
    mean_count: float
    states: tuple[State, ...] | None = None
    n_passes: int = 0
    first_fold: int = 0

    @classmethod
    def start(
        cls, settings: NetworkSettings, sample: Rows, plan: FoldPlan, member: int, n_chunks: int, mean_count: float
    ) -> MemberTraining:
        """Return a member before its first pass; the piecewise-linear encoding of inputs is fitted to the sample."""
        assert plan.by_number is not None, "rows in blocks have folds that are functions of their numbers"
        seeds = plan.seeds[member :: len(plan.names)]
        ((encoding, _, jobs),) = settings.jobs(sample, seeds, [plan.members[member]] * len(seeds))
        config = jobs[0].config
        passes, warmup = config.epochs * n_chunks, config.warmup_epochs * n_chunks  # a job counts passes as epochs
        return cls(
            jobs=tuple(replace(job, config=replace(job.config, epochs=passes, warmup_epochs=warmup)) for job in jobs),
            encoding=encoding,
            folds=replace(plan.by_number, seeds=plan.by_number.seeds[member : member + 1]),
            seed=plan.member_seeds[member],
            epochs=config.epochs,
            n_chunks=n_chunks,
            mean_count=mean_count,
        )

    def __sizeof__(self) -> int:  # used by Dask to decide what to move and what to keep in memory
        return sum(part.nbytes for state in self.states or () for part in state)

    @property
    def is_done(self) -> bool:
        """True if the training has made all passes over chunks."""
        return self.n_passes == self.epochs * self.n_chunks

    def next_chunks(self, n: int) -> list[int]:
        """Return the numbers of the next chunks to train on, at most n, in the member's random order."""
        stop = min(self.n_passes + n, self.epochs * self.n_chunks)
        epochs, orders = range(self.n_passes // self.n_chunks, -(-stop // self.n_chunks)), []
        for epoch in epochs:
            seed = np.random.SeedSequence(self.seed.entropy, spawn_key=(*self.seed.spawn_key, _ORDER, epoch))
            orders += np.random.default_rng(seed).permutation(self.n_chunks).tolist()
        return orders[self.n_passes - epochs[0] * self.n_chunks :][: stop - self.n_passes]

    def after(self, chunk: Chunk) -> MemberTraining:
        """Train the networks in one pass over ``chunk``, the next one in the member's order; return the new state."""
        from bdkn.networks.fused import Run
        from bdkn.networks.job import TrainingTable

        rows, fold = chunk.rows, self.folds.of(chunk.units)[:, 0]
        X = rows.X if self.encoding is None else self.encoding.transform(rows.X)
        with np.errstate(over="ignore"):
            y = rows.y.astype(np.float32)
        weight = None if rows.counts is None else (rows.counts / self.mean_count).astype(np.float32)
        table, states = TrainingTable(X, y, weight), []
        for k, job in enumerate(self.jobs):
            order = np.flatnonzero(fold != self.first_fold + k).astype(np.int32)
            run = Run.resume(job, table, order, None if self.states is None else self.states[k])
            run.advance(1)
            states.append(run.state)
        return replace(self, states=tuple(states), n_passes=self.n_passes + 1)

    def by_fold(self) -> list[MemberTraining]:
        """Split this member, before training, into parts with one network each, which can be trained separately."""
        assert self.states is None, "a member is divided before its training"
        return [replace(self, jobs=(job,), first_fold=self.first_fold + k) for k, job in enumerate(self.jobs)]

    @classmethod
    def joined(cls, parts: Sequence[MemberTraining]) -> MemberTraining:
        """Join the parts of a member, one per fold, in the order of folds, after all have made the same passes."""
        jobs = tuple(job for part in parts for job in part.jobs)
        return replace(parts[0], jobs=jobs, states=tuple(state for part in parts for state in part.states or ()))

    def trained(self) -> Trained:
        """Return the trained networks with their loss curves, in the order of folds."""
        from bdkn.networks.fused import Run, trained_by
        from bdkn.networks.job import TrainingTable

        assert self.states is not None, "a member has made at least one pass"
        nothing = TrainingTable(np.empty((0, self.jobs[0].spec.n_inputs), np.float32), np.empty(0, np.float32), None)
        none = np.empty(0, dtype=np.int32)
        runs = [Run.resume(job, nothing, none, state) for job, state in zip(self.jobs, self.states, strict=True)]
        trained = trained_by(runs)
        by_epoch = [losses.reshape(-1, self.n_chunks).mean(axis=1) for losses in trained.loss_curves]
        encoding, networks = self.encoding, trained.networks
        return replace(
            trained,
            networks=networks if encoding is None else with_encoding(encoding, networks),
            loss_curves=tuple(by_epoch),
            best_epochs=(self.epochs - 1,) * len(runs),
        )


OnPass = Callable[[float], None]
"""Callback for progress: any thread may call it with the number of training passes over chunks since the last call."""


# Statistics of held-out rows

LogDerivative = Callable[[FloatArray], FloatArray]
"""Type of functions that return log g′(y) for scaled targets g(y); it converts log densities to the units of y."""


@stored
@dataclass(frozen=True, eq=False)
class HeldOutStatistics:
    """Sums over held-out rows: statistics of the linear model, variances to the power τ, log g′(y) (g scales y)."""

    statistics: Statistics
    noise: NonNegative
    log_slopes: float


def merged_statistics(one: HeldOutStatistics | None, other: HeldOutStatistics | None) -> HeldOutStatistics | None:
    """Return the sum of the statistics of two parts of the rows; None stands for a part without held-out rows."""
    if one is None or other is None:
        return one or other
    return HeldOutStatistics(
        one.statistics + other.statistics, one.noise + other.noise, one.log_slopes + other.log_slopes
    )


@dataclass(frozen=True, eq=False)
class ChunkStatistics:
    """Everything needed to compute the statistics of a chunk's held-out rows, which the selected members predict.

    ``members`` are the numbers of the selected members in the plan. ``constant`` (H,) has the members' variances if
    their networks predict none; else it is None. ``slopes`` computes log g′(y), where g scales a target y.
    """

    names: tuple[str, ...]
    members: tuple[int, ...]
    networks: Predictor
    plan: FoldPlan
    tempering: float
    constant: FloatArray | None
    slopes: LogDerivative

    def of(self, chunk: Chunk) -> HeldOutStatistics | None:
        """Return the statistics of the held-out rows of a chunk; None if no row of the chunk is held out."""
        plan = self.plan.for_chunk(chunk.units, self.members, self.names)
        held_out = predict_held_out(self.networks, chunk.rows, plan)
        if not len(held_out.y):
            return None
        if self.constant is not None:
            held_out = replace(held_out, variances=np.broadcast_to(self.constant, held_out.means.shape))
        forecast = held_out.forecast()
        counts = np.ones(len(held_out.y)) if held_out.counts is None else held_out.counts
        statistics = Statistics.from_rows(
            features(forecast.means), held_out.y, precision=forecast.variance**-self.tempering, counts=held_out.counts
        )
        slopes = np.broadcast_to(self.slopes(held_out.y), held_out.y.shape)
        return HeldOutStatistics(statistics, float(counts @ forecast.variance**self.tempering), float(counts @ slopes))


# Storage of chunks


class ChunkStore(AbstractContextManager["ChunkStore"], ABC):
    """Base class of storages for the encoded rows of a source, in chunks that are deleted when the ``with`` block ends.

    The sample and each chunk have about ``chunk_rows`` rows; ``write`` sets the number of chunks, ``n_chunks``.
    """

    def __init__(self, source: RowSource, chunk_rows: int) -> None:
        self.source, self.chunk_rows, self.n_chunks = source, chunk_rows, 0

    @abstractmethod
    def sample(self) -> Sample:
        """Return a random sample of the rows, drawn in one pass over the source."""

    @abstractmethod
    def write(self, sample: Sample, encoding: RowEncoding, known: KnownInputs) -> None:
        """Encode all rows and store them in chunks."""

    def train(
        self, settings: NetworkSettings, sample: Rows, plan: FoldPlan, mean_count: float, on_pass: OnPass | None
    ) -> Trained:
        """Train the networks of a fold plan on all chunks, and return them in the order of folds.

        The encodings of inputs are fitted to the sample; ``mean_count`` is the average count of a row.
        """
        H = len(plan.names)
        members = [MemberTraining.start(settings, sample, plan, h, self.n_chunks, mean_count) for h in range(H)]
        trained = [member.trained() for member in self._train(members, settings.params.n_jobs, on_pass)]
        order = np.arange(H * len(trained[0].best_epochs)).reshape(H, -1).T.ravel()
        return Trained.join(trained)[order]

    @abstractmethod
    def _train(self, members: list[MemberTraining], n_jobs: int | None, on_pass: OnPass | None) -> list[MemberTraining]:
        """Return the members after all their training passes over chunks."""

    @abstractmethod
    def statistics(self, computation: ChunkStatistics) -> HeldOutStatistics:
        """Return the statistics of all held-out rows: statistics of chunks are merged pair by pair."""


class LocalChunks(ChunkStore):
    """Storage of chunks in a temporary file on this machine, which reads the rows in blocks."""

    _file: BinaryIO | None = None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()

    def sample(self) -> Sample:
        """Return a random sample of the rows."""
        return draw_sample(self.source, self.chunk_rows)

    def write(self, sample: Sample, encoding: RowEncoding, known: KnownInputs) -> None:
        """Encode all rows and write each row to its chunk in a temporary file."""
        self.n_chunks = number_of_chunks(sample.n, self.chunk_rows)
        counts = [] if sample.rows.counts is None else [("counts", "<f8")]
        self._record = np.dtype([("X", "<f4", (encoding.n_inputs,)), ("y", "<f8"), ("units", "<u8"), *counts])
        sizes = np.zeros(self.n_chunks, dtype=np.int64)
        for start in range(0, sample.n_read, _NUMBERS_AT_ONCE):
            numbers = np.arange(start, min(start + _NUMBERS_AT_ONCE, sample.n_read), dtype=np.uint64)
            sizes += np.bincount(chunk_of(numbers, self.n_chunks), minlength=self.n_chunks)
        self._starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).tolist()
        self._ends = list(self._starts)
        self._lock = threading.Lock()
        self._file = _file_of(int(sizes.sum()) * self._record.itemsize)
        n_written = 0
        for numbers, rows in counted_blocks(self.source):
            self._append(chunk_of(numbers, self.n_chunks), encoding(numbers, rows, known))
            n_written += len(rows)
        if n_written != sample.n:
            raise InvalidParameterError(
                f"a row source must have the same rows in every pass; got {sample.n} rows that count in the first pass "
                f"and {n_written} in the second"
            )

    def _append(self, chunks: np.ndarray[Any, Any], encoded: Chunk) -> None:
        """Append encoded rows to their chunks in the file; ``chunks`` has the number of each row's chunk."""
        assert self._file is not None, "write makes the file"
        order = np.argsort(chunks, kind="stable")
        rows, records = encoded.rows, np.empty(len(chunks), dtype=self._record)
        records["X"], records["y"], records["units"] = rows.X[order], rows.y[order], encoded.units[order]
        if rows.counts is not None:
            records["counts"] = rows.counts[order]
        ends = np.cumsum(np.bincount(chunks, minlength=self.n_chunks))
        for chunk, part in enumerate(np.split(records, ends[:-1])):
            if not len(part):
                continue
            self._file.seek(self._ends[chunk] * self._record.itemsize)
            self._file.write(part.data)
            self._ends[chunk] += len(part)

    def chunk(self, number: int) -> Chunk:
        """Read a chunk from the file; several threads may call this at the same time."""
        assert self._file is not None, "write makes the file"
        records = np.empty(self._ends[number] - self._starts[number], dtype=self._record)
        with self._lock:
            self._file.seek(self._starts[number] * self._record.itemsize)
            self._file.readinto(records.view(np.uint8).data)  # type: ignore[attr-defined]
        counts = records["counts"].copy() if "counts" in (self._record.names or ()) else None
        rows = Rows(np.ascontiguousarray(records["X"]), records["y"].copy(), counts)
        return Chunk(rows, records["units"].copy())

    def _train(self, members: list[MemberTraining], n_jobs: int | None, on_pass: OnPass | None) -> list[MemberTraining]:
        from bdkn.networks.fused import prepare, run_all
        from bdkn.networks.job import threads

        prepare()
        queue = [_QueuedMember(member, self) for member in members]
        run_all(queue, threads(n_jobs), None if on_pass is None else lambda number, queued: on_pass(1))
        return [queued.member for queued in queue]

    def statistics(self, computation: ChunkStatistics) -> HeldOutStatistics:
        """Return the statistics of all held-out rows; only one chunk at a time is in memory."""
        parts = [computation.of(self.chunk(number)) for number in range(self.n_chunks)]
        merged = merged_in_tree(parts, merged_statistics)
        assert merged is not None, "some rows are held out once"
        return merged


class _QueuedMember:
    """Member in the queue of training; the thread that takes it runs its next pass over a chunk."""

    def __init__(self, member: MemberTraining, chunks: LocalChunks) -> None:
        self.member, self._chunks = member, chunks

    @property
    def epoch(self) -> int:
        """Number of passes over chunks that this member has made."""
        return self.member.n_passes

    def is_done(self) -> bool:
        """Return whether this member has made all passes over chunks."""
        return self.member.is_done

    def advance(self, epochs: int) -> None:
        """Train the member in one pass over its next chunk; ``epochs`` is not used."""
        self.member = self.member.after(self._chunks.chunk(self.member.next_chunks(1)[0]))


_NUMBERS_AT_ONCE = 2**20
"""Number of rows that are assigned to chunks at a time; it limits the memory."""


def number_of_chunks(n: int, chunk_rows: int) -> int:
    """Return the number of chunks of about equal size for ``n`` rows."""
    return -(-n // chunk_rows)


def _file_of(size: int) -> BinaryIO:
    """Return a temporary file with ``size`` reserved bytes; if the disk is too small, raise before training starts."""
    file: BinaryIO = tempfile.TemporaryFile(prefix="bdkn-", suffix=".rows")  # noqa: SIM115
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
    except OSError as error:
        file.close()
        raise InvalidParameterError(
            f"a fit in blocks writes the encoded rows to a temporary file, which needs {size / 1e9:.3g} GB in "
            f"{tempfile.gettempdir()}: {error.strerror}; give it another folder, environment variable TMPDIR"
        ) from error
    return file
