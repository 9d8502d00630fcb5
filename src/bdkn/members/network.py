"""Networks as members: arranged by fold and member, and with the encoders they were trained under."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.errors import DivergedError
from bdkn.inference import Forecast
from bdkn.members.encoding import Encoder, TargetScaler
from bdkn.networks import Predictor
from bdkn.training import Trained
from bdkn.typing import Array, BoolArray, FloatArray, IndexArray

Members = Sequence[int] | IndexArray
Number = TypeVar("Number", bound=np.generic)

_BLOCK_ROWS = 1 << 15
"""Rows whose outputs by every network are held at once."""


@dataclass(frozen=True)
class FoldGrid:
    """The arrangement of networks by fold and member: all members of the first fold, then those of the second, ..."""

    n_folds: int
    n_members: int

    @classmethod
    def of(cls, n_networks: int, n_members: int) -> FoldGrid:
        """Return the grid of so many networks of so many members."""
        return cls(n_networks // n_members, n_members)

    def numbers(self, members: Members) -> IndexArray:
        """Return the numbers (n_folds, members) of the networks of some members."""
        return np.arange(self.n_folds)[:, None] * self.n_members + np.asarray(members, dtype=np.intp)

    def arrange(self, values: NDArray[Number]) -> NDArray[Number]:
        """Return one value, or array, per network as an array (n_folds, n_members, ...)."""
        flat = np.asarray(values)
        return flat.reshape(self.n_folds, self.n_members, *flat.shape[1:])


@dataclass(frozen=True, eq=False)
class NetworkGrid:
    """Trained networks, one per fold and member."""

    trained: Trained
    n_members: int

    @property
    def grid(self) -> FoldGrid:
        """How the networks are arranged."""
        return FoldGrid.of(len(self.trained.loss_curves), self.n_members)

    def __getitem__(self, members: Members) -> NetworkGrid:
        return NetworkGrid(self.trained[self.grid.numbers(members).ravel()], len(members))

    def outputs(self, member: int, X: Array) -> tuple[Array, Array]:
        """Return means and variances, each (n_folds, n), of a member's networks."""
        return self.trained.networks[self.grid.numbers([member]).ravel()].outputs(X)

    def is_finite(self) -> BoolArray:
        """Return for each member whether all weights of all its networks are finite."""
        return np.asarray(self.grid.arrange(self.trained.networks.is_finite()).all(axis=0))

    def join(self, other: NetworkGrid) -> NetworkGrid:
        """Return the members of both: in each fold first these, then the other ones."""
        ours, theirs = (one.grid.numbers(range(one.n_members)) for one in (self, other))
        order = np.hstack([ours, ours.size + theirs])
        return NetworkGrid(Trained.join([self.trained, other.trained])[order.ravel()], self.n_members + other.n_members)


@dataclass(frozen=True)
class NetworkMember:
    """One member, a network or an average over folds, with the encoders it was trained under."""

    name: str
    ensemble: NetworkEnsemble

    def predict(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return each row's mean and variance in the units of the target."""
        means, variances = self.ensemble.outputs(X)
        targets = self.ensemble.targets
        with np.errstate(over="ignore", under="ignore"):
            return targets.mean + targets.scale * means[:, 0], np.square(targets.scale * np.sqrt(variances[:, 0]))


@dataclass(frozen=True)
class NetworkEnsemble:
    """H members trained under the same encoders, each one network or the average of one network per fold.

    ``networks`` are arranged as a ``FoldGrid``. ``variances`` (H,), where given, replace the networks' own variances,
    which mean nothing if networks were trained on squared error alone. They are in scaled units, as are ``outputs``.
    """

    names: tuple[str, ...]
    networks: Predictor
    inputs: Encoder
    targets: TargetScaler
    variances: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.names)

    @property
    def grid(self) -> FoldGrid:
        """How the networks are arranged."""
        return FoldGrid.of(len(self.networks), len(self))

    def __getitem__(self, members: Members) -> NetworkEnsemble:
        return replace(
            self,
            names=tuple(self.names[h] for h in members),
            networks=self.networks[self.grid.numbers(members).ravel()],
            variances=None if self.variances is None else self.variances[members],
        )

    @property
    def members(self) -> list[NetworkMember]:
        """The members one by one."""
        return [NetworkMember(name, self[[h]]) for h, name in enumerate(self.names)]

    def outputs(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return means and variances of table rows, each (n, H), in scaled units; raise where one is not finite.

        If a member is an average over folds, its variance is the folds' average plus the variance of their means.
        """
        means, variances = self._by_fold(self.inputs.check(X))
        return means.mean(axis=0), variances.mean(axis=0) + means.var(axis=0)

    def forecast(self, X: ArrayLike) -> Forecast:
        """Return the forecast for table rows, in scaled units, computed a block of rows at a time."""
        table = self.inputs.check(X)
        blocks = [table[start : start + _BLOCK_ROWS] for start in range(0, max(1, len(table)), _BLOCK_ROWS)]
        return Forecast.concatenate([Forecast.of(*self._by_fold(block)) for block in blocks])

    def _by_fold(self, table: NDArray[np.generic]) -> tuple[FloatArray, FloatArray]:
        """Return means and variances of every network, each (folds, n, H)."""
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = self.networks.outputs(self.inputs.transform(table))
        grid = self.grid
        means, variances = (grid.arrange(np.asarray(part, dtype=np.float64)).swapaxes(1, 2) for part in outputs)
        if self.variances is not None:
            variances = np.broadcast_to(self.variances, means.shape)
        self._check_finite(means, variances)
        return means, variances

    def _check_finite(self, means: FloatArray, variances: FloatArray) -> None:
        if not (np.isfinite(means).all() and np.isfinite(variances).all()):
            _, rows, members = np.nonzero(~(np.isfinite(means) & np.isfinite(variances)))
            raise DivergedError(
                f"{self.names[members[0]]} overflows on row {rows[0]}, which lies far outside the training rows or "
                "meets a network with very large weights; check that row, or fit again with a lower learning_rate"
            )
