"""Displays of what drives predictions: contributions of columns, and partial dependence on one column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bdkn.errors import check_number, require
from bdkn.metrics.estimators import plain_route_of
from bdkn.plots.display import BLUE, GREY, INK, PALE, VERMILION, Display, draw_legend, label_axes, literal, tint
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bdkn.analysis.explanation import Explanation
    from bdkn.analysis.partial_dependence import PartialDependence


_ERRORS = 2.0
"""Half-length of the error bars, in standard errors."""


@dataclass(frozen=True, eq=False)
class ExplanationData:
    """Data of the explanation figure: columns with their contributions and standard errors, the largest first.

    The last entry is the sum of all columns that are not shown. For one row, ``prediction`` is ``base`` plus all
    values; for all rows together, both are None.
    """

    columns: list[str]
    values: FloatArray
    errors: FloatArray
    part: str
    base: float | None = None
    prediction: float | None = None


class ExplanationDisplay(Display[ExplanationData]):
    """Bars of each column's contribution to the prediction of one row, or of its importance for all rows.

    For one row, bars to the right raise the prediction above the average of the background, and bars to the left lower
    it. For all rows, a bar is a mean absolute contribution. Lines extend to two standard errors of the estimate.

    Parameters
    ----------
    data : ExplanationData
        Data of the figure. Use ``from_explanation`` or ``from_estimator`` to compute it.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import BayesianStackingRegressor
    >>> from bdkn.plots import ExplanationDisplay
    >>> X = np.random.default_rng(0).normal(size=(80, 2))
    >>> model = BayesianStackingRegressor([("sum", lambda X: X @ [3.0, 1.0])], random_state=0).fit(X, X @ [3.0, 1.0])
    >>> ExplanationDisplay.from_explanation(model.explain(X)).data.columns
    ['0', '1']
    """

    @classmethod
    def from_explanation(
        cls,
        explanation: Explanation,
        row: int | None = None,
        *,
        part: str = "mean",
        ax: Axes | None = None,
        name: str | None = None,
        max_columns: int = 12,
    ) -> Self:
        """Draw an explanation.

        Parameters
        ----------
        explanation : Explanation
            Result of ``explain``.
        row : int, optional
            Number of the row, from 0, among the explained rows; by default, the figure shows all of them together.
        part : str, default="mean"
            Quantity to explain: "mean", "variance" or a part of the variance.
        ax : matplotlib Axes, optional
            Axes to draw on; a new figure by default.
        name : str, optional
            Title of the figure.
        max_columns : int, default=12
            Number of columns to draw at most; the others are added up.

        Returns
        -------
        display : ExplanationDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        check_number("max_columns", max_columns, low=1, whole=True)
        k, base, prediction = explanation.number_of(part), None, None
        if row is None:
            values, errors = explanation.importance()[:, k], explanation.importance_error()[:, k]
        else:
            check_number("row", row, low=0, high=len(explanation.rows) - 1, whole=True)
            values, errors = explanation.values[row, :, k], explanation.standard_error[row, :, k]
            base, prediction = float(explanation.base[k]), float(explanation.prediction[row, k])
        order = np.argsort(-np.abs(values), kind="stable")
        first, rest = order[:max_columns], order[max_columns:]
        columns, shown, reach = [explanation.columns[j] for j in first], values[first], errors[first]
        if len(rest):
            columns.append(f"{len(rest)} other columns")
            shown, reach = np.append(shown, values[rest].sum()), np.append(reach, np.hypot.reduce(errors[rest]))
        data = ExplanationData(columns, shown, reach, part, base, prediction)
        return cls(data).plot(ax, name=name)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, background: Any = None, *, name: str | None = None, **options: Any
    ) -> Self:
        """Explain predictions of a fitted regressor of this library, and draw the explanation.

        Parameters
        ----------
        estimator : estimator
            A fitted regressor with ``explain``, or a pipeline or search that ends with one; columns are those that
            the regressor receives.
        X : array-like or data frame of shape (n_samples, n_features)
            Rows to explain.
        background : array-like or data frame, optional
            Rows to compare with; by default, the rows of ``X``.
        name : str, optional
            Title of the figure; the name of the class by default.
        **options
            Other parameters of ``from_explanation``.

        Returns
        -------
        display : ExplanationDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        require("matplotlib", extra="plots")
        route = plain_route_of(estimator, X)
        others = None if background is None else plain_route_of(estimator, background).X
        explanation = route.regressor.explain(route.X, others)
        return cls.from_explanation(explanation, name=name or type(route.regressor).__name__, **options)

    @property
    def _size(self) -> tuple[float, float]:  # type: ignore[override]
        return 6.0, max(2.0, 1.3 + 0.26 * len(self.data.columns))

    def _draw(self, name: str | None) -> None:
        data, height = self.data, np.arange(len(self.data.columns))
        colours = [BLUE if value >= 0.0 else VERMILION for value in data.values]
        self.ax_.barh(height, data.values, height=0.7, color=colours)
        reach = _ERRORS * data.errors
        self.ax_.hlines(height, data.values - reach, data.values + reach, colors=INK, linewidth=1.0)
        self.ax_.axvline(0.0, color=GREY, linewidth=1)
        self.ax_.set_yticks(height, [literal(str(column)) for column in data.columns])
        self.ax_.set_ylim(len(height) - 0.4, -0.6)
        label = f"Mean absolute contribution to the {data.part}"
        if data.base is not None and data.prediction is not None:
            label = f"Contribution to the {data.part}: from {data.base:.4g} on average to {data.prediction:.4g}"
        label_axes(self.ax_, label, "", name)


class DependenceDisplay(Display["PartialDependence"]):
    """Average prediction as a function of one column, with the average interval of a row and the interval of all rows.

    Parameters
    ----------
    data : PartialDependence
        Data of the figure. Use ``from_estimator`` or ``from_dependence`` to draw it.

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
        """Draw a partial dependence that was computed before.

        Parameters
        ----------
        dependence : PartialDependence
            Result of ``partial_dependence``.
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
            Rows to average over; their other columns are not changed.
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
