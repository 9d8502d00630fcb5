"""Scaling of inputs and targets.

Sums are accumulated in double precision over blocks of rows, so that a large table is never copied whole in double
precision, and need not be in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing

from bdkn.blocks import CACHED_CELLS, row_slices, rows_within
from bdkn.data.rows import BLOCK_ROWS, Rows, RowSource, table_blocks, take_rows
from bdkn.data.target_values import TargetValues, find_values
from bdkn.errors import InvalidParameterError
from bdkn.lazy import lazy
from bdkn.predictive import Predictive, Transformed
from bdkn.predictive.links import IDENTITY, Link
from bdkn.storage.fields import Positive, flags, floats, must, stored
from bdkn.typing import BoolArray, Float32Array, FloatArray, IndexArray

_SAMPLE = 4096
"""Number of rows of a large table from which a robust scale is computed."""

_NORMAL = 1.4826
"""Ratio of the standard deviation of a normal distribution to its median absolute deviation."""


def robust_scale(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the median of each column and its robust standard deviation, zero for a constant column.

    The latter is 1.48 times the median absolute deviation from the median. If most deviations are zero, the median of
    the others is taken: a column of few ones among zeros has the deviation of a one.
    """
    with np.errstate(over="ignore"):
        centre = np.median(table / 2, axis=0) * 2  # the median of two numbers is half of their sum, which may overflow
        deviations = np.abs(table - centre)
    spread = np.median(deviations / 2, axis=0) * 2
    for column in np.flatnonzero(spread == 0):
        moved = deviations[deviations[:, column] > 0, column]
        spread[column] = np.median(moved / 2) * 2 if len(moved) else 0.0
    with np.errstate(over="ignore"):
        return np.asarray(centre), np.minimum(_NORMAL * spread, np.finfo(np.float64).max)


def sampled_scale(rows: RowSource) -> tuple[FloatArray, FloatArray]:
    """Return the robust scale of the columns of a table; of a large table, from equally spaced rows."""
    step, start, parts = max(1, len(rows) // _SAMPLE), 0, []
    for part in rows.blocks():
        parts.append(np.asarray(part.X[-start % step :: step], dtype=np.float64))
        start += len(part)
    return robust_scale(np.concatenate(parts))


LIMIT = 1e18
"""Maximum absolute value of a scaled number; the square of a larger one overflows in single precision."""

_TRIMMED = 0.01
"""Fraction of the smallest, and of the largest, numbers of a column that its scale ignores."""

_ROUNDING = 2e-6
"""Maximum relative change of a constant column that may be due to rounding in single precision."""

_ROUNDINGS = 10
"""Maximum range of a column that counts as constant, in rounding errors."""

_LARGE = 1e150
"""Scale above which squares may overflow; below its inverse, they may underflow."""

OUTLIER_RATIO = 30.0
"""Minimum ratio of the standard deviation of a column to the robust one if the column has outliers."""

BEND = 8.0
"""Robust standard deviations beyond which inputs of a column with outliers grow logarithmically."""


@stored
@dataclass(frozen=True, eq=False)
class Columns:
    """Center, scale and range (p,) of each column of a table of any kind; missing numbers are replaced by the center.

    ``known`` has the training values of each column that is not numeric, and None for the others; it is empty if all
    columns are numeric. A value of such a column becomes 0 if it is known, else 1.
    """

    center: Annotated[FloatArray, floats("p")]
    scale: Annotated[FloatArray, floats("p", low=0.0)]
    low: Annotated[FloatArray, floats("p")]
    high: Annotated[FloatArray, floats("p")]
    known: tuple[tuple[str, ...] | None, ...] = ()

    def check(self) -> None:
        """Raise unless ranges are in order, and ``known`` has an entry for each column or none."""
        must(bool((self.low <= self.high).all()), "low must not exceed high")
        must(len(self.known) in (0, len(self.low)), "known must have an entry for each column, or none")

    @classmethod
    def fit(cls, X: Any, some: IndexArray) -> Columns:
        """Return the ranges of all rows, and the centers and scales of ``some`` rows, without repeated ones."""
        known = _known_values(X)
        low, high = np.full((2, X.shape[1]), np.nan)
        for block in table_blocks(X):
            table = _numbers(block, known)
            low = np.fmin(low, np.fmin.reduce(table, axis=0))
            high = np.fmax(high, np.fmax.reduce(table, axis=0))
        part = np.unique(_numbers(take_rows(X, some), known), axis=0)
        low, high = (np.where(np.isnan(end), 0.0, end) for end in (low, high))  # all numbers are missing
        peak = np.maximum(np.abs(low), np.abs(high))
        low = np.where(high - low <= _ROUNDINGS * _precision(X) * peak, high, low)
        center = np.where(low == high, low, _without_missing(np.median, part))
        return cls(center, _scales(part, low, high), low, high, known)

    @property
    def constant(self) -> BoolArray:
        """Whether a column (p,) has one value only."""
        return np.asarray(self.low == self.high)

    def numbers(self, X: Any) -> FloatArray:
        """Return the table as numbers (n, p), in the units of the columns."""
        table = _numbers(X, self.known)
        missing = np.isnan(table)
        return np.where(missing, self.center, table) if missing.any() else table

    def standardize(self, table: FloatArray, jump: float) -> FloatArray:
        """Return (x - center)/scale of each number, plus ``jump`` if the column was constant in training and is not."""
        with np.errstate(over="ignore"):
            Z = np.clip((table - self.center) / self.scale, -LIMIT, LIMIT)
        if self._some_constant:
            changed = self.constant & (np.abs(Z) > _ROUNDING)
            Z = np.where(changed, Z + np.copysign(jump, Z), np.where(self.constant, 0.0, Z))
        return Z

    @lazy
    def _some_constant(self) -> bool:
        return bool(self.constant.any())

    def beyond(self, table: FloatArray) -> FloatArray:
        """Return the distance (n, p) of each number from the range of its column, in units of its scale."""
        with np.errstate(over="ignore"):
            beyond = np.clip(np.maximum(self.low - table, table - self.high) / self.scale, 0.0, LIMIT)
        return np.where(self.constant & (beyond <= _ROUNDING), 0.0, beyond) if self._some_constant else beyond


def _known_values(X: Any) -> tuple[tuple[str, ...] | None, ...]:
    """Return the distinct values of each column that is not numeric; empty if all are."""
    if issparse(X) or (isinstance(X, np.ndarray) and X.dtype.kind in "fiub"):
        return ()
    columns = [np.asarray(_safe_indexing(X, j, axis=1)) for j in range(X.shape[1])]
    if all(column.dtype.kind in "fiub" for column in columns):
        return ()
    return tuple(None if _is_numeric(column) else tuple(np.unique(column.astype(str)).tolist()) for column in columns)


def _is_numeric(column: Any) -> bool:
    if column.dtype.kind != "O":
        return column.dtype.kind in "fiubmM"
    try:
        column.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _numbers(X: Any, known: tuple[tuple[str, ...] | None, ...]) -> FloatArray:
    """Return the table as numbers (n, p); missing ones are nan."""
    if not known:
        return np.asarray(X.toarray() if issparse(X) else X, dtype=np.float64)
    columns = [np.asarray(_safe_indexing(X, j, axis=1)) for j in range(X.shape[1])]
    return np.column_stack([_column(column, values) for column, values in zip(columns, known, strict=True)])


def _column(column: Any, values: tuple[str, ...] | None) -> FloatArray:
    if values is None:
        if column.dtype.kind in "mM":
            return np.where(np.isnat(column), np.nan, column.astype(np.int64))
        return np.asarray(column, dtype=np.float64)
    return np.asarray(~np.isin(column.astype(str), values), dtype=np.float64)


def _without_missing(function: Any, table: FloatArray) -> FloatArray:
    """Return a function of the numbers of each column without missing ones, 0 if all are missing."""
    known = ~np.isnan(table)
    return np.array([function(column[at]) if at.any() else 0.0 for column, at in zip(table.T, known.T, strict=True)])


def _precision(X: Any) -> float:
    """Return the relative rounding error of the numbers of a table."""
    is_single = isinstance(X, np.ndarray) and X.dtype == np.float32
    return float(np.finfo(np.float32 if is_single else np.float64).eps)


def _scales(table: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the trimmed standard deviation of each column; of a constant column, its absolute value or 1.

    If that is zero, the standard deviation of all numbers is taken.
    """
    varied = _without_missing(_trimmed_std, table)
    varied = np.where(varied > 0.0, varied, high / 2.0 - low / 2.0)  # equal in the sample, but not in all rows
    peak = np.maximum(np.abs(low), np.abs(high))
    return np.where(low < high, varied, np.where(peak > 0.0, peak, 1.0))


def _trimmed_std(column: FloatArray) -> float:
    peak = float(np.abs(column).max()) or 1.0
    unit = column / peak
    ends = np.quantile(unit, (_TRIMMED, 1.0 - _TRIMMED))
    return peak * float(np.clip(unit, *ends).std() or unit.std())


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

    Outliers would make the standard deviation so large that all other values become nearly equal. In columns with
    outliers, marked by ``wild`` (None: there are none), mean and scale are the median and a robust standard deviation,
    and inputs beyond ``BEND`` grow logarithmically.
    """

    mean: Annotated[FloatArray, floats("p")]
    scale: Annotated[FloatArray, floats("p", above=0.0)]
    wild: Annotated[BoolArray | None, flags("p")] = None

    @classmethod
    def fit(cls, rows: RowSource, *, robust: bool = True) -> Standardizer:
        """Return the standardizer of the columns of ``rows``, robust for columns with outliers."""
        low, high, total, precision = _ranges(rows)
        peak = np.maximum(np.abs(low), np.abs(high))
        peak[peak == 0] = 1.0
        size = rows_within(CACHED_CELLS, len(low))

        def average(function: Callable[[FloatArray], FloatArray]) -> FloatArray:
            # In units of the largest entry of a column nothing overflows.
            parts = (_shares(part, total) @ function(part.X / peak) for part in rows.blocks(size))
            return np.asarray(sum(parts))

        mean = average(lambda x: x)
        scale = np.sqrt(average(lambda x: (x - mean) ** 2)) * peak
        constant = (high / peak - low / peak <= _ROUNDINGS * precision) | (scale == 0)
        plain = cls(np.where(constant, low, mean * peak), np.where(constant, 1.0, scale))
        if not robust:
            return plain
        center, spread = sampled_scale(rows)
        wild = ~constant & (spread > 0) & (plain.scale / OUTLIER_RATIO > spread)
        if not wild.any():
            return plain
        return cls(np.where(wild, center, plain.mean), np.where(wild, spread, plain.scale), wild)

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
        for part in row_slices(len(table), rows_within(CACHED_CELLS, table.shape[1])):
            with np.errstate(over="ignore"):
                inputs = table[part] - self.mean
                inputs /= self.scale
                if self.wild is not None:
                    inputs[:, self.wild] = _with_log_tails(inputs[:, self.wild])
                scaled[part] = np.clip(inputs, -LIMIT, LIMIT, out=inputs)
        return scaled


@stored
@dataclass(frozen=True)
class TargetScaler:
    """Encoder that computes (g(y) - mean) / scale of the target y, with a link g; by default, the target itself.

    ``values`` are those of a discrete target, or those shared by many rows, if there are any.
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
        """The factor from scaled variances to those of the target; raise if it would overflow or underflow."""
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
        # By rounding, the inverse of a transformed target on a bound may lie beyond the bound.
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
        """Return the inputs and the scaled targets of rows."""
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


def _with_log_tails(inputs: FloatArray) -> FloatArray:
    """Return inputs that grow logarithmically beyond ``BEND``."""
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
