"""The interval figure: observed targets and the prediction intervals of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.errors import check_number
from bdkn.metrics.calibration import check_levels
from bdkn.metrics.rows import observed
from bdkn.plots.bands import Band, as_steps, central_bands, draw_bands
from bdkn.plots.display import PredictionDisplay
from bdkn.plots.style import BLUE, INK, VERMILION, draw_legend, label_axes, prepare_axes
from bdkn.predictive.base import Predictive
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class IntervalData:
    """What the interval figure shows: some of the rows, in the order of their predicted means.

    ``rank`` is the position of a row among all rows. ``inside`` tells whether the widest interval contains the
    observation; ``share`` is the share of all rows for which it does.
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
    """Compute what the interval figure shows: at most ``max_rows`` rows, evenly spaced in the order of the means."""
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
        What the figure shows. Use ``from_predictions`` or ``from_estimator`` to compute it.

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
        self._draw_observations()
        self.ax_.margins(x=0.01)
        label_axes(self.ax_, "Row, in the order of the predicted mean", target, name)
        draw_legend(self.ax_, columns=2)
        return self

    def _draw_observations(self) -> None:
        data, level = self.data, f"{self.data.bands[0].level:.0%}"
        for hit, colour, marker, size, words in (
            (True, INK, "o", 9, f"observed, inside {level} ({data.share:.0%} of rows)"),
            (False, VERMILION, "D", 16, f"observed, outside {level} ({1 - data.share:.0%})"),
        ):
            rows = data.inside == hit
            self.ax_.scatter(
                data.rank[rows], data.y[rows], s=size, c=colour, marker=marker, linewidths=0, label=words, zorder=3
            )
