"""The fitted model: members, their combination and other learned parts; it predicts, and it is never changed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

import numpy as np
from joblib import effective_n_jobs

from bdkn.data.folds import name_key
from bdkn.data.rows import Rows, take_rows
from bdkn.data.scaling import TargetScaler
from bdkn.data.training_data import TableReader
from bdkn.ensemble.chunks import HeldOutStatistics
from bdkn.ensemble.estimators import EstimatorMembers
from bdkn.ensemble.networks import NetworkMembers
from bdkn.ensemble.provenance import FitProvenance
from bdkn.ensemble.selection import CombinationOptions, HeldOut, select_and_combine
from bdkn.errors import InvalidParameterError
from bdkn.inference import Absorbed, Combination, Forecast, Statistics, WeightPosterior, average_weights
from bdkn.lazy import lazy
from bdkn.model.density import MixtureParameters, NeighbourDensity, fit_density
from bdkn.model.extrapolation import SupportReport, Widening
from bdkn.model.prediction import Prediction
from bdkn.model.row_memory import RowMemory
from bdkn.model.value_model import ValueModel, learn_values, quantiles_with_masses
from bdkn.predictive import Gaussian, GaussianMixture, Predictive, StudentT, StudentTMixture, Transformed
from bdkn.predictive.base import check_location_scale
from bdkn.predictive.transformed import restore
from bdkn.stages import stage
from bdkn.storage.fields import Number, must, sizes, stored
from bdkn.typing import FloatArray, IndexArray

_DENSITY_KEY = name_key("density")
"""Spawn key of the random seed with which the forest of ``NeighbourDensity`` is grown."""


@stored
@dataclass(frozen=True, eq=False)
class Updates:
    """Record of the rows and statistics that a model has absorbed since its fit.

    ``log_slopes`` is Σ c log g′(y) over these rows, with counts c, targets y and the link g in scaled units.
    ``merged`` are the digests of the statistics of other models that were merged.
    """

    absorbed: Absorbed
    log_slopes: float = 0.0
    memory: RowMemory = field(default_factory=RowMemory)
    merged: tuple[str, ...] = ()


@stored
@dataclass(frozen=True, eq=False)
class FittedModel:
    """All that a regressor has learned: members, their combination and other parts, in scaled units.

    ``reader`` converts tables as the training table was converted. Parts that a model does not have are None:
    ``held_out``, ``provenance`` and ``extrapolation`` without rows held out of training, ``values`` without values that
    many targets share, ``density`` if predictions are Student-t distributions, ``updates`` without rows absorbed since
    the fit, ``all_rows`` if all held-out rows are in memory. If not, ``held_out`` is a sample of them, and ``all_rows``
    has the statistics of all. ``n_trained`` is the number of members that were trained, in use or not.
    """

    reader: TableReader
    members: Annotated[NetworkMembers | EstimatorMembers, sizes(H=len)]
    targets: TargetScaler
    combination: Annotated[Combination, sizes(H="weights.size", W="posterior.mean.size")]
    held_out: Annotated[HeldOut | None, sizes(H="n_members")] = None
    provenance: FitProvenance | None = None
    values: ValueModel | None = None
    extrapolation: Widening | None = None
    density: NeighbourDensity | None = None
    updates: Annotated[Updates | None, sizes(W="absorbed.fitted.posterior.mean.size")] = None
    all_rows: Annotated[HeldOutStatistics | None, sizes(W="statistics.n_weights")] = None
    n_trained: Annotated[int, Number(low=1, whole=True)] = 1

    def check(self) -> None:
        """Raise an error unless all parts of the model have consistent sizes."""
        must(self.updates is None or self.held_out is not None, "rows are absorbed by a model with held-out rows only")
        if self.values is not None and self.values.rest is not None:
            same = self.values.rest.weights.size == self.combination.weights.size
            must(same, "values must be of these members")
        self.members.check_held_out(self.held_out)
        found = set(self.members.input_sizes)
        if self.extrapolation is not None:
            found.add(self.extrapolation.support.prototypes.shape[1])
        if self.density is not None and self.density.columns is None:
            found.add(self.density.neighbours.inputs.n_columns)
        must(found <= {self.reader.n_inputs}, f"all parts must take {self.reader.n_inputs} inputs; got {sorted(found)}")

    # Learning, after the members are trained

    @classmethod
    def of(
        cls,
        reader: TableReader,
        members: NetworkMembers | EstimatorMembers,
        chosen: IndexArray,
        combination: Combination,
        held_out: HeldOut,
        targets: TargetScaler,
        options: CombinationOptions,
        provenance: FitProvenance | None,
        n_trained: int,
    ) -> Self:
        """Return a fitted model of the ``chosen`` members; probabilities of frequent target values are learned here."""
        if len(chosen) < held_out.means.shape[1]:
            members, held_out = members[chosen], held_out[chosen]
        found = targets.values
        values = None if found is None else learn_values(found, options, combination, targets, held_out)
        return cls(reader, members, targets, combination, held_out, provenance, values, n_trained=n_trained)

    def with_training_rows(
        self, X: Any, numbers: IndexArray | None, sets: IndexArray | None = None, *, density: bool, n_jobs: int | None
    ) -> Self:
        """Return the model with extra variance far from the training rows X and, if ``density``, neighbour densities.

        Densities are used only if they improve predictions of held-out rows, which are the rows ``numbers`` of X (None:
        all). Rows with the same number in ``sets`` belong together (None: equal rows do).
        """
        held_out, combination = self.required_held_out(), self.combination
        forecast, y, counts = held_out.forecast(), held_out.y, held_out.counts
        spread = combination.spread(replace(forecast, fold_variance=held_out.fold_variance))
        density = density and self.provenance is not None and not np.isnan(combination.score)
        student = combination.leave_one_out_parameters(forecast, y, counts) if density else None
        _, predictions, _ = combination.parameters(forecast)
        with stage("support"):
            extrapolation = Widening.fit(X, numbers, predictions, spread, counts)
        found = None
        if student is not None and self.provenance is not None:
            seed = np.random.SeedSequence(self.provenance.entropy, spawn_key=_DENSITY_KEY)
            with stage("shape"):
                rows = X if numbers is None else take_rows(X, numbers)
                sets = sets if sets is None or numbers is None else sets[numbers]
                found = fit_density(rows, y, counts, student, seed, int(effective_n_jobs(n_jobs)), sets)
        return replace(self, extrapolation=extrapolation, density=found)

    def with_all_rows(self, found: HeldOutStatistics, prior_variance: str | float) -> Self:
        """Return the model with the posterior given all held-out rows, not only given a sample of them."""
        stats = found.statistics
        absorbed = Absorbed(self.combination, stats, Statistics.empty(stats.n_weights)).with_prior(prior_variance)
        combination = replace(absorbed.combination(), noise_level=found.noise / stats.n)
        model = replace(self, combination=combination, all_rows=found)
        return replace(model, extrapolation=self.extrapolation_for(combination))

    def keep(self, members: IndexArray, options: CombinationOptions) -> Self:
        """Return the model with the best subset of ``members`` and new weights; mixture weights do not change."""
        held_out, targets, density = self.required_held_out(), self.targets, self.density
        with stage("combine"):
            found = select_and_combine(held_out, members, options)
        fewer = self.of(self.reader, self.members, *found, held_out, targets, options, self.provenance, self.n_trained)
        fewer = replace(fewer, extrapolation=self.extrapolation)
        held_out, combination = fewer.required_held_out(), fewer.combination
        if density is not None:
            student = combination.leave_one_out_parameters(held_out.forecast(), held_out.y, held_out.counts)
            _, loc, scale = student
            density = density.with_errors((held_out.y - loc) / np.where(scale > 0.0, scale, 1.0))
        return replace(fewer, extrapolation=fewer.extrapolation_for(combination), density=density)

    def extrapolation_for(self, combination: Combination) -> Widening | None:
        """Return the extra variance part, its disagreement thresholds computed for another ``combination``."""
        if self.extrapolation is None or self.held_out is None:
            return self.extrapolation
        forecast = replace(self.held_out.forecast(), fold_variance=self.held_out.fold_variance)
        return self.extrapolation.with_spread(combination.spread(forecast), self.held_out.counts)

    # Prediction of checked rows

    def forecast(self, X: Any) -> Forecast:
        """Return the predictions of all members for validated rows, in scaled units."""
        with stage("predict members"):
            return self.members.forecast(X, self.targets, self.held_out)

    def predict(self, X: Any, *, joint: bool = False) -> CombinedPrediction:
        """Return the prediction of validated rows; ``joint`` must be True if joint moments or draws are needed."""
        forecast, unit, shift = self.forecast(X), self.targets.scale, self.targets.mean
        if self.density is not None:  # the density is in scaled units
            unit, shift = 1.0, 0.0
        spread = None if self.extrapolation is None else self.combination.spread(forecast)
        df, loc, scale = self.combination.parameters(forecast, unit, shift)
        if self.extrapolation is not None and spread is not None:
            outside = self.extrapolation.outside(X, spread, joint=joint)
            forecast, scale = replace(forecast, outside=outside), np.hypot(scale, unit * np.sqrt(outside.variance))
        if self.values is not None:
            return ValuePrediction(self, X, forecast, (df, loc, scale), self.values)
        return CombinedPrediction(self, X, forecast, (df, loc, scale))

    def centers(self, X: Any) -> FloatArray:
        """Return the location of each row's Student-t, a fast substitute for the predicted mean to rank rows."""
        return self.combination.parameters(self.forecast(X))[1]

    def support(self, X: Any) -> SupportReport:
        """Return the report about the distances of validated rows from the training rows."""
        if self.extrapolation is None:
            raise InvalidParameterError(
                "support compares rows with training rows, of which this model has no summary: it was fitted with "
                "design='in-sample'; fit it again with design='cross-fit'"
            )
        return SupportReport.of(self.extrapolation.support, X, self.reader.input_names)

    # Inspection

    def check_has_rows(self) -> None:
        """Raise an error if the model was saved without the rows that were held out of its fit."""
        if self.held_out is None and self.provenance is not None:
            raise InvalidParameterError(
                "this needs predictions for held-out rows, and their targets; the model is from a file that was saved "
                "with without_rows=True: load a file with the rows, or fit again"
            )

    def required_held_out(self) -> HeldOut:
        """Return the held-out predictions of the members; raise an error if there are none."""
        self.check_has_rows()
        if self.held_out is None:
            raise InvalidParameterError(
                "members can be compared, added and dropped only by held-out rows; design='in-sample' has none: fit "
                "with design='cross-fit' or 'hold-out'"
            )
        return self.held_out

    def check_has_values(self) -> None:
        """Raise an error if the model does not predict probabilities of values that many targets share."""
        if self.values is None:
            raise InvalidParameterError(
                "probabilities of values need held-out rows and a discrete target, or a value that many targets share; "
                "there are none: use predict_dist, predict_interval or predict_quantiles"
            )

    @property
    def networks(self) -> NetworkMembers:
        """The members of a model of networks; AttributeError if the members are estimators."""
        if not isinstance(self.members, NetworkMembers):
            raise AttributeError("the members of this model are no networks; members_ has the members")
        return self.members

    @property
    def estimators(self) -> EstimatorMembers:
        """The members of a model of estimators; AttributeError if the members are networks."""
        if not isinstance(self.members, EstimatorMembers):
            raise AttributeError("the members of this model are networks; ensemble_ has them")
        return self.members

    def provenance_to_add(self, params: Any, rows: Rows, folds: str) -> FitProvenance:
        """Return how members were fitted; raise an error if new ones, with these parameters, rows and folds, differ."""
        self.required_held_out()
        self.check_not_updated("added")
        assert self.provenance is not None, "a model with held-out rows has a provenance"
        self.provenance.check_same(params, rows, folds)
        return self.provenance

    def check_not_updated(self, action: str) -> None:
        """Raise an error if the model has absorbed rows; ``action`` names what is then impossible."""
        if self.updates is not None:
            raise InvalidParameterError(
                f"members cannot be {action} after rows were absorbed, as the model keeps statistics of these rows and "
                "not the rows: call forget() first, which brings back the model as it was fitted, and absorb the rows "
                "again afterwards"
            )

    def without_rows(self) -> Self:
        """Return a model with equal predictions, but no targets of training rows; raise if these are needed."""
        if isinstance(self.members, EstimatorMembers):
            raise InvalidParameterError(
                "save(..., without_rows=True) needs a model that predicts without its training rows; a stack computes "
                "the noise of its members from held-out rows: save it with its rows, or fit a BDKNRegressor"
            )
        if self.density is not None:
            raise InvalidParameterError(
                "save(..., without_rows=True) needs a model that predicts without its training rows; this one has "
                "learned the shape of its predictions from their targets: save model.without_shape(), which predicts "
                "Student-t distributions"
            )
        return replace(self, held_out=None, updates=None, all_rows=None)

    def weight_posterior(self, *, averaged: bool) -> WeightPosterior:
        """Return the posterior of the members' weights; if ``averaged``, it is averaged over the prior variance."""
        self.check_has_rows()
        held_out, combination = self.held_out, self.combination
        if held_out is None or not averaged:
            post, H = combination.posterior, len(combination.weights)
            return WeightPosterior(post.df, combination.weights, post.scale_matrix[:H, :H], np.inf)
        if self.updates is not None:
            return average_weights(combination, self.updates.absorbed.total)
        if self.all_rows is not None:
            return average_weights(combination, self.all_rows.statistics)
        return average_weights(combination, combination.statistics(held_out.forecast(), held_out.y, held_out.counts))

    def evidence(self) -> float:
        """Return the log marginal likelihood of the linear model, for targets in their own units."""
        self.check_has_rows()
        held_out, combination = self.held_out, self.combination
        if self.targets.is_linear or held_out is None:
            return combination.evidence - combination.n * float(np.log(self.targets.scale))
        if self.all_rows is not None:
            base = self.all_rows.log_slopes
        else:
            slopes = np.broadcast_to(self.targets.log_derivative(held_out.y), held_out.y.shape)
            base = float(slopes.sum() if held_out.counts is None else slopes @ held_out.counts)
        if self.updates is not None:
            base = self.updates.absorbed.base_weight * base + self.updates.log_slopes
        return combination.evidence + base

    def member_scores(self) -> dict[str, Any]:
        """Return the scores of each member, in the units of the target, as a dictionary of columns."""
        self.check_has_rows()
        held_out, targets = self.held_out, self.targets
        found = self.members.table(targets, held_out)
        if targets.is_linear or held_out is None:
            return found
        filled, y = held_out.filled(), targets.inverse(held_out.y)
        errors, scores = [], []
        for mean, variance in zip(filled.means.T, filled.variances.T, strict=True):
            dist = restore(
                Gaussian(targets.mean + targets.scale * mean, targets.scale * np.sqrt(variance)), targets.link
            )
            errors.append(np.sqrt(np.average((dist.mean() - y) ** 2, weights=held_out.counts)))
            scores.append(-np.average(dist.logpdf(y), weights=held_out.counts))
        return {**found, "rmse": np.array(errors), "nll": np.array(scores)}

    def leave_one_out_scores(self, members: IndexArray, options: CombinationOptions) -> tuple[float, float]:
        """Return the leave-one-out log score and RMSE, on held-out rows, of a combination of some members."""
        held_out, targets = self.required_held_out()[members], self.targets
        y, counts = held_out.y, held_out.counts
        dist = options.combine(held_out).leave_one_out(held_out.forecast(), y, counts)
        if targets.is_linear:
            log_score = np.average(dist.logpdf(y), weights=counts) - np.log(targets.scale)
            return float(log_score), float(targets.scale * np.sqrt(np.average((dist.loc - y) ** 2, weights=counts)))
        own, restored = targets.inverse(y), restore(dist.affine(targets.scale, targets.mean), targets.link)
        error = np.sqrt(np.average((restored.mean() - own) ** 2, weights=counts))
        return float(np.average(restored.logpdf(own), weights=counts)), float(error)

    def digest(self) -> str:
        """Return a hash of the members and their combination at the fit; models can be merged if it is equal.

        Members are identified by their predictions for held-out rows.
        """
        held_out, targets = self.required_held_out(), self.targets
        fitted = self.combination if self.updates is None else self.updates.absorbed.fitted
        numbers = (fitted.tempering, fitted.averaging, fitted.tails.scale, targets.mean, targets.scale)
        seen = hashlib.sha256(repr((self.members.names, numbers, targets.link)).encode())
        for part in (held_out.means, held_out.variances, held_out.y, held_out.counts):
            seen.update(b"" if part is None else np.ascontiguousarray(part).tobytes())
        return seen.hexdigest()


@dataclass(frozen=True, eq=False)
class CombinedPrediction(Prediction):
    """Prediction of validated rows X by a combination of members; joint moments and draws need a joint ``forecast``.

    ``student`` are the degrees of freedom, locations and scales of the Student-t: in scaled units if there are
    densities of neighbours, else in units of the linked target.
    """

    model: FittedModel
    X: Any
    forecast: Forecast
    student: tuple[float, FloatArray, FloatArray]

    @property
    def dist(self) -> Predictive:
        """Predictive distribution of the target of each row."""
        return self._mixed()[1]

    def _mixed(self) -> tuple[MixtureParameters | None, Predictive]:
        """Return the parameters of the mixtures in scaled units (None: no mixtures), and the predictive distributions.

        Both are computed at the first call and stored. Threads that compute them at the same time get equal results.
        """
        made: tuple[MixtureParameters | None, Predictive] | None = self.__dict__.get("mixed")
        if made is not None:
            return made
        targets, density, outside = self.model.targets, self.model.density, self.forecast.outside
        (df, loc, scale), mixture, inside = self.student, None, None
        neighbours: list[Any] = []
        with stage("predict"):
            if density is not None:
                if outside is not None:  # the share of each row's squared scale that is not due to extrapolation
                    with np.errstate(divide="ignore", invalid="ignore"):
                        inside = np.clip(1.0 - np.nan_to_num(outside.variance / scale**2), 0.0, 1.0)
                mixture = density.mix(df, loc, scale, self.X, inside)
                _, loc, scale, *neighbours = mixture
                with np.errstate(over="ignore"):
                    loc, scale = targets.mean + targets.scale * loc, targets.scale * scale
            if not (np.isfinite(loc).all() and np.isfinite(scale).all()):
                check_location_scale(loc, scale)  # raises
            family = StudentT if mixture is None else StudentTMixture
            found = family.unchecked(np.broadcast_to(np.float64(df), loc.shape), loc, scale, *neighbours)
            made = self.__dict__["mixed"] = mixture, restore(found, targets.link)
        return made

    def variances(self) -> dict[str, FloatArray]:
        """Return a dictionary of the components of the predictive variance; their sum is the variance of each row."""
        targets, (mixture, dist) = self.model.targets, self._mixed()
        parts = self.model.combination.variance(self.forecast)
        if mixture is not None:
            parts["shape"] = StudentTMixture.unchecked(*mixture).var() - StudentT(*self.student).var()
        unit: float | FloatArray = targets.squared
        if not targets.is_linear:
            with np.errstate(divide="ignore", invalid="ignore"):
                unit = np.nan_to_num(dist.var() / sum(parts.values()), nan=0.0)
        return {name: unit * part for name, part in parts.items()}

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return the means (n,) of a joint prediction, and the covariance matrix (n, n) of its rows."""
        targets, covariance = self.model.targets, self.model.combination.covariance(self.forecast)
        mixture, dist = self._mixed()
        if targets.is_linear and mixture is None:
            return self.student[1], targets.squared * covariance
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.nan_to_num(dist.std() / np.sqrt(np.diag(covariance)), nan=0.0)
        return dist.mean(), np.asarray(slope[:, None] * covariance * slope)

    def draws(self, size: int, generator: np.random.Generator) -> FloatArray:
        """Return draws (n, size) of a joint prediction; each column is one draw for all rows together.

        If predictions are mixtures, Student-t draws are transformed to them, quantile by quantile.
        """
        targets, (mixture, dist) = self.model.targets, self._mixed()
        drawn = self.model.combination.draw(self.forecast, size, generator)
        if mixture is not None:
            levels = np.clip(StudentT(*self.student).cdf(drawn), 1e-300, 1.0 - 1e-16)
            drawn = StudentTMixture.unchecked(*mixture).carry(levels)
        drawn = targets.mean + targets.scale * drawn
        return dist.carry(drawn) if isinstance(dist, Transformed) else drawn


@dataclass(frozen=True, eq=False)
class ValuePrediction(CombinedPrediction):
    """Prediction of a discrete target, or of a target with point masses: single values that many rows have."""

    values: ValueModel

    @lazy
    def value_logs(self) -> FloatArray:
        """Log probabilities (n, k) of k target values; with point masses, a last column is for all other values."""
        student = self.model.combination.predictive(self.forecast)
        return self.values.log_probabilities(student, self.model.targets)

    @lazy
    def rest(self) -> Predictive | None:
        """Predictive distribution of targets that are not point masses; None for a discrete target."""
        rest, targets = self.values.rest, self.model.targets
        if rest is None:
            return None
        return restore(rest.predictive(self.forecast, targets.scale, targets.mean), targets.link)

    def point_masses(self) -> tuple[FloatArray, FloatArray, Predictive | None]:
        """Return target values (k,) with point masses, their probabilities (n, k), and the distribution of the rest."""
        found = self.values.found
        return found.values, np.exp(self.value_logs)[:, : len(found)], self.rest

    def value_probabilities(self) -> dict[float, FloatArray]:
        """Return a dictionary from each single target value to its probabilities (n,)."""
        values, shares, _ = self.point_masses()
        return dict(zip(values.tolist(), shares.T, strict=True))

    def quantiles(self, levels: FloatArray) -> FloatArray:
        """Return the quantiles (n, k) of the predicted targets at ``levels`` (k,)."""
        return quantiles_with_masses(levels, self.values.found.values, np.exp(self.value_logs), self.rest)

    def interval(self, coverage: float) -> FloatArray:
        """Return the limits (n, 2) of the central prediction interval of each row."""
        ends = self.quantiles(np.array([1.0 - coverage, 1.0 + coverage]) / 2.0)
        return np.stack(self.rest.to_bounds(*ends.T), axis=1) if isinstance(self.rest, Transformed) else ends

    def value_log_score(self, y: FloatArray) -> float:
        """Return the mean log probability of the targets ``y``, or log density for targets that are no point mass."""
        logs, rest, numbers = self.value_logs, self.rest, self.values.numbers(y, self.model.targets)
        if rest is None:
            logs = np.hstack([logs, np.full((len(logs), 1), -np.log(1.0 + self.model.combination.n))])
        scores = logs[np.arange(len(numbers)), numbers]
        others = numbers == len(self.values.found)
        if rest is not None and others.any():
            scores[others] += rest[others].logpdf(y[others])
        return float(scores.mean())

    def pit(self, y: FloatArray, generator: np.random.Generator) -> FloatArray:
        """Return the randomized PIT: P(Y < y) plus a random part of P(Y = y), uniform if predictions are calibrated."""
        shares, found = np.exp(self.value_logs), self.values.found.values
        numbers = self.values.numbers(y, self.model.targets)
        is_value, place = numbers < len(found), np.minimum(numbers, len(found) - 1)
        own = np.where(is_value, found[place], y)
        below = np.sum(shares[:, : len(found)] * (found < own[:, None]), axis=1)
        if self.rest is not None:
            below = below + shares[:, -1] * self.rest.cdf(own)
        at = np.where(is_value, shares[np.arange(len(y)), place], 0.0)
        return np.asarray(np.clip(below + generator.uniform(size=len(y)) * at, 0.0, 1.0))


@stored
@dataclass(frozen=True, eq=False)
class FittedEnsemble:
    """Equally weighted networks, which predict a mixture of Gaussians or one Gaussian with the same moments."""

    reader: TableReader
    members: Annotated[NetworkMembers, sizes(H=len)]
    is_mixture: bool = True

    def check(self) -> None:
        """Raise an error unless the networks take as many inputs as ``reader`` returns."""
        found = self.members.input_sizes
        must(found == {self.reader.n_inputs}, f"all parts must take {self.reader.n_inputs} inputs; got {sorted(found)}")

    @property
    def networks(self) -> NetworkMembers:
        """The members of the ensemble, which are networks."""
        return self.members

    def predict(self, X: Any, *, joint: bool = False) -> EnsemblePrediction:
        """Return the prediction of validated rows; ``joint`` has no effect."""
        means, variances = self.members.by_fold(X, self.members.ensemble.targets)
        means, variances = means.mean(axis=0), variances.mean(axis=0) + means.var(axis=0)
        return EnsemblePrediction(self.members.ensemble.targets, self.is_mixture, means, variances)

    def without_rows(self) -> Self:
        """Return the model unchanged, as it has no targets of training rows."""
        return self


@dataclass(frozen=True, eq=False)
class EnsemblePrediction(Prediction):
    """Prediction of n rows by H equally weighted networks, whose means and variances (n, H) are in scaled units."""

    targets: TargetScaler
    is_mixture: bool
    scaled_means: FloatArray
    scaled_variances: FloatArray

    @lazy
    def dist(self) -> GaussianMixture | Gaussian:
        """Predictive distribution of the target of each row."""
        loc, scale = self._outputs()
        check_location_scale(loc, scale)
        mixture = GaussianMixture.unchecked(loc, scale, np.broadcast_to(1 / loc.shape[1], loc.shape))
        return mixture if self.is_mixture else mixture.moment_matched()

    def variances(self) -> dict[str, FloatArray]:
        """Return a dictionary of the variance components of each row, such as noise and networks' disagreement."""
        if not self.is_mixture:
            return super().variances()
        means, stds = self._outputs()
        return {"noise": np.square(stds).mean(axis=1), "disagreement": means.var(axis=1)}

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean (n,) of each row, and the covariance matrix (n, n) of all rows."""
        center = self.scaled_means.mean(axis=1, keepdims=True)
        apart = self.scaled_means - center
        covariance = np.diag(self.scaled_variances.mean(axis=1)) + apart @ apart.T / apart.shape[1]
        return self.targets.mean + self.targets.scale * center[:, 0], np.asarray(self.targets.squared * covariance)

    def draws(self, size: int, generator: np.random.Generator) -> FloatArray:
        """Return draws (n, size); each column is one draw for all rows together."""
        means, stds = self._outputs()
        noise = generator.standard_normal((len(means), size))
        if self.is_mixture:  # each draw takes one network for all rows
            chosen = generator.integers(means.shape[1], size=size)
            return np.asarray(means[:, chosen] + stds[:, chosen] * noise)
        center = means.mean(axis=1, keepdims=True)
        apart = (means - center) / np.sqrt(means.shape[1])  # apart @ apart.T is the covariance of the means
        shared = generator.standard_normal((means.shape[1], size))
        return np.asarray(center + apart @ shared + np.sqrt((stds**2).mean(axis=1, keepdims=True)) * noise)

    def _outputs(self) -> tuple[FloatArray, FloatArray]:
        """Return the networks' means and standard deviations, each (n, H), in the units of the target."""
        scale = self.targets.scale
        return self.targets.mean + scale * self.scaled_means, scale * np.sqrt(self.scaled_variances)
