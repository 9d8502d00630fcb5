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
            yield self[start : start + _CHUNK_ROWS]

    def __getitem__(self, rows: NDArray[np.intp] | slice) -> TrainingRows:
        return TrainingRows(self.X[rows], self.y[rows], None if self.counts is None else self.counts[rows])
