"""How good a prediction was: pure functions of what was observed and of the predictive distribution."""

from bdkn.metrics.calibration import calibration_curve, calibration_error, pit
from bdkn.metrics.intervals import coverage, interval_width
from bdkn.metrics.scorers import neg_coverage_error, neg_crps, neg_nll, predictive_of
from bdkn.metrics.scores import crps, nll, rmse
from bdkn.metrics.summary import summary

__all__ = [
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
