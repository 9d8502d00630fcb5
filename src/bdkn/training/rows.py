"""The rows of a job: in the precision of training, divided into training and validation rows, in the order of an epoch.

Every engine takes them from here, so that all of them train on the same batches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bdkn.errors import InvalidParameterError
from bdkn.kernels.compiled import compiled
from bdkn.rows import Rows
from bdkn.training.job import Job, RowSelection
from bdkn.typing import Array

RowNumbers = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """Rows in the precision of training.

    ``weight`` is a row's count divided by the mean count of all rows, or None where every row counts once.
    """

    X: Array
    y: Array
    weight: Array | None

    @classmethod
    def of(cls, rows: Rows, jobs: Sequence[Job]) -> TrainingTable:
        """Convert rows for these jobs; a target that is too large becomes infinite, and its networks diverge."""
        _check(rows, jobs)
        with np.errstate(over="ignore"):
            y = rows.y.astype(np.float32)
        weight = None if rows.counts is None else (rows.counts / rows.counts.mean()).astype(np.float32)
        return cls(rows.X, y, weight)

    def astype(self, dtype: DTypeLike) -> TrainingTable:
        """Return the table in another precision."""
        weight = None if self.weight is None else self.weight.astype(dtype, copy=False)
        return TrainingTable(self.X.astype(dtype, copy=False), self.y.astype(dtype, copy=False), weight)

    @property
    def weights(self) -> Array:
        """The weight of each row, 1 where none is given."""
        return np.ones_like(self.y) if self.weight is None else self.weight

    def __getitem__(self, numbers: RowNumbers) -> TrainingTable:
        return TrainingTable(self.X[numbers], self.y[numbers], None if self.weight is None else self.weight[numbers])


def _check(rows: Rows, jobs: Sequence[Job]) -> None:
    X = rows.X
    if not (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype == np.float32 and X.flags.c_contiguous):
        raise InvalidParameterError(
            "an engine needs rows whose X is a C-contiguous float32 array of shape (n, n_inputs); "
            f"got {_described(X)}; convert with numpy.ascontiguousarray(X, dtype=numpy.float32)"
        )
    if not len(jobs):
        raise InvalidParameterError("jobs must hold at least one job; got none")
    for number, job in enumerate(jobs):
        if job.spec.n_inputs != X.shape[1]:
            raise InvalidParameterError(
                f"the network of a job must have one input per column of X, which has {X.shape[1]}; "
                f"got n_inputs={job.spec.n_inputs} in job {number}"
            )
        objective, head = job.config.main_objective, job.spec.head
        if objective.n_outputs != head.n_outputs:
            raise InvalidParameterError(
                "the objective and the head of a network must have the same number of outputs; "
                f"got {objective.n_outputs} for the objective {objective.name!r} and {head.n_outputs} for {head!r}"
            )


def _described(X: object) -> str:
    return f"{X.dtype} of shape {X.shape}" if isinstance(X, np.ndarray) else type(X).__name__


@dataclass(frozen=True)
class Streams:
    """The independent random streams of one job."""

    initial: np.random.Generator
    split: np.random.Generator
    order: int

    @classmethod
    def of(cls, seed: np.random.SeedSequence) -> Streams:
        """Derive the streams from the job's seed; the same seed always gives the same streams."""
        initial, split, order = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key).spawn(3)
        state = int(order.generate_state(1, np.uint64)[0])
        return cls(np.random.default_rng(initial), np.random.default_rng(split), state)


@dataclass(frozen=True, eq=False)
class JobRows:
    """The random streams of one job, and the numbers of its training rows and validation rows.

    The training rows are an array of the job's own, which is shuffled in place in each epoch.
    """

    streams: Streams
    training: RowNumbers
    validation: RowNumbers

    @classmethod
    def of(cls, job: Job, n_rows: int) -> JobRows:
        """Divide the rows of a job, in a table of ``n_rows``."""
        streams = Streams.of(job.seed)
        return cls(streams, *split_rows(job, n_rows, streams.split))


def split_rows(job: Job, n_rows: int, generator: np.random.Generator) -> tuple[RowNumbers, RowNumbers]:
    """Return the numbers of a job's training rows and validation rows, in a table of ``n_rows``.

    There are no validation rows without early stopping, and at least one of each kind with it.
    """
    own = None if job.rows is None else _checked_numbers(job.rows, n_rows)
    n, fraction = n_rows if own is None else len(own), job.config.validation_fraction
    if fraction == 0 or n < 2:
        training = np.arange(n, dtype=np.int32) if own is None else own.astype(np.int32)
        return training, np.empty(0, dtype=np.int32)
    held = min(max(1, round(n * fraction)), n - 1)
    shuffled = generator.permutation(n).astype(np.int32)
    training, validation = np.sort(shuffled[held:]), np.sort(shuffled[:held])
    return (training, validation) if own is None else (own[training].astype(np.int32), own[validation].astype(np.int32))


def _checked_numbers(numbers: RowSelection, n_rows: int) -> NDArray[np.integer]:
    found = np.asarray(numbers)
    if found.ndim == 1 and found.size and found.dtype.kind in "iu" and found.min() >= 0 and found.max() < n_rows:
        return found
    raise InvalidParameterError(
        f"the rows of a job must be a list of row numbers from 0 to {n_rows - 1}; got {found!r}; "
        "leave them out to train on all rows"
    )


@compiled
def shuffle(order: RowNumbers, state: np.uint64) -> np.uint64:
    """Shuffle in place (Fisher-Yates on SplitMix64) and return the generator's next state."""
    for i in range(len(order) - 1, 0, -1):
        state = state + np.uint64(0x9E3779B97F4A7C15)
        z = state
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        high = (z ^ (z >> np.uint64(31))) >> np.uint64(32)
        j = np.int64((high * np.uint64(i + 1)) >> np.uint64(32))
        order[i], order[j] = order[j], order[i]
    return state


class Batches:
    """The rows of jobs with equally many: ``order`` (J, n), shuffled in each epoch, and ``held_out`` (J, n_val)."""

    def __init__(self, jobs: Sequence[JobRows], batch_size: int) -> None:
        self.order: RowNumbers = np.stack([job.training for job in jobs])
        self.held_out: RowNumbers = np.stack([job.validation for job in jobs])
        self.n_train: int = self.order.shape[1]
        self._size = batch_size
        self._states = [np.uint64(job.streams.order) for job in jobs]

    def __len__(self) -> int:
        """Return the number of batches per epoch; the last may be smaller."""
        return math.ceil(self.n_train / self._size)

    def __iter__(self) -> Iterator[RowNumbers]:
        """Yield the batches of the current order, each (J, B)."""
        return consecutive(self.order, self._size)

    def shuffle(self) -> None:
        """Bring the rows of every job into the order of its next epoch."""
        self._states = [np.uint64(shuffle(*pair)) for pair in zip(self.order, self._states, strict=True)]


def consecutive(numbers: RowNumbers, size: int) -> Iterator[RowNumbers]:
    """Yield (J, n) row numbers, ``size`` columns at a time."""
    for start in range(0, numbers.shape[1], size):
        yield numbers[:, start : start + size]


def group_jobs(jobs: Sequence[Job], n_rows: int) -> list[list[int]]:
    """Return the numbers of the jobs that have the same network, settings and number of rows, group by group."""
    groups: dict[object, list[int]] = {}
    for number, job in enumerate(jobs):
        key = job.spec, job.config, n_rows if job.rows is None else len(job.rows)
        groups.setdefault(key, []).append(number)
    return list(groups.values())
