"""Encoders, which turn the columns of a table into inputs of networks and targets into scaled units.

Sums are accumulated in double precision over blocks of rows, so that a large table is never copied whole in double
precision, and need not be in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.errors import InvalidParameterError
from bdkn.members.robust_scale import sampled_scale
from bdkn.members.target_values import TargetValues, find_values
from bdkn.persistence.fields import Positive, flags, floats, stored
from bdkn.predictive import Predictive, Transformed
from bdkn.predictive.links import IDENTITY, Link
from bdkn.rows import BLOCK_ROWS, Rows, RowSource
from bdkn.typing import BoolArray, Float32Array, FloatArray

LIMIT = 1e18
"""Inputs are clipped to ±LIMIT: beyond it single precision overflows to infinity inside a network."""

_LARGE = 1e150
"""The square of a larger number may overflow, and that of its inverse underflow."""

_BLOCK_CELLS = 1 << 18
"""Cells of a block: two megabytes in double precision."""

WILD = 30.0
"""A column has wild values if its standard deviation is more than this many times a robust one."""

BEND = 8.0
"""Inputs of a column with wild values grow as a logarithm beyond this many robust standard deviations."""

_ROUNDINGS = 10
"""Rounding errors over which the values of a constant column may extend."""


class Encoder(Protocol):
    """Encoder of the columns of a table as inputs; it is fitted on training rows and saved with a model."""

    @property
    def n_columns(self) -> int:
        """The number of columns of the table."""

    def check_rows(self, X: ArrayLike) -> NDArray[Any]:
        """Return the table as an array; raise if its rows cannot be encoded."""

    def transform(self, X: ArrayLike) -> Float32Array:
        """Return the inputs (n, n_inputs), C-contiguous in single precision and finite."""


@stored
@dataclass(frozen=True)
class Standardizer:
    """Encoder that computes (x - mean) / scale of each column; the scale of a column constant up to rounding is 1.

    A few wild values would make the standard deviation so large that all other values become nearly equal. In such
    columns, those of ``wild`` (None: there are none), mean and scale are the median and a robust standard deviation,
    and inputs beyond ``BEND`` grow as a logarithm.
    """

    mean: Annotated[FloatArray, floats("p")]
    scale: Annotated[FloatArray, floats("p", above=0.0)]
    wild: Annotated[BoolArray | None, flags("p")] = None

    @classmethod
    def fit(cls, rows: RowSource, *, robust: bool = True) -> Standardizer:
        """Return the standardizer of the columns of ``rows``, robust where they have wild values."""
        low, high, total, precision = _ranges(rows)
        peak = np.maximum(np.abs(low), np.abs(high))
        peak[peak == 0] = 1.0
        size = _block_rows(len(low))

        def average(function: Callable[[FloatArray], FloatArray]) -> FloatArray:
            # In units of the column's largest entry nothing overflows, whatever the column's own units are.
            parts = (_shares(part, total) @ function(part.X / peak) for part in rows.blocks(size))
            return np.asarray(sum(parts))

        mean = average(lambda x: x)
        scale = np.sqrt(average(lambda x: (x - mean) ** 2)) * peak
        constant = (high / peak - low / peak <= _ROUNDINGS * precision) | (scale == 0)
        plain = cls(np.where(constant, low, mean * peak), np.where(constant, 1.0, scale))
        return plain._tamed(rows, ~constant) if robust else plain

    def _tamed(self, rows: RowSource, varies: BoolArray) -> Standardizer:
        """Return the standardizer with robust scales of the columns with wild values, itself if there are none."""
        centre, spread = sampled_scale(rows)
        wild = varies & (spread > 0) & (self.scale / WILD > spread)
        if not wild.any():
            return self
        return Standardizer(np.where(wild, centre, self.mean), np.where(wild, spread, self.scale), wild)

    @property
    def n_columns(self) -> int:
        """The number of columns of the table."""
        return len(self.mean)

    def check_rows(self, X: ArrayLike) -> NDArray[Any]:
        """Return the table as an array; raise unless it has all columns and finite numbers."""
        table = np.asarray(X)
        if table.ndim != 2 or table.shape[1] != self.n_columns:
            raise InvalidParameterError(
                f"rows must be (n, {self.n_columns}), their columns in the order of the training rows; got shape "
                f"{table.shape}"
            )
        if not np.isfinite(table).all():
            raise InvalidParameterError("rows must be finite; they hold NaN or infinity: drop or impute such rows")
        return table

    def transform(self, X: ArrayLike) -> Float32Array:
        """Return the scaled rows, C-contiguous in single precision and finite for every finite input."""
        table = np.asarray(X)
        scaled = np.empty(table.shape, dtype=np.float32)
        for part in _parts(table):
            with np.errstate(over="ignore"):
                inputs = table[part] - self.mean
                inputs /= self.scale
                if self.wild is not None:
                    inputs[:, self.wild] = _bent(inputs[:, self.wild])
                scaled[part] = np.clip(inputs, -LIMIT, LIMIT, out=inputs)
        return scaled


@stored
@dataclass(frozen=True)
class TargetScaler:
    """Encoder that computes (g(y) - mean) / scale of the target y, with a link g; by default, the target itself.

    ``values`` are those of a lattice, or those that many rows share, if there are any.
    """

    mean: float = 0.0
    scale: Positive = 1.0
    link: Link = IDENTITY
    values: TargetValues | None = None

    @classmethod
    def fit(
        cls,
        y: FloatArray,
        counts: FloatArray | None = None,
        link: Link = IDENTITY,
        values: TargetValues | None = None,
    ) -> TargetScaler:
        """Return the scaler of the targets ``y``, each counted ``counts`` times (None: once)."""
        linked = link.forward(y)
        column = Standardizer.fit(Rows(linked[:, None], linked, counts), robust=False)
        return cls(float(column.mean[0]), float(column.scale[0]), link, values)

    @property
    def is_linear(self) -> bool:
        """Whether the link is the identity and the target has no bounds."""
        return self.link == IDENTITY

    @property
    def squared(self) -> float:
        """The factor from scaled variances to squared units of the target; raise if it would overflow or underflow."""
        if not 1 / _LARGE <= self.scale <= _LARGE:
            raise InvalidParameterError(
                f"variances must be numbers, but the square of the targets' standard deviation, {self.scale:.3g}, is "
                "none in double precision: use return_std, quantiles or intervals, or fit to targets in other units"
            )
        return self.scale**2

    def transform(self, y: FloatArray) -> FloatArray:
        """Return the scaled target in double precision."""
        return self.standardize(self.link.forward(y))

    def standardize(self, linked: FloatArray) -> FloatArray:
        """Return g(y) in scaled units."""
        return (linked - self.mean) / self.scale

    def inverse(self, scaled: FloatArray) -> FloatArray:
        """Return the targets of numbers in scaled units."""
        # A target on a bound, through its link and back, may be beyond it by rounding.
        return np.clip(self.link.inverse(self.mean + self.scale * scaled), *self.link.support)

    def restore(self, linked: Predictive) -> Predictive:
        """Return the distribution of y for that of g(y)."""
        return linked if self.is_linear else Transformed(linked, self.link)

    def log_derivative(self, scaled: FloatArray) -> FloatArray:
        """Return the logarithm of the derivative of the scaled target by y, at numbers in scaled units."""
        slope = 0.0 if self.is_linear else self.link.log_derivative(self.inverse(scaled))
        return np.asarray(slope - np.log(self.scale))


@dataclass(frozen=True, eq=False)
class Encoders:
    """The encoder of a table's columns and that of the targets."""

    inputs: Encoder
    targets: TargetScaler

    def transform(self, rows: Rows) -> Rows:
        """Return the rows as networks see them: inputs and scaled targets."""
        return Rows(self.inputs.transform(rows.X), self.targets.transform(rows.y), rows.counts)


def encode(
    rows: Rows,
    *,
    standardize_y: bool = True,
    fit_encoder: Callable[[RowSource], Encoder] = Standardizer.fit,
    link: Link = IDENTITY,
) -> tuple[Rows, Encoders]:
    """Fit the encoders to training rows; return the encoded rows and the encoders."""
    values = find_values(rows.y, rows.counts)
    targets = (
        TargetScaler.fit(rows.y, rows.counts, link, values) if standardize_y else TargetScaler(0.0, 1.0, link, values)
    )
    encoders = Encoders(fit_encoder(rows), targets)
    return encoders.transform(rows), encoders


def _bent(inputs: FloatArray) -> FloatArray:
    """Return the inputs, those beyond ``BEND`` as a logarithm."""
    size = np.abs(inputs)
    return np.where(size > BEND, np.sign(inputs) * (BEND + np.log(np.maximum(size, BEND) / BEND)), inputs)


def _ranges(rows: RowSource) -> tuple[FloatArray, FloatArray, float, float]:
    """Return the smallest and largest entry of each column, the number of rows counted, and the entries' precision."""
    low = high = np.empty(0)
    total, precision = 0.0, 0.0
    for part in rows.blocks(BLOCK_ROWS):
        table = np.asarray(part.X)
        least, most = table.min(axis=0).astype(np.float64), table.max(axis=0).astype(np.float64)
        low, high = (np.minimum(low, least), np.maximum(high, most)) if len(low) else (least, most)
        total += float(len(part) if part.counts is None else part.counts.sum())
        precision = float(np.finfo(np.result_type(table.dtype, np.float32)).eps)
    return low, high, total, precision


def _shares(rows: Rows, total: float) -> FloatArray:
    """Return the share of each row in the total count of rows."""
    return np.full(len(rows), 1 / total) if rows.counts is None else rows.counts / total


def _parts(table: NDArray[Any]) -> Iterator[slice]:
    step = _block_rows(table.shape[1])
    for start in range(0, len(table), step):
        yield slice(start, start + step)


def _block_rows(n_columns: int) -> int:
    return max(1, _BLOCK_CELLS // n_columns)
