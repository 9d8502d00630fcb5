"""How well members fit rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bdkn.networks import MIN_VARIANCE
from bdkn.typing import FloatArray

Part = tuple[FloatArray, FloatArray | None, FloatArray, FloatArray]
"""Targets (n,), how often each counts (none: once), and the members' means and variances, each (H, n)."""


@dataclass(frozen=True)
class MemberScores:
    """Each member's mean squared error and negative log likelihood, in scaled units; not finite if it overflows."""

    mse: FloatArray
    nll: FloatArray

    @classmethod
    def of(cls, parts: Iterable[Part], *, own_variance: bool = True) -> Self:
        """Return the scores on rows that come in parts; without ``own_variance`` each has its ``constant_variance``."""
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

    def __getitem__(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> Self:
        return type(self)(self.mse[chosen], self.nll[chosen])

    @property
    def rmse(self) -> FloatArray:
        """Root mean squared errors."""
        return np.sqrt(self.mse)

    @property
    def is_finite(self) -> NDArray[np.bool_]:
        """Whether both scores of a member are finite."""
        return np.isfinite(self.mse) & np.isfinite(self.nll)


def constant_variance(mse: FloatArray) -> FloatArray:
    """Return the variance of a network that has none of its own: its squared error, but no less than any network's."""
    return np.maximum(mse, MIN_VARIANCE)
