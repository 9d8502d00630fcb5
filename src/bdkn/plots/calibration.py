"""Displays of calibration: coverage and probability integral transform."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from bdkn.errors import check_number
from bdkn.metrics import calibration_curve, pit
from bdkn.plots.display import (
    BLUE,
    GREY,
    MARKERS,
    PALE,
    SERIES,
    PredictionDisplay,
    binomial_envelope,
    draw_legend,
    label_axes,
    percent_axis,
    tint,
)
from bdkn.predictive.base import Predictive
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class CalibrationData:
    """Data of the calibration figure.

    ``observed`` is the observed coverage at each nominal one. ``lower`` and ``upper`` bound the observed coverage of a
    calibrated model on ``rows`` rows with probability ``confidence``.
    """

    nominal: FloatArray
    observed: FloatArray
    lower: FloatArray
    upper: FloatArray
    rows: int
    confidence: float

    @property
    def error(self) -> float:
        """The mean absolute difference between nominal and observed coverage."""
        return float(np.mean(np.abs(self.observed - self.nominal)))


def calibration_data(
    y: ArrayLike, dist: Predictive, levels: ArrayLike | None = None, confidence: float = 0.95
) -> CalibrationData:
    """Compute the data of the calibration figure."""
    nominal, share = calibration_curve(y, dist, levels)
    return CalibrationData(nominal, share, *binomial_envelope(len(dist), nominal, confidence), len(dist), confidence)


class CalibrationDisplay(PredictionDisplay[CalibrationData]):
    """Observed against nominal coverage of central intervals.

    To compare models, draw each of them on the same ``ax``. The grey band shows how far a calibrated model may be from
    the diagonal by chance.

    Parameters
    ----------
    data : CalibrationData
        Data of the figure. Use ``from_predictions`` or ``from_estimator`` to compute it.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes that the display drew on.
    figure_ : matplotlib Figure
        The figure that contains them.

    Examples
    --------
    >>> from bdkn import Gaussian
    >>> from bdkn.plots import CalibrationDisplay
    >>> display = CalibrationDisplay.from_predictions([0.1, 3.0], Gaussian([0.0, 2.0], [1.0, 1.0]), levels=[0.5, 0.9])
    >>> print(display.data.nominal, display.data.observed)
    [0.5 0.9] [0.5 1. ]
    """

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
        """Draw the share of observations inside the central intervals of the predictions, at each level.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Observed targets.
        dist : Predictive
            Predicted distributions of the same rows.
        ax : matplotlib Axes, optional
            Axes to draw on; a new figure by default.
        name : str, optional
            Name of the model in the legend; "model" by default.
        levels : array-like of shape (n_levels,), optional
            Nominal coverages; 5 %, 10 %, …, 95 % by default.
        confidence : float, default=0.95
            Probability that the grey band contains the observed coverage of a calibrated model, at each level.

        Returns
        -------
        display : CalibrationDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        return cls(calibration_data(y, dist, levels, confidence)).plot(ax, name=name)

    def _draw(self, name: str | None) -> None:
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

    def _draw_background(self) -> None:
        """Draw the diagonal and the range of chance, once for all models on these axes with the same number of rows."""
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


@dataclass(frozen=True, eq=False)
class PITData:
    """Data of the PIT histogram.

    ``density`` is that of F(y) in each bin, 1 if it is uniform. ``lower`` and ``upper`` bound the density of a
    calibrated model with probability ``confidence``.
    """

    edges: FloatArray
    density: FloatArray
    lower: float
    upper: float
    confidence: float


def pit_data(y: ArrayLike, dist: Predictive, bins: int = 10, confidence: float = 0.95) -> PITData:
    """Compute the data of the PIT histogram."""
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
        Data of the figure. Use ``from_predictions`` or ``from_estimator`` to compute it.

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

    def _draw(self, name: str | None) -> None:
        data = self.data
        words = f"chance, {data.confidence:.0%} of samples"
        self.ax_.bar(
            data.edges[:-1], data.density, np.diff(data.edges), align="edge", color=tint(BLUE, 0.5), edgecolor="white"
        )
        self.ax_.axhspan(data.lower, data.upper, facecolor=GREY, alpha=0.25, linewidth=0, label=words)
        self.ax_.axhline(1.0, color=GREY, linewidth=1, linestyle="--", label="calibrated")
        self.ax_.set(xlim=(0, 1), ylim=(0, 1.1 * max(data.density.max(), data.upper)))
        label_axes(self.ax_, "Predicted probability of a value at most the observed one", "Density of rows", name)
        draw_legend(self.ax_, columns=2)
