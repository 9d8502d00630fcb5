"""Displays of predictions on a grid that extends beyond the rows: curves over one variable, widths over two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from bdkn.arrays import read_numbers
from bdkn.errors import InvalidParameterError, check_number, no_extrapolation_warnings, require, shown
from bdkn.metrics import predictive_of
from bdkn.plots.display import BLUE, INK, VERMILION, Band, Display, central_bands, draw_bands, draw_legend, label_axes
from bdkn.predictive.base import Predictive
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class CurveData:
    """Data of the curve figure: predicted means and intervals at the sorted values ``x``.

    ``truth`` are the true values at ``x`` and ``points`` observations (x, y); each is None if not given. ``labels`` are
    the labels of the two axes.
    """

    x: FloatArray
    mean: FloatArray
    bands: tuple[Band, ...]
    truth: FloatArray | None
    points: tuple[FloatArray, FloatArray] | None
    labels: tuple[str, str]


def _finite(name: str, given: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    values = read_numbers(name, given)
    if values.shape != shape or not np.isfinite(values).all():
        raise InvalidParameterError(f"{name} must be finite numbers of shape {shape}; got shape {values.shape}")
    return values


def predict_over(
    estimator: Any, X: Any, columns: int, rule: str, grid: int, margin: float
) -> tuple[FloatArray, FloatArray, Predictive]:
    """Return ``X`` as an array, grid values (grid, columns), and the predictions at all combinations of these values.

    Grid values are evenly spaced over the range of each column, extended on both sides by ``margin`` times its length.
    """
    rows = read_numbers("X", X)
    if rows.ndim != 2 or rows.shape[1] != columns:
        raise InvalidParameterError(f"{rule}; got shape {rows.shape}")
    check_number("grid", grid, low=2, high=1e6, whole=True)
    check_number("margin", margin, low=0.0, high=1e6)
    if not np.isfinite(rows).all() or not len(rows):
        raise InvalidParameterError("X must hold finite numbers and a row at least, to draw a grid over them")
    low, high = rows.min(axis=0), rows.max(axis=0)
    values = np.linspace(low - margin * (high - low), high + margin * (high - low), grid)
    places = np.stack([part.ravel() for part in np.meshgrid(*values.T)], axis=1)
    # A data frame of the same class as X, with the column names that the estimator was fitted to.
    table = type(X)(dict(zip(X.columns, places.T, strict=True))) if hasattr(X, "columns") else places
    with no_extrapolation_warnings():
        return rows, values, predictive_of(estimator, table)


class CurveDisplay(Display[CurveData]):
    """Predicted mean and intervals as a function of one variable.

    Observations and the true function are drawn, too, if they are given.

    Parameters
    ----------
    data : CurveData
        Data of the figure. Use ``from_predictions`` or ``from_estimator`` to compute it.

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
        places = read_numbers("x", x)
        if places.shape != (len(dist),):
            raise InvalidParameterError(
                f"x must hold one value for each of the {len(dist)} predicted rows; got shape {places.shape}"
            )
        order = np.argsort(places, kind="stable")
        true = None if truth is None else _finite("truth", truth, places.shape)[order]
        seen = None
        if points is not None:
            if not isinstance(points, tuple | list) or len(points) != 2:
                raise InvalidParameterError(f"points must be a pair of arrays, x and y; got {shown(points)}")
            at = read_numbers("points", points[0])
            seen = _finite("x of points", at, at.shape), _finite("y of points", points[1], at.shape)
        data = CurveData(places[order], dist[order].mean(), central_bands(dist[order], levels), true, seen, labels)
        return cls(data).plot(ax, name=name)

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
        """Draw the predictions of a fitted regressor with one input column, on a grid over the data and beyond.

        Parameters
        ----------
        estimator : estimator
            A fitted regressor with ``predict_dist``, or a pipeline, search or transformed target that ends with one.
        X : array-like or data frame of shape (n_samples, 1)
            Rows, to draw as dots.
        y : array-like of shape (n_samples,)
            Targets of these rows.
        name : str, optional
            Title of the figure; the name of the class by default.
        grid : int, default=300
            Number of points of the grid.
        margin : float, default=0.2
            Extension of the grid beyond the data on each side, as a fraction of their range.
        **options
            Other parameters of ``from_predictions``.

        Returns
        -------
        display : CurveDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        require("matplotlib", extra="plots")
        rows, x, dist = predict_over(estimator, X, 1, "a curve needs X with one column", grid, margin)
        title = name or type(estimator).__name__
        return cls.from_predictions(x[:, 0], dist, name=title, points=(rows[:, 0], y), **options)

    def _draw(self, name: str | None) -> None:
        data = self.data
        draw_bands(self.ax_, data.x, data.bands)
        self.ax_.plot(data.x, data.mean, color=BLUE, linewidth=1.6, label="predicted mean")
        if data.truth is not None:
            self.ax_.plot(data.x, data.truth, color=VERMILION, linewidth=1.3, linestyle="--", label="truth")
        if data.points is not None:
            self.ax_.scatter(*data.points, s=14, c=INK, linewidths=0, zorder=3, label="observed")
        self.ax_.margins(x=0)
        label_axes(self.ax_, *data.labels, name)
        draw_legend(self.ax_, columns=3)


_RANGE = 200.0
"""Maximum width on the colour scale, in units of the smallest width; larger widths have the same colour."""


@dataclass(frozen=True, eq=False)
class WidthData:
    """Data of the width figure: the width of central intervals on a grid of two variables, and the rows.

    ``width[i, j]`` is the width at ``x[j]`` and ``y[i]``, which are the values of the two variables.
    """

    x: FloatArray
    y: FloatArray
    width: FloatArray
    points: FloatArray
    level: float
    labels: tuple[str, str]


class WidthDisplay(Display[WidthData]):
    """Width of predicted intervals as a function of two variables, with the rows as dots.

    Parameters
    ----------
    data : WidthData
        Data of the figure. Use ``from_estimator`` to compute it.

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

    _size = (6.0, 4.8)

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
        """Draw the width of the intervals of a fitted regressor with two input columns, over the rows and beyond.

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
            Extension of the grid beyond the rows on each side, as a fraction of their range.

        Returns
        -------
        display : WidthDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        require("matplotlib", extra="plots")
        check_number("level", level, low=0, high=1, strict=True)
        rows, values, dist = predict_over(estimator, X, 2, "a figure of widths needs X with two columns", grid, margin)
        lower, upper = dist.interval(level)
        first, second = map(str, X.columns) if hasattr(X, "columns") else ("x₁", "x₂")
        width = (upper - lower).reshape(grid, grid)
        data = WidthData(values[:, 0], values[:, 1], width, rows, level, (first, second))
        return cls(data).plot(ax, name=name or type(estimator).__name__, labels=labels)

    def _draw(self, name: str | None) -> None:
        data = self.data
        from matplotlib.colors import LogNorm

        least = float(data.width.min())
        norm = LogNorm(least, min(float(data.width.max()), _RANGE * least) * (1 + 1e-9))
        image = self.ax_.pcolormesh(data.x, data.y, data.width, norm=norm, cmap="viridis", shading="auto")
        self.ax_.scatter(data.points[:, 0], data.points[:, 1], s=5, c="white", edgecolors=INK, linewidths=0.3)
        self.figure_.colorbar(image, ax=self.ax_, label=f"width of {100 * data.level:g} % intervals")
        label_axes(self.ax_, *data.labels, name)
