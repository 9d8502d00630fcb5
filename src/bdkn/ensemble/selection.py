"""Held-out predictions of members, their scores, and selection of the members to combine.

Held-out predictions are means and variances that members predict for rows they were not trained on. Members that
diverged are left out; of the others, the subset is combined that has the best leave-one-out score.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from bdkn.errors import DivergedError, DivergedMemberWarning, FewRowsWarning, warn_user
from bdkn.inference import Combination, Forecast, combine
from bdkn.networks import MIN_VARIANCE
from bdkn.storage.fields import Either, Number, Text, floats, integers, must, stored
from bdkn.threads import one_blas_thread, run_on_threads
from bdkn.typing import BoolArray, FloatArray, IndexArray

_PER_MEMBER = ("means", "variances", "fold_variance", "fold_of")
"""Names of the fields of ``HeldOut`` with one column per member."""

ScoredPart = tuple[FloatArray, FloatArray | None, FloatArray, FloatArray]
"""Block of rows to score members on: targets (n,), counts (None: all 1), members' means and variances, each (H, n)."""


@stored
@dataclass(frozen=True)
class MemberScores:
    """Mean squared error and mean negative log-likelihood of each member for the scaled target; may be not finite."""

    mse: Annotated[FloatArray, floats("H", finite=False)]
    nll: Annotated[FloatArray, floats("H", finite=False)]

    @classmethod
    def of(cls, parts: Iterable[ScoredPart], *, own_variance: bool = True) -> Self:
        """Return the members' scores over blocks of rows; without ``own_variance``, a member's variance is its MSE."""
        squared = scored = np.zeros(1)
        total = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            for y, counts, means, variances in parts:
                share = np.ones(len(y)) if counts is None else counts
                errors = (means - y) ** 2
                squared = squared + errors @ share
                scored = scored + (np.log(variances) + errors / variances) @ share
                total += float(share.sum())
            mse, score = squared / total, scored / total
            if not own_variance:
                score = np.log(constant_variance(mse)) + mse / constant_variance(mse)
        return cls(mse, (np.log(2 * np.pi) + score) / 2)

    def __getitem__(self, members: BoolArray | IndexArray) -> Self:
        return type(self)(self.mse[members], self.nll[members])

    @property
    def rmse(self) -> FloatArray:
        """Root mean squared error of each member for the scaled target."""
        return np.sqrt(self.mse)

    @property
    def is_finite(self) -> BoolArray:
        """True for each member with finite scores."""
        return np.isfinite(self.mse) & np.isfinite(self.nll)


def constant_variance(mse: FloatArray) -> FloatArray:
    """Return the variance of members that predict no variances: their mean squared error, at least MIN_VARIANCE."""
    return np.maximum(mse, MIN_VARIANCE)


@stored
@dataclass(frozen=True, eq=False)
class HeldOut:
    """Members' predicted means and variances (n, H) for held-out rows, with the targets (n,) and counts of these rows.

    Variances are nan for a member that predicts none. ``fold_variance`` (n, H) is the variance of a row's means over
    the fits of a member, one per fold; it is zero for a member that predicts new rows with a single fit. ``fold_of``
    (n, H) is the number of the member's fit that was not trained on the row; it is None if members predict new rows
    with other fits than held-out rows.
    """

    means: Annotated[FloatArray, floats("n", "H")]
    variances: Annotated[FloatArray, floats("n", "H", finite=False)]
    fold_variance: Annotated[FloatArray, floats("n", "H", low=0.0)]
    y: Annotated[FloatArray, floats("n")]
    counts: Annotated[FloatArray | None, floats("n", low=0.0)] = None
    fold_of: Annotated[NDArray[np.signedinteger] | None, integers("n", "H", types=("i1", "i2", "i4", "i8"), low=-1)] = (
        None
    )

    def check(self) -> None:
        """Raise unless each member has only positive variances or only nan, and a row has a positive sample weight."""
        known = ~np.isnan(self.variances)
        must(bool((known.all(axis=0) | ~known.any(axis=0)).all()), "a member must have all variances, or none")
        variances = self.variances[known]
        must(bool((np.isfinite(variances) & (variances > 0.0)).all()), "variances must be finite and above zero")
        must(self.counts is None or self.counts.sum() > 0.0, "some row must count")

    @property
    def n_members(self) -> int:
        """Number of members, H."""
        return int(self.means.shape[1])

    def __getitem__(self, members: IndexArray) -> Self:
        if np.array_equal(members, np.arange(self.means.shape[1])):
            return self  # avoids a copy of large arrays
        # The memory layout is always the same, so that the same members give the same bits.
        parts = {name: getattr(self, name) for name in _PER_MEMBER}
        return replace(self, **{name: part.take(members, axis=1) for name, part in parts.items() if part is not None})

    def rows(self, numbers: IndexArray) -> Self:
        """Return the held-out predictions for the rows with these numbers."""
        parts = {name: getattr(self, name) for name in (*_PER_MEMBER, "y", "counts")}
        return replace(self, **{name: part[numbers] for name, part in parts.items() if part is not None})

    def join(self, other: Self) -> Self:
        """Return the held-out predictions of the members of both objects, which must be for the same rows."""
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in _PER_MEMBER}
        joined: dict[str, Any] = {
            name: None if b is None or a is None else np.hstack([a, b]) for name, (a, b) in pairs.items()
        }
        return replace(self, **joined)

    def forecast(self) -> Forecast:
        """Return the members' pooled predictions for the held-out rows: means, noise variance and disagreement."""
        return self.pool(self.means, self.variances)

    def pool(self, means: FloatArray, variances: FloatArray) -> Forecast:
        """Pool the members' means and variances (.., n, H) for any n rows; the leading axes can be folds, for example.

        The noise variance of a row is the average of the members' variances. If no member predicts variances, it is the
        mean squared error of the equally weighted average of all members on the held-out rows.
        """
        return Forecast.of(means, self.pooled_variances(means, variances))

    def pooled_variances(self, means: FloatArray, variances: FloatArray) -> FloatArray:
        """Return V variances per row (.., n, V), whose average is the noise variance: the predicted or a constant."""
        known = self.has_variance
        if known.all():
            return variances
        if known.any():
            return variances[..., known]
        error = self._average((self.means.mean(axis=1) - self.y) ** 2)
        return np.full((*means.shape[:-1], 1), float(constant_variance(error)))

    @property
    def has_variance(self) -> BoolArray:
        """True for each member that predicts variances."""
        return np.asarray(~np.isnan(self.variances).any(axis=0))

    def variance_factors(self) -> FloatArray:
        """Return the factors (H,) that calibrate the members' variances; nan for variances that should not be used.

        Multiplied by its factor, a member's mean variance equals its mean squared error. A member's variances are used
        if the correlation of absolute errors and log variances is more than two standard errors above zero.
        """
        with np.errstate(all="ignore"):  # variances are not used if the correlation is nan
            errors, logs = np.abs(self.means - self.y[:, None]), np.log(self.variances)
            errors, logs = errors - self._average(errors), logs - self._average(logs)
            chance = np.sqrt(self._average(errors**2) * self._average(logs**2) / len(self.y))
            factor = self._average((self.means - self.y[:, None]) ** 2) / self._average(self.variances)
            return np.where(self._average(errors * logs) > 2.0 * chance, factor, np.nan)

    def scores(self, *, own_variance: bool = True) -> MemberScores:
        """Return the members' MSE and NLL on the held-out rows; without ``own_variance``, the variance is the MSE."""
        return MemberScores.of([(self.y, self.counts, self.means.T, self.variances.T)], own_variance=own_variance)

    def filled(self) -> Self:
        """Return the held-out predictions, in which a member without variances has its MSE as constant variance."""
        constant = constant_variance(self.scores().mse)
        return replace(self, variances=np.where(np.isnan(self.variances), constant, self.variances))

    def _average(self, numbers: FloatArray) -> FloatArray:
        return np.asarray(np.average(numbers, axis=0, weights=self.counts))


# Selection of members, and their combination

WEIGHTS_NOT_FINITE = (
    "weights or outputs are not finite; try a lower learning_rate, standardize_y=True, or objective='beta_nll' with "
    "some warmup_epochs"
)
MIN_GAIN = 1.0
"""Minimum gain of the leave-one-out log score, summed over rows, for each member that is removed. Without it, the best
of many subsets would be chosen by chance, and with few rows its prediction intervals would be too narrow."""

FEW_ROWS = 10
"""Number of held-out rows below which a fit warns: the scale of errors is then uncertain by a factor of about 1.5."""

_MANY_PREDICTIONS = 1 << 18
"""Minimum number of held-out predictions (rows times members) to combine subsets of members on several threads."""

_MAX_PARALLEL = 4
"""Maximum number of subsets of members combined at the same time; each needs a few copies of their predictions."""


@stored
@dataclass(frozen=True, kw_only=True)
class CombinationOptions:
    """Options of the Bayesian linear model that combines the members; the parameter ``combination`` of regressors.

    Parameters
    ----------
    prior_variance : {"evidence", "paper"} or float, default="evidence"
        How the prior variance σ_β² of the weights is chosen: by evidence (marginal likelihood), under a weak prior that
        weights deviate from equal ones by about their size; as in the paper (a few steps of an optimiser from 1); or as
        the number given.
    tempering : "evidence" or float, default="evidence"
        The power τ of the members' variance in the noise variance: a number between 0 (constant noise) and 2, or chosen
        by evidence, with a prior that requires a gain of three units of log evidence per unit of τ. With 1 the noise
        variance is proportional to the members' variance.
    tails : {"loo", "posterior"}, default="loo"
        Degrees of freedom and scale of predictions: chosen by the leave-one-out score, or taken from the posterior.
    select_members : bool, default=True
        True: remove the most harmful member, then the next, and so on; use the subset of best leave-one-out score.
        Each removed member must improve the log score, summed over the rows, by one unit. False: use all members.

    Examples
    --------
    >>> from bdkn import BDKNRegressor, CombinationOptions
    >>> BDKNRegressor(combination=CombinationOptions(tempering=0.0)).combination.tails
    'loo'
    """

    prior_variance: Annotated[str | float, Either(str, Text(), Number())] = "evidence"
    tempering: Annotated[str | float, Either(str, Text(), Number())] = "evidence"
    tails: str = "loo"
    select_members: bool = True

    def combine(self, held_out: HeldOut) -> Combination:
        """Return the linear model that combines all members for new rows, fitted to their held-out predictions.

        For a new row, the prediction of a member is the mean of the predictions of its fits.
        """
        found = _combine(held_out, self)
        if self.tails != "loo":
            return found
        averaged = found.averaged(held_out.forecast(), held_out.fold_variance, held_out.counts)
        return averaged.for_new_rows(held_out.y, held_out.counts)


def select_and_combine(
    held_out: HeldOut, finite: IndexArray, options: CombinationOptions, n_jobs: int | None = 1
) -> tuple[IndexArray, Combination]:
    """Select members out of the ``finite`` ones; return their numbers and the linear model that combines them.

    The candidates are all members, then one less at each step, without the most harmful one. The subset with the best
    leave-one-out score is used, with a penalty of ``MIN_GAIN`` per removed member. Subsets with as many weights
    (including the constant) as rows are left out: they fit every row exactly, and their scores are rounding errors.
    """
    n = len(held_out.y)
    if n < FEW_ROWS:
        warn_user(
            f"only {n} rows were held out of training, which is too few to learn the size of errors from: intervals "
            f"are wide, and may still be far off; add rows, until {FEW_ROWS} or more can be held out",
            FewRowsWarning,
        )
    held_out = held_out if len(finite) == held_out.means.shape[1] else held_out[finite]
    subsets = list(elimination(held_out)) if options.select_members else [np.arange(len(finite))]
    subsets = subsets[min(max(0, len(subsets) + 2 - n), len(subsets) - 1) :]

    # Combine each subset, for predictions by one fit of each member; with many rows, on several threads
    predicted = replace(held_out, fold_variance=held_out.fold_variance[:0], fold_of=None)
    found: list[Any] = [None] * len(subsets)

    def fit(number: int) -> None:
        found[number] = _combine(predicted[subsets[number]], options)

    if len(subsets) == 1 or held_out.means.size < _MANY_PREDICTIONS:
        for number in range(len(subsets)):
            fit(number)
    else:
        with one_blas_thread():
            run_on_threads(fit, range(len(subsets)), min(_MAX_PARALLEL, int(effective_n_jobs(n_jobs))))

    best, combination = subsets[0], found[0]
    for members, other in zip(subsets[1:], found[1:], strict=True):
        if other.n * (other.score - combination.score) > MIN_GAIN * (len(best) - len(members)):
            best, combination = members, other
    if options.tails == "loo":  # each member predicts a new row by the mean of its fits
        held_out = held_out[best]
        averaged = combination.averaged(held_out.forecast(), held_out.fold_variance, held_out.counts)
        combination = averaged.for_new_rows(held_out.y, held_out.counts)
    return finite[best], combination


def _combine(held_out: HeldOut, settings: CombinationOptions) -> Combination:
    """Return the linear model that combines all members, for rows that are predicted by one fit per member."""
    return combine(
        held_out.forecast(),
        held_out.y,
        held_out.counts,
        prior_variance=settings.prior_variance,
        tempering=settings.tempering,
        tails=settings.tails,
    )


def elimination(held_out: HeldOut) -> Iterator[IndexArray]:
    """Yield smaller and smaller sets of member numbers: first all, then each time without the most harmful member.

    The prior is the same for all members, so that a useless member, or one in other units, would do harm. Each step
    removes one member, such that the mean of the remaining ones has the smallest squared error on held-out rows.
    """
    errors = held_out.means - held_out.y[:, None]
    products = errors.T @ (errors if held_out.counts is None else errors * held_out.counts[:, None])
    kept = np.arange(len(products))
    yield kept
    while len(kept) > 1:
        without = (np.delete(kept, h) for h in range(len(kept)))
        kept = min(without, key=lambda some: float(products[np.ix_(some, some)].mean()))
        yield kept


def finite_members(is_finite: BoolArray, names: Sequence[str], reason: str = WEIGHTS_NOT_FINITE) -> IndexArray:
    """Return the numbers of the members that did not diverge; warn about members that did, and raise if all did."""
    lost = [name for name, finite in zip(names, is_finite, strict=True) if not finite]
    if len(lost) == len(names):
        kind = "networks" if reason == WEIGHTS_NOT_FINITE else "members"
        raise DivergedError(f"all {len(names)} {kind} diverged: {reason}")
    if lost:
        warn_user(f"left out {', '.join(lost)} of {len(names)}, which diverged: {reason}", DivergedMemberWarning)
    return np.flatnonzero(is_finite)
