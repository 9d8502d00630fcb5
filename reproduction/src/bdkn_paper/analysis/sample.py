"""The scores of a method on the splits of a data set."""

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
    """One value per split; not finite where a fit diverged."""

    values: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        """The mean."""
        with np.errstate(invalid="ignore", over="ignore"):  # infinite values of both signs, and nearly infinite ones
            return float(np.mean(self.values))

    @property
    def std(self) -> float:
        """The standard deviation divided by n, as in the paper; see ``paper.Printed``."""
        with np.errstate(invalid="ignore", over="ignore"):  # undefined for infinite values
            return float(np.std(self.values))

    @property
    def error(self) -> float:
        """The standard error of the mean, √(Σ(x − x̄)² / n(n − 1)); NaN for a single split."""
        return self.std / sqrt(len(self) - 1) if len(self) > 1 else nan

    @property
    def five_numbers(self) -> tuple[float, float, float, float, float]:
        """Minimum, quartiles and maximum; infinite where they depend on fits that diverged."""
        low, lower, median, upper, high = map(float, quantiles(self.values, (0.0, 0.25, 0.5, 0.75, 1.0)))
        return low, lower, median, upper, high


def shown(sample: Sample | Printed, digits: int | None = None) -> str:
    """Return mean ± standard deviation with two decimals, or four if the mean is small."""
    places = digits or (2 if abs(sample.mean) >= 0.1 else 4)
    return f"{sample.mean:.{places}f} ± {sample.std:.{places}f}"


def quantiles(values: ArrayLike, shares: Sequence[float]) -> FloatArray:
    """Return quantiles along the first axis, linear between neighbours.

    NaN counts as infinite, because no prediction is the worst one: a quantile that depends on it is infinite.
    """
    filled = np.asarray(values, dtype=np.float64)
    ranked = np.sort(np.where(np.isnan(filled), np.inf, filled), axis=0)
    return np.stack([_between(ranked, q) for q in shares])


def _between(ranked: FloatArray, q: float) -> FloatArray:
    below, share = divmod((len(ranked) - 1) * q, 1)
    low: FloatArray = ranked[int(below)]
    # Zero times infinity must not be computed.
    return low if share == 0 else (1 - share) * low + share * ranked[int(below) + 1]
