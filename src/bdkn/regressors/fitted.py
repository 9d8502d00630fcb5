"""Fitted states: the results of a fit of an ensemble or a stack, one frozen object per regressor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bdkn.blocks import LeftOut
from bdkn.inference import Combination
from bdkn.members import (
    EstimatorMember,
    Folds,
    HeldOut,
    MemberScores,
    NetworkEnsemble,
    NetworkGrid,
    OwnFolds,
    TargetScaler,
    Widening,
)
from bdkn.members.density import NeighbourDensity
from bdkn.members.provenance import FitProvenance
from bdkn.members.value_model import ValueModel
from bdkn.regressors.update_state import Updates
from bdkn.training import Trained
from bdkn.typing import Array, FloatArray, IndexArray

Pair = tuple[str, Any]
"""A name and an estimator."""


@dataclass(frozen=True, eq=False)
class FittedNetworks:
    """Networks in use, their scores in scaled units, and the course of their training.

    There is one curve and one best epoch per network, in the order of ``ensemble.grid``.
    """

    ensemble: NetworkEnsemble
    scores: MemberScores
    loss_curves: tuple[Array, ...]
    validation_curves: tuple[Array, ...]
    best_epochs: IndexArray

    @classmethod
    def of(cls, ensemble: NetworkEnsemble, scores: MemberScores, trained: Trained) -> FittedNetworks:
        """Return the state of an ensemble whose networks were trained in that order."""
        return cls(ensemble, scores, trained.loss_curves, trained.validation_curves, np.array(trained.best_epochs))

    def __getitem__(self, members: IndexArray) -> FittedNetworks:
        return FittedNetworks.of(self.ensemble[members], self.scores[members], self.networks[members].trained)

    @property
    def networks(self) -> NetworkGrid:
        """The networks with the course of their training."""
        epochs = tuple(self.best_epochs.tolist())
        trained = Trained(self.ensemble.networks, self.loss_curves, self.validation_curves, epochs)
        return NetworkGrid(trained, self.ensemble.grid)

    @property
    def n_iter(self) -> int:
        """Epochs run by the network that ran longest."""
        return max(map(len, self.loss_curves))

    @property
    def loss_curve(self) -> FloatArray:
        """Training loss per epoch, averaged over the networks that ran it."""
        curves = np.full((len(self.loss_curves), self.n_iter), np.nan)
        for row, curve in zip(curves, self.loss_curves, strict=True):
            row[: len(curve)] = curve
        return np.asarray(np.nanmean(curves, axis=0))

    def table(self) -> dict[str, Any]:
        """Return one column per key: each member's name, RMSE and NLL in the units of the target, and epochs."""
        scale, grid = self.ensemble.targets.scale, self.ensemble.grid
        epochs = np.array([len(curve) for curve in self.loss_curves])
        return {
            "member": list(self.ensemble.names),
            "rmse": scale * self.scores.rmse,
            "nll": self.scores.nll + np.log(scale),
            "epochs": grid.arrange(epochs).max(axis=0),
            "best_epoch": grid.arrange(self.best_epochs).max(axis=0) + 1,
        }


@dataclass(frozen=True, eq=False)
class Combined:
    """The combination of the members in use, and the held-out predictions it was fitted to.

    ``combination`` is in the scaled units of ``targets``. ``held_out`` and ``provenance`` are None if no rows were left
    out of training, as is ``widening``, which is None in files of earlier versions, too. ``values`` is None if there
    are no values that many targets share, ``density`` if predictions are Student-t distributions, ``updates`` if no
    rows were absorbed since the fit. After a fit to more rows than are kept in memory, ``held_out`` is of a sample, and
    ``left_out`` tells about all rows that were left out once; else it is None.
    """

    combination: Combination
    targets: TargetScaler
    held_out: HeldOut | None = None
    provenance: FitProvenance | None = None
    values: ValueModel | None = None
    widening: Widening | None = None
    density: NeighbourDensity | None = None
    updates: Updates | None = None
    left_out: LeftOut | None = None


@dataclass(frozen=True, eq=False)
class FittedBDKN:
    """The state of ``BDKNRegressor``; ``n_trained`` networks were trained for it, in use or not."""

    networks: FittedNetworks
    combined: Combined
    n_trained: int


@dataclass(frozen=True, eq=False)
class FittedStack:
    """The state of ``BayesianStackingRegressor``: members in use, all candidates as they were given, and the folds."""

    members: list[EstimatorMember]
    combined: Combined
    candidates: list[Pair]
    folds: Folds | OwnFolds
