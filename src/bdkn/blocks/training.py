"""Training of networks on one chunk of rows after the other.

The networks of a member, one per fold, go through the chunks together, each member in an order of its own. A pass over
a chunk takes the state of these networks to the next one and changes nothing else: it can be done in any thread or
process, again if it failed, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from bdkn.blocks.chunks import Chunk
from bdkn.blocks.numbering import MemberFolds
from bdkn.errors import InvalidParameterError
from bdkn.networks import PiecewiseLinear, with_encoding
from bdkn.rows import Rows
from bdkn.training import NetworkSettings, Trained
from bdkn.training.config import TrainingConfig
from bdkn.training.job import Job
from bdkn.typing import Array, IndexArray

if TYPE_CHECKING:
    from bdkn.training.fused.epochs import State
    from bdkn.training.rows import TrainingTable

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
        from bdkn.training.fused.engine import Run

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
        from bdkn.training.rows import TrainingTable

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
        from bdkn.training.fused.engine import Run
        from bdkn.training.rows import TrainingTable

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
    from bdkn.training.fused.engine import Queue, prepare, threads

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
