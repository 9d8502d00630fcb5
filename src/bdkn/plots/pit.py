"""The histogram of F(y): flat for a calibrated model, a valley for an overconfident one, a hill for a timid one."""

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
    """The density of F(y) in each bin, where one is uniform, and the range that chance allows it."""

    edges: FloatArray
    density: FloatArray
    lower: float
    upper: float
    confidence: float


def pit_data(y: ArrayLike, dist: Predictive, bins: int = 10, confidence: float = 0.95) -> PITData:
    """Return what the PIT histogram shows."""
    check_number("bins", bins, low=1, whole=True)
    counts, edges = np.histogram(pit(y, dist), bins=bins, range=(0.0, 1.0))
    lower, upper = binomial_envelope(len(dist), 1 / bins, confidence)
    return PITData(edges, counts * bins / len(dist), float(lower) * bins, float(upper) * bins, confidence)


class PITDisplay(PredictionDisplay):
    """Histogram of the probability integral transform with its chance envelope."""

    def __init__(self, data: PITData) -> None:
        self.data = data

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
        """Draw the histogram of ``dist.cdf(y)``."""
        return cls(pit_data(y, dist, bins, confidence)).plot(ax, name=name)

    def plot(self, ax: Axes | None = None, *, name: str | None = None) -> Self:
        """Draw on ``ax``, or on a new figure."""
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
