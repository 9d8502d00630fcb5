"""How well networks fit the rows they were trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bdkn.members.design import Design
from bdkn.members.member import FloatArray
from bdkn.networks import MIN_VARIANCE


@dataclass(frozen=True)
class InSample:
    """Each network's mean squared error and negative log likelihood, in scaled units; not finite if it overflows."""

    mse: FloatArray
    nll: FloatArray

    @classmethod
    def of(cls, design: Design, *, own_variance: bool = True) -> Self:
        """Return the fit of the networks; without ``own_variance`` each has its ``constant_variance``."""
        squared, scored = np.zeros(len(design.networks)), np.zeros(len(design.networks))
        with np.errstate(over="ignore", invalid="ignore"):
            for part, means, variances in design.parts():
                errors = (means - part.y) ** 2
                squared += part.summed(errors)
                scored += part.summed(np.log(variances) + errors / variances)
            mse, score = squared / design.rows.total, scored / design.rows.total
            if not own_variance:
                score = np.log(constant_variance(mse)) + mse / constant_variance(mse)
        return cls(mse, (np.log(2 * np.pi) + score) / 2)

    def __getitem__(self, chosen: NDArray[np.bool_]) -> Self:
        return type(self)(self.mse[chosen], self.nll[chosen])

    @property
    def rmse(self) -> FloatArray:
        """Root mean squared errors."""
        return np.sqrt(self.mse)


def constant_variance(mse: FloatArray) -> FloatArray:
    """Return the variance of a network that has none of its own: its squared error, but no less than any network's."""
    return np.maximum(mse, MIN_VARIANCE)
