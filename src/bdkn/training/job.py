"""The contract of training: jobs and rows in, trained networks out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bdkn.networks import NetworkSpec, Predictor, join
from bdkn.rows import Rows
from bdkn.training.config import TrainingConfig
from bdkn.typing import Array, Float32Array, IndexArray


class RowSelection(Protocol):
    """Row numbers: an array, or an object that NumPy can turn into one when it is needed."""

    def __len__(self) -> int:
        """Return how many rows there are."""

    def __array__(self) -> NDArray[Any]:
        """Return their numbers."""


@dataclass(frozen=True, eq=False)
class RowsWithout:
    """The numbers of ``n`` rows without those left out, computed when they are used: those of all networks take memory.

    NumPy takes it for an array.
    """

    n: int
    left_out: IndexArray

    def __len__(self) -> int:
        return self.n - len(self.left_out)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        others = np.ones(self.n, dtype=bool)
        others[self.left_out] = False
        return np.flatnonzero(others).astype(np.int32 if dtype is None else dtype)


@dataclass(frozen=True, eq=False)
class Job:
    """One network to train: its shape, how to train it, its seed, and the numbers of its rows (None: all rows)."""

    spec: NetworkSpec
    config: TrainingConfig
    seed: np.random.SeedSequence
    rows: RowSelection | None = None


@dataclass(frozen=True)
class EpochReport:
    """The state of one job after an epoch.

    ``job`` is the job's number in the list given to ``train``. ``mean`` and ``variance`` are the network's outputs for
    the watched rows, None without any. ``is_last`` is True if the job ends with this epoch.
    """

    job: int
    epoch: int
    loss: float
    validation_loss: float | None
    mean: Array | None
    variance: Array | None
    is_last: bool = False


Hook = Callable[[EpochReport], None]
"""Called after every epoch of every job, by one thread at a time."""


@dataclass(frozen=True)
class Trained:
    """Trained networks in the order of their jobs, with the record of their training.

    Loss curves have one value per epoch, validation curves too, or none without early stopping. The weights of a
    network are those after its best epoch, counted from 0.
    """

    networks: Predictor
    loss_curves: tuple[Array, ...]
    validation_curves: tuple[Array, ...]
    best_epochs: tuple[int, ...]

    @classmethod
    def join(cls, parts: Sequence[Trained]) -> Trained:
        """Return the networks of all parts, one part after the other."""
        return cls(
            join([part.networks for part in parts]),
            tuple(curve for part in parts for curve in part.loss_curves),
            tuple(curve for part in parts for curve in part.validation_curves),
            tuple(epoch for part in parts for epoch in part.best_epochs),
        )

    def __getitem__(self, numbers: Sequence[int] | IndexArray) -> Trained:
        return Trained(
            self.networks[numbers],
            tuple(self.loss_curves[h] for h in numbers),
            tuple(self.validation_curves[h] for h in numbers),
            tuple(self.best_epochs[h] for h in numbers),
        )


class Engine(Protocol):
    """Trains networks."""

    def train(
        self,
        jobs: Sequence[Job],
        rows: Rows,
        *,
        n_jobs: int | None = None,
        watch: Float32Array | None = None,
        on_epoch: Hook | None = None,
    ) -> Trained:
        """Train one network per job; a network does not depend on the other jobs.

        Parameters
        ----------
        jobs
            The networks to train, in the order in which they are returned.
        rows
            The table that the jobs' row numbers refer to: ``X`` scaled, C-contiguous, in single precision; ``y``
            scaled; ``counts``, or None where every row counts once.
        n_jobs
            Threads to use, as scikit-learn defines it: None is 1, -1 all cores. The result does not depend on it.
        watch
            Rows, scaled as ``rows.X`` is, whose outputs are part of each report.
        on_epoch
            Called after every epoch of every job.
        """


@dataclass(frozen=True, eq=False)
class Task:
    """Jobs and their table of ``n_rows``; ``rows`` makes it when it is needed, since many tables take much memory."""

    jobs: Sequence[Job]
    n_rows: int
    rows: Callable[[], Rows]


def train_tasks(
    engine: Engine, tasks: Sequence[Task], *, n_jobs: int | None = None, on_epoch: Hook | None = None
) -> list[Trained]:
    """Train tasks, all at once if the engine has a method ``train_many``, else one after the other.

    ``train_many`` has the arguments of this function. In reports jobs are numbered through all tasks.
    """
    if hasattr(engine, "train_many"):
        many: list[Trained] = engine.train_many(tasks, n_jobs=n_jobs, on_epoch=on_epoch)
        return many
    trained, first = [], 0
    for task in tasks:
        hook = renumbered(on_epoch, range(first, first + len(task.jobs)))
        trained.append(engine.train(task.jobs, task.rows(), n_jobs=n_jobs, on_epoch=hook))
        first += len(task.jobs)
    return trained


def renumbered(on_epoch: Hook | None, numbers: Sequence[int]) -> Hook | None:
    """Return the hook for some of the jobs, whose reports have the numbers that these jobs have among all."""
    if on_epoch is None:
        return None

    def report(part: EpochReport) -> None:
        on_epoch(replace(part, job=int(numbers[part.job])))

    return report


def train_in_groups(groups: Sequence[Sequence[int]], train: Callable[[Sequence[int]], Trained]) -> Trained:
    """Train groups of jobs, given by their numbers, one group after the other; return all in the order of the jobs."""
    order = np.argsort(np.concatenate([np.asarray(group, dtype=np.intp) for group in groups]))
    return Trained.join([train(group) for group in groups])[order]
