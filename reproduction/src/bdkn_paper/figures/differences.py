"""The figure of docs/results.md: scores of all methods on all data sets, minus those of one method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isinf, isnan
from typing import TYPE_CHECKING, Any

from bdkn.plots.display import BLUE, GREEN, INK, ORANGE, PALE, PURPLE, VERMILION, label_axes, prepare_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINEAR = 0.1
"""The axis is linear up to here, logarithmic beyond."""

EDGES = (1.0, 3.0, 10.0)
"""Possible ends of the axis on each side; scores beyond are printed there."""

LANE = 0.16
"""Vertical distance of variants of a method from the line of their data set."""

_HOLLOW = {"facecolor": "white", "linewidth": 1.4}
STYLES: Mapping[str, Mapping[str, Any]] = {
    "paper": {"marker": "|", "color": INK, "s": 110, "linewidth": 2.0},
    "published": {"marker": "x", "color": INK, "s": 38, "linewidth": 1.6},
    "ngboost": {"marker": "s", "color": ORANGE, "s": 30},
    "ngboost-stopped": {"marker": "s", "edgecolor": ORANGE, "s": 30, **_HOLLOW},
    "catboost": {"marker": "^", "color": GREEN, "s": 38},
    "catboost-stopped": {"marker": "^", "edgecolor": GREEN, "s": 38, **_HOLLOW},
    "bde": {"marker": "D", "color": PURPLE, "s": 28},
    "stack": {"marker": "o", "color": VERMILION, "s": 62, "zorder": 4},
}
"""How each kind of score is drawn: variants of a method share its colour."""

_LANES = {"ngboost": -LANE, "ngboost-stopped": LANE, "catboost": -LANE, "catboost-stopped": LANE}


def draw_differences(
    sets: Sequence[str], scores: Mapping[str, Sequence[float]], names: Mapping[str, str], base: str, metric: str
) -> Figure:
    """Return the figure, one line per data set; ``scores`` are those of each kind minus those of ``base``, or NaN.

    ``names`` are the names of the kinds in the legend.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 1.4 + 0.4 * len(sets)), layout="constrained")
    ax = prepare_axes(figure.add_subplot())
    edges = view([value for values in scores.values() for value in values])
    _draw_frame(ax, sets, base, edges)
    for kind, values in scores.items():
        _draw_kind(ax, kind, values, names[kind], edges)
    for place in range(len(sets)):
        _draw_beyond(ax, {kind: values[place] for kind, values in scores.items()}, place, edges)
    label_axes(ax, f"← better     {metric} minus that of {base}     worse →", "", None)
    figure.legend(loc="outside lower center", ncols=5, fontsize=9, frameon=False, handlelength=1.6)
    return figure


def view(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the axis: the nearest that contain all values, or the farthest possible."""
    low, high = (
        next((edge for edge in EDGES if all(not side * value > edge for value in values)), EDGES[-1])
        for side in (-1, 1)
    )
    return -low, high


def _draw_frame(ax: Axes, sets: Sequence[str], base: str, edges: tuple[float, float]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    ax.axvline(0, color=BLUE, linewidth=1.8, zorder=1, label=base)
    for place in range(len(sets)):
        ax.axhline(place, color=PALE, linewidth=1.0, zorder=0)
    ax.set_xscale("symlog", linthresh=LINEAR, linscale=1.2)
    ax.set_xlim(*edges)
    ax.xaxis.set_major_locator(FixedLocator([-10, -1, -0.1, 0, 0.1, 1, 10]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: signed(value)))
    ax.set_yticks(range(len(sets)), sets)
    ax.set_ylim(len(sets) - 0.5, -0.5)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)


def _draw_kind(ax: Axes, kind: str, values: Sequence[float], name: str, edges: tuple[float, float]) -> None:
    """Draw the scores within the axis; the name is in the legend even if there are none."""
    inside = [(value, place) for place, value in enumerate(values) if edges[0] <= value <= edges[1]]
    lane = _LANES.get(kind, 0.0)
    style = {"zorder": 3, **STYLES[kind]}
    ax.scatter(
        [value for value, _ in inside], [place + lane for _, place in inside], label=name, clip_on=False, **style
    )


def _draw_beyond(ax: Axes, scores: Mapping[str, float], place: int, edges: tuple[float, float]) -> None:
    """Print the scores of a data set that are beyond the axis at its end, in their colours."""
    beyond = [(kind, value) for kind, value in scores.items() if not edges[0] <= value <= edges[1] and not isnan(value)]
    for column, (kind, value) in enumerate(beyond):
        style = STYLES[kind]
        ax.annotate(
            signed(value),
            (1.0, place),
            xycoords=ax.get_yaxis_transform(),
            xytext=(8 + 38 * column, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=style.get("color", style.get("edgecolor")),
            annotation_clip=False,
        )


def signed(value: float) -> str:
    """Return a difference with its sign, in whole numbers beyond the farthest edge."""
    text = "∞" if isinf(value) else f"{abs(value):.0f}" if abs(value) > EDGES[-1] else f"{abs(value):g}"
    return "0" if value == 0 else f"{'+' if value > 0 else '−'}{text}"
