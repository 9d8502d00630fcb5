"""Rows of a table with their targets: the one container in which they travel, and how they come in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from bdkn.typing import FloatArray, IndexArray

BLOCK_ROWS = 8192
"""Rows of a block: few enough to stay in a processor's cache while they are used."""


class RowSource(Protocol):
    """Rows that come in blocks, wherever they lie: in memory, in a memory map, in a file.

    Row i is the same row in every pass, so that folds can be a function of the row's number.
    """

    def __len__(self) -> int:
        """Return the number of rows."""

    def blocks(self, size: int | None = None) -> Iterator[Rows]:
        """Yield all rows in their order, at most ``size`` at a time (None: some thousands)."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in memory: a table ``X``, the targets ``y`` (n,), and how often each row counts (None: once).

    ``X`` is any table whose rows can be taken by number. Where it is an array, ``rows[numbers]`` takes some of them.
    """

    X: Any
    y: FloatArray
    counts: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, numbers: IndexArray | slice) -> Rows:
        return Rows(self.X[numbers], self.y[numbers], None if self.counts is None else self.counts[numbers])

    def blocks(self, size: int | None = None) -> Iterator[Rows]:
        """Yield all rows in their order, at most ``size`` at a time (None: some thousands)."""
        step = size or BLOCK_ROWS
        for start in range(0, len(self), step):
            yield self[start : start + step]
