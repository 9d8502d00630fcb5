"""The style of figures: colours that colour-blind readers can distinguish, plain axes, no global settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from bdkn.errors import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette.
BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9"
SERIES = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)
MARKERS = ("o", "s", "^", "D", "v", "P")
INK, GREY, PALE = "#222222", "#7a7a7a", "#e6e6e6"


def tint(colour: str, share: float) -> tuple[float, float, float]:
    """Return ``colour`` mixed with white: opaque, so that it looks the same on paper and in every viewer."""
    from matplotlib.colors import to_rgb

    red, green, blue = (1 - share + share * channel for channel in to_rgb(colour))
    return red, green, blue


def require_matplotlib() -> None:
    """Raise ``MissingExtraError`` unless matplotlib is installed."""
    require("matplotlib", extra="plots")


def prepare_axes(ax: Axes | None, size: tuple[float, float] = (6.0, 4.0)) -> Axes:
    """Return ``ax``, or the axes of a new figure, in the style of this library; the figure is not known to pyplot."""
    if ax is None:
        require_matplotlib()
        from matplotlib.figure import Figure

        ax = Figure(figsize=size, layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(GREY)
    ax.tick_params(colors=INK, labelsize=9, length=3, color=GREY)
    ax.set_axisbelow(True)
    return ax


def literal(text: str) -> str:
    """Return a text of a table as matplotlib shows it as it is: its dollar signs do not enclose a formula."""
    return text.replace("$", r"\$")


def label_axes(ax: Axes, x: str, y: str, title: str | None) -> None:
    """Write the labels of the axes and, if given, the title."""
    ax.set_xlabel(x, color=INK, fontsize=10)
    ax.set_ylabel(y, color=INK, fontsize=10)
    if title:
        ax.set_title(title, color=INK, fontsize=11, loc="left")


def draw_legend(ax: Axes, columns: int) -> None:
    """Draw the legend below the axes, where it hides no data; inside if the figure has no layout engine."""
    from matplotlib.transforms import ScaledTranslation

    figure = ax.get_figure(root=True)
    if figure is None or figure.get_layout_engine() is None:
        ax.legend(loc="best", fontsize=8.5, framealpha=0.85, edgecolor="none", handlelength=1.6)
        return
    below = ax.transAxes + ScaledTranslation(0, -0.45, figure.dpi_scale_trans)  # inches: below the ticks and the label
    ax.legend(
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=below,
        ncols=columns,
        fontsize=8.5,
        frameon=False,
        handlelength=1.6,
        borderaxespad=0,
        columnspacing=1.4,
    )


def percent_axis(ax: Axes, which: Literal["x", "y"]) -> None:
    """Label the ``x`` or ``y`` axis, from 0 to 1, in per cent."""
    from matplotlib.ticker import PercentFormatter

    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))
