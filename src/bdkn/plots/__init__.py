"""Figures, in the style of scikit-learn's displays: ``from_...`` computes the numbers, ``plot`` draws them."""

from __future__ import annotations

from bdkn.plots.curve import CurveDisplay, WidthDisplay
from bdkn.plots.display import save_figure
from bdkn.plots.explanation import DependenceDisplay, ExplanationDisplay
from bdkn.plots.monitor import MonitorDisplay
from bdkn.plots.predictions import CalibrationDisplay, IntervalDisplay, PITDisplay
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
