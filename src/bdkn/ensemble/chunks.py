"""Chunks of encoded rows, training on them, and their statistics.

The networks of a member, one per fold, go through the chunks together, each member in an order of its own. A pass over
a chunk takes the state of these networks to the next one and changes nothing else: it can be done in any thread or
process, again if it failed, with the same result.

A fit asks a place for the sample and for chunks of all encoded rows, which train networks and are summarized where they
are. The results have the same bits in every place.
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
from numpy.typing import ArrayLike

from bdkn.data.encoder import TableEncoder
from bdkn.data.folds import FoldPlan, ShuffledRows, child_seed, fold_generator, is_fold_count
from bdkn.data.rows import Rows, RowSelection, RowSource, RowsWithout
from bdkn.data.sample import (
    CHUNK_ROWS,
    MemberFolds,
    Numbers,
    Sample,
    chunk_of,
    counted_blocks,
    draw_sample,
    fold_of,
    group_numbers,
    merged_in_tree,
)
from bdkn.data.scaling import Encoders
from bdkn.ensemble.cross_fitting import FoldNetworks, predict_held_out
from bdkn.ensemble.held_out import HeldOut
from bdkn.errors import InvalidParameterError, check_number
from bdkn.inference import Forecast, Statistics
from bdkn.inference.combination import features
from bdkn.networks import NetworkSettings, PiecewiseLinear, Trained, with_encoding
from bdkn.networks.job import Job, TrainingConfig
from bdkn.storage.fields import NonNegative, stored
from bdkn.typing import Array, FloatArray, IndexArray

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
    """How rows are encoded: the encoder of a data frame (None: rows are arrays of so many columns), then encoders."""

    table: TableEncoder | None
    n_columns: int
    encoders: Encoders
    n_inputs: int

    def __call__(self, numbers: Numbers, rows: Rows, known: KnownInputs) -> Encoded:
        """Return rows as networks see them; those of the sample with the inputs that were learned for them."""
        X = self._inputs(rows.X)
        known.put_into(X, numbers)
        units = numbers if rows.groups is None else group_numbers(rows.groups)
        return numbers, units, self.encoders.transform(Rows(X, rows.y, rows.counts))

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


@dataclass
class RowNumberFolds(ShuffledRows):
    """Cross-validation splitter whose folds are functions of a row's number, or of its group.

    Rows in blocks are divided so: the fold of a row does not depend on how many other rows there are. With it, a fit to
    rows in memory has the folds of a fit to the same rows in blocks.

    Parameters
    ----------
    n_folds : int, default=5
        Number of folds, of nearly equal size if rows are many.
    random_state : int, optional
        Another number gives other folds; None: 0, and in a ``BDKNRegressor`` other folds for each member.

    Examples
    --------
    >>> from bdkn import RowNumberFolds
    >>> [left_out.tolist() for _, left_out in RowNumberFolds(2, random_state=0).split([[0]] * 8)]
    [[0, 4, 7], [1, 2, 3, 5, 6]]
    """

    n_folds: int = 5
    random_state: int | None = None

    def __post_init__(self) -> None:
        check_number("n_folds", self.n_folds, low=2, whole=True)

    def split(
        self, X: Any, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Iterator[tuple[IndexArray, IndexArray]]:
        """Yield the numbers of the rows to train on and of those left out, for each fold."""
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        units = np.arange(n, dtype=np.uint64) if groups is None else group_numbers(np.asarray(groups))
        folds = fold_of(units, self.n_folds, self.random_state or 0)
        for k in range(self.n_folds):
            yield np.flatnonzero(folds != k), np.flatnonzero(folds == k)

    def get_n_splits(self, X: Any = None, y: ArrayLike | None = None, groups: ArrayLike | None = None) -> int:
        """Return the number of folds."""
        return self.n_folds


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """The seeds and folds of all networks of a fit.

    ``members`` are the seeds of members, ``networks`` those of each member's networks, fold by fold; with ``refit`` the
    last one is trained on all rows.
    """

    members: tuple[np.random.SeedSequence, ...]
    networks: tuple[tuple[np.random.SeedSequence, ...], ...]
    folds: MemberFolds
    refit: bool

    @classmethod
    def of(cls, model: Any, entropy: Any, n_members: int) -> BlockPlan:
        """Return the plan of a regressor, with the seeds that it has for rows in memory."""
        root = np.random.SeedSequence(entropy)
        members, refit = tuple(root.spawn(n_members)), model.predict_with == "refit"
        if model.design == "hold-out":
            seed = int(fold_generator(root).integers(2**31))
            folds = MemberFolds(1, (seed,) * n_members, float(model.holdout_fraction))
        else:
            seeds = tuple(int(fold_generator(member).integers(2**31)) for member in members)
            folds = MemberFolds(_fold_count(model), seeds)
        networks = tuple(
            (*(child_seed(member, k) for k in range(folds.n_folds)), *([member] if refit else [])) for member in members
        )
        return cls(members, networks, folds, refit)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members."""
        return tuple(f"network {h + 1}" for h in range(len(self.members)))

    @property
    def rows_per_row(self) -> float:
        """How many of a member's networks are trained on a row, on average."""
        left_out = 1.0 if self.folds.fraction is None else self.folds.fraction
        return len(self.networks[0]) - left_out

    def in_memory(self, units: Numbers) -> FoldPlan:
        """Return the plan of a cross-fit of rows in memory."""
        fold_of_row, n = self.folds.of(units), len(units)
        left_out = [[np.flatnonzero(fold_of_row[:, h] == k) for h in self._numbers] for k in range(self.folds.n_folds)]
        rows: list[RowSelection | None] = [RowsWithout(n, some) for of_fold in left_out for some in of_fold]
        held_out = np.flatnonzero(fold_of_row[:, 0] >= 0)
        return FoldPlan(
            names=self.names,
            seeds=[seeds[k] for k in range(len(self.networks[0])) for seeds in self.networks],
            members=[*self._numbers] * len(self.networks[0]),
            rows=rows + [None] * (len(self.members) * self.refit),
            fold_of=fold_of_row,
            held_out=None if len(held_out) == n else held_out,
            refit=self.refit,
        )

    def on_chunks(self, mean_count: float) -> ChunkPlan:
        """Return the plan of training on chunks."""
        return ChunkPlan(list(self._numbers), self.members, self.networks, self.folds, mean_count)

    @property
    def _numbers(self) -> range:
        return range(len(self.members))


def _fold_count(model: Any) -> int:
    """Return the number of folds; raise if other folds than those of row numbers are asked for."""
    cv: Any = model.n_folds if model.cv is None else model.cv
    if isinstance(cv, RowNumberFolds):
        return cv.n_folds
    if not is_fold_count(cv):
        raise InvalidParameterError(
            f"the folds of rows in blocks are functions of their numbers, or of their groups; got cv={cv!r}: leave cv "
            "out, or give the number of folds, and name a column of groups if rows belong together"
        )
    check_number("cv", cv, low=2, whole=True)
    return int(cv)


Slopes = Callable[[FloatArray], FloatArray]
"""The logarithm of the derivative of the scaled target, at targets in scaled units."""


@stored
@dataclass(frozen=True, eq=False)
class LeftOut:
    """What rows that were left out tell: statistics, and sums over rows of v^τ and of log g′(y), each with counts."""

    statistics: Statistics
    noise: NonNegative
    log_slopes: float

    def __add__(self, other: LeftOut) -> LeftOut:
        return LeftOut(self.statistics + other.statistics, self.noise + other.noise, self.log_slopes + other.log_slopes)


@dataclass(frozen=True, eq=False)
class Summary:
    """How chunks are summarized: the networks of the members in use, their folds, and the tempering τ.

    ``constant`` are the variances of members whose networks have none of their own, else None.
    """

    names: tuple[str, ...]
    networks: FoldNetworks
    folds: MemberFolds
    refit: bool
    tempering: float
    constant: FloatArray | None
    slopes: Slopes

    def of(self, chunk: Chunk) -> LeftOut | None:
        """Return what the rows of a chunk tell that are left out once; None if there are none."""
        held_out = self.predictions(chunk)
        if not len(held_out.y):
            return None
        forecast: Forecast = held_out.forecast()
        counts = np.ones(len(held_out.y)) if held_out.counts is None else held_out.counts
        statistics = Statistics.from_rows(
            features(forecast.means), held_out.y, precision=forecast.variance**-self.tempering, counts=held_out.counts
        )
        slopes = np.broadcast_to(self.slopes(held_out.y), held_out.y.shape)
        return LeftOut(statistics, float(counts @ forecast.variance**self.tempering), float(counts @ slopes))

    def predictions(self, chunk: Chunk) -> HeldOut:
        """Return what members predict for the rows of a chunk that they leave out."""
        plan = fold_plan(self.names, self.folds, chunk, refit=self.refit)
        held_out = predict_held_out(self.networks, chunk.rows, plan)
        if self.constant is None:
            return held_out
        return HeldOut(
            held_out.means,
            np.broadcast_to(self.constant, held_out.means.shape),
            held_out.fold_variance,
            held_out.y,
            held_out.counts,
            held_out.fold_of,
        )


def statistics_of_chunks(summary: Summary, chunks: Iterable[Chunk]) -> LeftOut:
    """Return what all chunks tell together, of which one at a time is in memory."""
    merged = merged_in_tree([summary.of(chunk) for chunk in chunks], merged_left_out)
    assert merged is not None, "some rows are left out once"
    return merged


def merged_left_out(one: LeftOut | None, other: LeftOut | None) -> LeftOut | None:
    """Return what two parts of the rows tell together; None: nothing."""
    if one is None or other is None:
        return one or other
    return one + other


def fold_plan(names: tuple[str, ...], folds: MemberFolds, chunk: Chunk, *, refit: bool) -> FoldPlan:
    """Return the plan by which held-out rows of a chunk are predicted; it trains no networks."""
    fold_of = folds.of(chunk.units)
    left_out = fold_of[:, 0] >= 0
    held_out = None if left_out.all() else np.flatnonzero(left_out)
    return FoldPlan(names, [], [], [], fold_of, held_out, refit)


def whole(rows: Rows, units: object) -> Chunk:
    """Return rows in memory as a chunk."""
    return Chunk(rows, np.asarray(units, dtype=np.uint64))


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
    ``first_fold`` is the fold that the network of the first job leaves out.
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
        cls, settings: NetworkSettings, sample: Rows, plan: ChunkPlan, member: int, n_chunks: int
    ) -> MemberTraining:
        """Return the networks of a member before training; encodings of inputs are learned from the sample."""
        encoding, jobs = settings.jobs_of_member(sample, plan.seeds[member], plan.members[member])
        epochs = jobs[0].config.epochs
        return cls(
            jobs=tuple(replace(job, config=_by_passes(job, n_chunks)) for job in jobs),
            encoding=encoding,
            folds=replace(plan.folds, seeds=plan.folds.seeds[member : member + 1]),
            seed=plan.member_seeds[member],
            epochs=epochs,
            n_chunks=n_chunks,
            mean_count=plan.mean_count,
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
        from bdkn.networks.fused import Run
        from bdkn.networks.job import TrainingTable

        assert self.states is not None, "a member has made at least one pass"
        nothing = TrainingTable(np.empty((0, self.jobs[0].spec.n_inputs), np.float32), np.empty(0, np.float32), None)
        none = np.empty(0, dtype=np.int32)
        runs = [Run.resume(job, nothing, none, state) for job, state in zip(self.jobs, self.states, strict=True)]
        trained = Trained.join(
            [
                Trained(run.networks(), (self._by_epoch(run.losses()),), (np.empty(0),), (self.epochs - 1,))
                for run in runs
            ]
        )
        if self.encoding is None:
            return trained
        return replace(trained, networks=with_encoding(self.encoding, trained.networks))

    def _by_epoch(self, losses: Array) -> Array:
        return np.asarray(losses.reshape(-1, self.n_chunks).mean(axis=1))


@dataclass(frozen=True, eq=False)
class ChunkPlan:
    """The networks to train: of each member its number, its own seed, and the seeds of its networks, fold by fold."""

    members: Sequence[int]
    member_seeds: Sequence[np.random.SeedSequence]
    seeds: Sequence[Sequence[np.random.SeedSequence]]
    folds: MemberFolds
    mean_count: float


def train_on_chunks(
    settings: NetworkSettings,
    sample: Rows,
    plan: ChunkPlan,
    chunks: Chunks,
    on_pass: Callable[[float], None] | None = None,
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
    on_pass
        Called with 1 after each pass of a member over a chunk, by any thread.
    """
    from bdkn.networks.fused import Queue, prepare, threads

    prepare()
    waiting = [_Turn(member, chunks) for member in beginning(settings, sample, plan, len(chunks))]
    report = None if on_pass is None else lambda number, turn: on_pass(1)
    Queue(waiting, report).finish(min(threads(settings.n_jobs), len(waiting)))
    return in_grid_order([turn.member.trained() for turn in waiting])


def beginning(settings: NetworkSettings, sample: Rows, plan: ChunkPlan, n_chunks: int) -> list[MemberTraining]:
    """Return all members of a plan before training."""
    check_trains_on_chunks(settings)
    return [MemberTraining.start(settings, sample, plan, member, n_chunks) for member in range(len(plan.members))]


def in_grid_order(members: Sequence[Trained]) -> Trained:
    """Return the networks of members, each given fold by fold, in the order of a ``FoldGrid``."""
    order = np.arange(len(members) * len(members[0].best_epochs)).reshape(len(members), -1).T.ravel()
    return Trained.join(members)[order]


def check_trains_on_chunks(settings: NetworkSettings) -> None:
    """Raise if networks with these settings cannot be trained on chunks."""
    if settings.early_stopping:
        raise InvalidParameterError("rows in blocks are trained on without early stopping; got early_stopping=True")
    if settings.engine not in ("fused", "auto"):
        raise InvalidParameterError(
            f"rows in blocks are trained on by the engine 'fused', on the CPU; got engine={settings.engine!r}; "
            "leave it out, or fit to rows in memory"
        )


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
        """Make one pass, whatever number is asked for."""
        self.member = self.member.after(self._chunks.read(self.member.next_chunk))


def _by_passes(job: Job, n_chunks: int) -> TrainingConfig:
    """Return the settings of a job in which an epoch is a pass over one chunk."""
    config = job.config
    return replace(config, epochs=config.epochs * n_chunks, warmup_epochs=config.warmup_epochs * n_chunks)


_NUMBERS_AT_ONCE = 2**20
"""Row numbers whose chunks are computed at once."""

Encoded = tuple[Numbers, Numbers, Rows]
"""Numbers of rows, the numbers that folds are functions of, and the rows as networks see them."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows as networks see them, in the order of their numbers, and the ``units`` that folds are functions of."""

    rows: Rows
    units: Numbers

    def __len__(self) -> int:
        return len(self.units)

    def __sizeof__(self) -> int:  # by which Dask decides what to move and what to keep in memory
        return sum(array.nbytes for array in (self.rows.X, self.rows.y, self.units)) + 8 * len(self)


def number_of_chunks(n: int, chunk_rows: int = CHUNK_ROWS) -> int:
    """Return the number of chunks of about equal size for so many rows."""
    return -(-n // chunk_rows)


class ChunkFile(AbstractContextManager["ChunkFile"]):
    """A temporary file with chunks of encoded rows; it is removed when the block is left.

    Parameters
    ----------
    sizes : array (C,)
        The number of rows for which each chunk has room.
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
        """Ask for the space of all rows, so that a disk that is too small is known before the work begins."""
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


OnPass = Callable[[float], None]
"""Called with the number of passes over chunks that have been made since the last call."""


class KeptChunks(AbstractContextManager["KeptChunks"], Protocol):
    """Chunks of all rows, encoded; they are given back when the block is left."""

    def __len__(self) -> int:
        """Return the number of chunks."""

    def train(self, settings: NetworkSettings, sample: Rows, plan: ChunkPlan, on_pass: OnPass | None) -> Trained:
        """Return the networks of a plan, trained on all chunks, in the order of a ``FoldGrid``."""

    def left_out(self, summary: Summary) -> LeftOut:
        """Return what all rows tell that members leave out."""


class RowPlace(Protocol):
    """Where rows are, and where their chunks will be kept."""

    def sample(self) -> Sample:
        """Return a sample of the rows, which is drawn in one pass."""

    def chunks(self, sample: Sample, encoding: RowEncoding, known: KnownInputs) -> KeptChunks:
        """Return all rows, encoded, in chunks."""


@dataclass(frozen=True, eq=False)
class ThisMachine:
    """The rows of a source, read block by block; chunks, and the sample, have about ``chunk_rows`` rows."""

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

    def train(self, settings: NetworkSettings, sample: Rows, plan: ChunkPlan, on_pass: OnPass | None) -> Trained:
        return train_on_chunks(settings, sample, plan, self.file, on_pass)

    def left_out(self, summary: Summary) -> LeftOut:
        return statistics_of_chunks(summary, self.file)
