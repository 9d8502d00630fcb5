"""Rows of a table with their targets, in memory or read in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

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


class RowSelection(Protocol):
    """Row numbers: an array, or an object that NumPy can turn into one when it is needed."""

    def __len__(self) -> int:
        """Return how many rows there are."""

    def __array__(self) -> NDArray[Any]:
        """Return their numbers."""


@dataclass(frozen=True, eq=False)
class RowsWithout:
    """The numbers of ``n`` rows without those left out, computed when they are used: those of all networks take memory.

    NumPy takes it for an array.
    """

    n: int
    left_out: IndexArray

    def __len__(self) -> int:
        return self.n - len(self.left_out)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        others = np.ones(self.n, dtype=bool)
        others[self.left_out] = False
        return np.flatnonzero(others).astype(np.int32 if dtype is None else dtype)
