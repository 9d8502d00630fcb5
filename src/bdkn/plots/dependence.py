"""The dependence figure: how predictions change on average with one column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bdkn.errors import require
from bdkn.metrics.estimators import plain_route_of
from bdkn.plots.display import (
    BLUE,
    PALE,
    Display,
    draw_legend,
    label_axes,
    literal,
    tint,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bdkn.analysis.partial_dependence import PartialDependence


class DependenceDisplay(Display["PartialDependence"]):
    """Average prediction as a function of one column, with the average interval of rows and that of all rows together.

    Parameters
    ----------
    data : PartialDependence
        Data of the figure. Use ``from_estimator`` or ``from_dependence`` to draw it.

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
    >>> from bdkn.plots import DependenceDisplay
    >>> X = np.random.default_rng(0).normal(size=(80, 2))
    >>> model = BayesianStackingRegressor([("sum", lambda X: X @ [3.0, 1.0])], random_state=0).fit(X, X @ [3.0, 1.0])
    >>> DependenceDisplay.from_estimator(model, X, 0).data.column
    '0'
    """

    @classmethod
    def from_dependence(cls, dependence: PartialDependence, *, ax: Axes | None = None, name: str | None = None) -> Self:
        """Draw a partial dependence.

        Parameters
        ----------
        dependence : PartialDependence
            What ``partial_dependence`` returned.
        ax : matplotlib Axes, optional
            Axes to draw on; a new figure by default.
        name : str, optional
            Title of the figure.

        Returns
        -------
        display : DependenceDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        return cls(dependence).plot(ax, name=name)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        column: str | int,
        *,
        ax: Axes | None = None,
        name: str | None = None,
        **options: Any,
    ) -> Self:
        """Draw the partial dependence of a fitted regressor of this library.

        Parameters
        ----------
        estimator : estimator
            A fitted regressor with ``partial_dependence``, or a pipeline or search that ends with one; columns are
            those that the regressor receives.
        X : array-like or data frame of shape (n_samples, n_features)
            Rows whose other columns stay as they are.
        column : str or int
            Name of the column, or its number from 0.
        ax : matplotlib Axes, optional
            Axes to draw on; a new figure by default.
        name : str, optional
            Title of the figure; the name of the class by default.
        **options
            Other parameters of ``partial_dependence``.

        Returns
        -------
        display : DependenceDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        require("matplotlib", extra="plots")
        route = plain_route_of(estimator, X)
        dependence = route.regressor.partial_dependence(route.X, column, **options)
        return cls(dependence).plot(ax, name=name or type(route.regressor).__name__)

    def _draw(self, name: str | None) -> None:
        data, place = self.data, np.arange(len(self.data.grid))
        words = f"{data.coverage:.0%} interval"
        labels = [f"{words} of all rows", f"{words} of a row, average", "average prediction"]
        ax, blue = self.ax_, tint(BLUE, 0.3)
        if data.grid.dtype.kind in "fiumM":  # numbers or dates
            ax.fill_between(data.grid, data.all_lower, data.all_upper, color=PALE, label=labels[0], linewidth=0)
            ax.fill_between(data.grid, data.lower, data.upper, color=blue, label=labels[1], linewidth=0)
            ax.plot(data.grid, data.mean, color=BLUE, linewidth=1.8, label=labels[2])
        else:
            ax.vlines(place, data.all_lower, data.all_upper, color=PALE, linewidth=9, label=labels[0])
            ax.vlines(place, data.lower, data.upper, color=blue, linewidth=5, label=labels[1])
            ax.scatter(place, data.mean, s=26, color=BLUE, zorder=3, label=labels[2])
            ax.set_xticks(place, [literal(str(value)) for value in data.grid])
        label_axes(ax, literal(data.column), "Prediction", name)
        draw_legend(ax, columns=2)
