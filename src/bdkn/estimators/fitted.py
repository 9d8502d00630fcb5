"""Fitted states: the results of a fit of an ensemble or a stack, one frozen object per regressor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from bdkn.data.folds import Folds, OwnFolds
from bdkn.data.scaling import TargetScaler
from bdkn.ensemble.chunks import LeftOut
from bdkn.ensemble.cross_fitting import NetworkGrid
from bdkn.ensemble.estimators import EstimatorMember
from bdkn.ensemble.held_out import HeldOut, MemberScores
from bdkn.ensemble.networks import NetworkEnsemble
from bdkn.ensemble.provenance import FitProvenance
from bdkn.inference import Absorbed, Combination
from bdkn.model.density import NeighbourDensity
from bdkn.model.extrapolation import Widening
from bdkn.model.row_memory import RowMemory
from bdkn.model.value_model import ValueModel
from bdkn.networks import Trained
from bdkn.storage.fields import (
    Either,
    Fixed,
    Items,
    Number,
    Part,
    Text,
    WrongContentError,
    floats,
    integers,
    must,
    sizes,
    stored,
)
from bdkn.typing import Array, FloatArray, IndexArray


@stored
@dataclass(frozen=True, eq=False)
class Updates:
    """What a regressor has absorbed since its fit.

    ``log_slopes`` is Σ c log g′(y) over later rows, with the link g in scaled units. ``merged`` are the digests of the
    statistics of other regressors that were merged.
    """

    absorbed: Absorbed
    log_slopes: float = 0.0
    memory: RowMemory = field(default_factory=RowMemory)
    merged: tuple[str, ...] = ()


Pair = tuple[str, Any]
"""A name and an estimator."""

ESTIMATORS = Items(Fixed(Text(), Either(str, Text(), Part("SavedModel"))), list)
"""Content of a list of names and regressors, or texts that stand for one."""

_Curve = Annotated[Array, floats("*", types=("f4", "f8"), finite=False)]


@stored
@dataclass(frozen=True, eq=False)
class FittedNetworks:
    """Networks in use, their scores in scaled units, and the course of their training.

    There is one curve and one best epoch per network, in the order of ``ensemble.grid``.
    """

    ensemble: Annotated[NetworkEnsemble, sizes(H=len, N=lambda ensemble: len(ensemble.networks))]
    scores: Annotated[MemberScores, sizes(H="mse.size")]
    loss_curves: Annotated[tuple[_Curve, ...], sizes(N=len)]
    validation_curves: Annotated[tuple[_Curve, ...], sizes(N=len)]
    best_epochs: Annotated[IndexArray, integers("N", low=-1)]

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
    def input_sizes(self) -> set[int]:
        """The number of inputs that the networks expect."""
        return {self.ensemble.inputs.n_columns}

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


@stored
@dataclass(frozen=True, eq=False)
class Combined:
    """The combination of the members in use, and the held-out predictions it was fitted to.

    ``combination`` is in the scaled units of ``targets``. ``held_out``, ``provenance`` and ``widening`` are None if no
    rows were held out of training, ``values`` if there are no values that many targets share, ``density`` if
    predictions are Student-t distributions, ``updates`` if no rows were absorbed since the fit. After a fit to more
    rows than are kept in memory, ``held_out`` is of a sample, and ``left_out`` has the sufficient statistics of all
    held-out rows; else it is None.
    """

    combination: Annotated[Combination, sizes(H="weights.size", W="posterior.mean.size")]
    targets: TargetScaler
    held_out: Annotated[HeldOut | None, sizes(H="n_members")] = None
    provenance: FitProvenance | None = None
    values: ValueModel | None = None
    widening: Widening | None = None
    density: NeighbourDensity | None = None
    updates: Annotated[Updates | None, sizes(W="absorbed.fitted.posterior.mean.size")] = None
    left_out: Annotated[LeftOut | None, sizes(W="statistics.n_weights")] = None

    def check(self) -> None:
        """Raise unless rows absorbed have held-out rows to join, and values are those of the same members."""
        must(self.updates is None or self.held_out is not None, "rows are absorbed by a model with held-out rows only")
        if self.values is not None and self.values.rest is not None:
            same = self.values.rest.weights.size == self.combination.weights.size
            must(same, "values must be of these members")

    @property
    def input_sizes(self) -> set[int]:
        """The numbers of inputs that parts expect; empty if they take any."""
        found = set()
        if self.widening is not None:
            found.add(self.widening.support.prototypes.shape[1])
        if self.density is not None and self.density.columns is None:
            found.add(self.density.neighbours.inputs.n_columns)
        return found


@stored
@dataclass(frozen=True, eq=False)
class FittedBDKN:
    """The state of ``BDKNRegressor``; ``n_trained`` networks were trained for it, in use or not."""

    networks: Annotated[FittedNetworks, sizes(H=lambda networks: len(networks.ensemble))]
    combined: Annotated[Combined, sizes(H="combination.weights.size")]
    n_trained: Annotated[int, Number(low=1)]

    def check(self) -> None:
        """Raise unless all parts are of the same columns and folds."""
        ensemble, held_out = self.networks.ensemble, self.combined.held_out
        must(len(self.input_sizes) == 1, "all parts must be of the same columns")
        if held_out is not None and held_out.fold_of is not None:
            must(held_out.fold_of.max() < ensemble.grid.n_folds, "fold_of must be one of the folds")

    @property
    def input_sizes(self) -> set[int]:
        """The numbers of inputs that parts expect."""
        return self.networks.input_sizes | self.combined.input_sizes


@stored
@dataclass(frozen=True, eq=False)
class FittedStack:
    """The state of ``BayesianStackingRegressor``: members in use, all candidates as they were given, and the folds."""

    members: Annotated[list[EstimatorMember], sizes(H=len)]
    combined: Annotated[Combined, sizes(H="combination.weights.size")]
    candidates: Annotated[list[Pair], ESTIMATORS]
    folds: Folds | OwnFolds

    def check(self) -> None:
        """Raise unless there are held-out rows, and folds and members are theirs."""
        held_out, folds = self.combined.held_out, self.folds
        if held_out is None:
            raise WrongContentError("a stack has held-out rows")
        n = folds.n if isinstance(folds, OwnFolds) else sum(map(len, folds.left_out))
        must(n == len(held_out.y), f"folds must hold out {len(held_out.y)} rows; got {n}")
        for h, member in enumerate(self.members):
            last = -1 if held_out.fold_of is None else held_out.fold_of[:, h].max()
            must(last < len(member.models), f"fold_of must be one of the fits of member {h}")

    @property
    def input_sizes(self) -> set[int]:
        """The numbers of inputs that parts other than the members expect."""
        return self.combined.input_sizes
