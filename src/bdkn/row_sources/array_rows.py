"""Rows of arrays, memory maps and data frames in memory, in blocks."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bdkn.errors import InvalidParameterError
from bdkn.row_sources.blocks import Passes, Piece, block_rows
from bdkn.row_sources.tables import cut
from bdkn.rows import Rows
from bdkn.tables.reading import is_frame

_SHARED = ("r", "r+", "w+")
"""Modes of memory maps whose pages can be read from the file again."""


class ArrayRows:
    """Rows of arrays or memory maps, or of a data frame in memory, read in blocks.

    A memory map is never read whole: after each block its pages are given back to the system.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features) or data frame
        Columns. A memory map comes from ``numpy.load(path, mmap_mode="r")`` or ``numpy.memmap``.
    y : array-like of shape (n_samples,)
        Targets, which may be a memory map, too.
    sample_weight : array-like of shape (n_samples,), optional
        How many times each row is counted.
    groups : array-like of shape (n_samples,), optional
        Labels; rows with equal labels belong together.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import ArrayRows
    >>> source = ArrayRows(np.arange(10.0).reshape(5, 2), [1.0, 2.0, 3.0, 4.0, 5.0])
    >>> len(source), [block.y.tolist() for block in source.blocks(2)]
    (5, [[1.0, 2.0], [3.0, 4.0], [5.0]])
    """

    def __init__(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> None:
        self.X = X if is_frame(X) else np.asanyarray(X)
        self.y, self.sample_weight, self.groups = (
            None if part is None else np.asanyarray(part) for part in (y, sample_weight, groups)
        )
        self._maps = [part for part in (self.X, self.y, self.sample_weight, self.groups) if isinstance(part, np.memmap)]
        self._check_lengths()
        self._passes = Passes(n_rows=len(self.X))

    def __len__(self) -> int:
        return len(self.X)

    def blocks(self, size: int | None = None) -> Iterator[Rows]:
        """Yield all rows in order, in blocks of at most ``size`` rows.

        Parameters
        ----------
        size : int, optional
            Rows of a block; by default 65 536, of tables with more than 64 columns fewer.

        Returns
        -------
        blocks : iterator of Rows
            Blocks; all but the last have ``size`` rows.
        """
        return self._passes.blocks(self._pieces(size or block_rows(int(self.X.shape[1]))), size)

    def _pieces(self, size: int) -> Iterator[Piece]:
        parts = (self.y, self.sample_weight, self.groups)
        for start in range(0, len(self), size):
            stop = min(start + size, len(self))
            y, weights, groups = (None if part is None else part[start:stop] for part in parts)
            yield Piece(cut(self.X, start, stop), y, weights, groups)
            for part in self._maps:
                _give_back(part)

    def _check_lengths(self) -> None:
        if not getattr(self.X, "ndim", 2) == 2:
            raise InvalidParameterError(f"X must be a table, shape (n_samples, n_features); got shape {self.X.shape}")
        if self.y is None:
            raise InvalidParameterError("ArrayRows needs the targets of its rows; got y=None")
        for name, part in (("y", self.y), ("sample_weight", self.sample_weight), ("groups", self.groups)):
            if part is not None and part.shape[:1] != (len(self.X),):
                raise InvalidParameterError(
                    f"{name} must hold one value per row of X, shape ({len(self.X)},); got {part.shape}"
                )
        if not len(self.X):
            raise InvalidParameterError("there must be at least one row; got an X without rows")


def _give_back(array: Any) -> None:
    """Give the pages of a memory map back; whoever still uses some of them reads them again."""
    base = getattr(array, "_mmap", None)
    if isinstance(base, mmap.mmap) and getattr(array, "mode", "") in _SHARED and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)
