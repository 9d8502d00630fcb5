"""Displays of prediction intervals and of their width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.arrays import read_numbers
from bdkn.errors import InvalidParameterError, check_number, require
from bdkn.metrics.scores import check_levels, observed
from bdkn.plots.display import (
    BLUE,
    INK,
    VERMILION,
    Band,
    Display,
    PredictionDisplay,
    as_steps,
    central_bands,
    draw_bands,
    draw_legend,
    label_axes,
    predict_beyond,
    prepare_axes,
    spaced_over,
    table_like,
)
from bdkn.predictive.base import Predictive
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class IntervalData:
    """Data of the interval figure: some of the rows, in the order of their predicted means.

    ``rank`` is the position of a row among all rows. ``inside`` is True where the widest interval contains
    the observation; ``share`` is the share of all rows for which it does.
    """

    rank: NDArray[np.int64]
    y: FloatArray
    mean: FloatArray
    bands: tuple[Band, ...]
    inside: NDArray[np.bool_]
    share: float


def interval_data(
    y: ArrayLike, dist: Predictive, levels: Sequence[float] = (0.5, 0.9), max_rows: int = 300
) -> IntervalData:
    """Compute the data of the interval figure: at most ``max_rows`` rows, evenly spaced in the order of the means."""
    check_number("max_rows", max_rows, low=1, whole=True)
    values, mean = observed(y, dist), dist.mean()
    share = float(np.mean(central_bands(dist, [check_levels(levels).max()])[0].holds(values)))
    kept = np.unique(np.linspace(0, len(values) - 1, min(max_rows, len(values))).round().astype(np.int64))
    rows = np.argsort(mean, kind="stable")[kept]
    bands = central_bands(dist[rows], levels)
    return IntervalData(kept + 1, values[rows], mean[rows], bands, bands[0].holds(values[rows]), share)


class IntervalDisplay(PredictionDisplay[IntervalData]):
    """Prediction intervals and observed targets of rows, in the order of the predicted mean.

    Observations outside the widest interval have another colour and shape.

    Parameters
    ----------
    data : IntervalData
        Data of the figure. Use ``from_predictions`` or ``from_estimator`` to compute it.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes that the display drew on.
    figure_ : matplotlib Figure
        The figure that contains them.

    Examples
    --------
    >>> from bdkn import Gaussian
    >>> from bdkn.plots import IntervalDisplay
    >>> display = IntervalDisplay.from_predictions([0.1, 5.0], Gaussian([0.0, 2.0], [1.0, 1.0]))
    >>> display.data.share
    0.5
    """

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        dist: Predictive,
        *,
        ax: Axes | None = None,
        name: str | None = None,
        target: str = "target",
        levels: Sequence[float] = (0.5, 0.9),
        max_rows: int = 300,
    ) -> Self:
        """Draw prediction intervals and observed targets.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Observed targets.
        dist : Predictive
            Predicted distributions of the same rows.
        ax : matplotlib Axes, optional
            Axes to draw on; a new figure by default.
        name : str, optional
            Name of the model, which is the title of the figure.
        target : str, default="target"
            Label of the vertical axis: what was measured, with its unit.
        levels : sequence of float, default=(0.5, 0.9)
            Probabilities of the intervals.
        max_rows : int, default=300
            Number of rows to draw at most; they are evenly spaced in the order of the predicted mean.

        Returns
        -------
        display : IntervalDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        return cls(interval_data(y, dist, levels, max_rows)).plot(ax, name=name, target=target)

    def plot(self, ax: Axes | None = None, *, name: str | None = None, target: str = "target") -> Self:
        """Draw the figure.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; a new figure by default.
        name : str, optional
            Name of the model, which is the title of the figure.
        target : str, default="target"
            Label of the vertical axis: what was measured, with its unit.

        Returns
        -------
        display : IntervalDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        data, self.ax_ = self.data, prepare_axes(ax)
        draw_bands(self.ax_, *as_steps(data.rank.astype(np.float64), data.bands))
        self.ax_.plot(data.rank, data.mean, color=BLUE, linewidth=1.2, label="predicted mean")
        level = f"{data.bands[0].level:.0%}"
        for hit, colour, marker, size, words in (
            (True, INK, "o", 9, f"observed, inside {level} ({data.share:.0%} of rows)"),
            (False, VERMILION, "D", 16, f"observed, outside {level} ({1 - data.share:.0%})"),
        ):
            rows = data.inside == hit
            self.ax_.scatter(
                data.rank[rows], data.y[rows], s=size, c=colour, marker=marker, linewidths=0, label=words, zorder=3
            )
        self.ax_.margins(x=0.01)
        label_axes(self.ax_, "Row, in the order of the predicted mean", target, name)
        draw_legend(self.ax_, columns=2)
        return self


_RANGE = 200.0
"""Largest width with a colour of its own, in units of the smallest."""


@dataclass(frozen=True, eq=False)
class WidthData:
    """Data of the width figure: the width of central intervals on a grid of two variables, and the rows.

    ``width`` (grid, grid) has one line per value of ``y``.
    """

    x: FloatArray
    y: FloatArray
    width: FloatArray
    points: FloatArray
    level: float


def width_data(estimator: Any, X: Any, level: float, grid: int, margin: float) -> WidthData:
    """Compute the data of the width figure."""
    points = read_numbers("X", X)
    if points.ndim != 2 or points.shape[1] != 2:
        raise InvalidParameterError(f"a figure of widths needs X with two columns; got shape {points.shape}")
    check_number("level", level, low=0, high=1, strict=True)
    x, y = spaced_over(points, grid, margin).T
    table = table_like(X, np.stack([part.ravel() for part in np.meshgrid(x, y)], axis=1))
    ends = predict_beyond(estimator, table).interval(level)
    return WidthData(x, y, (ends[1] - ends[0]).reshape(grid, grid), points, level)


class WidthDisplay(Display[WidthData]):
    """Width of predicted intervals as a function of two variables, with the rows as dots.

    Parameters
    ----------
    data : WidthData
        Data of the figure. Use ``from_estimator`` to compute it.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes that the display drew on.
    figure_ : matplotlib Figure
        The figure that contains them.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import BayesianStackingRegressor
    >>> from bdkn.plots import WidthDisplay
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = BayesianStackingRegressor([("sum", lambda X: X.sum(axis=1))], random_state=0).fit(X, X[:, 0] ** 2)
    >>> display = WidthDisplay.from_estimator(model, X, grid=30)
    >>> bool(display.data.width[0, 0] > display.data.width[15, 15])
    True
    """

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        ax: Axes | None = None,
        name: str | None = None,
        labels: tuple[str, str] | None = None,
        level: float = 0.9,
        grid: int = 120,
        margin: float = 0.5,
    ) -> Self:
        """Draw the width of the intervals of a fitted regressor of two columns, over the rows and beyond.

        Parameters
        ----------
        estimator : estimator
            A fitted regressor with ``predict_dist``, or a pipeline, search or transformed target that ends with one.
        X : array-like or data frame of shape (n_samples, 2)
            Rows, to draw as dots.
        ax : matplotlib Axes, optional
            Axes to draw on; a new figure by default.
        name : str, optional
            Title of the figure; the name of the class by default.
        labels : tuple of two str, optional
            Labels of the axes; the names of the columns, if they have any, by default.
        level : float, default=0.9
            Probability of the intervals.
        grid : int, default=120
            Number of points of the grid along each column.
        margin : float, default=0.5
            How far the grid extends beyond the rows on each side, as a fraction of their range.

        Returns
        -------
        display : WidthDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        require("matplotlib", extra="plots")
        data = width_data(estimator, X, level, grid, margin)
        first, second = labels or (map(str, X.columns) if hasattr(X, "columns") else ("x₁", "x₂"))
        return cls(data).plot(ax, name=name or type(estimator).__name__, labels=(first, second))

    def plot(self, ax: Axes | None = None, *, name: str | None = None, labels: tuple[str, str] = ("x₁", "x₂")) -> Self:
        """Draw the figure.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; a new figure by default.
        name : str, optional
            Name of the model, which is the title of the figure.
        labels : tuple of two str, default=("x₁", "x₂")
            Labels of the axes, with units.

        Returns
        -------
        display : WidthDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        data, self.ax_ = self.data, prepare_axes(ax, (6.0, 4.8))
        from matplotlib.colors import LogNorm

        least = float(data.width.min())
        norm = LogNorm(least, min(float(data.width.max()), _RANGE * least) * (1 + 1e-9))
        image = self.ax_.pcolormesh(data.x, data.y, data.width, norm=norm, cmap="viridis", shading="auto")
        self.ax_.scatter(data.points[:, 0], data.points[:, 1], s=5, c="white", edgecolors=INK, linewidths=0.3)
        self.figure_.colorbar(image, ax=self.ax_, label=f"width of {100 * data.level:g} % intervals")
        label_axes(self.ax_, *labels, name)
        return self
