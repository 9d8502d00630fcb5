"""Networks as members of an ensemble, and their fit: cross-fitted networks, a linear member, held-out predictions."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.blocks import PREDICTED_ROWS, row_slices
from bdkn.data.folds import FoldPlan
from bdkn.data.rows import Rows
from bdkn.data.scaling import Standardizer, TargetScaler
from bdkn.ensemble.selection import HeldOut, MemberScores, ScoredPart, constant_variance
from bdkn.errors import DivergedError
from bdkn.inference import Forecast
from bdkn.networks import EncodedNetworks, MixedNetworks, Networks, NetworkSpec, Predictor, Trained
from bdkn.networks.job import prediction_device
from bdkn.networks.mlp import predict_on
from bdkn.networks.spec import MIN_VARIANCE
from bdkn.predictive import Gaussian
from bdkn.predictive.transformed import restore
from bdkn.stages import stage
from bdkn.storage.fields import Instance, Text, floats, integers, must, sizes, stored
from bdkn.typing import Array, BoolArray, Float32Array, FloatArray, IndexArray

Members = Sequence[int] | IndexArray


def network_numbers(members: Members, H: int, n_folds: int) -> IndexArray:
    """Return the indices of these members' networks in a list of the networks of all H members, sorted by fold."""
    return (np.arange(n_folds)[:, None] * H + np.asarray(members, dtype=np.intp)).ravel()


@dataclass(frozen=True)
class NetworkMember:
    """One member of a ``NetworkEnsemble``: a network, or the average of one network per fold."""

    name: str
    ensemble: NetworkEnsemble

    def predict(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the predicted mean and variance of the target for each row, in the units of the target."""
        means, variances = self.ensemble.outputs(X)
        targets = self.ensemble.targets
        if not targets.is_linear:
            loc, scale = targets.mean + targets.scale * means[:, 0], targets.scale * np.sqrt(variances[:, 0])
            dist = restore(Gaussian(loc, scale), targets.link)
            return dist.mean(), dist.var()
        with np.errstate(over="ignore", under="ignore"):
            return targets.mean + targets.scale * means[:, 0], np.square(targets.scale * np.sqrt(variances[:, 0]))


@stored
@dataclass(frozen=True)
class NetworkEnsemble:
    """H members with the same scaling of inputs and target; each is one network, or the average of one per fold.

    ``networks`` are sorted by fold, and by member within a fold. ``variances`` (H,), if given, replace the variances
    that the networks predict, which training by squared error does not fit. They are for the scaled target.
    """

    names: Annotated[tuple[str, ...], sizes(H=len)]
    networks: Annotated[Predictor, Instance(Networks, EncodedNetworks, MixedNetworks), sizes(p="n_columns")]
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
    def n_folds(self) -> int:
        """Number of networks of each member."""
        return len(self.networks) // len(self)

    def __getitem__(self, members: Members) -> NetworkEnsemble:
        return replace(
            self,
            names=tuple(self.names[h] for h in members),
            networks=self.networks[network_numbers(members, len(self), self.n_folds)],
            variances=None if self.variances is None else self.variances[members],
        )

    @property
    def members(self) -> list[NetworkMember]:
        """The members, each as an object with a method ``predict``."""
        return [NetworkMember(name, self[[h]]) for h, name in enumerate(self.names)]

    def outputs(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the members' means and variances (n, H) of the scaled target for rows X; raise if any is not finite.

        The variance of an average over folds is the networks' mean variance plus the variance of their means.
        """
        means, variances = self.by_fold(self.inputs.check_rows(X))
        return means.mean(axis=0), variances.mean(axis=0) + means.var(axis=0)

    def forecast(self, X: NDArray[Any]) -> Forecast:
        """Return the members' means, noise variance and disagreement for the scaled target in checked rows ``X``."""
        if len(X) <= PREDICTED_ROWS:
            return Forecast.of(*self.by_fold(X))
        blocks = row_slices(len(X), PREDICTED_ROWS)
        return Forecast.concatenate([Forecast.of(*self.by_fold(X[block])) for block in blocks])

    def by_fold(self, table: NDArray[np.generic]) -> tuple[FloatArray, FloatArray]:
        """Return every network's means and variances (folds, n, H) of the scaled target for checked rows."""
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
    """Members of a fitted regressor that are networks: the ensemble, scores for the scaled target, training history.

    Loss curves and best epochs have one entry per network, in the order of the ensemble. ``engine`` selects the device
    (CPU or GPU) that predicts many rows; a regressor sets it before a prediction, and files do not store it.
    """

    ensemble: Annotated[NetworkEnsemble, sizes(H=len, N=lambda ensemble: len(ensemble.networks))]
    scores: Annotated[MemberScores, sizes(H="mse.size")]
    loss_curves: Annotated[tuple[_Curve, ...], sizes(N=len)]
    validation_curves: Annotated[tuple[_Curve, ...], sizes(N=len)]
    best_epochs: Annotated[IndexArray, integers("N", low=-1)]
    engine: Annotated[Any, Text()] = "fused"

    def __len__(self) -> int:
        return len(self.ensemble)

    def __getitem__(self, members: IndexArray) -> NetworkMembers:
        numbers = network_numbers(members, len(self), self.ensemble.n_folds)
        return replace(
            self,
            ensemble=self.ensemble[members],
            scores=self.scores[members],
            loss_curves=tuple(self.loss_curves[number] for number in numbers),
            validation_curves=tuple(self.validation_curves[number] for number in numbers),
            best_epochs=self.best_epochs[numbers],
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members."""
        return self.ensemble.names

    @property
    def trained(self) -> Trained:
        """The networks with their loss curves and best epochs."""
        epochs = tuple(self.best_epochs.tolist())
        return Trained(self.ensemble.networks, self.loss_curves, self.validation_curves, epochs)

    @property
    def input_sizes(self) -> set[int]:
        """Number of inputs that the networks expect, as a set with one element."""
        return {self.ensemble.inputs.n_columns}

    def check_held_out(self, held_out: HeldOut | None) -> None:
        """Raise unless each held-out row has the number of a fold of the ensemble."""
        if held_out is not None and held_out.fold_of is not None:
            must(held_out.fold_of.max() < self.ensemble.n_folds, "fold_of must be one of the folds")

    def forecast(self, X: Any, targets: TargetScaler, held_out: HeldOut | None) -> Forecast:
        """Return the members' means, noise variance and disagreement for the scaled target in checked rows ``X``."""
        with on_device_of(self.engine):
            return self.ensemble.forecast(X)

    def by_fold(self, X: Any, targets: TargetScaler) -> tuple[FloatArray, FloatArray]:
        """Return every network's means and variances (folds, n, H) of the scaled target for checked rows."""
        with on_device_of(self.engine):
            return self.ensemble.by_fold(X)

    @property
    def n_iter(self) -> int:
        """Number of epochs of the network that was trained for the most epochs."""
        return max(map(len, self.loss_curves))

    @property
    def loss_curve(self) -> FloatArray:
        """Training loss per epoch, averaged over the networks that were trained in this epoch."""
        curves = np.full((len(self.loss_curves), self.n_iter), np.nan)
        for row, curve in zip(curves, self.loss_curves, strict=True):
            row[: len(curve)] = curve
        return np.asarray(np.nanmean(curves, axis=0))

    def table(self, targets: TargetScaler | None = None, held_out: HeldOut | None = None) -> dict[str, Any]:
        """Return the members' names, RMSE and NLL in the units of the target, and epochs, as a dict of columns."""
        scale, by_fold = self.ensemble.targets.scale, (self.ensemble.n_folds, len(self))
        epochs = np.array([len(curve) for curve in self.loss_curves])
        return {
            "member": list(self.names),
            "rmse": scale * self.scores.rmse,
            "nll": self.scores.nll + np.log(scale),
            "epochs": epochs.reshape(by_fold).max(axis=0),
            "best_epoch": self.best_epochs.reshape(by_fold).max(axis=0) + 1,
        }


def on_device_of(engine: object) -> AbstractContextManager[None]:
    """Return a context manager in which networks predict many rows on the device of a training engine."""
    return nullcontext() if engine == "fused" else predict_on(prediction_device(engine))


# Cross-fitting: each network is trained on part of the rows and predicts the held-out rows


def predict_held_out(networks: Predictor, rows: Rows, plan: FoldPlan) -> HeldOut:
    """Return the prediction of each member for each row, by a network of the member that was not trained on the row.

    Each member has its own folds, so that members differ on a held-out row by their training rows as well as by their
    seeds. The error of their mean is then about the same as on new rows, which each member predicts by all its folds.
    """
    H = len(plan.names)
    means, variances, fold_variance = np.full((3, len(rows), H), np.nan)
    with stage("predict held-out rows"), np.errstate(over="ignore", invalid="ignore"):  # see finite_members
        for h in range(H):
            member = networks[network_numbers([h], H, len(networks) // H)]
            for block in row_slices(len(rows), PREDICTED_ROWS):
                by_fold, own = member.outputs(rows.X[block])
                without_row = plan.fold_of[block, h], np.arange(by_fold.shape[1])
                means[block, h], variances[block, h] = by_fold[without_row], own[without_row]
                fold_variance[block, h] = 0.0 if plan.refit else by_fold.var(axis=0)
    found = HeldOut(means, variances, fold_variance, rows.y, rows.counts, None if plan.refit else plan.fold_of)
    return found if plan.held_out is None else found.rows(plan.held_out)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Members to select from, with the networks that predict new rows, and with predictions for held-out rows.

    ``is_finite`` (H,) is True for a member if all its networks, including the networks of folds, have finite weights.
    """

    names: tuple[str, ...]
    trained: Trained
    is_finite: BoolArray
    held_out: HeldOut

    @classmethod
    def of(cls, trained: Trained, is_finite: BoolArray, rows: Rows, plan: FoldPlan) -> Candidates:
        """Return the candidates from the trained networks of a fold plan; ``is_finite`` has one value per network.

        With a refit, members predict new rows with the last H networks, which are trained on all rows.
        """
        H, networks, used = len(plan.names), trained.networks, trained
        of_members = np.asarray(is_finite.reshape(-1, H).all(axis=0))
        if plan.refit:
            last = len(networks) - H
            networks, used = networks[range(last)], trained[range(last, last + H)]
        return cls(plan.names, used, of_members, predict_held_out(networks, rows, plan))

    def join(self, other: Candidates) -> Candidates:
        """Return the candidates of both objects together; in each fold, this object's networks come first."""
        H, H_other = len(self.names), len(other.names)
        n_folds = len(self.trained.networks) // H
        ours, theirs = (np.arange(n_folds * each).reshape(n_folds, each) for each in (H, H_other))
        trained = Trained.join([self.trained, other.trained])[np.hstack([ours, ours.size + theirs]).ravel()]
        is_finite = np.append(self.is_finite, other.is_finite)
        return Candidates((*self.names, *other.names), trained, is_finite, self.held_out.join(other.held_out))

    def as_members(
        self, inputs: Standardizer, targets: TargetScaler, *, own_variance: bool
    ) -> tuple[NetworkMembers, HeldOut, BoolArray]:
        """Return the members, their held-out predictions, and a mask (H,) of the members that did not diverge.

        Without ``own_variance`` (variances were not trained), a member's variance is its held-out mean squared error.
        """
        held_out, scores, constant = self.held_out, self.held_out.scores(own_variance=own_variance), None
        is_finite = self.is_finite & scores.is_finite
        if not own_variance:
            constant = constant_variance(scores.mse)
            held_out = replace(held_out, variances=np.broadcast_to(constant, held_out.means.shape))
        trained = self.trained
        ensemble = NetworkEnsemble(self.names, trained.networks, inputs, targets, constant)
        epochs = np.array(trained.best_epochs)
        members = NetworkMembers(ensemble, scores, trained.loss_curves, trained.validation_curves, epochs)
        return members, held_out, is_finite


# A linear member: the lasso as networks without hidden layers, cross-fitted like other networks. If a table has more
# columns than rows and few columns matter, networks fit the noise; a sparse linear function does not. The first output
# of such a network is the linear function. The second output, the raw variance, is constant.

LINEAR = "linear"
"""Name of the linear member, a lasso."""

_MIN_LASSO_ROWS = 4
"""Minimum number of rows to choose the penalty of the lasso by cross-validation; with fewer, it predicts the mean."""

_N_PENALTIES = 40
"""Number of penalties of the lasso that cross-validation compares."""

_MIN_ROWS, _MIN_COLUMNS_PER_ROW = 10, 0.5
"""Minimum number of rows, and minimum ratio of columns to rows, for a fit to add a linear member by default."""


def needs_linear(n_rows: int, n_columns: int) -> bool:
    """Return whether a fit adds a linear member by default: if there are many columns in relation to rows."""
    return n_rows >= _MIN_ROWS and n_columns >= _MIN_COLUMNS_PER_ROW * n_rows


def fit_linear(rows: Rows, plan: FoldPlan) -> Candidates:
    """Fit the linear member as a candidate, with the folds of the first member of ``plan``.

    Its fits predict a row differently mostly because some of them were trained on the row. The average over the fits
    is therefore assumed to have no smaller variance than a single fit: the fold variance is set to zero.
    """
    own = plan.first_member(LINEAR)
    with stage("train"):
        trained = Trained.join([_fit(rows, None if some is None else np.asarray(some)) for some in own.rows])
    found = Candidates.of(trained, trained.networks.is_finite(), rows, own)
    return replace(found, held_out=replace(found.held_out, fold_variance=np.zeros_like(found.held_out.means)))


def _fit(rows: Rows, numbers: IndexArray | None) -> Trained:
    """Fit the lasso to the rows with these numbers (None: all); return it as a network, with its cross-validated NLL.

    For average inputs it predicts the mean target of all rows, also of rows in its fold. The mean of a fold's training
    rows is high if the mean of its held-out rows is low; it would bias weights fitted to held-out predictions.
    """
    chosen = slice(None) if numbers is None else numbers
    counts = None if rows.counts is None else rows.counts[chosen]
    mean = float(np.average(rows.y, weights=rows.counts))
    slope, error = _lasso(rows.X[chosen], np.asarray(rows.y[chosen], dtype=np.float64) - mean, counts)
    raw = error - MIN_VARIANCE
    W = np.zeros((1, 2, len(slope)), dtype=np.float32)
    W[0, 0] = slope
    # The inverse of softplus at ``raw``, log(exp(raw) - 1), without overflow.
    b = np.array([[mean, raw + np.log(-np.expm1(-raw))]], dtype=np.float32)
    network = Networks(NetworkSpec(n_inputs=len(slope), hidden=()), ((W, b),))
    loss = np.array([(np.log(2.0 * np.pi * error) + 1.0) / 2.0])
    return Trained(network, (loss,), (np.empty(0),), (0,))


def _lasso(X: Float32Array, y: FloatArray, counts: FloatArray | None) -> tuple[FloatArray, float]:
    """Return the coefficients of the lasso with the best penalty, and its cross-validated mean squared error."""
    spread = float(np.average(y**2, weights=counts))
    if len(y) < _MIN_LASSO_ROWS or spread <= MIN_VARIANCE:
        return np.zeros(X.shape[1]), max(spread, 2.0 * MIN_VARIANCE)
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LassoCV

    model = LassoCV(cv=min(5, len(y) // 2), alphas=_N_PENALTIES, tol=1e-3, fit_intercept=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X.astype(np.float64), y, counts)
    return model.coef_, max(float(model.mse_path_.mean(axis=1).min()), 2.0 * MIN_VARIANCE)


# The published method: the networks and the linear model are fitted to the same rows

Chunk = tuple[FloatArray, FloatArray, None, FloatArray | None]
"""Block of rows for the linear model: the networks' means Φ (rows, H), targets, None (no precisions), and counts."""

_MAX_STORED_OUTPUTS = 2**21
"""Maximum number of network outputs (rows times networks) that ``Design`` keeps in memory."""


@dataclass(frozen=True, eq=False)
class Design:
    """Networks and their training rows, which they predict; the predictions are stored only if they are few."""

    networks: Predictor
    rows: Rows
    _kept: list[ScoredPart] = field(default_factory=list)

    def __getitem__(self, chosen: IndexArray) -> Design:
        kept = [(y, counts, means[chosen], variances[chosen]) for y, counts, means, variances in self._kept]
        return Design(self.networks[chosen], self.rows, kept)

    def parts(self) -> Iterable[ScoredPart]:
        """Return blocks of rows: targets, counts, and the means and variances (H, rows) that the networks predict."""
        if not self._kept and len(self.networks) * len(self.rows) <= _MAX_STORED_OUTPUTS:
            self._kept.extend(self._computed())
        return self._kept or self._computed()

    def _computed(self) -> Iterator[ScoredPart]:
        with np.errstate(over="ignore", invalid="ignore"):  # diverged networks are removed later
            for part in self.rows.blocks():
                means, variances = self.networks.outputs(part.X)
                yield part.y, part.counts, np.asarray(means, np.float64), np.asarray(variances, np.float64)

    def chunks(self) -> Iterable[Chunk]:
        """Return blocks (Φ, y, None, counts) of rows for the linear model; a large Φ is never in memory as a whole."""
        chunks = ((np.asarray(means.T), y, None, counts) for y, counts, means, _ in self.parts())
        return [*chunks] if self._kept else chunks
