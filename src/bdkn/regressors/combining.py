"""What every regressor shares that puts the Bayesian linear model on what its members say."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bdkn.errors import InvalidParameterError, check_choice, check_number
from bdkn.inference import Combination, Forecast, combine
from bdkn.inference.combination import MAX_TEMPERING, student_t_covariance
from bdkn.members import HeldOut, TargetScaler
from bdkn.predictive import StudentT
from bdkn.regressors.base import ProbabilisticRegressor, Table
from bdkn.regressors.frames import as_frame
from bdkn.regressors.origin import Origin
from bdkn.regressors.screening import elimination
from bdkn.regressors.state import plain_parameter
from bdkn.stages import stage
from bdkn.typing import Array, FloatArray

_COMBINING = {"evidence", "tempering", "tails", "select_members"}
_FREE = _COMBINING | {"n_members", "estimators", "random_state", "n_jobs", "verbose"}
"""Parameters that may differ from those of the fit when members are added."""


class CombiningRegressor(ProbabilisticRegressor):
    """Predictions from ``combination_``; a method says what its members are and what they say.

    It has the parameters ``evidence``, ``tempering``, ``tails`` and ``select_members``.
    """

    evidence: str | float
    tempering: str | float
    tails: str
    select_members: bool
    combination_: Combination
    held_out_: HeldOut | None
    origin_: Origin

    @abstractmethod
    def _forecast(self, X: Array) -> Forecast:
        """Return what the members say about checked rows, in scaled units."""

    @property
    @abstractmethod
    def member_names_(self) -> tuple[str, ...]:
        """Names of the members in use."""

    @property
    @abstractmethod
    def _targets(self) -> TargetScaler:
        """The units the members are combined in."""

    @abstractmethod
    def _only(self, members: NDArray[np.intp]) -> dict[str, Any]:
        """Return the fitted attributes that tell about members, and parameters that name them, for some of them."""

    @abstractmethod
    def _member_fit(self) -> dict[str, Any]:
        """Return columns that tell how well each member fits, in the units of the target."""

    @property
    def weights_(self) -> FloatArray:
        """Posterior mean of β."""
        return self.combination_.weights

    @property
    def weights_cov_(self) -> FloatArray:
        """Posterior covariance of β, infinite where none exists."""
        posterior, H = self.combination_.posterior, len(self.weights_)
        return student_t_covariance(posterior.df, posterior.scale_matrix[:H, :H])

    @property
    def intercept_(self) -> float:
        """What is added to the weighted predictions of the members, in the units of the target."""
        targets = self._targets
        return float(targets.mean * (1.0 - self.weights_.sum()) + targets.scale * self.combination_.constant)

    @property
    def noise_(self) -> float:
        """The squared scale of a prediction if β were known, where the members' own variance is as on average."""
        with np.errstate(over="ignore", under="ignore"):
            return float(np.square(self._targets.scale * self.combination_.noise_std))

    @property
    def dof_(self) -> float:
        """Degrees of freedom of every prediction."""
        return self.combination_.tails.df

    @property
    def prior_scale_(self) -> float:
        """The prior variance σ_β² in use."""
        return self.combination_.prior_variance

    @property
    def evidence_(self) -> float:
        """Log marginal likelihood of the rows the members were combined on, in the units of the target."""
        return self.combination_.evidence - self.combination_.n * float(np.log(self._targets.scale))

    def weight_posterior(self) -> StudentT:
        """Return the posterior of each member's weight."""
        check_is_fitted(self)
        return self.combination_.posterior.weights()[: len(self.member_names_)]

    def member_table(self) -> dict[str, Any]:
        """Return one column a key: each member's name, weight with its 95 % credible interval, fit, and worth.

        RMSE and NLL are in the units of the target, the NLL that of the member's own Gaussian, in a stack with the
        variance it is used with: on rows left out of training or, with ``design="in-sample"``, on the training rows.
        ``loss_without`` is how much the mean leave-one-out log score would fall without the member; nan where that
        cannot be told.
        """
        check_is_fitted(self)
        lower, upper = self.weight_posterior().interval(0.95)
        weights = {"member": list(self.member_names_), "weight": self.weights_, "lower": lower, "upper": upper}
        return {**weights, **self._member_fit(), "loss_without": self._losses_without()}

    def member_report(self) -> Any:
        """Return ``member_table`` as a pandas data frame."""
        return as_frame(self.member_table())

    def member_curve(self) -> dict[str, NDArray[Any]]:
        """Return how well the first 1, 2, .. members do: their leave-one-out log score and RMSE.

        Each row left out of training is predicted by all the others, in the units of the target. Nothing is fitted
        anew but the weights.
        """
        held_out = self._judged()
        if np.isnan(self.combination_.score):
            raise InvalidParameterError(
                "members are compared by predicting each row left out of their training from the others, which takes "
                f"two of them; got {len(held_out.y)}: add rows, leave out a larger holdout_fraction, or cross-fit"
            )
        sizes = np.arange(1, len(self.member_names_) + 1)
        log_score, rmse = np.transpose([self._left_one_out(held_out[np.arange(size)]) for size in sizes])
        return {"n_members": sizes, "log_score": log_score, "rmse": rmse}

    def drop_members(self, names: str | Sequence[str]) -> Self:
        """Return the regressor as it would be without some of its members; this one stays as it is.

        No member is fitted anew: only their weights are learned again, from the same rows.
        """
        held_out, all_names = self._judged(), self.member_names_
        gone = [names] if isinstance(names, str) else list(names)
        for name in gone:
            check_choice("each member to drop", name, all_names)
        kept = np.array([h for h, name in enumerate(all_names) if name not in gone], dtype=np.intp)
        if not len(kept):
            raise InvalidParameterError(
                f"at least one member must be left of {len(all_names)}; got all of them to drop"
            )
        useful, combination = self._selected(held_out[kept])
        kept = kept[useful]
        return self._copy(held_out_=held_out[kept], combination_=combination, **self._only(kept))

    @overload
    def predict_var(self, X: Table, *, decompose: Literal[False] = False) -> FloatArray: ...

    @overload
    def predict_var(self, X: Table, *, decompose: Literal[True]) -> dict[str, FloatArray]: ...

    def predict_var(self, X: Table, *, decompose: bool = False) -> FloatArray | dict[str, FloatArray]:
        """Return the variance of each row's prediction or, with ``decompose``, the parts it is the sum of.

        The parts are "noise", what the members take for noise; "disagreement" of the members about the row; and
        "weights", what is uncertain about how to weigh them.
        """
        said, unit = self._forecast(self._rows(X)), self._targets.squared
        parts = {name: unit * part for name, part in self.combination_.variance(said).items()}
        return parts if decompose else np.asarray(sum(parts.values()))

    def _check_combining(self) -> None:
        """Check the parameters of the combination."""
        if isinstance(self.evidence, str):
            check_choice("evidence", self.evidence, ("exact", "paper"))
        else:
            check_number("evidence", self.evidence, low=1e-100, high=1e100)
        if isinstance(self.tempering, str):
            check_choice("tempering", self.tempering, ("evidence",))
        else:
            check_number("tempering", self.tempering, low=0.0, high=MAX_TEMPERING)
        check_choice("tails", self.tails, ("loo", "posterior"))
        if not isinstance(self.select_members, bool | np.bool_):
            raise InvalidParameterError(f"select_members must be True or False; got {self.select_members!r}")

    def _selected(self, held_out: HeldOut) -> tuple[NDArray[np.intp], Combination]:
        """Return the numbers of the members to use, and how to combine them.

        Of all members, all but the most harmful one, and so on, the best by leave-one-out log score; not of those that
        with the constant are as many as the rows: they can reproduce every row, and what is left is rounding error.
        """
        subsets = list(elimination(held_out))
        too_many = max(0, len(subsets) + 2 - len(held_out.y))
        best, *fewer = subsets[min(too_many, len(subsets) - 1) :] if self.select_members else subsets[:1]
        combination = self._combined(held_out[best])
        for members in fewer:
            other = self._combined(held_out[members])
            if other.score > combination.score:
                best, combination = members, other
        return best, combination

    def _combined(self, held_out: HeldOut) -> Combination:
        """Return how to combine members, learned from rows left out of their training."""
        said, y, counts = held_out.forecast(), held_out.y, held_out.counts
        combination = combine(said, y, counts, prior_variance=self.evidence, tempering=self.tempering, tails=self.tails)
        return combination if self.tails == "posterior" else combination.averaged(said, held_out.spread, counts)

    def _judged(self) -> HeldOut:
        """Return what the members say about rows left out of their training; raise if there are none."""
        check_is_fitted(self)
        if self.held_out_ is None:
            raise InvalidParameterError(
                "members can be told apart, added and dropped only by rows left out of their training, which "
                "design='in-sample' has none of: fit with design='cross-fit' or 'hold-out'"
            )
        return self.held_out_

    def _making(self) -> dict[str, Any]:
        """Return the parameters that the members of one fit must share."""
        return {name: plain_parameter(self, name) for name in self.get_params(deep=False) if name not in _FREE}

    def _left_one_out(self, held_out: HeldOut) -> tuple[float, float]:
        """Return the log score and the RMSE of these members, each row predicted by the others."""
        scale, y, share = self._targets.scale, held_out.y, held_out.counts
        dist = self._combined(held_out).leave_one_out(held_out.forecast(), y, share)
        log_score = np.average(dist.logpdf(y), weights=share) - np.log(scale)
        return float(log_score), float(scale * np.sqrt(np.average((dist.loc - y) ** 2, weights=share)))

    def _losses_without(self) -> FloatArray:
        members = np.arange(len(self.member_names_))
        if self.held_out_ is None or len(members) == 1 or np.isnan(self.combination_.score):
            return np.full(len(members), np.nan)
        held_out = self.held_out_
        without = [self._left_one_out(held_out[np.delete(members, h)])[0] for h in members]
        return self._left_one_out(held_out)[0] - np.array(without)

    def _copy(self, **changes: Any) -> Self:
        new = copy.copy(self)
        new.__dict__.update(changes)
        return new

    def _predictive(self, X: Array) -> StudentT:
        with stage("predict members"):
            forecast = self._forecast(X)
        with stage("predict"):
            return self.combination_.predictive(forecast, self._targets.scale, self._targets.mean)

    def _moments(self, X: Array) -> tuple[FloatArray, FloatArray]:
        said, targets = self._forecast(X), self._targets
        mean = self.combination_.predictive(said, targets.scale, targets.mean).loc
        return mean, targets.squared * self.combination_.covariance(said)

    def _joint_draws(self, X: Array, size: int, generator: np.random.Generator) -> FloatArray:
        drawn = self.combination_.draw(self._forecast(X), size, generator)
        return self._targets.mean + self._targets.scale * drawn
