"""Chunks of encoded rows, training on them, and their statistics.

The networks of a member, one per fold, go through the chunks together, each member in an order of its own. A pass over
a chunk takes the state of these networks to the next one and changes nothing else: it can be done in any thread or
process, again if it failed, with the same result.

A fit gets the sample and the chunks of encoded rows from a ``RowPlace``: this machine or a cluster. There networks are
trained and chunks summarized as statistics. The results have the same bits in every place.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import numpy as np

from bdkn.data.encoder import TableEncoder
from bdkn.data.folds import FoldPlan
from bdkn.data.rows import Rows, RowSource
from bdkn.data.sample import (
    CHUNK_ROWS,
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
from bdkn.ensemble.cross_fitting import FoldNetworks, predict_held_out
from bdkn.errors import InvalidParameterError
from bdkn.inference import Forecast, Statistics
from bdkn.inference.combination import features
from bdkn.networks import NetworkSettings, PiecewiseLinear, Trained, with_encoding
from bdkn.networks.job import Job, TrainingConfig
from bdkn.storage.fields import NonNegative, stored
from bdkn.typing import FloatArray, IndexArray

if TYPE_CHECKING:
    from bdkn.networks.fused import State
    from bdkn.networks.job import TrainingTable


@dataclass(frozen=True, eq=False)
class KnownInputs:
    """The inputs that were learned for rows of the sample, which are in the order of their ``numbers``."""

    numbers: Numbers
    X: FloatArray

    def between(self, first: int, stop: int) -> KnownInputs:
        """Return those of rows with numbers from ``first`` to ``stop`` - 1."""
        start, end = np.searchsorted(self.numbers, np.array([first, stop], dtype=np.uint64))
        return KnownInputs(self.numbers[start:end], self.X[start:end])

    def put_into(self, X: FloatArray, numbers: Numbers) -> None:
        """Set the inputs of the rows of ``X`` that are known."""
        if len(self.numbers):
            place = np.searchsorted(self.numbers, numbers)
            known = self.numbers[np.minimum(place, len(self.numbers) - 1)] == numbers
            X[known] = self.X[place[known]]


@dataclass(frozen=True, eq=False)
class RowEncoding:
    """Encoding of rows: that of a data frame (None: rows are arrays of ``n_columns`` columns), then the scaling."""

    table: TableEncoder | None
    n_columns: int
    inputs: Standardizer
    targets: TargetScaler
    n_inputs: int

    def __call__(self, numbers: Numbers, rows: Rows, known: KnownInputs) -> Encoded:
        """Return rows as networks see them; those of the sample with the inputs that were learned for them."""
        X = self._inputs(rows.X)
        known.put_into(X, numbers)
        units = numbers if rows.groups is None else group_numbers(rows.groups)
        return numbers, units, Rows(self.inputs.transform(X), self.targets.transform(rows.y), rows.counts)

    def _inputs(self, X: Any) -> FloatArray:
        """Return the columns of a block as numbers."""
        if self.table is not None:
            return self.table.transform(X)
        table = np.array(X, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != self.n_columns:
            raise InvalidParameterError(
                f"every block must have {self.n_columns} columns, as the first one; got shape {table.shape}"
            )
        if not np.isfinite(table).all():
            raise InvalidParameterError("rows must be finite; a block holds NaN or infinity: drop or impute such rows")
        return table


Slopes = Callable[[FloatArray], FloatArray]
"""The logarithm of the derivative of the scaled target, at targets in scaled units."""


@stored
@dataclass(frozen=True, eq=False)
class HeldOutStatistics:
    """Sufficient statistics of held-out rows, and sums over rows of v^τ and of log g′(y), each times the count."""

    statistics: Statistics
    noise: NonNegative
    log_slopes: float

    def __add__(self, other: HeldOutStatistics) -> HeldOutStatistics:
        return HeldOutStatistics(
            self.statistics + other.statistics, self.noise + other.noise, self.log_slopes + other.log_slopes
        )


@dataclass(frozen=True, eq=False)
class Summary:
    """Summary of chunks as statistics: the networks of the members in use, the plan of their folds, the tempering τ.

    ``members`` are the numbers of the members in the plan. ``constant`` are the variances of members whose networks
    have none of their own, else None.
    """

    names: tuple[str, ...]
    members: tuple[int, ...]
    networks: FoldNetworks
    plan: FoldPlan
    tempering: float
    constant: FloatArray | None
    slopes: Slopes

    def of(self, chunk: Chunk) -> HeldOutStatistics | None:
        """Return the statistics of the held-out rows of a chunk; None if there are none."""
        plan = self.plan.for_chunk(chunk.units, self.members, self.names)
        held_out = predict_held_out(self.networks, chunk.rows, plan)
        if not len(held_out.y):
            return None
        if self.constant is not None:
            held_out = replace(held_out, variances=np.broadcast_to(self.constant, held_out.means.shape))
        forecast: Forecast = held_out.forecast()
        counts = np.ones(len(held_out.y)) if held_out.counts is None else held_out.counts
        statistics = Statistics.from_rows(
            features(forecast.means), held_out.y, precision=forecast.variance**-self.tempering, counts=held_out.counts
        )
        slopes = np.broadcast_to(self.slopes(held_out.y), held_out.y.shape)
        return HeldOutStatistics(statistics, float(counts @ forecast.variance**self.tempering), float(counts @ slopes))


def statistics_of_chunks(summary: Summary, chunks: Iterable[Chunk]) -> HeldOutStatistics:
    """Return the statistics of all chunks together; only one chunk at a time is in memory."""
    merged = merged_in_tree([summary.of(chunk) for chunk in chunks], merged_statistics)
    assert merged is not None, "some rows are held out once"
    return merged


def merged_statistics(one: HeldOutStatistics | None, other: HeldOutStatistics | None) -> HeldOutStatistics | None:
    """Return the statistics of two parts of the rows together; None: no rows."""
    if one is None or other is None:
        return one or other
    return one + other


_ORDER = 2**32 - 2
"""The child of a member's seed by which the order of its chunks is drawn; no fold has it."""


class Chunks(Protocol):
    """Chunks that can be read by their numbers."""

    def __len__(self) -> int:
        """Return the number of chunks."""

    def read(self, chunk: int) -> Chunk:
        """Return a chunk."""


@dataclass(frozen=True, eq=False)
class MemberTraining:
    """The networks of one member after ``n_passes`` passes over chunks.

    There is a job for each fold and, with a refit, one more for all rows. ``folds`` are those of this member alone.
    ``mean_count`` is how many times a row is counted on average over all chunks; ``states`` are None at the beginning.
    ``first_fold`` is the fold that is held out from the network of the first job.
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
        """Return the networks of a member before training; encodings of inputs are learned from the sample."""
        assert plan.by_number is not None, "rows in blocks have folds that are functions of their numbers"
        encoding, jobs = settings.jobs_of_member(sample, plan.seeds[member :: len(plan.names)], plan.members[member])
        epochs = jobs[0].config.epochs
        return cls(
            jobs=tuple(replace(job, config=_by_passes(job, n_chunks)) for job in jobs),
            encoding=encoding,
            folds=replace(plan.by_number, seeds=plan.by_number.seeds[member : member + 1]),
            seed=plan.member_seeds[member],
            epochs=epochs,
            n_chunks=n_chunks,
            mean_count=mean_count,
        )

    def __sizeof__(self) -> int:  # by which Dask decides what to move and what to keep in memory
        return sum(part.nbytes for state in self.states or () for part in state)

    @property
    def is_done(self) -> bool:
        """Whether all passes are made."""
        return self.n_passes == self.epochs * self.n_chunks

    @property
    def next_chunk(self) -> int:
        """The number of the chunk of the next pass."""
        return self.next_chunks(1)[0]

    def next_chunks(self, n: int) -> list[int]:
        """Return the numbers of the chunks of the next passes, at most n of them."""
        stop = min(self.n_passes + n, self.epochs * self.n_chunks)
        epochs = range(self.n_passes // self.n_chunks, -(-stop // self.n_chunks))
        orders = np.concatenate([self._order(epoch) for epoch in epochs])
        return [int(chunk) for chunk in orders[self.n_passes - epochs[0] * self.n_chunks :][: stop - self.n_passes]]

    def _order(self, epoch: int) -> IndexArray:
        seed = np.random.SeedSequence(self.seed.entropy, spawn_key=(*self.seed.spawn_key, _ORDER, epoch))
        return np.random.default_rng(seed).permutation(self.n_chunks)

    def after(self, chunk: Chunk) -> MemberTraining:
        """Return the networks after a pass over a chunk, which must be the next one."""
        from bdkn.networks.fused import Run

        rows = chunk.rows if self.encoding is None else replace(chunk.rows, X=self.encoding.transform(chunk.rows.X))
        table, fold = self._table(rows), self.folds.of(chunk.units)[:, 0]
        states = []
        for k, job in enumerate(self.jobs):
            order = np.flatnonzero(fold != self.first_fold + k).astype(np.int32)
            run = Run.resume(job, table, order, None if self.states is None else self.states[k])
            run.advance(1)
            states.append(run.state)
        return replace(self, states=tuple(states), n_passes=self.n_passes + 1)

    def _table(self, rows: Rows) -> TrainingTable:
        from bdkn.networks.job import TrainingTable

        with np.errstate(over="ignore"):
            y = rows.y.astype(np.float32)
        weight = None if rows.counts is None else (rows.counts / self.mean_count).astype(np.float32)
        return TrainingTable(rows.X, y, weight)

    def by_fold(self) -> list[MemberTraining]:
        """Return this member, before training, in parts of one network each, which can be trained anywhere."""
        assert self.states is None, "a member is divided before its training"
        return [replace(self, jobs=(job,), first_fold=self.first_fold + k) for k, job in enumerate(self.jobs)]

    @classmethod
    def joined(cls, parts: Sequence[MemberTraining]) -> MemberTraining:
        """Return a member whose parts, in the order of their folds, have made the same passes."""
        jobs = tuple(job for part in parts for job in part.jobs)
        return replace(parts[0], jobs=jobs, states=tuple(state for part in parts for state in part.states or ()))

    def trained(self) -> Trained:
        """Return the networks, fold by fold."""
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
"""Called with the number of passes over chunks that have been made since the last call."""


def train_on_chunks(
    settings: NetworkSettings,
    sample: Rows,
    plan: FoldPlan,
    chunks: Chunks,
    mean_count: float,
    on_pass: OnPass | None = None,
) -> Trained:
    """Train the networks of a plan; return them in the order of a ``FoldGrid``.

    Parameters
    ----------
    settings
        How networks are made and trained.
    sample
        Encoded rows, from which the encodings of inputs are learned.
    plan
        The networks to train.
    chunks
        All rows.
    mean_count
        How many times a row is counted on average.
    on_pass
        Called with 1 after each pass of a member over a chunk, by any thread.
    """
    from bdkn.networks.fused import prepare, run_all, threads

    prepare()
    waiting = [_Turn(member, chunks) for member in beginning(settings, sample, plan, len(chunks), mean_count)]
    report = None if on_pass is None else lambda number, turn: on_pass(1)
    run_all(waiting, threads(settings.params.n_jobs), report)
    return in_grid_order([turn.member.trained() for turn in waiting])


def beginning(
    settings: NetworkSettings, sample: Rows, plan: FoldPlan, n_chunks: int, mean_count: float
) -> list[MemberTraining]:
    """Return all members of a plan before training."""
    H = len(plan.names)
    return [MemberTraining.start(settings, sample, plan, member, n_chunks, mean_count) for member in range(H)]


def in_grid_order(members: Sequence[Trained]) -> Trained:
    """Return the networks of members, each given fold by fold, in the order of a ``FoldGrid``."""
    order = np.arange(len(members) * len(members[0].best_epochs)).reshape(len(members), -1).T.ravel()
    return Trained.join(members)[order]


class _Turn:
    """A member in the queue: a thread that takes it makes its next pass."""

    def __init__(self, member: MemberTraining, chunks: Chunks) -> None:
        self.member, self._chunks = member, chunks

    @property
    def epoch(self) -> int:
        """Passes made so far."""
        return self.member.n_passes

    def is_done(self) -> bool:
        """Return whether all passes are made."""
        return self.member.is_done

    def advance(self, epochs: int) -> None:
        """Make one pass, whatever ``epochs`` is."""
        self.member = self.member.after(self._chunks.read(self.member.next_chunk))


def _by_passes(job: Job, n_chunks: int) -> TrainingConfig:
    """Return the settings of a job in which an epoch is a pass over one chunk."""
    config = job.config
    return replace(config, epochs=config.epochs * n_chunks, warmup_epochs=config.warmup_epochs * n_chunks)


_NUMBERS_AT_ONCE = 2**20
"""Row numbers whose chunks are computed at once."""

Encoded = tuple[Numbers, Numbers, Rows]
"""Numbers of rows, their units (the numbers from which folds are computed), and the rows as networks see them."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows as networks see them, in the order of their numbers, and the ``units`` from which folds are computed."""

    rows: Rows
    units: Numbers

    def __len__(self) -> int:
        return len(self.units)

    def __sizeof__(self) -> int:  # by which Dask decides what to move and what to keep in memory
        return sum(array.nbytes for array in (self.rows.X, self.rows.y, self.units)) + 8 * len(self)


def number_of_chunks(n: int, chunk_rows: int = CHUNK_ROWS) -> int:
    """Return the number of chunks of about equal size for ``n`` rows."""
    return -(-n // chunk_rows)


class ChunkFile(AbstractContextManager["ChunkFile"]):
    """A temporary file with chunks of encoded rows; it is removed when the block is left.

    Parameters
    ----------
    sizes : array (C,)
        The number of rows of each chunk.
    n_inputs : int
        Inputs of a row.
    weighted : bool
        Whether rows have counts.
    folder : str, optional
        Where the file is made; None: where the system keeps temporary files.
    """

    def __init__(self, sizes: IndexArray, n_inputs: int, *, weighted: bool, folder: str | None = None) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        counts = [("counts", "<f8")] if weighted else []
        self._record = np.dtype([("X", "<f4", (n_inputs,)), ("y", "<f8"), ("units", "<u8"), *counts])
        self._starts = np.concatenate([[0], np.cumsum(self.sizes)])
        self._written = np.zeros(len(self.sizes), dtype=np.int64)
        self._lock = threading.Lock()
        self._file: BinaryIO = tempfile.TemporaryFile(prefix="bdkn-", suffix=".rows", dir=folder)  # noqa: SIM115
        self._reserve()

    def _reserve(self) -> None:
        """Allocate the space of all rows, so that a disk that is too small raises before the training."""
        size = int(self._starts[-1]) * self._record.itemsize
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._file.fileno(), 0, size)
            else:
                self._file.truncate(size)
        except OSError as error:
            self._file.close()
            raise InvalidParameterError(
                f"a fit in blocks writes the encoded rows to a temporary file, which needs {size / 1e9:.3g} GB in "
                f"{tempfile.gettempdir()}: {error.strerror}; give it another folder, environment variable TMPDIR"
            ) from error

    def __enter__(self) -> ChunkFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def nbytes(self) -> int:
        """The size of the file."""
        return int(self._starts[-1]) * self._record.itemsize

    def append(self, numbers: Numbers, units: Numbers, rows: Rows) -> None:
        """Write rows, each to the end of its chunk."""
        chunks = chunk_of(numbers, len(self))
        order = np.argsort(chunks, kind="stable")
        records = np.empty(len(rows), dtype=self._record)
        records["X"], records["y"], records["units"] = rows.X[order], rows.y[order], units[order]
        if rows.counts is not None:
            records["counts"] = rows.counts[order]
        ends = np.cumsum(np.bincount(chunks, minlength=len(self)))
        for chunk, end in enumerate(ends.tolist()):
            start = 0 if chunk == 0 else int(ends[chunk - 1])
            if end > start:
                self._write(chunk, records[start:end])

    def _write(self, chunk: int, records: np.ndarray[Any, Any]) -> None:
        place = int(self._starts[chunk] + self._written[chunk])
        self._file.seek(place * self._record.itemsize)
        self._file.write(records.data)
        self._written[chunk] += len(records)

    def read(self, chunk: int) -> Chunk:
        """Return a chunk; threads may read at the same time."""
        records = np.empty(int(self._written[chunk]), dtype=self._record)
        with self._lock:
            self._file.seek(int(self._starts[chunk]) * self._record.itemsize)
            self._file.readinto(records.view(np.uint8).data)  # type: ignore[attr-defined]
        counts = records["counts"].copy() if "counts" in (self._record.names or ()) else None
        rows = Rows(np.ascontiguousarray(records["X"]), records["y"].copy(), counts)
        return Chunk(rows, records["units"].copy())

    def __iter__(self) -> Iterator[Chunk]:
        return (self.read(chunk) for chunk in range(len(self)))


def write_chunks(blocks: Iterable[Encoded], sizes: IndexArray, n_inputs: int, *, weighted: bool) -> ChunkFile:
    """Return a file of all rows, which come block by block."""
    file = ChunkFile(sizes, n_inputs, weighted=weighted)
    try:
        for numbers, units, rows in blocks:
            file.append(numbers, units, rows)
    except BaseException:
        file.__exit__(None, None, None)
        raise
    return file


def chunk_sizes(numbers: Iterable[Numbers], n_chunks: int) -> IndexArray:
    """Return the number of rows of each chunk, for row numbers given in parts."""
    sizes = np.zeros(n_chunks, dtype=np.int64)
    for part in numbers:
        sizes += np.bincount(chunk_of(part, n_chunks), minlength=n_chunks)
    return sizes


def consecutive_numbers(n: int) -> Iterator[Numbers]:
    """Yield the numbers from 0 to n - 1 in parts."""
    for start in range(0, n, _NUMBERS_AT_ONCE):
        yield np.arange(start, min(start + _NUMBERS_AT_ONCE, n), dtype=np.uint64)


class KeptChunks(AbstractContextManager["KeptChunks"], Protocol):
    """Chunks of all rows, encoded; they are given back when the block is left."""

    def __len__(self) -> int:
        """Return the number of chunks."""

    def train(
        self, settings: NetworkSettings, sample: Rows, plan: FoldPlan, mean_count: float, on_pass: OnPass | None
    ) -> Trained:
        """Return the networks of a plan, trained on all chunks, in the order of a ``FoldGrid``."""

    def statistics(self, summary: Summary) -> HeldOutStatistics:
        """Return the statistics of all held-out rows."""


class RowPlace(Protocol):
    """Protocol of the place where rows are read and their chunks are kept: this machine or a cluster."""

    def sample(self) -> Sample:
        """Return a sample of the rows, which is drawn in one pass."""

    def chunks(self, sample: Sample, encoding: RowEncoding, known: KnownInputs) -> KeptChunks:
        """Return all rows, encoded, in chunks."""


@dataclass(frozen=True, eq=False)
class ThisMachine:
    """Rows of a source, read in blocks by this process; the sample and each chunk have about ``chunk_rows`` rows."""

    source: RowSource
    chunk_rows: int

    def sample(self) -> Sample:
        """Return a sample of the rows."""
        return draw_sample(self.source, self.chunk_rows)

    def chunks(self, sample: Sample, encoding: RowEncoding, known: KnownInputs) -> KeptChunks:
        """Return all rows, encoded, in a temporary file."""
        sizes = chunk_sizes(consecutive_numbers(sample.n_read), number_of_chunks(sample.n, self.chunk_rows))
        blocks, weighted = self._encoded(sample, encoding, known), sample.rows.counts is not None
        return _FileChunks(write_chunks(blocks, sizes, encoding.n_inputs, weighted=weighted))

    def _encoded(self, sample: Sample, encoding: RowEncoding, known: KnownInputs) -> Iterator[Encoded]:
        read = 0
        for numbers, rows in counted_blocks(self.source):
            yield encoding(numbers, rows, known)
            read += len(rows)
        check_same_rows(sample.n, read)


def check_same_rows(first: int, second: int) -> None:
    """Raise unless two passes have read the same number of rows that count."""
    if first != second:
        raise InvalidParameterError(
            f"a row source must have the same rows in every pass; got {first} rows that count in the first pass and "
            f"{second} in the second"
        )


@dataclass(frozen=True, eq=False)
class _FileChunks(AbstractContextManager["KeptChunks"]):
    file: ChunkFile

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.file.__exit__(kind, error, at)

    def __len__(self) -> int:
        return len(self.file)

    def train(
        self, settings: NetworkSettings, sample: Rows, plan: FoldPlan, mean_count: float, on_pass: OnPass | None
    ) -> Trained:
        return train_on_chunks(settings, sample, plan, self.file, mean_count, on_pass)

    def statistics(self, summary: Summary) -> HeldOutStatistics:
        return statistics_of_chunks(summary, self.file)
