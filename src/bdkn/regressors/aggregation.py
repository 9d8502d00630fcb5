"""The base class of regressors that combine members by a Bayesian linear model."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import NDArray

from bdkn.errors import InvalidParameterError, check_choice, warn_user
from bdkn.inference import Combination, Forecast, WeightPosterior, average_weights
from bdkn.inference.combination import student_t_covariance
from bdkn.members import HeldOut
from bdkn.members.provenance import FitProvenance
from bdkn.members.selection import CombinationSettings, select_and_combine
from bdkn.predictive import StudentT
from bdkn.regressors.base import ProbabilisticRegressor, Table
from bdkn.regressors.fitted import Combined
from bdkn.regressors.frames import as_frame
from bdkn.stages import stage
from bdkn.typing import Array, FloatArray, IndexArray

ALIKE = "the data do not tell these members apart"
"""What is said of members whose weights may as well be equal."""


class CombiningRegressor(ProbabilisticRegressor):
    """Regressor that combines members by a Bayesian linear model.

    A subclass has the parameters of ``CombinationSettings``, a fitted state with an attribute ``combined``, and defines
    how its members predict.
    """

    @abstractmethod
    def _forecast(self, X: Array) -> Forecast:
        """Return the members' forecast for checked rows, in scaled units."""

    @property
    @abstractmethod
    def member_names_(self) -> tuple[str, ...]:
        """Names of the members in use."""

    @abstractmethod
    def _only(self, members: IndexArray, combined: Combined) -> object:
        """Return the fitted state with some of the members, combined in this way."""

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
        return self._combined.held_out

    @property
    def provenance_(self) -> FitProvenance | None:
        """The seed, the digest of the rows and the parameters of the fit; None if no rows were left out."""
        return self._combined.provenance

    @property
    def weights_(self) -> FloatArray:
        """Posterior mean of the weights β."""
        return self.combination_.weights

    @property
    def weights_cov_(self) -> FloatArray:
        """Posterior covariance of β; infinite with two degrees of freedom or fewer."""
        weights = self._weight_posterior()
        return student_t_covariance(weights.df, weights.scale_matrix)

    @property
    def members_told_apart_(self) -> bool:
        """Whether the data tell the members apart: whether unequal weights have three times the evidence of equal ones.

        True for a model with one member, and where the prior variance of the weights was given.
        """
        return len(self.weights_) == 1 or self._weight_posterior().told_apart

    @property
    def intercept_(self) -> float:
        """The constant that is added to the weighted predictions of the members, in the units of the target."""
        targets = self._combined.targets
        return float(targets.mean * (1.0 - self.weights_.sum()) + targets.scale * self.combination_.constant)

    @property
    def noise_variance_(self) -> float:
        """Squared scale of a prediction if β were known, where the members' own variance is average."""
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
    def evidence_(self) -> float:
        """Log marginal likelihood of the targets that the linear model was fitted to, in their own units."""
        return self.combination_.evidence - self.combination_.n * float(np.log(self._combined.targets.scale))

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
        return average_weights(combination, held_out.forecast(), held_out.y, held_out.counts)

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
        log_score, rmse = np.transpose([self._left_one_out(held_out[np.arange(size)]) for size in sizes])
        return {"n_members": sizes, "log_score": log_score, "rmse": rmse}

    def drop_members(self, names: str | Sequence[str]) -> Self:
        """Return the regressor without some of its members; this one does not change.

        No member is fitted again: only the weights are learned again, from the same rows.

        Parameters
        ----------
        names : str or sequence of str
            Names of the members to drop, from ``member_names_``.

        Returns
        -------
        model : object
            A regressor of the same class.
        """
        held_out, all_names = self._require_held_out(), self.member_names_
        dropped = [names] if isinstance(names, str) else list(names)
        for name in dropped:
            check_choice("each member to drop", name, all_names)
        kept = np.array([h for h, name in enumerate(all_names) if name not in dropped], dtype=np.intp)
        if not len(kept):
            raise InvalidParameterError(
                f"at least one member must be left of {len(all_names)}; got all of them to drop"
            )
        useful, combination = select_and_combine(held_out, kept, CombinationSettings.of(self))
        kept = kept[useful]
        combined = Combined(combination, self._combined.targets, held_out[kept], self.provenance_)
        return self._copy(self._only(kept, combined))

    @overload
    def predict_var(self, X: Table, *, decompose: Literal[False] = False) -> FloatArray: ...

    @overload
    def predict_var(self, X: Table, *, decompose: Literal[True]) -> dict[str, FloatArray]: ...

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
            the row; and "weights", from the uncertainty of the members' weights.
        """
        forecast, unit = self._forecast(self._rows(X)), self._combined.targets.squared
        parts = {name: unit * part for name, part in self.combination_.variance(forecast).items()}
        return parts if decompose else np.asarray(sum(parts.values()))

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
        """Return the provenance of a fit with rows left out."""
        self._require_held_out()
        provenance = self.provenance_
        assert provenance is not None, "a fit with rows left out has a provenance"
        return provenance

    def _left_one_out(self, held_out: HeldOut) -> tuple[float, float]:
        """Return the log score and the RMSE of these members, each row predicted from the others."""
        scale, y, counts = self._combined.targets.scale, held_out.y, held_out.counts
        dist = CombinationSettings.of(self).combine(held_out).leave_one_out(held_out.forecast(), y, counts)
        log_score = np.average(dist.logpdf(y), weights=counts) - np.log(scale)
        return float(log_score), float(scale * np.sqrt(np.average((dist.loc - y) ** 2, weights=counts)))

    def _losses_without(self) -> FloatArray:
        members, held_out = np.arange(len(self.member_names_)), self.held_out_
        if held_out is None or len(members) == 1 or np.isnan(self.combination_.score):
            return np.full(len(members), np.nan)
        without = [self._left_one_out(held_out[np.delete(members, h)])[0] for h in members]
        return self._left_one_out(held_out)[0] - np.array(without)

    def _copy(self, fitted: object, **parameters: Any) -> Self:
        """Return a copy with another fitted state and other values of some parameters."""
        new = copy.copy(self)
        new.fitted_ = fitted
        for name, value in parameters.items():
            setattr(new, name, value)
        return new

    def _predictive(self, X: Array) -> StudentT:
        forecast, targets = self._forecast(X), self._combined.targets
        with stage("predict"):
            return self.combination_.predictive(forecast, targets.scale, targets.mean)

    def _moments(self, X: Array) -> tuple[FloatArray, FloatArray]:
        forecast, targets = self._forecast(X), self._combined.targets
        mean = self.combination_.predictive(forecast, targets.scale, targets.mean).loc
        return mean, targets.squared * self.combination_.covariance(forecast)

    def _joint_draws(self, X: Array, size: int, generator: np.random.Generator) -> FloatArray:
        drawn = self.combination_.draw(self._forecast(X), size, generator)
        return self._combined.targets.mean + self._combined.targets.scale * drawn
