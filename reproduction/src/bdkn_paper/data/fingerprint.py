"""What identifies a table of numbers however its text is written: its shape, its columns, the order of its rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]

TOLERANCE = 3e-6
"""How far a statistic of a column may be off, in standard deviations: room for float32 and for six printed digits."""

_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Fingerprint:
    """Three statistics a column: its mean, its standard deviation, and its product with a wave over the rows.

    The wave is ``√12 (frac(i/φ) − ½)`` in row ``i``, of unit variance and never twice the same, so that moving rows
    changes the product: exchanging two of 50 000 by some 1e-5 to 1e-4 standard deviations.

    Parameters
    ----------
    rows : number of rows.
    columns : mean, standard deviation and wave product of each column, the target being the last.
    head : how many rows from the top the statistics are of; None for all.
    rounding : how much the numbers of each column may differ through rounding; none by default.
    """

    rows: int
    columns: tuple[tuple[float, float, float], ...]
    head: int | None = None
    rounding: tuple[float, ...] = ()

    def mismatch(self, table: Table) -> str | None:
        """Return why ``table`` is not the one that is meant, or None if it is."""
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
            return "its rows are in another order, which the train and test rows of the splits would not fit"
        return None

    def _allowed(self, known: Table) -> Table:
        # A constant column has no standard deviation to measure by; its value takes that place.
        scale = np.where(known[:, 1] > 0, known[:, 1], np.abs(known[:, 0]))
        allowed: Table = TOLERANCE * scale + np.asarray(self.rounding or 0.0)
        return allowed[:, None]


def statistics(table: Table) -> Table:
    """Return one row a column: its mean, its standard deviation and its product with the wave."""
    mean = table.mean(axis=0)
    centred = table - mean
    wave = math.sqrt(12) * (np.arange(len(table)) * _GOLDEN % 1 - 0.5)
    return np.column_stack([mean, np.sqrt(np.mean(centred**2, axis=0)), wave @ centred / len(table)])
