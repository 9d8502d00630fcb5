"""The curve figure: predictions as a function of one variable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from bdkn.arrays import read_numbers
from bdkn.errors import InvalidParameterError, require, shown
from bdkn.plots.display import (
    BLUE,
    INK,
    VERMILION,
    Band,
    Display,
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
class CurveData:
    """Data of the curve figure: predicted means and intervals in the order of ``x``.

    ``truth`` are the true values at ``x`` and ``points`` observations (x, y); each is None if not given.
    """

    x: FloatArray
    mean: FloatArray
    bands: tuple[Band, ...]
    truth: FloatArray | None
    points: tuple[FloatArray, FloatArray] | None


def curve_data(
    x: ArrayLike,
    dist: Predictive,
    levels: Sequence[float] = (0.5, 0.9),
    truth: ArrayLike | None = None,
    points: tuple[ArrayLike, ArrayLike] | None = None,
) -> CurveData:
    """Compute the data of the curve figure."""
    places = read_numbers("x", x)
    if places.shape != (len(dist),):
        raise InvalidParameterError(
            f"x must hold one value for each of the {len(dist)} predicted rows; got shape {places.shape}"
        )
    order = np.argsort(places, kind="stable")
    true = None if truth is None else _checked("truth", truth, places.shape)[order]
    seen = None if points is None else _checked_points(points)
    return CurveData(places[order], dist[order].mean(), central_bands(dist[order], levels), true, seen)


def _checked(name: str, given: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Return finite numbers of a shape."""
    values = read_numbers(name, given)
    if values.shape != shape or not np.isfinite(values).all():
        raise InvalidParameterError(f"{name} must be finite numbers of shape {shape}; got shape {values.shape}")
    return values


def _checked_points(points: tuple[ArrayLike, ArrayLike]) -> tuple[FloatArray, FloatArray]:
    """Return observations, as many of x as of y."""
    if not isinstance(points, tuple | list) or len(points) != 2:
        raise InvalidParameterError(f"points must be a pair of arrays, x and y; got {shown(points)}")
    x = read_numbers("points", points[0])
    return _checked("x of points", x, x.shape), _checked("y of points", points[1], x.shape)


def grid_over(X: Any, points: int, margin: float) -> Any:
    """Return a one-column table of the type of ``X`` with evenly spaced values over its range.

    The range is extended on both sides by ``margin`` times its length.
    """
    column = read_numbers("X", X)
    if column.ndim != 2 or column.shape[1] != 1:
        raise InvalidParameterError(f"a curve needs X with one column; got shape {column.shape}")
    return table_like(X, spaced_over(column, points, margin))


class CurveDisplay(Display[CurveData]):
    """Predicted mean and intervals as a function of one variable.

    Observations and the true function are drawn, too, if they are given.

    Parameters
    ----------
    data : CurveData
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
    >>> from bdkn.plots import CurveDisplay
    >>> display = CurveDisplay.from_predictions([1.0, 0.0], Gaussian([3.0, 2.0], [1.0, 1.0]), labels=("time, s", "m"))
    >>> print(display.data.x, display.data.mean)
    [0. 1.] [2. 3.]
    """

    @classmethod
    def from_predictions(
        cls,
        x: ArrayLike,
        dist: Predictive,
        *,
        ax: Axes | None = None,
        name: str | None = None,
        points: tuple[ArrayLike, ArrayLike] | None = None,
        truth: ArrayLike | None = None,
        labels: tuple[str, str] = ("x", "y"),
        levels: Sequence[float] = (0.5, 0.9),
    ) -> Self:
        """Draw predictions over the values of one variable.

        Parameters
        ----------
        x : array-like of shape (n_samples,)
            Values of the variable, in any order.
        dist : Predictive
            Predicted distributions at these values.
        ax : matplotlib Axes, optional
            Axes to draw on; a new figure by default.
        name : str, optional
            Name of the model, which is the title of the figure.
        points : tuple of two array-likes, optional
            Observations (x, y) to draw as dots.
        truth : array-like of shape (n_samples,), optional
            True values at ``x``, if they are known.
        labels : tuple of two str, default=("x", "y")
            Labels of the axes, with units.
        levels : sequence of float, default=(0.5, 0.9)
            Probabilities of the intervals.

        Returns
        -------
        display : CurveDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        return cls(curve_data(x, dist, levels, truth, points)).plot(ax, name=name, labels=labels)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        name: str | None = None,
        grid: int = 300,
        margin: float = 0.2,
        **options: Any,
    ) -> Self:
        """Draw the predictions of a fitted regressor of one column, on a grid over the data and beyond.

        Parameters
        ----------
        estimator : estimator
            A fitted regressor with ``predict_dist``, or a pipeline, search or transformed target that ends with one.
        X : array-like or data frame of shape (n_samples, 1)
            Rows, to draw as dots.
        y : array-like of shape (n_samples,)
            Their targets.
        name : str, optional
            Title of the figure; the name of the class by default.
        grid : int, default=300
            Number of points of the grid.
        margin : float, default=0.2
            How far the grid extends beyond the data on each side, as a fraction of their range.
        **options
            Other parameters of ``from_predictions``.

        Returns
        -------
        display : CurveDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        require("matplotlib", extra="plots")
        table = grid_over(X, grid, margin)
        dist, title = predict_beyond(estimator, table), name or type(estimator).__name__
        return cls.from_predictions(
            np.asarray(table)[:, 0], dist, name=title, points=(np.asarray(X)[:, 0], y), **options
        )

    def plot(self, ax: Axes | None = None, *, name: str | None = None, labels: tuple[str, str] = ("x", "y")) -> Self:
        """Draw the figure.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; a new figure by default.
        name : str, optional
            Name of the model, which is the title of the figure.
        labels : tuple of two str, default=("x", "y")
            Labels of the axes, with units.

        Returns
        -------
        display : CurveDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        data, self.ax_ = self.data, prepare_axes(ax)
        draw_bands(self.ax_, data.x, data.bands)
        self.ax_.plot(data.x, data.mean, color=BLUE, linewidth=1.6, label="predicted mean")
        if data.truth is not None:
            self.ax_.plot(data.x, data.truth, color=VERMILION, linewidth=1.3, linestyle="--", label="truth")
        if data.points is not None:
            self.ax_.scatter(*data.points, s=14, c=INK, linewidths=0, zorder=3, label="observed")
        self.ax_.margins(x=0)
        label_axes(self.ax_, *labels, name)
        draw_legend(self.ax_, columns=3)
        return self
