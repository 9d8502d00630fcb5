"""Trained networks as members: scaled inputs in, raw units out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.errors import DivergedError, InvalidParameterError
from bdkn.members.member import FloatArray
from bdkn.members.scaling import Standardizer, TargetScaler
from bdkn.networks import Predictor


@dataclass(frozen=True)
class NetworkMember:
    """One network with the scaling it was trained under."""

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
    """H networks trained under one scaling.

    ``variances`` (H,), where given, stands in for the networks' own variances: those of networks trained on squared
    error alone mean nothing. It is in scaled units, as are ``outputs``.
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
            networks=self.networks[chosen],
            variances=None if self.variances is None else self.variances[chosen],
        )

    @property
    def members(self) -> list[NetworkMember]:
        """The networks one by one."""
        return [NetworkMember(name, self[[h]]) for h, name in enumerate(self.names)]

    def outputs(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return means and variances of raw rows, each (n, H), in scaled units; raise where one is not finite."""
        rows = self._checked(X)
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = self.networks.outputs(self.inputs.transform(rows))
        means, variances = (np.asarray(part.T, dtype=np.float64) for part in outputs)
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
        rows, members = np.nonzero(~(np.isfinite(means) & np.isfinite(variances)))
        if len(rows):
            raise DivergedError(
                f"{self.names[members[0]]} overflows on row {rows[0]}, which lies far outside the training rows or "
                "meets a network with very large weights; check that row, or fit again with a lower learning_rate"
            )
