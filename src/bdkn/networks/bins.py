"""Piecewise-linear encoding of columns by bins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from bdkn.lazy import lazy
from bdkn.networks.mlp import MixedNetworks, Networks, Predictor
from bdkn.storage.fields import Part, integers, must, singles, stored
from bdkn.typing import Array, BoolArray, Float32Array, FloatArray, IndexArray

if TYPE_CHECKING:
    from bdkn.networks.compiled import Bins


_FIT_ROWS = 50_000
"""Rows from which quantiles are computed; of a larger table, evenly spaced rows are taken."""

_LEAST_SCALE = 1e-2
"""The least standard deviation of a feature: that of a bin which a row in ten thousand lies beyond."""


@stored(may_be_empty=("m",))
@dataclass(frozen=True, eq=False)
class PiecewiseLinear:
    """Encoding of standardized inputs: the inputs and, for each bin of a column, how far a value lies through the bin.

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
        """Return the encoding with about ``n_bins`` bins per column that hold equally many rows.

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
        return cls(columns, lower, width, mean.astype(np.float32), np.maximum(scale, _LEAST_SCALE).astype(np.float32))

    def __len__(self) -> int:
        return len(self.columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PiecewiseLinear) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

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

    @lazy
    def bins(self) -> Bins:
        """The bins as compiled code takes them."""
        from bdkn.networks.compiled import Bins

        numbers = np.stack([self.lower, self.width, self.mean, self.scale])
        return Bins(np.array(self.columns, dtype=np.int64), numbers.astype(np.float32))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "bins"}  # they can be made again

    @property
    def _key(self) -> tuple[bytes, ...]:
        return tuple(part.tobytes() for part in (self.columns, self.lower, self.width, self.mean, self.scale))


@stored
@dataclass(frozen=True)
class EncodedNetworks:
    """Networks of one shape that see their inputs through an encoding."""

    encoding: PiecewiseLinear
    networks: Annotated[Predictor, Part(Networks)]

    def check(self) -> None:
        """Raise unless the networks receive the columns, and a feature for each bin of one of them."""
        n = self.n_columns
        must(n >= 1, "networks must have more inputs than there are bins")
        must(self.encoding.columns.max(initial=-1) < n, f"bins must be of columns from 0 to {n - 1}")

    @property
    def n_columns(self) -> int:
        """The number of columns that the networks receive."""
        return int(self.networks.n_columns) - len(self.encoding)  # type: ignore[attr-defined]

    @property
    def spec(self) -> tuple[PiecewiseLinear, Any]:
        """The encoding and the shape: networks for which both are equal can be in one stack."""
        return self.encoding, getattr(self.networks, "spec", None)

    def __len__(self) -> int:
        return len(self.networks)

    def __getitem__(self, numbers: Sequence[int] | IndexArray) -> EncodedNetworks:
        return EncodedNetworks(self.encoding, self.networks[numbers])

    @classmethod
    def concatenate(cls, parts: Sequence[EncodedNetworks]) -> EncodedNetworks:
        """Return all networks of several stacks with one encoding and one shape."""
        stacks = [part.networks for part in parts]
        return cls(parts[0].encoding, type(stacks[0]).concatenate(stacks))

    def is_finite(self) -> BoolArray:
        """Return, for each network, whether all its weights are finite."""
        return self.networks.is_finite()

    def outputs(self, X: Array) -> tuple[Array, Array]:
        """Return the means and variances of rows, each (H, n)."""
        networks = self.networks
        if isinstance(networks, Networks) and networks.is_compiled:
            return networks.outputs_with(X, self.encoding.bins)
        return networks.outputs(self.encoding.transform(X))


def with_encoding(encoding: PiecewiseLinear, networks: Predictor) -> Predictor:
    """Return networks that were trained on encoded inputs as networks of the inputs themselves."""
    if isinstance(networks, MixedNetworks):
        return MixedNetworks(tuple(EncodedNetworks(encoding, stack) for stack in networks.stacks), networks.order)
    return EncodedNetworks(encoding, networks)


def n_binned_columns(X: Float32Array) -> int:
    """Return the number of columns that have more than two values, so that bins have something to add."""
    step = -(-len(X) // _FIT_ROWS)
    return sum(_has_bins(column) for column in X[::step].T)


def _has_bins(column: Float32Array) -> bool:
    """Return whether a column has more than two values."""
    low, high = column.min(), column.max()
    return bool(((column > low) & (column < high)).any())


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
