"""One line a model: the metrics that tables and reports show."""

from __future__ import annotations

from numpy.typing import ArrayLike

from bdkn.metrics.calibration import calibration_error
from bdkn.metrics.intervals import coverage, interval_width
from bdkn.metrics.scores import crps, nll, rmse
from bdkn.predictive.base import Predictive


def summary(
    y: ArrayLike, dist: Predictive, level: float = 0.9, sample_weight: ArrayLike | None = None
) -> dict[str, float]:
    """Return the metrics by name; ``coverage`` and ``interval_width`` are those of the central ``level`` interval."""
    return {
        "rmse": rmse(y, dist, sample_weight),
        "nll": nll(y, dist, sample_weight),
        "crps": crps(y, dist, sample_weight),
        "coverage": coverage(y, dist, level, sample_weight),
        "interval_width": interval_width(dist, level, sample_weight),
        "calibration_error": calibration_error(y, dist, sample_weight=sample_weight),
    }
