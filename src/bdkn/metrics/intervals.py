"""Central prediction intervals: how often they hold the observation and how wide they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bdkn.metrics.rows import average, observed
from bdkn.predictive.base import Predictive


def coverage(y: ArrayLike, dist: Predictive, level: float = 0.9, sample_weight: ArrayLike | None = None) -> float:
    """Return the share of observations inside their central interval of probability ``level``."""
    values, (lower, upper) = observed(y, dist), dist.interval(level)
    inside = (lower <= values) & (values <= upper)
    return average(inside.astype(np.float64), sample_weight)


def interval_width(dist: Predictive, level: float = 0.9, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean width of the central intervals of probability ``level``, in the units of ``y``."""
    lower, upper = dist.interval(level)
    return average(upper - lower, sample_weight)
