"""Zero mean and unit spread, for inputs and for the target.

Everything is accumulated in double precision over chunks of rows, so that a large table is never copied whole in double
precision. ``counts`` says how often each row occurs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.errors import InvalidParameterError
from bdkn.typing import FloatArray

LIMIT = 1e18
"""Scaled inputs are clipped to ±LIMIT: beyond it single precision overflows to inf inside a network."""

_LARGE = 1e150
"""The square of what is larger may be infinite, and that of its inverse zero."""

_CHUNK_CELLS = 1 << 18
"""Table cells taken at once: two megabytes in double precision."""

_ROUNDINGS = 10
"""Rounding errors a column may spread over and still be constant."""


@dataclass(frozen=True)
class Standardizer:
    """Column-wise (x - mean) / scale; a column that is constant up to rounding has scale 1."""

    mean: FloatArray
    scale: FloatArray

    @classmethod
    def fit(cls, X: ArrayLike, counts: FloatArray | None = None) -> Standardizer:
        """Return the standardizer of the columns of ``X``, rows counted ``counts`` times (none: once each)."""
        rows = np.asarray(X)
        low, high = rows.min(axis=0).astype(np.float64), rows.max(axis=0).astype(np.float64)
        peak = np.maximum(np.abs(low), np.abs(high))
        peak[peak == 0] = 1.0
        share = np.full(len(rows), 1 / len(rows)) if counts is None else counts / counts.sum()
        # In units of the column's largest entry nothing overflows, whatever the column's own units are.
        mean: FloatArray = sum(share[part] @ (rows[part] / peak) for part in _parts(rows))
        variance: FloatArray = sum(share[part] @ (rows[part] / peak - mean) ** 2 for part in _parts(rows))
        scale = np.sqrt(variance) * peak
        constant = (high / peak - low / peak <= _ROUNDINGS * _precision(rows)) | (scale == 0)
        return cls(np.where(constant, low, mean * peak), np.where(constant, 1.0, scale))

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return the scaled rows, C-contiguous in single precision and finite for every finite input."""
        rows = np.asarray(X)
        scaled = np.empty(rows.shape, dtype=np.float32)
        for part in _parts(rows):
            with np.errstate(over="ignore"):
                scaled[part] = np.clip((rows[part] - self.mean) / self.scale, -LIMIT, LIMIT)
        return scaled


@dataclass(frozen=True)
class TargetScaler:
    """(y - mean) / scale for the target; the default leaves it alone."""

    mean: float = 0.0
    scale: float = 1.0

    @classmethod
    def fit(cls, y: FloatArray, counts: FloatArray | None = None) -> TargetScaler:
        """Return the scaler of ``y``, rows counted ``counts`` times (none: once each)."""
        column = Standardizer.fit(y[:, None], counts)
        return cls(float(column.mean[0]), float(column.scale[0]))

    @property
    def squared(self) -> float:
        """What variances are multiplied by to be in squared units of the target; raise if no number can hold those."""
        if not 1 / _LARGE <= self.scale <= _LARGE:
            raise InvalidParameterError(
                f"variances must be numbers, and squares of a target that spreads over {self.scale:.3g} are not: ask "
                "for return_std, quantiles or intervals, or fit to targets in other units"
            )
        return self.scale**2

    def transform(self, y: FloatArray) -> FloatArray:
        """Return the scaled target in double precision."""
        return (y - self.mean) / self.scale


def _precision(rows: NDArray[Any]) -> float:
    """Return the relative rounding error of the entries."""
    return float(np.finfo(np.result_type(rows.dtype, np.float32)).eps)


def _parts(rows: NDArray[np.generic]) -> Iterator[slice]:
    step = max(1, _CHUNK_CELLS // rows.shape[1])
    for start in range(0, len(rows), step):
        yield slice(start, start + step)
