"""Piecewise-linear encoding of columns by bins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bdkn.storage.fields import integers, must, singles, stored
from bdkn.typing import Array, Float32Array, FloatArray, IndexArray

_FIT_ROWS = 50_000
"""Maximum number of rows from which quantiles are computed; of a larger table, evenly spaced rows are used."""

_MIN_SCALE = 1e-2
"""Minimum standard deviation of a feature, reached if about one row in ten thousand lies beyond the bin."""


class Bins(NamedTuple):
    """The bins of an encoding for compiled code: their columns, and their lower ends, widths, means, scales (4, m)."""

    columns: NDArray[np.int64]
    numbers: Float32Array


NO_BINS = Bins(np.zeros(0, dtype=np.int64), np.zeros((4, 0), dtype=np.float32))


@stored(may_be_empty=("m",))
@dataclass(frozen=True, eq=False)
class PiecewiseLinear:
    """Encoding of standardized inputs: the inputs and, for each bin of a column, the position of a value in the bin.

    The feature of a bin is clip((x - lower) / width, 0, 1): 0 below the bin, 1 above it, linear within. A function that
    is linear in these features is continuous and piecewise linear in x, and constant outside the bins (Gorishniy et
    al., "On Embeddings for Numerical Features in Tabular Deep Learning", 2022). Features are standardized, as the
    inputs are. ``columns`` (m,), ``lower`` (m,) and ``width`` (m,) are the column, the lower end and the width of each
    bin; ``mean`` (m,) and ``scale`` (m,) are those of its feature.
    """

    columns: Annotated[IndexArray, integers("m")]
    lower: Annotated[Float32Array, singles("m")]
    width: Annotated[Float32Array, singles("m", above=0.0)]
    mean: Annotated[Float32Array, singles("m")]
    scale: Annotated[Float32Array, singles("m", above=0.0)]

    def check(self) -> None:
        """Raise unless bins are in order."""
        same = np.diff(self.columns) == 0
        must(bool((np.diff(self.columns) >= 0).all()), "columns must be in order")
        must(bool((np.diff(self.lower)[same] > 0).all()), "the bins of a column must be in order")

    @classmethod
    def fit(cls, X: Float32Array, n_bins: int, counts: FloatArray | None = None) -> PiecewiseLinear:
        """Return the encoding with about ``n_bins`` bins per column that contain equal numbers of rows.

        A column with fewer distinct values has one bin between neighbouring values; a column with two has none.
        """
        step = -(-len(X) // _FIT_ROWS)
        rows, share = X[::step], None if counts is None else counts[::step]
        edges = [_edges(column, n_bins, share) for column in rows.T]
        columns = np.repeat(np.arange(len(edges)), [max(0, len(edge) - 1) for edge in edges])
        lower = np.concatenate([edge[:-1] for edge in edges]).astype(np.float32)
        width = np.concatenate([np.diff(edge) for edge in edges]).astype(np.float32)
        features = np.clip((rows[:, columns] - lower) / width, 0.0, 1.0).astype(np.float64)
        mean = np.average(features, axis=0, weights=share)
        scale = np.sqrt(np.average((features - mean) ** 2, axis=0, weights=share))
        return cls(columns, lower, width, mean.astype(np.float32), np.maximum(scale, _MIN_SCALE).astype(np.float32))

    def __len__(self) -> int:
        return len(self.columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PiecewiseLinear) and self._bytes() == other._bytes()

    def __hash__(self) -> int:
        return hash(self._bytes())

    def _bytes(self) -> tuple[bytes, ...]:
        return tuple(part.tobytes() for part in (self.columns, self.lower, self.width, self.mean, self.scale))

    def transform(self, X: Array) -> Float32Array:
        """Return inputs (n, p + m): the columns of ``X`` (n, p), then the features of the bins."""
        inputs = np.empty((len(X), X.shape[1] + len(self)), dtype=np.float32)
        inputs[:, : X.shape[1]] = X
        features = inputs[:, X.shape[1] :]
        np.subtract(X[:, self.columns], self.lower, out=features)
        np.divide(features, self.width, out=features)
        np.clip(features, 0.0, 1.0, out=features)
        np.subtract(features, self.mean, out=features)
        np.divide(features, self.scale, out=features)
        return inputs

    @property
    def bins(self) -> Bins:
        """The bins as arrays for compiled code."""
        numbers = np.array([self.lower, self.width, self.mean, self.scale], dtype=np.float32)
        return Bins(self.columns.astype(np.int64), numbers)


def n_binned_columns(X: Float32Array) -> int:
    """Return the number of columns with more than two values; bins add nothing to the others."""
    rows = X[:: -(-len(X) // _FIT_ROWS)]
    return sum(bool(((column > column.min()) & (column < column.max())).any()) for column in rows.T)


def _edges(column: Float32Array, n_bins: int, counts: FloatArray | None) -> FloatArray:
    """Return the ends of a column's bins; none if it has at most two values."""
    order = np.argsort(column, kind="stable")
    values = column[order].astype(np.float64)
    distinct = np.unique(values)
    if len(distinct) <= 2:
        return np.empty(0)
    if len(distinct) <= n_bins + 1:
        return distinct
    total = np.arange(1, len(values) + 1) if counts is None else np.cumsum(counts[order])
    levels = np.linspace(0.0, 1.0, n_bins + 1)[1:-1] * total[-1]
    inner = values[np.searchsorted(total, levels)]
    return np.unique(np.concatenate([values[:1], inner, values[-1:]]))
