"""The paper's figure 3: test scores over epochs and at the end, by the number of networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from bdkn.plots.display import INK, SERIES, label_axes, prepare_axes, tint
from bdkn_paper.analysis.curves import Curves, QuartileCurve
from bdkn_paper.figures.curve_axes import draw_curve, fit_view
from bdkn_paper.figures.epochs import METRICS, draw_key

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES = ("-", "--", "-.", ":")


def draw_sizes(curves: Curves) -> Figure:
    """Return curves in the first row of panels and box plots of the last epoch in the second."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 6.4), layout="constrained")
    panels = figure.subplots(2, len(METRICS), squeeze=False)
    for above, below, (metric, words) in zip(*panels, METRICS.items(), strict=True):
        _draw_curves(above, curves[metric], metric)
        label_axes(above, "Epoch", words, "(a) Over epochs" if metric == "rmse" else None)
        _draw_boxes(below, curves[metric])
        label_axes(below, "Networks, H", words, "(b) After the last epoch" if metric == "rmse" else None)
    draw_key(figure, panels[0, 0])
    return figure


def _draw_curves(ax: Axes, curves: Mapping[str, QuartileCurve], metric: str) -> None:
    prepare_axes(ax)
    for place, (size, curve) in enumerate(curves.items()):
        draw_curve(ax, curve, SERIES[place % len(SERIES)], f"H = {size}", LINES[place % len(LINES)])
    fit_view(ax, list(curves.values()), log=metric == "rmse")


def _draw_boxes(ax: Axes, curves: Mapping[str, QuartileCurve]) -> None:
    prepare_axes(ax)
    finals = [curve.final[np.isfinite(curve.final)] for curve in curves.values()]
    boxes = ax.boxplot(finals, tick_labels=list(curves), widths=0.55, patch_artist=True, medianprops={"color": INK})
    for place, (box, dots) in enumerate(zip(boxes["boxes"], boxes["fliers"], strict=True)):
        colour = SERIES[place % len(SERIES)]
        box.set(facecolor=tint(colour, 0.45), edgecolor=colour)
        dots.set(marker="o", markersize=4, markerfacecolor=colour, markeredgecolor="none")
