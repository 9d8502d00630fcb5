"""Selection of the members to combine: those that did not diverge and have the best leave-one-out score together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from joblib import effective_n_jobs

from bdkn.ensemble.held_out import HeldOut
from bdkn.errors import DivergedError, DivergedMemberWarning, FewRowsWarning, warn_user
from bdkn.inference import Combination, combine
from bdkn.storage.fields import Either, Number, Text, stored
from bdkn.threads import one_blas_thread, run_on_threads
from bdkn.typing import BoolArray, FloatArray, IndexArray

WEIGHTS_NOT_FINITE = (
    "weights or outputs are not finite; try a lower learning_rate, standardize_y=True, or objective='beta_nll' with "
    "some warmup_epochs"
)
PRICE = 1.0
"""Minimum gain of the leave-one-out log score, summed over rows, for each member that is removed.

One of many subsets is always better by chance; with few rows by a little, and then the intervals of the best are too
narrow. A member that does harm costs more than that as soon as rows are many."""

FEW_ROWS = 10
"""With fewer held-out rows the scale of predictions is known no better than to a factor of about 1.5."""

_MANY_PREDICTIONS = 1 << 18
"""Held-out predictions from which subsets of members are combined on several threads."""

_AT_ONCE = 4
"""Subsets that are combined at once, at most: each needs memory for some copies of its members' predictions."""


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

    @classmethod
    def of(cls, params: Any) -> CombinationOptions:
        """Return the options of a regressor."""
        options: CombinationOptions = cls() if params.combination is None else params.combination
        return options

    def combine(self, held_out: HeldOut, members: IndexArray | None = None) -> Combination:
        """Return the combination of some of the members (None: all), learned from their held-out predictions."""
        held_out = held_out if members is None else held_out[members]
        return self.finish(_combine(held_out, self), held_out)

    def finish(self, fitted: Combination, held_out: HeldOut) -> Combination:
        """Return the combination for predictions of new rows, in which each member is the mean of its fits."""
        if self.tails != "loo":
            return fitted
        averaged = fitted.averaged(held_out.forecast(), held_out.fold_variance, held_out.counts)
        return averaged.for_new_rows(held_out.y, held_out.counts)


def select_and_combine(
    held_out: HeldOut, sound: IndexArray, settings: CombinationOptions, n_jobs: int | None = 1
) -> tuple[IndexArray, Combination]:
    """Return the positions in ``sound`` (numbers of finite members) of the members to use, and their combination.

    Compared are all members, all but the most harmful one, and so on; the subset with the best leave-one-out score is
    used, with a penalty of ``PRICE`` per member that is not. Subsets with as many weights, the constant included, as
    there are rows are not considered: they reproduce every row, and their scores are rounding error.
    """
    _warn_of_few_rows(len(held_out.y))
    held_out = held_out if len(sound) == held_out.means.shape[1] else held_out[sound]
    subsets = list(elimination(held_out)) if settings.select_members else [np.arange(len(sound))]
    too_many = max(0, len(subsets) + 2 - len(held_out.y))
    subsets = subsets[min(too_many, len(subsets) - 1) :]
    fitted = _fit_subsets(held_out, subsets, settings, n_jobs)
    best, combination = subsets[0], fitted[0]
    for members, other in zip(subsets[1:], fitted[1:], strict=True):
        if other.n * (other.score - combination.score) > PRICE * (len(best) - len(members)):
            best, combination = members, other
    return best, settings.finish(combination, held_out[best])


def _fit_subsets(
    held_out: HeldOut, subsets: Sequence[IndexArray], settings: CombinationOptions, n_jobs: int | None
) -> list[Combination]:
    """Return the combination of each subset of the members; of many rows several at once, with the same bits."""
    predicted = held_out.without_folds()
    if len(subsets) == 1 or held_out.means.size < _MANY_PREDICTIONS:
        return [_combine(predicted[members], settings) for members in subsets]
    found: list[Any] = [None] * len(subsets)

    def fit(number: int) -> None:
        found[number] = _combine(predicted[subsets[number]], settings)

    with one_blas_thread():
        run_on_threads(fit, range(len(subsets)), min(_AT_ONCE, int(effective_n_jobs(n_jobs))))
    return found


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
        kept = min((np.delete(kept, h) for h in range(len(kept))), key=lambda some: _mean_squared(products, some))
        yield kept


def finite_members(sound: BoolArray, names: Sequence[str], reason: str = WEIGHTS_NOT_FINITE) -> IndexArray:
    """Return the numbers of the members that did not diverge (``sound``); warn about the others, raise if all did."""
    lost = [name for name, is_sound in zip(names, sound, strict=True) if not is_sound]
    if len(lost) == len(names):
        kind = "networks" if reason == WEIGHTS_NOT_FINITE else "members"
        raise DivergedError(f"all {len(names)} {kind} diverged: {reason}")
    if lost:
        warn_user(f"left out {', '.join(lost)} of {len(names)}, which diverged: {reason}", DivergedMemberWarning)
    return np.flatnonzero(sound)


def _warn_of_few_rows(n: int) -> None:
    if n < FEW_ROWS:
        warn_user(
            f"only {n} rows were left out of training, which is too few to learn the size of errors from: intervals "
            f"are wide, and may still be wrong by far; add rows, until {FEW_ROWS} or more can be left out",
            FewRowsWarning,
        )


def _mean_squared(products: FloatArray, members: IndexArray) -> float:
    """Return the squared error of the mean of some members, from the products of all members' errors."""
    return float(products[np.ix_(members, members)].mean())
