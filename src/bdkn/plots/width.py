"""The width figure: how wide intervals are over two variables, inside and outside of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bdkn.arrays import read_numbers
from bdkn.errors import InvalidParameterError, check_number
from bdkn.plots.display import Display
from bdkn.plots.grid import predict_beyond, spaced_over, table_like
from bdkn.plots.style import INK, label_axes, prepare_axes, require_matplotlib
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RANGE = 200.0
"""The largest width that has a colour of its own, in units of the smallest."""


@dataclass(frozen=True, eq=False)
class WidthData:
    """What the width figure shows: the width of central intervals on a grid of two variables, and the rows.

    ``width`` (grid, grid) has one line per value of ``y``.
    """

    x: FloatArray
    y: FloatArray
    width: FloatArray
    points: FloatArray
    level: float


def width_data(estimator: Any, X: Any, level: float, grid: int, margin: float) -> WidthData:
    """Compute what the width figure shows."""
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
        What the figure shows. Use ``from_estimator`` to compute it.

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
        require_matplotlib()
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
