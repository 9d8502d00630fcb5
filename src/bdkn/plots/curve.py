"""A function of one variable with its uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from bdkn.errors import InvalidParameterError
from bdkn.metrics import predictive_of
from bdkn.plots.bands import Band, central_bands, draw_bands
from bdkn.plots.display import Display
from bdkn.plots.style import BLUE, INK, VERMILION, draw_legend, label_axes, prepare_axes, require_matplotlib
from bdkn.predictive.base import Predictive
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class CurveData:
    """The predicted mean, its bands and where known the true values, in the order of ``x``; ``points`` as given."""

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
    """Return what the curve figure shows."""
    places = np.asarray(x, dtype=np.float64)
    if places.shape != (len(dist),):
        raise InvalidParameterError(
            f"x must hold one value for each of the {len(dist)} predicted rows; got shape {places.shape}"
        )
    order = np.argsort(places, kind="stable")
    true = None if truth is None else np.asarray(truth, dtype=np.float64)[order]
    seen = None if points is None else (np.asarray(points[0], np.float64), np.asarray(points[1], np.float64))
    return CurveData(places[order], dist[order].mean(), central_bands(dist[order], levels), true, seen)


def grid_over(X: Any, points: int, margin: float) -> Any:
    """Return a one-column table like ``X``, evenly spaced over its range widened on both sides by ``margin``."""
    column = np.asarray(X, dtype=np.float64)
    if column.ndim != 2 or column.shape[1] != 1:
        raise InvalidParameterError(f"a curve needs X with one column; got shape {column.shape}")
    low, high = column.min(), column.max()
    x = np.linspace(low - margin * (high - low), high + margin * (high - low), points)
    # A table with column names must stay one: the estimator was fitted with them.
    return type(X)({X.columns[0]: x}) if hasattr(X, "columns") else x[:, None]


class CurveDisplay(Display):
    """The predicted mean over one variable, its bands, and where given the data and the true function."""

    def __init__(self, data: CurveData) -> None:
        self.data = data

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
        """Draw ``dist`` over ``x``; ``points`` are observations (x, y), ``truth`` the true values at ``x``."""
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
        """Draw what a fitted ``estimator`` predicts on a grid over its one-column data ``X`` and beyond it."""
        require_matplotlib()
        table = grid_over(X, grid, margin)
        dist, title = predictive_of(estimator, table), name or type(estimator).__name__
        return cls.from_predictions(
            np.asarray(table)[:, 0], dist, name=title, points=(np.asarray(X)[:, 0], y), **options
        )

    def plot(self, ax: Axes | None = None, *, name: str | None = None, labels: tuple[str, str] = ("x", "y")) -> Self:
        """Draw on ``ax``, or on a new figure; ``labels`` name the axes, with units."""
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
