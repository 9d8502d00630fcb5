"""Rows of a table with their targets, in memory or read in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from bdkn.typing import FloatArray, IndexArray

BLOCK_ROWS = 8192
"""Default number of rows of a block: few enough to stay in a processor's cache while they are used."""


class RowSource(Protocol):
    """Rows that can be read in blocks, from memory, from a memory map or from a file.

    Row i is the same row in every pass, so that folds can depend on the number of a row.
    """

    def __len__(self) -> int:
        """Return the number of rows."""

    def blocks(self, size: int | None = None) -> Iterator[Rows]:
        """Yield all rows in order, in blocks of at most ``size`` rows (None: a size chosen by the source)."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in memory: a table ``X``, targets ``y`` of shape (n,), and how many times each row is counted (None: once).

    ``X`` is a table whose rows can be selected by number. If it is an array, ``rows[numbers]`` selects some of them.
    Rows with equal labels in ``groups`` belong together (None: each row is by itself).
    """

    X: Any
    y: FloatArray
    counts: FloatArray | None = None
    groups: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, numbers: IndexArray | slice) -> Rows:
        counts = None if self.counts is None else self.counts[numbers]
        groups = None if self.groups is None else self.groups[numbers]
        return Rows(self.X[numbers], self.y[numbers], counts, groups)

    def blocks(self, size: int | None = None) -> Iterator[Rows]:
        """Yield all rows in order, in blocks of at most ``size`` rows (None: a size chosen by the source)."""
        step = size or BLOCK_ROWS
        for start in range(0, len(self), step):
            yield self[start : start + step]
