"""The explanation figure: what each column adds to a prediction, or how much it matters overall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bdkn.errors import check_number, require
from bdkn.metrics.estimators import plain_route_of
from bdkn.plots.display import (
    BLUE,
    GREY,
    INK,
    VERMILION,
    Display,
    label_axes,
    literal,
)
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bdkn.analysis.explanation import Explanation


_ERRORS = 2.0
"""Standard errors that the lines at the ends of bars extend to each side."""


@dataclass(frozen=True, eq=False)
class ExplanationData:
    """Data of the explanation figure: columns with their values and standard errors, the largest first.

    Columns beyond those shown are added up as the last one. For a row, ``base`` plus all values is ``prediction``;
    overall there are neither.
    """

    columns: list[str]
    values: FloatArray
    errors: FloatArray
    part: str
    base: float | None = None
    prediction: float | None = None


def explanation_data(
    explanation: Explanation, row: int | None = None, part: str = "mean", max_columns: int = 12
) -> ExplanationData:
    """Compute the data of the explanation figure, for the ``row``-th explained row, or overall."""
    check_number("max_columns", max_columns, low=1, whole=True)
    k = explanation.number_of(part)
    if row is None:
        values, errors = explanation.importance()[:, k], explanation.importance_error()[:, k]
        return ExplanationData(*_largest(explanation.columns, values, errors, max_columns), part)
    check_number("row", row, low=0, high=len(explanation.rows) - 1, whole=True)
    values, errors = explanation.values[row, :, k], explanation.standard_error[row, :, k]
    shown = _largest(explanation.columns, values, errors, max_columns)
    return ExplanationData(*shown, part, float(explanation.base[k]), float(explanation.prediction[row, k]))


def _largest(
    columns: tuple[str, ...], values: FloatArray, errors: FloatArray, most: int
) -> tuple[list[str], FloatArray, FloatArray]:
    order = np.argsort(-np.abs(values), kind="stable")
    if len(order) <= most:
        return [columns[j] for j in order], values[order], errors[order]
    first, rest = order[:most], order[most:]
    names = [*(columns[j] for j in first), f"{len(rest)} other columns"]
    return names, np.append(values[first], values[rest].sum()), np.append(errors[first], np.hypot.reduce(errors[rest]))


class ExplanationDisplay(Display[ExplanationData]):
    """Bars of what each column adds to the prediction of a row, or of how much it matters overall.

    In one row, bars to the right raise the prediction above the average of the background, and bars to the left lower
    it. Overall, a bar is the mean absolute value over rows. Lines extend to two standard errors of the sampling.

    Parameters
    ----------
    data : ExplanationData
        Data of the figure. Use ``from_explanation`` or ``from_estimator`` to compute it.

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
            What ``explain`` returned.
        row : int, optional
            Number of the row, from 0, among those explained; by default, the figure is of all of them.
        part : str, default="mean"
            What is explained: "mean", "variance" or a part of the variance.
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
        return cls(explanation_data(explanation, row, part, max_columns)).plot(ax, name=name)

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
            Rows to compare with; by default, those of ``X``.
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
