"""All figures of a trial side by side in one picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bdkn.plots.style import INK, draw_legend, require_matplotlib
from bdkn.report.figures import draw_calibration, draw_intervals, draw_weights
from bdkn.report.trial import Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_picture(trial: Trial) -> Figure:
    """Return one figure with three panels: intervals, calibration, weights."""
    require_matplotlib()
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(12.0, 4.4), layout=ConstrainedLayoutEngine(wspace=0.06))
    panels = (
        (draw_intervals, f"Predictions of {trial.first} for {len(trial.data.y_test)} test rows", 2),
        (draw_calibration, "Calibration", 1),
        (draw_weights, f"Weights of the networks of {trial.first}", 2),
    )
    for ax, (draw, title, columns) in zip(figure.subplots(1, 3, width_ratios=(1.5, 1.0, 1.0)), panels, strict=True):
        draw(trial, ax)
        ax.set_title(title, color=INK, fontsize=11, loc="left")
        draw_legend(ax, columns)  # again, as panels are narrower than single figures
    return figure
