"""Training rows as the members see them, a few thousand at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.typing import FloatArray

_CHUNK_ROWS = 8192


@dataclass(frozen=True)
class TrainingRows:
    """Scaled rows, their scaled targets in double precision, and how often each occurs (none: once)."""

    X: NDArray[np.float32]
    y: FloatArray
    counts: FloatArray | None = None

    def parts(self) -> Iterator[TrainingRows]:
        """Yield the rows a few thousand at a time."""
        for start in range(0, len(self.X), _CHUNK_ROWS):
            yield self[start : start + _CHUNK_ROWS]

    def __getitem__(self, rows: NDArray[np.intp] | slice) -> TrainingRows:
        return TrainingRows(self.X[rows], self.y[rows], None if self.counts is None else self.counts[rows])


def digest(X: Any, y: FloatArray, counts: FloatArray | None) -> str:
    """Return a text that tells these rows, a table of any kind, their targets and counts from all others."""
    seen = hashlib.sha256()
    for part in (*_arrays(X), y, *(() if counts is None else (counts,))):
        seen.update(f"{part.dtype.str} {part.shape}".encode())
        for start in range(0, len(part), _CHUNK_ROWS):
            chunk = part[start : start + _CHUNK_ROWS]
            seen.update(repr(chunk.tolist()).encode() if chunk.dtype == object else np.ascontiguousarray(chunk).data)
    return seen.hexdigest()


def _arrays(X: Any) -> Iterator[NDArray[Any]]:
    """Yield what a table is made of: one array, a data frame's columns, or the parts of a sparse matrix."""
    if hasattr(X, "columns"):
        for name in X.columns:
            yield np.array([name], dtype=object)
            yield np.asarray(X[name])
    elif hasattr(X, "indptr"):
        yield from (X.data, X.indices, X.indptr)
    else:
        yield np.asarray(X)
