"""A fingerprint identifies a table of numbers by its shape, its columns and the order of its rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]

TOLERANCE = 3e-6
"""Tolerance of a column's statistics in standard deviations: enough for float32 and for six printed digits."""

_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Fingerprint:
    """Three statistics per column: mean, standard deviation, and the product with a wave over the rows.

    The wave is ``√12 (frac(i/φ) − ½)`` in row ``i``. It has unit variance and does not repeat, so that moving rows
    changes the product: exchanging two of 50 000 rows changes it by some 1e-5 to 1e-4 standard deviations.

    Parameters
    ----------
    rows : number of rows.
    columns : mean, standard deviation and wave product of each column, the target being the last.
    head : number of rows from the top that the statistics are computed from; None for all.
    rounding : additional tolerance of each column for rounding; none by default.
    """

    rows: int
    columns: tuple[tuple[float, float, float], ...]
    head: int | None = None
    rounding: tuple[float, ...] = ()

    def mismatch(self, table: Table) -> str | None:
        """Return why ``table`` is not the expected one, or None if it is."""
        shape = (self.rows, len(self.columns))
        if table.shape != shape:
            return f"it has the shape {table.shape}, not {shape}"
        if not np.isfinite(table).all():
            return f"it holds {np.count_nonzero(~np.isfinite(table))} numbers that are missing or not finite"
        found, known = statistics(table[: self.head]), np.array(self.columns)
        off = np.abs(found - known) > self._allowed(known)
        for place, name in enumerate(("mean", "standard deviation")):
            for column in np.flatnonzero(off[:, place]):
                numbers = f"{found[column, place]:.8g}, not {known[column, place]:.8g}"
                return f"column {column + 1} of {len(known)} has the {name} {numbers}"
        if off.any():
            return "its rows are in another order, which the row numbers of the splits would not fit"
        return None

    def _allowed(self, known: Table) -> Table:
        # The standard deviation of a constant column is zero; its value is used as the scale.
        scale = np.where(known[:, 1] > 0, known[:, 1], np.abs(known[:, 0]))
        allowed: Table = TOLERANCE * scale + np.asarray(self.rounding or 0.0)
        return allowed[:, None]


def statistics(table: Table) -> Table:
    """Return one row per column: its mean, its standard deviation and its product with the wave."""
    mean = table.mean(axis=0)
    centred = table - mean
    wave = math.sqrt(12) * (np.arange(len(table)) * _GOLDEN % 1 - 0.5)
    return np.column_stack([mean, np.sqrt(np.mean(centred**2, axis=0)), wave @ centred / len(table)])
