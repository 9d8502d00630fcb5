"""Parts that all displays share: style, grids, bands and files."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from bdkn.errors import InvalidParameterError, OutsideDataWarning, check_choice, check_number, require
from bdkn.metrics import predictive_of
from bdkn.metrics.scores import check_levels
from bdkn.predictive.base import Predictive
from bdkn.storage.atomic import replace_file
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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


def prepare_axes(ax: Axes | None, size: tuple[float, float] = (6.0, 4.0)) -> Axes:
    """Return ``ax``, or the axes of a new figure, in the style of this library; the figure is not known to pyplot."""
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


def percent_axis(ax: Axes, which: Literal["x", "y"]) -> None:
    """Label the ``x`` or ``y`` axis, from 0 to 1, in per cent."""
    from matplotlib.ticker import PercentFormatter

    axis = ax.xaxis if which == "x" else ax.yaxis
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


def spaced_over(columns: FloatArray, points: int, margin: float) -> FloatArray:
    """Return evenly spaced values (points, p) over the range of each column, extended by a share of its length."""
    check_number("grid", points, low=2, high=1e6, whole=True)
    check_number("margin", margin, low=0.0, high=1e6)
    if not np.isfinite(columns).all() or not len(columns):
        raise InvalidParameterError("X must hold finite numbers and a row at least, to draw a grid over them")
    low, high = columns.min(axis=0), columns.max(axis=0)
    return np.linspace(low - margin * (high - low), high + margin * (high - low), points)


def table_like(X: Any, values: FloatArray) -> Any:
    """Return values (n, p) as a table of the type of ``X``, with its column names, as the estimator was fitted."""
    return type(X)(dict(zip(X.columns, values.T, strict=True))) if hasattr(X, "columns") else values


def predict_beyond(estimator: Any, table: Any) -> Predictive:
    """Return the predictions for rows of which some lie outside the data, without a warning of extrapolation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideDataWarning)
        return predictive_of(estimator, table)


def binomial_envelope(rows: int, probability: ArrayLike, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Return the central range of the share of successes in ``rows`` trials, of probability ``confidence``."""
    from scipy.stats import binom

    check_number("confidence", confidence, low=0.0, high=1.0)
    tail = (1 - float(confidence)) / 2
    p = np.asarray(probability, dtype=np.float64)
    return np.asarray(binom.ppf(tail, rows, p) / rows), np.asarray(binom.ppf(1 - tail, rows, p) / rows)


@dataclass(frozen=True, eq=False)
class Band:
    """The central interval of probability ``level`` of each row."""

    level: float
    lower: FloatArray
    upper: FloatArray

    def holds(self, y: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return for each row whether the interval contains ``y``."""
        return (self.lower <= y) & (y <= self.upper)


def central_bands(dist: Predictive, levels: Sequence[float]) -> tuple[Band, ...]:
    """Return the central intervals, the widest first, which is the order to draw them in."""
    return tuple(Band(level, *dist.interval(level)) for level in sorted(check_levels(levels).tolist(), reverse=True))


def draw_bands(ax: Axes, x: FloatArray, bands: Sequence[Band]) -> None:
    """Draw the bands over ``x``, narrower ones in a stronger colour."""
    for band, share in zip(bands, np.linspace(0.22, 0.5, len(bands)), strict=True):
        colour, words = tint(BLUE, share), f"{band.level:.0%} interval"
        ax.fill_between(x, band.lower, band.upper, color=colour, linewidth=0, label=words)


def as_steps(x: FloatArray, bands: Sequence[Band]) -> tuple[FloatArray, tuple[Band, ...]]:
    """Return x and bands by which each row is drawn as a horizontal line that ends half-way to its neighbours."""
    edges = np.concatenate([[x[0] - 0.5], (x[1:] + x[:-1]) / 2, [x[-1] + 0.5]])
    flat = tuple(Band(band.level, np.repeat(band.lower, 2), np.repeat(band.upper, 2)) for band in bands)
    return np.repeat(edges, 2)[1:-1], flat


Data = TypeVar("Data")


class Display(Generic[Data]):
    """Base class of displays of ``data``: ``ax_`` are the axes it drew on, ``figure_`` is the figure with them.

    A subclass defines ``_draw``, and ``_size`` if that depends on the data.
    """

    ax_: Axes
    _size: tuple[float, float] = (6.0, 4.0)

    def __init__(self, data: Data) -> None:
        self.data = data

    def plot(self, ax: Axes | None = None, *, name: str | None = None) -> Self:
        """Draw the figure.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; a new figure by default.
        name : str, optional
            Name of the model: the title of the figure or, where models are compared, its label in the legend.

        Returns
        -------
        display : Display
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        self.ax_ = prepare_axes(ax, self._size)
        self._draw(name)
        return self

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


class PredictionDisplay(Display[Data], ABC):
    """Base class of displays of observed targets and their predicted distributions."""

    @classmethod
    @abstractmethod
    def from_predictions(cls, *args: Any, **options: Any) -> Self:
        """Draw the figure for observed targets and predicted distributions.

        Parameters
        ----------
        *args
            Observed targets and predicted distributions.
        **options
            Parameters of the figure.

        Returns
        -------
        display : PredictionDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, *, name: str | None = None, **options: Any) -> Self:
        """Draw the figure for the predictions of a fitted regressor.

        Parameters
        ----------
        estimator : estimator
            A fitted regressor with ``predict_dist``, or a pipeline, search or transformed target that ends with one.
        X : array-like or data frame of shape (n_samples, n_features)
            Rows to predict.
        y : array-like of shape (n_samples,)
            Observed targets of these rows.
        name : str, optional
            Name of the model in the figure; the name of the class by default.
        **options
            Other parameters of ``from_predictions``.

        Returns
        -------
        display : PredictionDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        require("matplotlib", extra="plots")
        return cls.from_predictions(y, predictive_of(estimator, X), name=name or type(estimator).__name__, **options)
