"""A score over the splits of a data set."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan, sqrt

import numpy as np

from bdkn.plots.quartiles import quantiles


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
