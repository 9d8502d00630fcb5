"""Networks as members of an ensemble."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.blocks import PREDICTED_ROWS, row_slices
from bdkn.data.rows import Rows
from bdkn.data.scaling import Standardizer, TargetScaler
from bdkn.ensemble.cross_fitting import Candidates, FoldGrid, Members, NetworkGrid
from bdkn.ensemble.held_out import HeldOut, MemberScores, ScoredPart, constant_variance
from bdkn.errors import DivergedError
from bdkn.inference import Forecast
from bdkn.networks import EncodedNetworks, MixedNetworks, Networks, Predictor, Trained
from bdkn.networks.gpu import predict_on
from bdkn.networks.job import prediction_device
from bdkn.predictive import Gaussian
from bdkn.stages import stage
from bdkn.storage.fields import Part, Text, floats, integers, must, sizes, stored
from bdkn.typing import Array, BoolArray, FloatArray, IndexArray


@dataclass(frozen=True)
class NetworkMember:
    """One member: a network or an average over folds, with its encoders."""

    name: str
    ensemble: NetworkEnsemble

    def predict(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return each row's mean and variance in the units of the target."""
        means, variances = self.ensemble.outputs(X)
        targets = self.ensemble.targets
        if not targets.is_linear:
            loc, scale = targets.mean + targets.scale * means[:, 0], targets.scale * np.sqrt(variances[:, 0])
            dist = targets.restore(Gaussian(loc, scale))
            return dist.mean(), dist.var()
        with np.errstate(over="ignore", under="ignore"):
            return targets.mean + targets.scale * means[:, 0], np.square(targets.scale * np.sqrt(variances[:, 0]))


@stored
@dataclass(frozen=True)
class NetworkEnsemble:
    """H members with the same encoders, each one network or the average of one network per fold.

    ``networks`` are in the order of a ``FoldGrid``. ``variances`` (H,), if given, replace the networks' own variances,
    which are not trained by the squared error. They are in scaled units, as are ``outputs``.
    """

    names: Annotated[tuple[str, ...], sizes(H=len)]
    networks: Annotated[Predictor, Part(Networks, EncodedNetworks, MixedNetworks), sizes(p="n_columns")]
    inputs: Annotated[Standardizer, sizes(p="n_columns")]
    targets: TargetScaler
    variances: Annotated[FloatArray | None, floats("H", above=0.0)] = None

    def check(self) -> None:
        """Raise unless all members have the same number of networks."""
        n, H = len(self.networks), len(self)
        must(n % H == 0, f"{n} networks cannot be those of {H} members")

    def __len__(self) -> int:
        return len(self.names)

    @property
    def grid(self) -> FoldGrid:
        """The order of the networks by fold and member."""
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
        """The members, each as an object of its own."""
        return [NetworkMember(name, self[[h]]) for h, name in enumerate(self.names)]

    def outputs(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return means and variances of table rows, each (n, H), in scaled units; raise if one is not finite.

        If a member is an average over folds, its variance is the folds' average plus the variance of their means.
        """
        means, variances = self._by_fold(self.inputs.check_rows(X))
        return means.mean(axis=0), variances.mean(axis=0) + means.var(axis=0)

    def forecast(self, X: NDArray[Any]) -> Forecast:
        """Return the forecast for checked rows, in scaled units, computed a block of rows at a time."""
        if len(X) <= PREDICTED_ROWS:
            return Forecast.of(*self._by_fold(X))
        blocks = row_slices(len(X), PREDICTED_ROWS)
        return Forecast.concatenate([Forecast.of(*self._by_fold(X[block])) for block in blocks])

    def by_fold(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return means and variances of every network, each (folds, n, H), for table rows, in scaled units."""
        return self._by_fold(self.inputs.check_rows(X))

    def _by_fold(self, table: NDArray[np.generic]) -> tuple[FloatArray, FloatArray]:
        """Return means and variances of every network, each (folds, n, H)."""
        with np.errstate(over="ignore", invalid="ignore"):
            means, variances = self.networks.outputs(self.inputs.transform(table))
        H = len(self.names)
        shape = (len(means) // H, H, len(table))  # networks are in the order of folds, and of members in a fold
        means = np.asarray(means, dtype=np.float64).reshape(shape).swapaxes(1, 2)
        if self.variances is None:
            variances = np.asarray(variances, dtype=np.float64).reshape(shape).swapaxes(1, 2)
        else:
            variances = np.asarray(np.broadcast_to(self.variances, means.shape))
        if not (np.isfinite(means).all() and np.isfinite(variances).all()):
            _, rows, members = np.nonzero(~(np.isfinite(means) & np.isfinite(variances)))
            raise DivergedError(
                f"{self.names[members[0]]} overflows on row {rows[0]}, which is far from the training rows, or the "
                "network has very large weights; check that row, or fit again with a lower learning_rate"
            )
        return np.asarray(means), np.asarray(variances)


_Curve = Annotated[Array, floats("*", types=("f4", "f8"), finite=False)]


@stored
@dataclass(frozen=True, eq=False)
class NetworkMembers:
    """Networks as members of a model: the ensemble, its scores in scaled units, and the course of training.

    There is one curve and one best epoch per network, in the order of ``ensemble.grid``. Many rows are predicted where
    the ``engine`` trains, which a regressor sets when it predicts; it is not in a file.
    """

    ensemble: Annotated[NetworkEnsemble, sizes(H=len, N=lambda ensemble: len(ensemble.networks))]
    scores: Annotated[MemberScores, sizes(H="mse.size")]
    loss_curves: Annotated[tuple[_Curve, ...], sizes(N=len)]
    validation_curves: Annotated[tuple[_Curve, ...], sizes(N=len)]
    best_epochs: Annotated[IndexArray, integers("N", low=-1)]
    engine: Annotated[Any, Text()] = "fused"

    @classmethod
    def of(
        cls, ensemble: NetworkEnsemble, scores: MemberScores, trained: Trained, engine: Any = "fused"
    ) -> NetworkMembers:
        """Return the members whose networks were trained in the order of the ensemble."""
        epochs = np.array(trained.best_epochs)
        return cls(ensemble, scores, trained.loss_curves, trained.validation_curves, epochs, engine)

    def __len__(self) -> int:
        return len(self.ensemble)

    def __getitem__(self, members: IndexArray) -> NetworkMembers:
        return self.of(self.ensemble[members], self.scores[members], self.networks[members].trained, self.engine)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members."""
        return self.ensemble.names

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

    def check_held_out(self, held_out: HeldOut | None) -> None:
        """Raise unless held-out rows are of folds that there are."""
        if held_out is not None and held_out.fold_of is not None:
            must(held_out.fold_of.max() < self.ensemble.grid.n_folds, "fold_of must be one of the folds")

    def on_device(self) -> AbstractContextManager[None]:
        """Return the context in which networks predict many rows on the GPU, if the engine is for one."""
        return on_device_of(self.engine)

    def forecast(self, X: Any, targets: TargetScaler, held_out: HeldOut | None) -> Forecast:
        """Return the forecast of all members for checked rows, in scaled units."""
        with stage("predict members"), self.on_device():
            return self.ensemble.forecast(X)

    def by_fold(self, X: Any, targets: TargetScaler) -> tuple[FloatArray, FloatArray]:
        """Return means and variances (folds, n, H) of every network for checked rows, in scaled units."""
        with self.on_device():
            return self.ensemble.by_fold(X)

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

    def table(self, targets: TargetScaler | None = None, held_out: HeldOut | None = None) -> dict[str, Any]:
        """Return one column per key: each member's name, RMSE and NLL in the units of the target, and epochs."""
        scale, grid = self.ensemble.targets.scale, self.ensemble.grid
        epochs = np.array([len(curve) for curve in self.loss_curves])
        return {
            "member": list(self.names),
            "rmse": scale * self.scores.rmse,
            "nll": self.scores.nll + np.log(scale),
            "epochs": grid.arrange(epochs).max(axis=0),
            "best_epoch": grid.arrange(self.best_epochs).max(axis=0) + 1,
        }


def on_device_of(engine: object) -> AbstractContextManager[None]:
    """Return the context in which networks predict many rows on the GPU, if an engine is for one."""
    return nullcontext() if engine == "fused" else predict_on(prediction_device(engine))


def network_members(
    candidates: Candidates, inputs: Standardizer, targets: TargetScaler
) -> tuple[NetworkMembers, HeldOut, BoolArray]:
    """Return candidates as members, their held-out predictions, and which of them did not diverge.

    Where the objective did not train variances, the variance of a member is its squared error on held-out rows.
    """
    held_out, own_variance, constant = candidates.held_out, candidates.own_variance, None
    scores = held_out.scores(own_variance=own_variance)
    is_finite = candidates.is_finite & scores.is_finite
    if not own_variance:
        constant = constant_variance(scores.mse)
        held_out = replace(held_out, variances=np.broadcast_to(constant, held_out.means.shape))
    trained = candidates.networks.trained
    ensemble = NetworkEnsemble(candidates.names, trained.networks, inputs, targets, constant)
    members = NetworkMembers.of(ensemble, scores, trained)
    return members, held_out, is_finite


_KEPT_NUMBERS = 2**21

_Outputs = tuple[Rows, FloatArray, FloatArray]
"""Some rows, and the means and variances of all networks for them, each (H, rows)."""

Chunk = tuple[FloatArray, FloatArray, None, FloatArray | None]


@dataclass(frozen=True)
class Design:
    """Networks and their training rows. Few outputs are stored; many are computed again each time they are needed."""

    networks: Predictor
    rows: Rows
    _kept: list[_Outputs] = field(default_factory=list)

    def __getitem__(self, chosen: IndexArray) -> Design:
        kept = [(part, means[chosen], variances[chosen]) for part, means, variances in self._kept]
        return Design(self.networks[chosen], self.rows, kept)

    def parts(self) -> Iterator[_Outputs]:
        """Yield blocks of rows with the means and variances that the networks predict for them."""
        if not self._kept and len(self.networks) * len(self.rows) <= _KEPT_NUMBERS:
            self._kept.extend(self._computed())
        yield from self._kept or self._computed()

    def scored(self) -> Iterator[ScoredPart]:
        """Yield the rows in blocks, in the form that ``MemberScores.of`` expects."""
        for part, means, variances in self.parts():
            yield part.y, part.counts, means, variances

    def chunks(self) -> Iterator[Chunk]:
        """Yield (Φ, y, None, counts) in blocks of rows, so that a large Φ is never in memory as a whole."""
        for part, means, _ in self.parts():
            yield np.asarray(means.T), part.y, None, part.counts

    def _computed(self) -> Iterator[_Outputs]:
        with np.errstate(over="ignore", invalid="ignore"):  # diverged networks are removed by their outputs
            for part in self.rows.blocks():
                means, variances = self.networks.outputs(part.X)
                yield part, np.asarray(means, dtype=np.float64), np.asarray(variances, dtype=np.float64)
