"""The seam between data and networks: an engine turns rows into trained networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bdkn.errors import InvalidParameterError, check_choice
from bdkn.networks import Networks, NetworkSpec, Predictor, initial_networks, join
from bdkn.training.config import TrainingConfig
from bdkn.training.order import Streams
from bdkn.typing import Array, Float32Array


@dataclass(frozen=True)
class Rows:
    """Scaled training rows in single precision; ``weight``, where given, has mean 1.

    ``only``, where given, are for each network the numbers of the rows it is trained on: to it, there are no others.
    """

    X: Float32Array
    y: Float32Array
    weight: Float32Array | None = None
    only: Sequence[NDArray[np.intp]] | None = None

    def __post_init__(self) -> None:
        if not (self.X.flags.c_contiguous and self.X.dtype == self.y.dtype == np.float32):
            raise InvalidParameterError("Rows needs C-contiguous float32 arrays; convert with numpy.ascontiguousarray")

    def taken(self, network: int) -> Rows:
        """Return the rows a network is trained on as a table of their own."""
        if self.only is None:
            return self
        rows = self.only[network]
        return Rows(self.X[rows], self.y[rows], None if self.weight is None else self.weight[rows])


@dataclass(frozen=True)
class EpochReport:
    """What a hook is told after an epoch of one member.

    ``mean`` and ``variance`` are of the watched rows; ``is_last`` says that the member trains no further.
    """

    member: int
    epoch: int
    loss: float
    validation_loss: float | None
    mean: Array | None
    variance: Array | None
    is_last: bool = False


Hook = Callable[[EpochReport], None]


@dataclass(frozen=True)
class Trained:
    """Trained networks; each curve has one entry an epoch run, validation curves are empty without early stopping."""

    networks: Predictor
    loss_curves: tuple[Array, ...]
    validation_curves: tuple[Array, ...]
    best_epochs: tuple[int, ...]

    @classmethod
    def join(cls, parts: Sequence[Trained]) -> Trained:
        """Return the networks of all parts, in their order."""
        return cls(
            join([part.networks for part in parts]),
            tuple(curve for part in parts for curve in part.loss_curves),
            tuple(curve for part in parts for curve in part.validation_curves),
            tuple(epoch for part in parts for epoch in part.best_epochs),
        )

    def __getitem__(self, members: Sequence[int] | NDArray[np.intp]) -> Trained:
        return Trained(
            self.networks[members],
            tuple(self.loss_curves[h] for h in members),
            tuple(self.validation_curves[h] for h in members),
            tuple(self.best_epochs[h] for h in members),
        )


class Engine(Protocol):
    """Trains one network a seed; networks never see one another."""

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
        """Train and return; ``on_epoch`` is called after every epoch of every member, with outputs on ``watch``."""


ENGINES = ("fused", "reference", "torch")


def get_engine(engine: str | Engine) -> Engine:
    """Return the engine of that name, or the engine itself."""
    if not isinstance(engine, str):
        return engine
    check_choice("engine", engine, ENGINES)
    if engine == "reference":
        from bdkn.training.reference import ReferenceEngine

        return ReferenceEngine()
    if engine == "torch":
        from bdkn.training.torch_engine import TorchEngine

        return TorchEngine()
    from bdkn.training.fused import FusedEngine

    return FusedEngine()


def start_networks(spec: NetworkSpec, seeds: Sequence[np.random.SeedSequence]) -> tuple[Networks, list[Streams]]:
    """Return the initial networks and the random streams that go with them."""
    streams = [Streams.of(seed) for seed in seeds]
    return initial_networks(spec, [stream.initial for stream in streams]), streams


def renumbered(on_epoch: Hook, numbers: Sequence[int]) -> Hook:
    """Return the hook for networks that are ``numbers`` among all."""

    def told(report: EpochReport) -> None:
        on_epoch(replace(report, member=numbers[report.member]))

    return told


def one_by_one(
    train: Callable[[Rows, Sequence[np.random.SeedSequence], Hook | None], Trained],
    rows: Rows,
    seeds: Sequence[np.random.SeedSequence],
    on_epoch: Hook | None,
) -> Trained:
    """Train side by side where all networks see the same rows, else one after the other, each on its own."""
    if rows.only is None:
        return train(rows, seeds, on_epoch)
    hooks = [on_epoch and renumbered(on_epoch, [h]) for h in range(len(seeds))]
    return Trained.join([train(rows.taken(h), [seed], hooks[h]) for h, seed in enumerate(seeds)])
