"""Median and quartiles over splits, also where some of them diverged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bdkn.errors import InvalidParameterError
from bdkn.plots.style import tint
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class QuartileCurve:
    """Lower quartile, median and upper quartile after each epoch; ``final`` holds the last values, split by split."""

    epoch: FloatArray
    lower: FloatArray
    median: FloatArray
    upper: FloatArray
    final: FloatArray


def quartile_curve(curves: Sequence[Mapping[str, Any]], metric: str) -> QuartileCurve:
    """Return the quartiles of a metric over curves of the same epochs, each ``{"epoch": [..], metric: [..]}``."""
    epochs = {tuple(curve["epoch"]) for curve in curves}
    if len(epochs) != 1:
        raise InvalidParameterError(
            f"curves must be of the same epochs on every split; got {len(epochs)} kinds: run the missing splits again"
        )
    values = np.array([curve[metric] for curve in curves], dtype=np.float64)
    lower, median, upper = quantiles(values, (0.25, 0.5, 0.75))
    return QuartileCurve(np.array(epochs.pop(), dtype=np.float64), lower, median, upper, values[:, -1])


def quantiles(values: ArrayLike, shares: Sequence[float]) -> FloatArray:
    """Return quantiles along the first axis, linear between neighbours.

    What is not a number counts as infinite, for no prediction is the worst: a quantile is infinite where it takes part.
    """
    filled = np.asarray(values, dtype=np.float64)
    ranked = np.sort(np.where(np.isnan(filled), np.inf, filled), axis=0)
    return np.stack([_between(ranked, q) for q in shares])


def draw_curve(ax: Axes, curve: QuartileCurve, colour: str, name: str, line: str = "-") -> None:
    """Draw the median as a line in a band from quartile to quartile; what is infinite is left out."""
    lower, median, upper = (np.where(np.isfinite(a), a, np.nan) for a in (curve.lower, curve.median, curve.upper))
    # Transparent, for bands of several methods lie over one another.
    ax.fill_between(curve.epoch, lower, upper, color=tint(colour, 0.6), alpha=0.45, linewidth=0)
    ax.plot(curve.epoch, median, color=colour, linewidth=1.6, linestyle=line, label=name)


def _between(ranked: FloatArray, q: float) -> FloatArray:
    below, share = divmod((len(ranked) - 1) * q, 1)
    low: FloatArray = ranked[int(below)]
    # A share of nothing must not be taken of infinity.
    return low if share == 0 else (1 - share) * low + share * ranked[int(below) + 1]
