"""Centre and scale of columns that a few wild values do not change."""

from __future__ import annotations

import numpy as np

from bdkn.rows import RowSource
from bdkn.typing import FloatArray

_SAMPLE = 4096
"""Rows of a large table from which a scale is computed."""

_NORMAL = 1.4826
"""The standard deviation of a normal distribution in units of its median deviation."""


def robust_scale(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the median of each column and its robust standard deviation, zero for a constant column.

    It is 1.48 times the median of the deviations from the median, and of those that are not zero if most are: a column
    of few ones among zeros has the deviation of a one.
    """
    with np.errstate(over="ignore"):
        centre = np.median(table / 2, axis=0) * 2  # the median of two numbers is half of their sum, which may overflow
        deviations = np.abs(table - centre)
    spread = np.median(deviations / 2, axis=0) * 2
    for column in np.flatnonzero(spread == 0):
        moved = deviations[deviations[:, column] > 0, column]
        spread[column] = np.median(moved / 2) * 2 if len(moved) else 0.0
    with np.errstate(over="ignore"):
        return np.asarray(centre), np.minimum(_NORMAL * spread, np.finfo(np.float64).max)


def sampled_scale(rows: RowSource) -> tuple[FloatArray, FloatArray]:
    """Return the robust scale of the columns of a table, of every so many rows if it is large."""
    step, start, parts = max(1, len(rows) // _SAMPLE), 0, []
    for part in rows.blocks():
        parts.append(np.asarray(part.X[-start % step :: step], dtype=np.float64))
        start += len(part)
    return robust_scale(np.concatenate(parts))
