"""Held-out predictions of members, their scores, and selection of the members to combine.

Held-out predictions are means and variances that members predict for rows they were not trained on. Used are the
members that did not diverge and have the best leave-one-out score together.
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
"""Names of the arrays (n, H), of which ``fold_of`` may be None."""

ScoredPart = tuple[FloatArray, FloatArray | None, FloatArray, FloatArray]
"""Targets (n,), counts (None: once each), and the members' means and variances, each (H, n)."""


@stored
@dataclass(frozen=True)
class MemberScores:
    """Mean squared error and negative log likelihood of each member, in scaled units; not finite after an overflow."""

    mse: Annotated[FloatArray, floats("H", finite=False)]
    nll: Annotated[FloatArray, floats("H", finite=False)]

    @classmethod
    def of(cls, parts: Iterable[ScoredPart], *, own_variance: bool = True) -> Self:
        """Return the scores on rows given in parts; unless ``own_variance``, with mean squared errors as variances."""
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
        """Root mean squared errors."""
        return np.sqrt(self.mse)

    @property
    def is_finite(self) -> BoolArray:
        """True for each member with finite scores."""
        return np.isfinite(self.mse) & np.isfinite(self.nll)


def constant_variance(mse: FloatArray) -> FloatArray:
    """Return the variance of members that predict none: their mean squared error, at least MIN_VARIANCE."""
    return np.maximum(mse, MIN_VARIANCE)


@stored
@dataclass(frozen=True, eq=False)
class HeldOut:
    """Means and variances (n, H) of held-out rows, the targets (n,) and counts of these rows.

    Variances are nan for a member that has none of its own. ``fold_variance`` (n, H) is the variance, over folds, of
    the means that a member's fits give a row; it is zero for a member that predicts with a single fit. ``fold_of``
    (n, H) is the number of the fit, among those that a member predicts with, that was made without a row; None if
    members predict with other fits.
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
        """Raise unless each member has positive variances or none, and some row has a positive count."""
        known = ~np.isnan(self.variances)
        must(bool((known.all(axis=0) | ~known.any(axis=0)).all()), "a member must have all variances, or none")
        variances = self.variances[known]
        must(bool((np.isfinite(variances) & (variances > 0.0)).all()), "variances must be finite and above zero")
        must(self.counts is None or self.counts.sum() > 0.0, "some row must count")

    @property
    def n_members(self) -> int:
        """H."""
        return int(self.means.shape[1])

    def __getitem__(self, members: IndexArray) -> Self:
        if np.array_equal(members, np.arange(self.means.shape[1])):
            return self  # large tables are not copied without need
        # The memory layout is always the same, so that the same members give the same bits.
        parts = {name: getattr(self, name) for name in _PER_MEMBER}
        return replace(self, **{name: part.take(members, axis=1) for name, part in parts.items() if part is not None})

    def rows(self, numbers: IndexArray) -> Self:
        """Return the predictions for some of the rows."""
        parts = {name: getattr(self, name) for name in (*_PER_MEMBER, "y", "counts")}
        return replace(self, **{name: part[numbers] for name, part in parts.items() if part is not None})

    def join(self, other: Self) -> Self:
        """Return the predictions of the members of both for the same rows."""
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in _PER_MEMBER}
        joined: dict[str, Any] = {
            name: None if b is None or a is None else np.hstack([a, b]) for name, (a, b) in pairs.items()
        }
        return replace(self, **joined)

    def forecast(self) -> Forecast:
        """Return the forecast of all members together for the held-out rows."""
        return self.pool(self.means, self.variances)

    def pool(self, means: FloatArray, variances: FloatArray) -> Forecast:
        """Return the forecast for any rows from means and variances (.., n, H); leading axes are averaged over.

        The noise is the average of the variances of those members that have one. If none has, it is the squared error
        of the equally weighted ensemble on the held-out rows.
        """
        return Forecast.of(means, self.pooled_variances(means, variances))

    def pooled_variances(self, means: FloatArray, variances: FloatArray) -> FloatArray:
        """Return the variances (.., n, V) whose average is the noise: those that members predict, or a constant."""
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
        """Return calibration factors of the members' variances, nan for variances that are not used.

        Multiplied by its factor, a member's mean variance equals its mean squared error. Its variances are used if
        the correlation of absolute errors and log variances is more than two standard errors above zero.
        """
        with np.errstate(all="ignore"):  # a correlation that is not finite is not above chance
            errors, logs = np.abs(self.means - self.y[:, None]), np.log(self.variances)
            errors, logs = errors - self._average(errors), logs - self._average(logs)
            chance = np.sqrt(self._average(errors**2) * self._average(logs**2) / len(self.y))
            factor = self._average((self.means - self.y[:, None]) ** 2) / self._average(self.variances)
            return np.where(self._average(errors * logs) > 2.0 * chance, factor, np.nan)

    def scores(self, *, own_variance: bool = True) -> MemberScores:
        """Return the members' scores on these rows; unless ``own_variance``, with mean squared errors as variances."""
        return MemberScores.of([(self.y, self.counts, self.means.T, self.variances.T)], own_variance=own_variance)

    def filled(self) -> Self:
        """Return the predictions with the ``constant_variance`` of each member in place of missing variances."""
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
"""Minimum gain of the leave-one-out log score, summed over rows, per removed member. Without it, the best of
many subsets would be chosen by chance, and with few rows its intervals would be too narrow."""

FEW_ROWS = 10
"""Minimum number of held-out rows without a warning; with fewer, the scale is uncertain by a factor of about 1.5."""

_MANY_PREDICTIONS = 1 << 18
"""Minimum number of held-out predictions for subsets to be combined on several threads."""

_MAX_PARALLEL = 4
"""Maximum number of subsets that are combined at a time, as each needs a few copies of its members' predictions."""


@stored
@dataclass(frozen=True, kw_only=True)
class CombinationOptions:
    """Options of the linear model that combines the members; see the parameter ``combination``.

    Parameters
    ----------
    prior_variance : {"evidence", "paper"} or float, default="evidence"
        How the prior variance σ_β² of the weights is chosen: by evidence (marginal likelihood), under a weak prior that
        weights deviate from equal ones by about their size; as in the paper (a few steps of an optimiser from 1); or as
        the number given.
    tempering : "evidence" or float, default="evidence"
        The power τ of the members' variance in the noise variance: chosen by evidence, under a prior that asks for a
        gain of three units of log evidence per unit of τ; or a number between 0 (constant noise) and 2. With 1 the
        members' variances are used up to a factor.
    tails : {"loo", "posterior"}, default="loo"
        Degrees of freedom and scale of predictions: chosen by the leave-one-out score, or those of the posterior.
    select_members : bool, default=True
        True: use the members with the best leave-one-out score, out of all, all but the most harmful one, and so on; to
        omit one must bring one unit of log score, summed over the rows. False: use all members.

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
        """Return the combination of all members, learned from their held-out predictions, for new rows.

        Each member predicts a new row by the mean of its fits.
        """
        found = _combine(held_out, self)
        if self.tails != "loo":
            return found
        averaged = found.averaged(held_out.forecast(), held_out.fold_variance, held_out.counts)
        return averaged.for_new_rows(held_out.y, held_out.counts)


def select_and_combine(
    held_out: HeldOut, finite: IndexArray, options: CombinationOptions, n_jobs: int | None = 1
) -> tuple[IndexArray, Combination]:
    """Return the numbers of the members to use, out of the ``finite`` ones, and their combination.

    All members, all but the most harmful one, and so on are compared; the subset with the best leave-one-out score is
    used, with a penalty of ``MIN_GAIN`` per member that is removed. Subsets with as many weights, the constant
    included, as there are rows are not considered: they reproduce every row, and their scores are rounding error.
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

    # The combination of each subset, for predictions by one fit of each member; of many rows several at once
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
    """Return the combination of all members, for predictions by one fit of each."""
    return combine(
        held_out.forecast(),
        held_out.y,
        held_out.counts,
        prior_variance=settings.prior_variance,
        tempering=settings.tempering,
        tails=settings.tails,
    )


def elimination(held_out: HeldOut) -> Iterator[IndexArray]:
    """Yield the numbers of all members, then of all but one, and so on down to one.

    The prior is the same for all members, so that a useless member, or one in other units, would do harm. Each step
    removes the member without which the mean of the others has the smallest squared error on held-out rows.
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
    """Return the numbers of the members that did not diverge; warn about the others, raise if all did."""
    lost = [name for name, finite in zip(names, is_finite, strict=True) if not finite]
    if len(lost) == len(names):
        kind = "networks" if reason == WEIGHTS_NOT_FINITE else "members"
        raise DivergedError(f"all {len(names)} {kind} diverged: {reason}")
    if lost:
        warn_user(f"left out {', '.join(lost)} of {len(names)}, which diverged: {reason}", DivergedMemberWarning)
    return np.flatnonzero(is_finite)
