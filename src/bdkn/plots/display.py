"""Code that all displays share: style, axes, bands of intervals, and image files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np

from bdkn.errors import check_choice, require
from bdkn.metrics.scores import check_levels
from bdkn.predictive.base import Predictive
from bdkn.storage.atomic import replace_file
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


# Colours of Okabe and Ito, which colour-blind people can distinguish.
BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9"
SERIES = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)
MARKERS = ("o", "s", "^", "D", "v", "P")
INK, GREY, PALE = "#222222", "#7a7a7a", "#e6e6e6"


def tint(colour: str, share: float) -> tuple[float, float, float]:
    """Return ``colour`` mixed with white. It is opaque, so that it looks the same on paper and in every viewer."""
    from matplotlib.colors import to_rgb

    red, green, blue = (1 - share + share * channel for channel in to_rgb(colour))
    return red, green, blue


def prepare_axes(ax: Axes | None, size: tuple[float, float] = (6.0, 4.0)) -> Axes:
    """Return ``ax``, or the axes of a new figure, in the style of this library; pyplot does not manage the figure."""
    if ax is None:
        require("matplotlib", extra="plots")
        from matplotlib.figure import Figure

        ax = Figure(figsize=size, layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(GREY)
    ax.tick_params(colors=INK, labelsize=9, length=3, color=GREY)
    ax.set_axisbelow(True)
    return ax


def literal(text: str) -> str:
    """Return a text that matplotlib shows unchanged: its dollar signs do not enclose a formula."""
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


def percent_axis(axis: Axis) -> None:
    """Label an axis from 0 to 1 in percent."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))


# The metadata of a file must not contain the date or the version of the library that drew it.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def save_figure(
    fig: Figure, folder: str | Path, stem: str, formats: Sequence[str] = ("png", "svg"), dpi: int = 160
) -> list[Path]:
    """Write a figure to files ``folder/stem.format``, one per format.

    The same figure always gives the same bytes. A file is written completely or not at all.

    Parameters
    ----------
    fig : matplotlib Figure
        Figure to write.
    folder : str or path-like
        Folder of the files; it is created if it does not exist.
    stem : str
        Name of the files without their extension.
    formats : sequence of {"png", "svg", "pdf"}, default=("png", "svg")
        Formats, one file each.
    dpi : int, default=160
        Resolution of PNG files, in dots per inch.

    Returns
    -------
    paths : list of Path
        The files that were written.

    Examples
    --------
    >>> import tempfile
    >>> from bdkn import Gaussian
    >>> from bdkn.plots import PITDisplay, save_figure
    >>> display = PITDisplay.from_predictions([0.1, 3.0], Gaussian([0.0, 2.0], [1.0, 1.0]))
    >>> folder = tempfile.TemporaryDirectory()
    >>> [path.name for path in save_figure(display.figure_, folder.name, "pit")]
    ['pit.png', 'pit.svg']
    >>> folder.cleanup()
    """
    require("matplotlib", extra="plots")
    import matplotlib

    for kind in formats:
        check_choice("formats", kind, _METADATA)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    paths = [place / f"{stem}.{kind}" for kind in formats]
    with matplotlib.rc_context({"svg.hashsalt": "bdkn"}):
        for path, kind in zip(paths, formats, strict=True):
            picture = BytesIO()
            fig.savefig(picture, format=kind, dpi=dpi, metadata=_METADATA[kind])
            replace_file(path, picture.getvalue())
    return paths


@dataclass(frozen=True, eq=False)
class Band:
    """Central intervals of all rows, with probability ``level``."""

    level: float
    lower: FloatArray
    upper: FloatArray

    def holds(self, y: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return for each row whether its interval contains its value in ``y``."""
        return (self.lower <= y) & (y <= self.upper)


def central_bands(dist: Predictive, levels: Sequence[float]) -> tuple[Band, ...]:
    """Return the central intervals at each level, the widest first, so that narrower ones are drawn on top."""
    return tuple(Band(level, *dist.interval(level)) for level in sorted(check_levels(levels).tolist(), reverse=True))


def draw_bands(ax: Axes, x: FloatArray, bands: Sequence[Band]) -> None:
    """Draw intervals as coloured bands over ``x``; narrower intervals have a stronger colour."""
    for band, share in zip(bands, np.linspace(0.22, 0.5, len(bands)), strict=True):
        colour, words = tint(BLUE, share), f"{band.level:.0%} interval"
        ax.fill_between(x, band.lower, band.upper, color=colour, linewidth=0, label=words)


Data = TypeVar("Data")


class Display(Generic[Data]):
    """Base class of displays: objects that draw a figure from stored data.

    A subclass defines ``_draw``, and ``_size`` if its figures have another default size.

    Parameters
    ----------
    data : Data
        Data of the figure.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes that the display drew on.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    """

    ax_: Axes
    _size: tuple[float, float] = (6.0, 4.0)

    def __init__(self, data: Data) -> None:
        self.data = data

    def plot(self, ax: Axes | None = None, *, name: str | None = None, labels: tuple[str, str] | None = None) -> Self:
        """Draw the figure.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; a new figure by default.
        name : str, optional
            Name of the model: the title of the figure or, where models are compared, its label in the legend.
        labels : tuple of two str, optional
            Labels of the axes, with units, in place of the labels that the figure has by default.

        Returns
        -------
        display : Display
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        self.ax_ = self._prepare(ax)
        self._draw(name)
        if labels is not None:
            label_axes(self.ax_, *labels, None)
        return self

    def _prepare(self, ax: Axes | None) -> Axes:
        return prepare_axes(ax, self._size)

    def _draw(self, name: str | None) -> None:
        """Draw the data on ``ax_``."""
        raise NotImplementedError

    @property
    def figure_(self) -> Figure:
        """The figure that contains ``ax_``."""
        figure = self.ax_.get_figure(root=True)
        assert figure is not None
        return figure

    def save(self, folder: str | Path, stem: str, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
        """Write the figure to files; see ``save_figure``.

        Parameters
        ----------
        folder : str or path-like
            Folder of the files; it is created if it does not exist.
        stem : str
            Name of the files without their extension.
        formats : sequence of {"png", "svg", "pdf"}, default=("png", "svg")
            Formats, one file each.

        Returns
        -------
        paths : list of Path
            The files that were written.
        """
        return save_figure(self.figure_, folder, stem, formats)

    def _repr_png_(self) -> bytes:
        """Return the figure as PNG, which notebooks show in place of the object's text."""
        buffer = BytesIO()
        self.figure_.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()
