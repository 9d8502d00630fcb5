"""A score over the splits of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan, sqrt

import numpy as np
from numpy.typing import ArrayLike

from bdkn.typing import FloatArray
from bdkn_paper.paper import Printed


@dataclass(frozen=True)
class Sample:
    """Values of which one belongs to each split; not finite where a fit diverged."""

    values: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        """The mean."""
        return float(np.mean(self.values))

    @property
    def std(self) -> float:
        """The standard deviation of the population, divided by n: the paper's convention, see ``paper.Printed``."""
        with np.errstate(invalid="ignore"):  # infinite values have none
            return float(np.std(self.values))

    @property
    def error(self) -> float:
        """The standard error of the mean, √(Σ(x − x̄)² / n(n − 1)); not a number of a single split."""
        return self.std / sqrt(len(self) - 1) if len(self) > 1 else nan

    @property
    def spread(self) -> tuple[float, float, float, float, float]:
        """The least value, the quartiles and the greatest value, infinite from where fits have diverged."""
        least, lower, median, upper, most = map(float, quantiles(self.values, (0.0, 0.25, 0.5, 0.75, 1.0)))
        return least, lower, median, upper, most


def shown(sample: Sample | Printed, digits: int | None = None) -> str:
    """Return mean ± standard deviation with the digits of the paper, and more where these would be zeros."""
    places = digits or (2 if abs(sample.mean) >= 0.1 else 4)
    return f"{sample.mean:.{places}f} ± {sample.std:.{places}f}"


def quantiles(values: ArrayLike, shares: Sequence[float]) -> FloatArray:
    """Return quantiles along the first axis, linear between neighbours.

    What is not a number counts as infinite, for no prediction is the worst: a quantile is infinite where it takes part.
    """
    filled = np.asarray(values, dtype=np.float64)
    ranked = np.sort(np.where(np.isnan(filled), np.inf, filled), axis=0)
    return np.stack([_between(ranked, q) for q in shares])


def _between(ranked: FloatArray, q: float) -> FloatArray:
    below, share = divmod((len(ranked) - 1) * q, 1)
    low: FloatArray = ranked[int(below)]
    # A share of nothing must not be taken of infinity.
    return low if share == 0 else (1 - share) * low + share * ranked[int(below) + 1]
