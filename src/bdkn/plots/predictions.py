"""Displays of observed targets and their predicted distributions: intervals, coverage, and PIT histogram."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.errors import check_number, require
from bdkn.metrics import calibration_curve, pit, predictive_of
from bdkn.metrics.scores import check_levels, observed
from bdkn.plots.display import (
    BLUE,
    GREY,
    INK,
    MARKERS,
    PALE,
    SERIES,
    VERMILION,
    Band,
    Data,
    Display,
    central_bands,
    draw_bands,
    draw_legend,
    label_axes,
    percent_axis,
    tint,
)
from bdkn.predictive.base import Predictive
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class PredictionDisplay(Display[Data], ABC):
    """Base class of displays of observed targets and their predicted distributions."""

    @classmethod
    @abstractmethod
    def from_predictions(cls, *args: Any, **options: Any) -> Self:
        """Draw the figure from observed targets and predicted distributions; subclasses define the parameters."""

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, *, name: str | None = None, **options: Any) -> Self:
        """Draw the figure for the predictions of a fitted regressor.

        Parameters
        ----------
        estimator : estimator
            A fitted regressor with ``predict_dist``, or a pipeline, search or transformed target that ends with one.
        X : array-like or data frame of shape (n_samples, n_features)
            Rows to predict.
        y : array-like of shape (n_samples,)
            Observed targets of these rows.
        name : str, optional
            Name of the model in the figure; the name of the class by default.
        **options
            Other parameters of ``from_predictions``.

        Returns
        -------
        display : PredictionDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        require("matplotlib", extra="plots")
        return cls.from_predictions(y, predictive_of(estimator, X), name=name or type(estimator).__name__, **options)


@dataclass(frozen=True, eq=False)
class IntervalData:
    """Data of the interval figure: some of the rows, in the order of their predicted means.

    ``rank`` is the position of a row among all rows. ``inside`` is True where the widest interval contains
    the observation; ``share`` is the share of such rows among all. ``target`` is the label of the vertical axis.
    """

    rank: NDArray[np.int64]
    y: FloatArray
    mean: FloatArray
    bands: tuple[Band, ...]
    inside: NDArray[np.bool_]
    share: float
    target: str


def as_steps(x: FloatArray, bands: Sequence[Band]) -> tuple[FloatArray, tuple[Band, ...]]:
    """Return ``x`` and bands as steps: each row is a horizontal line that ends half-way to the neighbouring rows."""
    edges = np.concatenate([[x[0] - 0.5], (x[1:] + x[:-1]) / 2, [x[-1] + 0.5]])
    flat = tuple(Band(band.level, np.repeat(band.lower, 2), np.repeat(band.upper, 2)) for band in bands)
    return np.repeat(edges, 2)[1:-1], flat


class IntervalDisplay(PredictionDisplay[IntervalData]):
    """Prediction intervals and observed targets of rows, in the order of the predicted mean.

    Observations outside the widest interval have another colour and shape.

    Parameters
    ----------
    data : IntervalData
        Data of the figure. Use ``from_predictions`` or ``from_estimator`` to compute it.

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
        check_number("max_rows", max_rows, low=1, whole=True)
        values, mean = observed(y, dist), dist.mean()
        share = float(np.mean(central_bands(dist, [check_levels(levels).max()])[0].holds(values)))
        kept = np.unique(np.linspace(0, len(values) - 1, min(max_rows, len(values))).round().astype(np.int64))
        rows = np.argsort(mean, kind="stable")[kept]
        bands = central_bands(dist[rows], levels)
        data = IntervalData(kept + 1, values[rows], mean[rows], bands, bands[0].holds(values[rows]), share, target)
        return cls(data).plot(ax, name=name)

    def _draw(self, name: str | None) -> None:
        data = self.data
        draw_bands(self.ax_, *as_steps(data.rank.astype(np.float64), data.bands))
        self.ax_.plot(data.rank, data.mean, color=BLUE, linewidth=1.2, label="predicted mean")
        level = f"{data.bands[0].level:.0%}"
        for hit, colour, marker, size, words in (
            (True, INK, "o", 9, f"observed, inside {level} ({data.share:.0%} of rows)"),
            (False, VERMILION, "D", 16, f"observed, outside {level} ({1 - data.share:.0%})"),
        ):
            rows = data.inside == hit
            self.ax_.scatter(
                data.rank[rows], data.y[rows], s=size, c=colour, marker=marker, linewidths=0, label=words, zorder=3
            )
        self.ax_.margins(x=0.01)
        label_axes(self.ax_, "Row, in the order of the predicted mean", data.target, name)
        draw_legend(self.ax_, columns=2)


def binomial_envelope(rows: int, probability: ArrayLike, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Return the central interval, with probability ``confidence``, of the fraction of successes in ``rows`` trials."""
    from scipy.stats import binom

    check_number("confidence", confidence, low=0.0, high=1.0)
    tail = (1 - float(confidence)) / 2
    p = np.asarray(probability, dtype=np.float64)
    return np.asarray(binom.ppf(tail, rows, p) / rows), np.asarray(binom.ppf(1 - tail, rows, p) / rows)


@dataclass(frozen=True, eq=False)
class CalibrationData:
    """Data of the calibration figure.

    ``observed`` is the observed coverage at each nominal coverage. With probability ``confidence``, the observed
    coverage of a calibrated model on ``rows`` rows is between ``lower`` and ``upper``.
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


class CalibrationDisplay(PredictionDisplay[CalibrationData]):
    """Observed against nominal coverage of central intervals.

    To compare models, draw each of them on the same ``ax``. The grey band shows how far a calibrated model may be from
    the diagonal by chance.

    Parameters
    ----------
    data : CalibrationData
        Data of the figure. Use ``from_predictions`` or ``from_estimator`` to compute it.

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
        nominal, share = calibration_curve(y, dist, levels)
        data = CalibrationData(
            nominal, share, *binomial_envelope(len(dist), nominal, confidence), len(dist), confidence
        )
        return cls(data).plot(ax, name=name)

    def _draw(self, name: str | None) -> None:
        data, gid = self.data, f"chance, {self.data.rows} rows"
        # The diagonal and the range of chance are drawn once for all models on these axes with this number of rows.
        if all(artist.get_gid() != gid for artist in self.ax_.collections):
            nominal = np.concatenate([[0.0], data.nominal, [1.0]])
            lower, upper = (np.concatenate([[0.0], bound, [1.0]]) for bound in (data.lower, data.upper))
            words = f"chance, {data.confidence:.0%} of {data.rows}-row samples"
            self.ax_.fill_between(nominal, lower, upper, color=PALE, linewidth=0, label=words, gid=gid)
            self.ax_.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--", label="calibrated")
            self.ax_.set(xlim=(0, 1), ylim=(0, 1))
            percent_axis(self.ax_.xaxis)
            percent_axis(self.ax_.yaxis)
            label_axes(self.ax_, "Nominal coverage of the central interval", "Observed coverage", None)
        before = sum(line.get_gid() == "model" for line in self.ax_.lines)
        self.ax_.plot(
            data.nominal,
            data.observed,
            color=SERIES[before % len(SERIES)],
            marker=MARKERS[before % len(MARKERS)],
            markersize=4,
            linewidth=1.4,
            label=f"{name or 'model'} (mean gap {data.error:.1%})",
            gid="model",
            clip_on=False,
        )
        draw_legend(self.ax_, columns=2)


@dataclass(frozen=True, eq=False)
class PITData:
    """Data of the PIT histogram.

    ``density`` is the density of the values F(y) in each bin, 1 if they are uniform. With probability ``confidence``,
    the density of a calibrated model is between ``lower`` and ``upper``.
    """

    edges: FloatArray
    density: FloatArray
    lower: float
    upper: float
    confidence: float


class PITDisplay(PredictionDisplay[PITData]):
    """Histogram of the probability integral transform F(y).

    It is flat for a calibrated model, low in the middle for an overconfident one (intervals too narrow) and high in the
    middle for an underconfident one. The grey band shows how much the bins of a calibrated model may differ by chance.

    Parameters
    ----------
    data : PITData
        Data of the figure. Use ``from_predictions`` or ``from_estimator`` to compute it.

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
        check_number("bins", bins, low=1, whole=True)
        counts, edges = np.histogram(pit(y, dist), bins=bins, range=(0.0, 1.0))
        lower, upper = binomial_envelope(len(dist), 1 / bins, confidence)
        data = PITData(edges, counts * bins / len(dist), float(lower) * bins, float(upper) * bins, confidence)
        return cls(data).plot(ax, name=name)

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
