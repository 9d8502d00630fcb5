"""Training rows as the members see them, a few thousand at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bdkn.members.member import FloatArray

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
            part = slice(start, start + _CHUNK_ROWS)
            yield TrainingRows(self.X[part], self.y[part], None if self.counts is None else self.counts[part])

    @property
    def total(self) -> float:
        """Rows, each counted as often as it occurs."""
        return float(len(self.y) if self.counts is None else self.counts.sum())

    def summed(self, values: FloatArray) -> FloatArray:
        """Return the sum over rows, the last axis, each counted as often as it occurs."""
        return np.asarray(values.sum(axis=-1) if self.counts is None else values @ self.counts)
