"""Scores of the whole prediction; smaller is better in all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bdkn.metrics.rows import average, observed
from bdkn.predictive.base import Predictive


def rmse(y: ArrayLike, dist: Predictive, sample_weight: ArrayLike | None = None) -> float:
    """Return the root mean squared error of the predicted mean, in the units of ``y``."""
    return float(np.sqrt(average((observed(y, dist) - dist.mean()) ** 2, sample_weight)))


def nll(y: ArrayLike, dist: Predictive, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean negative log predictive density, in nats a row."""
    return average(-dist.logpdf(observed(y, dist)), sample_weight)


def crps(y: ArrayLike, dist: Predictive, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean continuous ranked probability score, in the units of ``y``."""
    return average(dist.crps(observed(y, dist)), sample_weight)
