"""Held-out predictions: means and variances that members predict for rows they were not trained on, and scores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from bdkn.inference import Forecast
from bdkn.networks import MIN_VARIANCE
from bdkn.storage.fields import floats, integers, must, stored
from bdkn.typing import BoolArray, FloatArray, IndexArray

_BY_MEMBER = ("means", "variances", "fold_variance", "fold_of")

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
        """Return the scores on rows given in parts; without ``own_variance``, with each one's ``constant_variance``."""
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
        """Whether both scores of a member are finite."""
        return np.isfinite(self.mse) & np.isfinite(self.nll)


def constant_variance(mse: FloatArray) -> FloatArray:
    """Return the variance of members without one of their own: their squared error, at least MIN_VARIANCE."""
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
        """Raise unless variances are above zero or, for all rows of a member, unknown, and some row counts."""
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
            return self  # tables of a million rows are not copied in vain
        # The memory layout is always the same, so that the same members give the same bits.
        return replace(self, **{name: part.take(members, axis=1) for name, part in self._by_member().items()})

    def without_folds(self) -> Self:
        """Return the predictions without what is known of folds, for a forecast by one fit of each member."""
        return replace(self, fold_variance=self.fold_variance[:0], fold_of=None)

    def rows(self, numbers: IndexArray) -> Self:
        """Return the predictions for some of the rows."""
        taken = {name: part[numbers] for name, part in self._by_member().items()}
        counts = None if self.counts is None else self.counts[numbers]
        return replace(self, **taken, y=self.y[numbers], counts=counts)

    def join(self, other: Self) -> Self:
        """Return the predictions of the members of both for the same rows."""
        ours, theirs = self._by_member(), other._by_member()
        joined: dict[str, Any] = {name: np.hstack([ours[name], theirs[name]]) for name in ours.keys() & theirs.keys()}
        return replace(self, fold_of=joined.pop("fold_of", None), **joined)

    def _by_member(self) -> dict[str, Any]:
        """Return the arrays (n, H) that there are, by name."""
        return {name: part for name in _BY_MEMBER if (part := getattr(self, name)) is not None}

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
        """Return the variances (.., n, V) whose average is the noise: those of the members that have one, or one."""
        known = self.has_variance
        if known.all():
            return variances
        if known.any():
            return variances[..., known]
        return np.full((*means.shape[:-1], 1), self._ensemble_error())

    @property
    def has_variance(self) -> BoolArray:
        """Whether each member has a variance of its own."""
        return np.asarray(~np.isnan(self.variances).any(axis=0))

    def variance_factors(self) -> FloatArray:
        """Return the factor for each member's variances, nan if they are not to be used.

        Multiplied by its factor, a member's mean variance equals its mean squared error. Its variances are used if
        the correlation of absolute errors and log variances is more than two standard errors above zero.
        """
        with np.errstate(all="ignore"):  # a correlation that is not finite is not above chance
            errors, logs = self._centred(np.abs(self.means - self.y[:, None])), self._centred(np.log(self.variances))
            chance = np.sqrt(self._average(errors**2) * self._average(logs**2) / len(self.y))
            factor = self._average((self.means - self.y[:, None]) ** 2) / self._average(self.variances)
            return np.where(self._average(errors * logs) > 2.0 * chance, factor, np.nan)

    def scores(self, *, own_variance: bool = True) -> MemberScores:
        """Return the members' scores on these rows; without ``own_variance``, with each one's ``constant_variance``."""
        return MemberScores.of([(self.y, self.counts, self.means.T, self.variances.T)], own_variance=own_variance)

    def filled(self) -> Self:
        """Return the predictions with the ``constant_variance`` of each member in place of missing variances."""
        constant = constant_variance(self.scores().mse)
        return replace(self, variances=np.where(np.isnan(self.variances), constant, self.variances))

    def _average(self, numbers: FloatArray) -> FloatArray:
        return np.asarray(np.average(numbers, axis=0, weights=self.counts))

    def _centred(self, numbers: FloatArray) -> FloatArray:
        return numbers - self._average(numbers)

    def _ensemble_error(self) -> float:
        return float(constant_variance(self._average((self.means.mean(axis=1) - self.y) ** 2)))
