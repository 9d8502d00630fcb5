"""Figures: each a pure function that makes the numbers and a thin display that draws them."""

from bdkn.plots.calibration import CalibrationDisplay
from bdkn.plots.curve import CurveDisplay
from bdkn.plots.files import save_figure
from bdkn.plots.intervals import IntervalDisplay
from bdkn.plots.pit import PITDisplay
from bdkn.plots.weights import WeightsDisplay

__all__ = [
    "CalibrationDisplay",
    "CurveDisplay",
    "IntervalDisplay",
    "PITDisplay",
    "WeightsDisplay",
    "save_figure",
]
