"""Metrics of predictions: pure functions of observed targets and predicted distributions."""

from bdkn.metrics.calibration import calibration_curve, calibration_error, pit
from bdkn.metrics.monitoring import Monitor, MonitorReport
from bdkn.metrics.scorers import neg_coverage_error, neg_crps, neg_nll, predictive_of
from bdkn.metrics.scores import coverage, crps, interval_width, nll, rmse, summary

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
