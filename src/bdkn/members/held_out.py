"""What members say about rows they were not trained on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bdkn.inference import Forecast
from bdkn.members.scores import MemberScores, Part, constant_variance
from bdkn.typing import FloatArray

_BY_MEMBER = ("means", "variances", "spread")


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Means and variances (n, H) of rows left out of training, their targets (n,) and how often each counts.

    Variances are nan for a member that has none of its own. ``spread`` (n, H) is the variance of what those fits say
    whose mean a member is in predictions, zero for a single one.
    """

    means: FloatArray
    variances: FloatArray
    spread: FloatArray
    y: FloatArray
    counts: FloatArray | None = None

    def __getitem__(self, members: NDArray[np.intp]) -> Self:
        # Laid out alike wherever they come from, so that the same members give the same bits.
        return replace(self, **{name: getattr(self, name).take(members, axis=1) for name in _BY_MEMBER})

    def join(self, other: Self) -> Self:
        """Return what the members of both say about the same rows."""
        return replace(self, **{name: np.hstack([getattr(self, name), getattr(other, name)]) for name in _BY_MEMBER})

    def parts(self) -> Iterator[Part]:
        """Yield all rows as one part to score."""
        yield self.y, self.counts, self.means.T, self.variances.T

    def forecast(self) -> Forecast:
        """Return what the members together say about the rows."""
        return self.together(self.means, self.variances)

    def together(self, means: FloatArray, variances: FloatArray) -> Forecast:
        """Return what the members together say about any rows, (.., n, H); leading axes are averaged over.

        The noise is the average of the variances of those members that have one. Where none has, it is the squared
        error of the equally weighted ensemble on the rows left out.
        """
        known = ~np.isnan(self.variances).any(axis=0)
        if known.all():
            return Forecast.of(means, variances)
        if known.any():
            return Forecast.of(means, variances[..., known])
        return Forecast.of(means, np.full((*means.shape[:-1], 1), self._ensemble_error()))

    def variance_factors(self) -> FloatArray:
        """Return what each member's variances are to be multiplied by, nan if they are of no use.

        With the factor they are on average the squared error. They are of use if errors are larger where they are: if
        the correlation of absolute errors and log variances is two standard errors above that of chance.
        """
        with np.errstate(all="ignore"):  # a correlation that is not finite is not above chance
            errors, logs = self._centred(np.abs(self.means - self.y[:, None])), self._centred(np.log(self.variances))
            chance = np.sqrt(self._average(errors**2) * self._average(logs**2) / len(self.y))
            factor = self._average((self.means - self.y[:, None]) ** 2) / self._average(self.variances)
            return np.where(self._average(errors * logs) > 2.0 * chance, factor, np.nan)

    def scores(self) -> MemberScores:
        """Return how well each member fits the rows; one without variances has its ``constant_variance``."""
        mse = MemberScores.of(self.parts()).mse
        own = np.where(np.isnan(self.variances), constant_variance(mse), self.variances)
        return MemberScores.of([(self.y, self.counts, self.means.T, own.T)])

    def _average(self, numbers: FloatArray) -> FloatArray:
        return np.asarray(np.average(numbers, axis=0, weights=self.counts))

    def _centred(self, numbers: FloatArray) -> FloatArray:
        return numbers - self._average(numbers)

    def _ensemble_error(self) -> float:
        return float(constant_variance(self._average((self.means.mean(axis=1) - self.y) ** 2)))
