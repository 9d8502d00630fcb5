"""All figures of a trial side by side, as one picture for a first page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bdkn.report.figures import draw_calibration, draw_intervals, draw_weights
from bdkn.report.trial import Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_picture(trial: Trial) -> Figure:
    """Return one figure with three panels: intervals, calibration, weights."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.0, 4.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.5, 1.0, 1.0))
    draw_intervals(trial, left)
    draw_calibration(trial, middle)
    draw_weights(trial, right)
    return figure
