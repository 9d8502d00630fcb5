"""Whether stated probabilities come true: a 90 % interval should hold 90 % of the observations, at every level."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bdkn.errors import InvalidParameterError
from bdkn.metrics.rows import observed, row_weights
from bdkn.predictive.base import Predictive
from bdkn.typing import FloatArray

_LEVELS = np.linspace(0.05, 0.95, 19)


def pit(y: ArrayLike, dist: Predictive) -> FloatArray:
    """Return the probability integral transform ``F(y)`` of each row, uniform on [0, 1] for a calibrated model."""
    return dist.cdf(observed(y, dist))


def calibration_curve(
    y: ArrayLike, dist: Predictive, levels: ArrayLike | None = None, sample_weight: ArrayLike | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return nominal levels and the share of observations inside the central interval of each level.

    The levels are 5 %, 10 %, …, 95 % unless given.
    """
    values, nominal = observed(y, dist)[:, None], check_levels(levels)
    lower, upper = dist.ppf((1 - nominal) / 2), dist.ppf((1 + nominal) / 2)
    inside = (lower <= values) & (values <= upper)
    return nominal, np.asarray(row_weights(sample_weight, len(dist)) @ inside)


def calibration_error(
    y: ArrayLike, dist: Predictive, levels: ArrayLike | None = None, sample_weight: ArrayLike | None = None
) -> float:
    """Return the mean absolute gap between nominal and observed coverage over the levels."""
    nominal, share = calibration_curve(y, dist, levels, sample_weight)
    return float(np.mean(np.abs(share - nominal)))


def check_levels(levels: ArrayLike | None) -> FloatArray:
    """Return the nominal levels as a 1-D array, after checking that each is a probability."""
    nominal = _LEVELS.copy() if levels is None else np.asarray(levels, dtype=np.float64)
    if nominal.ndim != 1 or nominal.size == 0 or not np.all((nominal >= 0) & (nominal <= 1)):
        raise InvalidParameterError(f"levels must be a list of probabilities within [0, 1]; got {levels!r}")
    return nominal
