"""Nominal against observed coverage: does a 90 % interval hold 90 % of the observations?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from bdkn.metrics import calibration_curve
from bdkn.plots.display import PredictionDisplay
from bdkn.plots.envelope import binomial_envelope
from bdkn.plots.style import GREY, MARKERS, PALE, SERIES, draw_legend, label_axes, percent_axis, prepare_axes
from bdkn.predictive.base import Predictive
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class CalibrationData:
    """Observed coverage at the nominal levels, and the range chance allows a calibrated model over ``rows`` rows."""

    nominal: FloatArray
    observed: FloatArray
    lower: FloatArray
    upper: FloatArray
    rows: int
    confidence: float

    @property
    def error(self) -> float:
        """The mean absolute gap between nominal and observed coverage."""
        return float(np.mean(np.abs(self.observed - self.nominal)))


def calibration_data(
    y: ArrayLike, dist: Predictive, levels: ArrayLike | None = None, confidence: float = 0.95
) -> CalibrationData:
    """Return what the calibration figure shows."""
    nominal, share = calibration_curve(y, dist, levels)
    return CalibrationData(nominal, share, *binomial_envelope(len(dist), nominal, confidence), len(dist), confidence)


class CalibrationDisplay(PredictionDisplay):
    """Observed against nominal coverage; call again with the same ``ax`` to compare models."""

    def __init__(self, data: CalibrationData) -> None:
        self.data = data

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        dist: Predictive,
        *,
        ax: Axes | None = None,
        name: str | None = None,
        levels: ArrayLike | None = None,
        confidence: float = 0.95,
    ) -> Self:
        """Draw how often the central intervals of ``dist`` hold ``y``, at each of ``levels``."""
        return cls(calibration_data(y, dist, levels, confidence)).plot(ax, name=name)

    def plot(self, ax: Axes | None = None, *, name: str | None = None) -> Self:
        """Draw on ``ax``, or on a new figure."""
        self.ax_ = prepare_axes(ax)
        self._draw_background()
        before = sum(line.get_gid() == "model" for line in self.ax_.lines)
        self.ax_.plot(
            self.data.nominal,
            self.data.observed,
            color=SERIES[before % len(SERIES)],
            marker=MARKERS[before % len(MARKERS)],
            markersize=4,
            linewidth=1.4,
            label=f"{name or 'model'} (mean gap {self.data.error:.1%})",
            gid="model",
            clip_on=False,
        )
        draw_legend(self.ax_, columns=2)
        return self

    def _draw_background(self) -> None:
        """Draw diagonal and envelope, once for all models on these axes that were tested on as many rows."""
        gid = f"chance, {self.data.rows} rows"
        if any(artist.get_gid() == gid for artist in self.ax_.collections):
            return
        data, ends = self.data, ([0.0], [1.0])
        nominal, lower, upper = (np.concatenate([ends[0], a, ends[1]]) for a in (data.nominal, data.lower, data.upper))
        words = f"chance, {data.confidence:.0%} of {data.rows}-row samples"
        self.ax_.fill_between(nominal, lower, upper, color=PALE, linewidth=0, label=words, gid=gid)
        self.ax_.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--", label="calibrated")
        self.ax_.set(xlim=(0, 1), ylim=(0, 1))
        percent_axis(self.ax_, "x")
        percent_axis(self.ax_, "y")
        label_axes(self.ax_, "Nominal coverage of the central interval", "Observed coverage", None)
