"""The paper's figure 2: test scores over epochs in both settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bdkn.plots.display import GREY, INK, SERIES, label_axes, prepare_axes
from bdkn_paper import paper
from bdkn_paper.analysis.curves import Curves, QuartileCurve
from bdkn_paper.figures.curve_axes import draw_curve, fit_view

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METRICS = {"rmse": "Test RMSE", "nll": "Test NLL"}
SETTINGS = {1: "(a) Setting 1, high learning rate", 2: "(b) Setting 2, low learning rate"}
COLOURS = dict(zip(paper.METHODS, (*SERIES, INK, GREY), strict=True))
LINES = dict(zip(paper.METHODS, ("-", "--", "-.", ":", "-", "--", "-.", ":"), strict=True))


def draw_epochs(settings: Mapping[int, Curves]) -> Figure:
    """Return one row of panels per setting, RMSE at the left and NLL at the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 0.6 + 2.9 * len(settings)), layout="constrained")
    panels = figure.subplots(len(settings), len(METRICS), squeeze=False)
    for line, (setting, curves) in zip(panels, settings.items(), strict=True):
        for ax, (metric, words) in zip(line, METRICS.items(), strict=True):
            draw_methods(ax, curves[metric], metric)
            label_axes(ax, "Epoch", words, SETTINGS[setting] if metric == "rmse" else None)
    draw_key(figure, panels[0, 0])
    return figure


def draw_methods(ax: Axes, curves: Mapping[str, QuartileCurve], metric: str) -> None:
    """Draw the curves of one metric."""
    prepare_axes(ax)
    for method, curve in curves.items():
        draw_curve(ax, curve, COLOURS[method], paper.METHODS[method], LINES[method])
    fit_view(ax, list(curves.values()), log=metric == "rmse")


def draw_key(figure: Figure, ax: Axes) -> None:
    """Draw one legend for all panels below them."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=8, fontsize=9, frameon=False, handlelength=2.2)
