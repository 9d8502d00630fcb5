"""The PIT histogram: the distribution of F(y) over rows, which is uniform for a calibrated model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from bdkn.errors import check_number
from bdkn.metrics import pit
from bdkn.plots.display import PredictionDisplay
from bdkn.plots.envelope import binomial_envelope
from bdkn.plots.style import BLUE, GREY, draw_legend, label_axes, prepare_axes, tint
from bdkn.predictive.base import Predictive
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class PITData:
    """What the PIT histogram shows.

    ``density`` is that of F(y) in each bin, 1 if it is uniform. ``lower`` and ``upper`` bound the density of a
    calibrated model with probability ``confidence``.
    """

    edges: FloatArray
    density: FloatArray
    lower: float
    upper: float
    confidence: float


def pit_data(y: ArrayLike, dist: Predictive, bins: int = 10, confidence: float = 0.95) -> PITData:
    """Compute what the PIT histogram shows."""
    check_number("bins", bins, low=1, whole=True)
    counts, edges = np.histogram(pit(y, dist), bins=bins, range=(0.0, 1.0))
    lower, upper = binomial_envelope(len(dist), 1 / bins, confidence)
    return PITData(edges, counts * bins / len(dist), float(lower) * bins, float(upper) * bins, confidence)


class PITDisplay(PredictionDisplay[PITData]):
    """Histogram of the probability integral transform F(y).

    It is flat for a calibrated model, low in the middle for an overconfident one (intervals too narrow) and high in the
    middle for an underconfident one. The grey band shows how much the bins of a calibrated model may differ by chance.

    Parameters
    ----------
    data : PITData
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
    >>> from bdkn.plots import PITDisplay
    >>> display = PITDisplay.from_predictions([0.1, 3.0], Gaussian([0.0, 2.0], [1.0, 1.0]), bins=2)
    >>> print(display.data.density)
    [0. 2.]
    """

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        dist: Predictive,
        *,
        ax: Axes | None = None,
        name: str | None = None,
        bins: int = 10,
        confidence: float = 0.95,
    ) -> Self:
        """Draw the histogram of ``dist.cdf(y)``.

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
        bins : int, default=10
            Number of bins.
        confidence : float, default=0.95
            Probability that the grey band contains the density of a calibrated model, in each bin.

        Returns
        -------
        display : PITDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        return cls(pit_data(y, dist, bins, confidence)).plot(ax, name=name)

    def plot(self, ax: Axes | None = None, *, name: str | None = None) -> Self:
        """Draw the figure.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; a new figure by default.
        name : str, optional
            Name of the model, which is the title of the figure.

        Returns
        -------
        display : PITDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        data, self.ax_ = self.data, prepare_axes(ax)
        words = f"chance, {data.confidence:.0%} of samples"
        self.ax_.bar(
            data.edges[:-1], data.density, np.diff(data.edges), align="edge", color=tint(BLUE, 0.5), edgecolor="white"
        )
        self.ax_.axhspan(data.lower, data.upper, facecolor=GREY, alpha=0.25, linewidth=0, label=words)
        self.ax_.axhline(1.0, color=GREY, linewidth=1, linestyle="--", label="calibrated")
        self.ax_.set(xlim=(0, 1), ylim=(0, 1.1 * max(data.density.max(), data.upper)))
        label_axes(self.ax_, "Predicted probability of a value at most the observed one", "Density of rows", name)
        draw_legend(self.ax_, columns=2)
        return self
