"""The base class of regressors that combine members by a Bayesian linear model."""

from __future__ import annotations

import copy
import os
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.analysis.decisions import Outcome
from bdkn.data.folds import Splitting
from bdkn.data.frames import as_frame
from bdkn.data.rows import take_rows
from bdkn.data.target_values import TargetValues
from bdkn.data.training_rows import check_targets
from bdkn.ensemble.held_out import HeldOut
from bdkn.ensemble.provenance import FitProvenance
from bdkn.ensemble.selection import CombinationSettings
from bdkn.errors import InvalidParameterError, check_choice, check_number, warn_user
from bdkn.estimators.base import ProbabilisticRegressor, Table
from bdkn.estimators.completion import combine_again, with_shape, with_widening
from bdkn.estimators.fitted import Combined
from bdkn.estimators.guarantee import Shift, guaranteed_interval
from bdkn.estimators.living import LivingRegressor
from bdkn.estimators.page import report_on
from bdkn.estimators.prediction import Prediction, losses_without, scores_of_first, target_scores, widened_forecast
from bdkn.estimators.publication import of_one_state
from bdkn.estimators.serialization import check_has_rows
from bdkn.estimators.support_report import SupportReport
from bdkn.estimators.updating import check_not_updated, log_slopes
from bdkn.estimators.value_prediction import ValuePrediction, require_values
from bdkn.inference import Combination, Forecast, WeightPosterior, average_weights
from bdkn.inference.combination import student_t_covariance
from bdkn.inference.weights import weights_given
from bdkn.model.density import NeighbourDensity
from bdkn.predictive import Predictive, StudentT
from bdkn.predictive.links import Link
from bdkn.typing import Array, FloatArray, IndexArray

ALIKE = "the data do not tell these members apart"
"""What is said of members whose weights may as well be equal."""


class CombiningRegressor(LivingRegressor, ProbabilisticRegressor):
    """Regressor that combines members by a Bayesian linear model.

    A subclass has the parameters of ``CombinationSettings``, a fitted state with an attribute ``combined``, and defines
    how its members predict.
    """

    density: str
    n_jobs: int | None

    @abstractmethod
    def _forecast(self, X: Array) -> Forecast:
        """Return the members' forecast for checked rows, in scaled units."""

    @abstractmethod
    def _by_fold(self, X: Array) -> tuple[FloatArray, FloatArray]:
        """Return means and variances (folds, n, H) of every fit of every member for checked rows, in scaled units."""

    @property
    @abstractmethod
    def member_names_(self) -> tuple[str, ...]:
        """Names of the members in use."""

    @abstractmethod
    def _only(self, members: IndexArray, combined: Combined) -> Self:
        """Return the regressor with some of its members, combined in this way."""

    @abstractmethod
    def _member_fit(self) -> dict[str, Any]:
        """Return columns that describe how well each member fits, in the units of the target."""

    @property
    def _combined(self) -> Combined:
        combined: Combined = self._state.combined
        return combined

    @property
    def combination_(self) -> Combination:
        """The linear model: posterior of (β, α, σ²), tempering τ and tails, in scaled units."""
        return self._combined.combination

    @property
    def held_out_(self) -> HeldOut | None:
        """Predictions of the members in use for held-out rows, and the targets; None if no rows were left out."""
        check_has_rows(self._combined)
        return self._combined.held_out

    @property
    def provenance_(self) -> FitProvenance | None:
        """The seed, the digest of the rows and the parameters of the fit; None if no rows were left out."""
        return self._combined.provenance

    @property
    def density_(self) -> NeighbourDensity | None:
        """How predictions are mixed from the Student-t and densities of neighbours; None: Student-t distributions."""
        return self._combined.density

    @property
    def weights_(self) -> FloatArray:
        """Posterior mean of the weights β."""
        return self.combination_.weights

    @property
    @of_one_state
    def weights_cov_(self) -> FloatArray:
        """Posterior covariance of β; infinite with two degrees of freedom or fewer."""
        weights = self._weight_posterior()
        return student_t_covariance(weights.df, weights.scale_matrix)

    @property
    @of_one_state
    def members_told_apart_(self) -> bool:
        """Whether the data tell the members apart: whether unequal weights have three times the evidence of equal ones.

        True for a model with one member, and where the prior variance of the weights was given.
        """
        return len(self.weights_) == 1 or self._weight_posterior().told_apart

    @property
    @of_one_state
    def intercept_(self) -> float:
        """The constant that is added to the weighted predictions of the members, in units of the transformed target."""
        targets = self._combined.targets
        return float(targets.mean * (1.0 - self.weights_.sum()) + targets.scale * self.combination_.constant)

    @property
    @of_one_state
    def noise_variance_(self) -> float:
        """Squared scale of a transformed prediction if β were known, where the members' own variance is average."""
        with np.errstate(over="ignore", under="ignore"):
            return float(np.square(self._combined.targets.scale * self.combination_.noise_std))

    @property
    def dof_(self) -> float:
        """Degrees of freedom of every prediction."""
        return self.combination_.tails.df

    @property
    def prior_variance_(self) -> float:
        """The prior variance σ_β² in use."""
        return self.combination_.prior_variance

    @property
    @of_one_state
    def evidence_(self) -> float:
        """Log marginal likelihood of the targets that the linear model was fitted to, in their own units."""
        targets, held_out = self._combined.targets, self.held_out_
        if targets.is_linear or held_out is None:
            return self.combination_.evidence - self.combination_.n * float(np.log(targets.scale))
        return self.combination_.evidence + log_slopes(self._combined)

    @property
    def link_(self) -> Link:
        """The link g, by which the target was transformed."""
        return self._combined.targets.link

    @property
    def target_values_(self) -> TargetValues | None:
        """The values of a lattice, or those that many targets share, with their shares; None if there are none."""
        return self._combined.targets.values

    @property
    def prior_scale_(self) -> float:
        """Former name of ``prior_variance_``."""
        warn_user("prior_scale_ is now prior_variance_, and will be removed in bdkn 0.3", FutureWarning)
        return self.prior_variance_

    @property
    def noise_(self) -> float:
        """Former name of ``noise_variance_``."""
        warn_user("noise_ is now noise_variance_, and will be removed in bdkn 0.3", FutureWarning)
        return self.noise_variance_

    @property
    def origin_(self) -> FitProvenance | None:
        """Former name of ``provenance_``."""
        warn_user("origin_ is now provenance_, and will be removed in bdkn 0.3", FutureWarning)
        return self.provenance_

    @of_one_state
    def weight_posterior(self) -> StudentT:
        """Return the posterior distribution of each member's weight.

        With ``prior_variance="evidence"`` the prior variance of the weights is integrated out: where the data do not
        tell members apart, intervals are as wide as the weights are large, not as narrow as the chosen prior.

        Returns
        -------
        dist : StudentT
            One distribution per member.
        """
        return self._weight_posterior().marginals()

    def _weight_posterior(self) -> WeightPosterior:
        """Return the posterior of the weights; given the prior variance where that was not chosen by evidence."""
        held_out, combination = self.held_out_, self.combination_
        if held_out is None or self.prior_variance != "evidence":
            post, H = combination.posterior, len(combination.weights)
            return WeightPosterior(post.df, combination.weights, post.scale_matrix[:H, :H], np.inf)
        if (updates := self._combined.updates) is not None:
            return weights_given(combination, updates.absorbed.total)
        if (left_out := self._combined.left_out) is not None:
            return weights_given(combination, left_out.statistics)
        return average_weights(combination, held_out.forecast(), held_out.y, held_out.counts)

    @of_one_state
    def member_table(self) -> dict[str, Any]:
        """Return each member's name, weight with its 95 % credible interval, fit, and contribution.

        Returns
        -------
        table : dict of str to list or ndarray
            One column per key. RMSE and NLL are in the units of the target, the NLL that of the member's own Gaussian
            (in a stack, with the variance that is used): on held-out rows or, with ``design="in-sample"``, on the
            training rows. ``loss_without`` is the decrease of the mean leave-one-out log score without the member; nan
            where it is not known. ``members_told_apart_`` says whether the weights mean anything.
        """
        lower, upper = self.weight_posterior().interval(0.95)
        weights = {"member": list(self.member_names_), "weight": self.weights_, "lower": lower, "upper": upper}
        return {**weights, **self._member_fit(), "loss_without": self._losses_without()}

    @of_one_state
    def member_report(self) -> Any:
        """Return ``member_table`` as a pandas data frame.

        Returns
        -------
        frame : pandas.DataFrame
            One row per member. ``frame.attrs["note"]`` says if the data do not tell the members apart.
        """
        frame = as_frame(self.member_table())
        frame.attrs["note"] = "" if self.members_told_apart_ else ALIKE
        return frame

    @of_one_state
    def member_curve(self) -> dict[str, NDArray[Any]]:
        """Return the leave-one-out log score and RMSE with the first 1, 2, .. members.

        Each held-out row is predicted from all others, in the units of the target. Only the weights are fitted again.

        Returns
        -------
        curve : dict of str to ndarray
            Columns ``n_members``, ``log_score`` and ``rmse``.
        """
        held_out = self._require_held_out()
        if np.isnan(self.combination_.score):
            raise InvalidParameterError(
                "members are compared by predicting each row left out of their training from the others, which takes "
                f"two of them; got {len(held_out.y)}: add rows, leave out a larger holdout_fraction, or cross-fit"
            )
        sizes = np.arange(1, len(self.member_names_) + 1)
        log_score, rmse = scores_of_first(held_out, self._combined.targets, CombinationSettings.of(self))
        return {"n_members": sizes, "log_score": log_score, "rmse": rmse}

    @of_one_state
    def drop_members(self, names: str | Sequence[str]) -> Self:
        """Return the regressor without some of its members; this one does not change.

        No member is fitted again: only the weights are learned again, from the same rows. If predictions are mixed with
        densities of neighbours, the weights of these stay.

        Parameters
        ----------
        names : str or sequence of str
            Names of the members to drop, from ``member_names_``.

        Returns
        -------
        model : object
            A regressor of the same class. In a stack, these members are "drop" in its ``estimators``.
        """
        self._require_held_out()
        check_not_updated(self._combined, "dropped")
        all_names = self.member_names_
        dropped = list(names) if isinstance(names, list | tuple | set | np.ndarray) and np.ndim(names) else [names]
        for name in dropped:
            check_choice("each member to drop", name, all_names)
        kept = np.array([h for h, name in enumerate(all_names) if name not in dropped], dtype=np.intp)
        if not len(kept):
            raise InvalidParameterError(
                f"at least one member must be left of {len(all_names)}; got all of them to drop"
            )
        return self._only(*combine_again(self._combined, kept, CombinationSettings.of(self)))

    @overload
    def predict_var(self, X: Table, *, decompose: Literal[False] = False) -> FloatArray: ...

    @overload
    def predict_var(self, X: Table, *, decompose: Literal[True]) -> dict[str, FloatArray]: ...

    @of_one_state
    def predict_var(self, X: Table, *, decompose: bool = False) -> FloatArray | dict[str, FloatArray]:
        """Predict the variance of each row, as a whole or in parts.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        decompose : bool, default=False
            Return the parts that add up to the variance.

        Returns
        -------
        variance : ndarray of shape (n_samples,) or dict of str to ndarray
            With ``decompose``: "noise", which remains if everything else is known; "disagreement" of the members about
            the row; "weights", from the uncertainty of the members' weights; and "outside", which is zero for rows no
            farther from training rows than those are from each other, and grows with the distance. If neighbours give
            predictions a shape, there is also "shape": the difference between the variance of the mixture and that of
            the Student-t, which may be negative. If the target is transformed, the variance is divided in proportion to
            the parts of the variance of the transformed target.
        """
        parts = self._prediction(self._rows(X)).variances()
        return parts if decompose else np.asarray(sum(parts.values()))

    @of_one_state
    def predict_interval(
        self, X: Table, coverage: float = 0.9, *, guarantee: bool = False, shift: Shift | None = None
    ) -> FloatArray:
        """Predict the central interval of each row.

        If many targets share values (``target_values_``), the ends are quantiles of the distribution that
        ``predict_values`` describes: on a lattice they are values of the lattice, and with point masses an end may be
        one of them. Such an interval holds at least the probability ``coverage``. Otherwise the ends are quantiles of
        the density of ``predict_dist``.

        With ``guarantee=True`` intervals are cross-conformal (CV+): whatever the distribution of the rows, if new rows
        are exchangeable with the training rows, an interval with ``coverage`` 1 - α contains a new target with a
        probability of at least about 1 - 2α, and in practice of about 1 - α. They are as wide as the errors on rows
        left out of the fit, in units of the members' own standard deviation. The guide on updating says what is
        exact in this, and what is not.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        coverage : float, default=0.9
            Probability that each interval contains.
        guarantee : bool, default=False
            Whether to return cross-conformal intervals. They need ``predict_with="folds"``, a model that has absorbed
            no rows since its fit, and at least ``1 / (1 - coverage)`` training rows: with fewer, an end is infinite or
            a bound of the target.
        shift : pair of array-like, optional
            With ``guarantee=True``: weights of the training rows, in the order of the fit, and of the rows of ``X``. A
            weight says how many times more frequent such a row is among new rows than in training.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2)
            Lower and upper ends.
        """
        if guarantee:
            return guaranteed_interval(self, self._rows(X), coverage, shift)
        if shift is not None:
            raise InvalidParameterError("shift weighs the rows of intervals with guarantee=True; got guarantee=False")
        if self._combined.values is None:
            return super().predict_interval(X, coverage)
        check_number("coverage", coverage, low=0.0, high=1.0)
        return ValuePrediction.of(self._prediction(self._rows(X))).interval(coverage)

    def _quantiles(self, X: Table, levels: FloatArray) -> FloatArray:
        """Return quantiles of the distribution whose intervals ``predict_interval`` returns."""
        if self._combined.values is None:
            return super()._quantiles(X, levels)
        return ValuePrediction.of(self._prediction(self._rows(X))).quantiles(levels)

    def _outcome_of(self, X: Array) -> Outcome:
        if self._combined.values is None:
            return super()._outcome_of(X)
        return ValuePrediction.of(self._prediction(X)).outcome()

    def _centres(self, X: Array) -> FloatArray:
        return self.combination_.predictive(self._forecast(X)).loc

    def _mean_and_variances(self, X: Array) -> dict[str, FloatArray]:
        prediction = self._prediction(X)
        parts = prediction.variances()
        return {"mean": prediction.dist().mean(), "variance": np.asarray(sum(parts.values())), **parts}

    @of_one_state
    def predict_values(self, X: Table) -> dict[float, FloatArray]:
        """Predict the probability of each of the values that many targets share.

        On a lattice, such as ratings or counts, the probabilities of all its values add up to one. With point masses,
        such as the zeros of a table in which many targets are zero, what is missing to one is the probability of any
        other value. Probabilities are calibrated on held-out rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        probabilities : dict of float to ndarray of shape (n_samples,)
            For each value, its probability in each row; ``pandas.DataFrame`` makes a table of it.
        """
        require_values(self._combined)
        return ValuePrediction.of(self._prediction(self._rows(X))).probabilities()

    @of_one_state
    def value_log_score(self, X: Table, y: ArrayLike) -> float:
        """Return the mean log probability of the targets' values; greater is better.

        It is the score of ``predict_values`` as ``log_score`` is that of the density, and the two cannot be compared.
        With point masses, a target without one of them is scored by the log probability of any other value plus its log
        density among the others.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        y : array-like of shape (n_samples,)
            Their targets.

        Returns
        -------
        score : float
            Mean log probability. A target that is no value of a lattice counts as one more row than those learned from.
        """
        require_values(self._combined)
        targets, rows = check_targets(y), self._rows(X)
        if len(targets) != len(rows):
            raise InvalidParameterError(
                f"y must hold one value for each of the {len(rows)} predicted rows; got shape {targets.shape}"
            )
        return ValuePrediction.of(self._prediction(rows)).log_score(targets)

    def _target_scores(self) -> dict[str, FloatArray]:
        """Return RMSE and NLL of each member in the units of a transformed target; nothing if it is not transformed."""
        targets, held_out = self._combined.targets, self.held_out_
        if targets.is_linear or held_out is None:
            return {}
        return target_scores(held_out, targets)

    @of_one_state
    def support(self, X: Table) -> SupportReport:
        """Return how far each row is from the training rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to compare.

        Returns
        -------
        report : SupportReport
            For each row: ``ratio``, its distance to the nearest training row over the distance that is typical between
            training rows; ``status``, "inside" with a ratio of at most 1, else "gap" or, beyond the range of a column,
            "outside"; the ``column`` that is responsible; and ``inside``, from 1 for a row inside to 0 far away.
        """
        widening = self._combined.widening
        if widening is None:
            raise InvalidParameterError(
                "support compares rows with training rows, of which this model has no summary: it was fitted with "
                "design='in-sample'; fit it again with design='cross-fit'"
            )
        names = getattr(self, "feature_names_in_", None)
        if self.table_ is not None:
            names = np.array(self.table_.names, dtype=object)[self.table_.column_of_feature]
        return SupportReport.of(widening.support, self._rows(X), names)

    @of_one_state
    def report(self, X: Table, y: ArrayLike, path: str | os.PathLike[str] | None = None, **options: Any) -> Any:
        """Make a page about the model, by rows that it has not seen: one HTML file that needs no network.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to judge the model by.
        y : array-like of shape (n_samples,)
            Their targets.
        path : str or path-like, optional
            File to write; an existing file is replaced.
        **options
            ``title``, ``target_name``, ``rows`` and ``what_if``, as in ``bdkn.report.write_page``.

        Returns
        -------
        page : bdkn.report.Page
            The page. Notebooks show it, and its ``save(path)`` writes it.
        """
        return report_on(self, X, y, path, **options)

    @of_one_state
    def without_shape(self) -> Self:
        """Return the regressor that predicts Student-t distributions alone; this one does not change.

        It is the result of a fit with ``density="student-t"``, and predicts faster.

        Returns
        -------
        model : object
            The regressor without densities of neighbours.
        """
        state = self._state
        return self._copy(replace(state, combined=replace(state.combined, density=None)), density="student-t")

    def _require_held_out(self) -> HeldOut:
        """Return the held-out predictions; raise if there are none."""
        held_out = self.held_out_
        if held_out is None:
            raise InvalidParameterError(
                "members can be compared, added and dropped only by rows left out of their training; "
                "design='in-sample' leaves out none: fit with design='cross-fit' or 'hold-out'"
            )
        return held_out

    def _require_provenance(self) -> FitProvenance:
        """Return the provenance of a fit with rows left out, to which members can be added."""
        self._require_held_out()
        check_not_updated(self._combined, "added")
        provenance = self.provenance_
        assert provenance is not None, "a fit with rows left out has a provenance"
        return provenance

    def _losses_without(self) -> FloatArray:
        held_out, H = self.held_out_, len(self.member_names_)
        if held_out is None or H == 1 or np.isnan(self.combination_.score):
            return np.full(H, np.nan)
        return losses_without(held_out, self._combined.targets, CombinationSettings.of(self))

    def _copy(self, fitted: object, **parameters: Any) -> Self:
        """Return a copy with another fitted state and other values of some parameters."""
        new = copy.copy(self)
        new.fitted_ = fitted
        for name, value in parameters.items():
            setattr(new, name, value)
        return new

    def _completed(self, combined: Combined, X: Any, numbers: IndexArray | None, splitting: Splitting) -> Combined:
        """Return the combination with the widening outside of the training rows X, and the shape of predictions.

        Held-out predictions are of the rows ``numbers`` (None: of all).
        """
        combined = with_widening(combined, X, numbers)
        if numbers is None:
            return self._shaped(combined, X, splitting.sets)
        return self._shaped(combined, take_rows(X, numbers), splitting.sets_of(numbers))

    def _shaped(self, combined: Combined, X: Any, sets: IndexArray | None = None) -> Combined:
        """Return the combination with the shape of predictions, learned from the table of the held-out rows."""
        return combined if self.density == "student-t" else with_shape(combined, X, sets, self.n_jobs)

    def _prediction(self, X: Array, *, joint: bool = False) -> Prediction:
        """Return the prediction of checked rows; ``joint`` for all together."""
        return Prediction(self._combined, self._widened_forecast(X, joint=joint), X)

    def _widened_forecast(self, X: Array, *, joint: bool = False) -> Forecast:
        """Return the members' forecast with the variance outside of the training rows."""
        return widened_forecast(self._combined, self._forecast(X), X, joint=joint)

    def _predictive(self, X: Array) -> Predictive:
        return self._prediction(X).dist()

    def _moments(self, X: Array) -> tuple[FloatArray, FloatArray]:
        return self._prediction(X, joint=True).moments()

    def _joint_draws(self, X: Array, size: int, generator: np.random.Generator) -> FloatArray:
        return self._prediction(X, joint=True).draws(size, generator)
