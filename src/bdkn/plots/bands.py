"""Bands: central intervals of several probabilities, drawn over one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bdkn.metrics.calibration import check_levels
from bdkn.plots.style import BLUE, tint
from bdkn.predictive.base import Predictive
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Band:
    """The central interval of probability ``level`` of each row."""

    level: float
    lower: FloatArray
    upper: FloatArray

    def holds(self, y: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return for each row whether the interval contains ``y``."""
        return (self.lower <= y) & (y <= self.upper)


def central_bands(dist: Predictive, levels: Sequence[float]) -> tuple[Band, ...]:
    """Return the central intervals, the widest first, which is the order to draw them in."""
    return tuple(Band(level, *dist.interval(level)) for level in sorted(check_levels(levels).tolist(), reverse=True))


def draw_bands(ax: Axes, x: FloatArray, bands: Sequence[Band]) -> None:
    """Draw the bands over ``x``, narrower ones in a stronger colour."""
    for band, share in zip(bands, np.linspace(0.22, 0.5, len(bands)), strict=True):
        colour, words = tint(BLUE, share), f"{band.level:.0%} interval"
        ax.fill_between(x, band.lower, band.upper, color=colour, linewidth=0, label=words)


def as_steps(x: FloatArray, bands: Sequence[Band]) -> tuple[FloatArray, tuple[Band, ...]]:
    """Return x and bands such that each row is drawn as a horizontal piece that ends half-way to its neighbours."""
    edges = np.concatenate([[x[0] - 0.5], (x[1:] + x[:-1]) / 2, [x[-1] + 0.5]])
    flat = tuple(Band(band.level, np.repeat(band.lower, 2), np.repeat(band.upper, 2)) for band in bands)
    return np.repeat(edges, 2)[1:-1], flat
