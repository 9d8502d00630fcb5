"""Trained networks as members: scaled inputs in, raw units out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.errors import DivergedError, InvalidParameterError
from bdkn.inference import Forecast
from bdkn.members.scaling import Standardizer, TargetScaler
from bdkn.networks import Predictor
from bdkn.typing import FloatArray

_BLOCK_ROWS = 1 << 15
"""Rows whose outputs by every network are held at once."""


def networks_of(members: Sequence[int] | NDArray[np.intp], of: int, n_networks: int) -> NDArray[np.intp]:
    """Return the numbers (folds, members) of the networks of some members ``of`` so many, which have one a fold."""
    return np.arange(0, n_networks, of)[:, None] + np.asarray(members, dtype=np.intp)


@dataclass(frozen=True)
class NetworkMember:
    """One member, a network or an average over folds, with the scaling it was trained under."""

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
    """H members trained under one scaling, each one network or the average of one network from every fold.

    ``networks`` holds the H networks of the first fold, then those of the second, and so on. ``variances`` (H,), where
    given, stands in for the networks' own variances: those of networks trained on squared error alone mean nothing. It
    is in scaled units, as are ``outputs``.
    """

    names: tuple[str, ...]
    networks: Predictor
    inputs: Standardizer
    targets: TargetScaler
    variances: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, chosen: Sequence[int] | NDArray[np.intp]) -> NetworkEnsemble:
        return replace(
            self,
            names=tuple(self.names[h] for h in chosen),
            networks=self.networks[networks_of(chosen, len(self), len(self.networks)).ravel()],
            variances=None if self.variances is None else self.variances[chosen],
        )

    @property
    def members(self) -> list[NetworkMember]:
        """The members one by one."""
        return [NetworkMember(name, self[[h]]) for h, name in enumerate(self.names)]

    def outputs(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return means and variances of raw rows, each (n, H), in scaled units; raise where one is not finite.

        Where a member is an average over folds, its variance is theirs together with that of their means.
        """
        means, variances = self._by_fold(self._checked(X))
        return means.mean(axis=0), variances.mean(axis=0) + means.var(axis=0)

    def forecast(self, X: ArrayLike) -> Forecast:
        """Return what the members say about raw rows, in scaled units, a block of rows at a time."""
        rows = self._checked(X)
        blocks = [rows[start : start + _BLOCK_ROWS] for start in range(0, max(1, len(rows)), _BLOCK_ROWS)]
        return Forecast.concatenate([Forecast.of(*self._by_fold(block)) for block in blocks])

    def _by_fold(self, rows: NDArray[np.generic]) -> tuple[FloatArray, FloatArray]:
        """Return means and variances of every network, each (folds, n, H)."""
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = self.networks.outputs(self.inputs.transform(rows))
        shape = (len(self.networks) // len(self), len(self), len(rows))
        means, variances = (np.asarray(part, dtype=np.float64).reshape(shape).swapaxes(1, 2) for part in outputs)
        if self.variances is not None:
            variances = np.broadcast_to(self.variances, means.shape)
        self._check_finite(means, variances)
        return means, variances

    def _checked(self, X: ArrayLike) -> NDArray[np.generic]:
        rows, width = np.asarray(X), len(self.inputs.mean)
        if rows.ndim != 2 or rows.shape[1] != width:
            raise InvalidParameterError(
                f"rows must be (n, {width}), their columns in the order of the training rows; got shape {rows.shape}"
            )
        if not np.isfinite(rows).all():
            raise InvalidParameterError("rows must be finite; they hold NaN or infinity: drop or impute such rows")
        return rows

    def _check_finite(self, means: FloatArray, variances: FloatArray) -> None:
        if not (np.isfinite(means).all() and np.isfinite(variances).all()):
            _, rows, members = np.nonzero(~(np.isfinite(means) & np.isfinite(variances)))
            raise DivergedError(
                f"{self.names[members[0]]} overflows on row {rows[0]}, which lies far outside the training rows or "
                "meets a network with very large weights; check that row, or fit again with a lower learning_rate"
            )
