"""Draw curves, and choose the range of the vertical axis such that first epochs and diverged splits do not dominate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bdkn.plots.display import GREY, tint
from bdkn_paper.analysis.curves import QuartileCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE = 5.0
"""Errors that vary by more than this factor are drawn on a log scale."""

SETTLED = 0.5
"""Share of the epochs after which a curve counts as settled."""

FAR, ROOM = 1.0, 0.5
"""First epochs are cut off if they are farther above the settled bands than ``FAR`` heights of these and than twice
their size; ``ROOM`` heights remain."""


def draw_curve(ax: Axes, curve: QuartileCurve, colour: str, name: str, line: str = "-") -> None:
    """Draw the median as a line in a band between the quartiles; infinite values are left out."""
    lower, median, upper = (np.where(np.isfinite(a), a, np.nan) for a in (curve.lower, curve.median, curve.upper))
    # Transparent, because the bands of several methods overlap.
    ax.fill_between(curve.epoch, lower, upper, color=tint(colour, 0.6), alpha=0.45, linewidth=0)
    ax.plot(curve.epoch, median, color=colour, linewidth=1.6, linestyle=line, label=name)


def fit_view(ax: Axes, curves: Sequence[QuartileCurve], *, log: bool) -> None:
    """Choose scale and limits of the vertical axis, and note values beyond them; ``log`` allows a log scale."""
    low, high = extremes(curves)
    if log and 0 < WIDE * low < high:
        log_axis(ax)
        return
    bottom, top = limits(curves)
    ax.set_ylim(bottom, top)
    if high > top:
        words, corner = f"off the scale: up to {high:.3g}", (0.98, 0.97)
        ax.annotate(words, corner, xycoords="axes fraction", ha="right", va="top", fontsize=8.5, color=GREY)


def log_axis(ax: Axes) -> None:
    """Give the vertical axis a log scale with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def extremes(curves: Sequence[QuartileCurve]) -> tuple[float, float]:
    """Return the lowest and the highest finite value of all bands."""
    values = np.concatenate([part[np.isfinite(part)] for curve in curves for part in (curve.lower, curve.upper)])
    return (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)


def limits(curves: Sequence[QuartileCurve]) -> tuple[float, float]:
    """Return limits around all bands, or, if the first epochs are far above, around the settled part and some room."""
    low, high = extremes([_after(curve) for curve in curves])
    least, most = extremes(curves)
    height = high - low
    far = most - high > max(FAR * height, 2 * max(abs(high), abs(least)))
    top = high + ROOM * height if far else most
    margin = 0.05 * (top - least) or 1.0
    return least - margin, top + margin


def _after(curve: QuartileCurve) -> QuartileCurve:
    start = int(SETTLED * len(curve.epoch))
    lower, median, upper = (part[start:] for part in (curve.lower, curve.median, curve.upper))
    return QuartileCurve(curve.epoch[start:], lower, median, upper, curve.final)
