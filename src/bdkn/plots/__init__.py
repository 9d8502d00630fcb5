"""Figures, in the style of scikit-learn's displays: one function computes what a figure shows, one class draws it."""

from bdkn.plots.calibration import CalibrationDisplay
from bdkn.plots.curve import CurveDisplay
from bdkn.plots.dependence import DependenceDisplay
from bdkn.plots.explanation import ExplanationDisplay
from bdkn.plots.files import save_figure
from bdkn.plots.intervals import IntervalDisplay
from bdkn.plots.monitor import MonitorDisplay
from bdkn.plots.pit import PITDisplay
from bdkn.plots.weights import WeightsDisplay
from bdkn.plots.width import WidthDisplay

__all__ = [
    "CalibrationDisplay",
    "CurveDisplay",
    "DependenceDisplay",
    "ExplanationDisplay",
    "IntervalDisplay",
    "MonitorDisplay",
    "PITDisplay",
    "WeightsDisplay",
    "WidthDisplay",
    "save_figure",
]
