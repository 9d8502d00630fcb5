"""Metrics of predictions: pure functions of observed targets and predicted distributions."""

from __future__ import annotations

from bdkn.metrics.estimators import neg_coverage_error, neg_crps, neg_nll, predictive_of
from bdkn.metrics.monitoring import Monitor, MonitorReport
from bdkn.metrics.scores import (
    calibration_curve,
    calibration_error,
    coverage,
    crps,
    interval_width,
    nll,
    pit,
    rmse,
    summary,
)

__all__ = [
    "Monitor",
    "MonitorReport",
    "calibration_curve",
    "calibration_error",
    "coverage",
    "crps",
    "interval_width",
    "neg_coverage_error",
    "neg_crps",
    "neg_nll",
    "nll",
    "pit",
    "predictive_of",
    "rmse",
    "summary",
]
