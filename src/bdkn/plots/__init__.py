"""Figures, in the style of scikit-learn's displays: one function computes what a figure shows, one class draws it."""

from __future__ import annotations

from bdkn.plots.calibration import CalibrationDisplay, PITDisplay
from bdkn.plots.curve import CurveDisplay
from bdkn.plots.dependence import DependenceDisplay
from bdkn.plots.display import save_figure
from bdkn.plots.explanation import ExplanationDisplay
from bdkn.plots.intervals import IntervalDisplay, WidthDisplay
from bdkn.plots.monitor import MonitorDisplay
from bdkn.plots.weights import WeightsDisplay

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
