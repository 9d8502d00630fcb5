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
from bdkn.data.target_values import TargetValues
from bdkn.errors import InvalidParameterError
from bdkn.predictive import Predictive, Transformed
from bdkn.predictive.links import IDENTITY, Link
from bdkn.storage.fields import Positive, flags, floats, must, stored
from bdkn.typing import BoolArray, Float32Array, FloatArray, IndexArray

_SAMPLE = 4096
"""Minimum rows of a large table from which robust scales are computed; less than twice as many are taken."""

_NORMAL = 1.4826
"""Ratio of the standard deviation of a normal distribution to its median absolute deviation."""


def robust_scale(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the median of each column and its robust standard deviation, zero for a constant column.

    The latter is 1.48 times the median absolute deviation from the median. If that is zero, the median of the other
    deviations is taken, for example in a column of mostly zeros and a few ones.
    """
    with np.errstate(over="ignore"):
        centre = np.median(table / 2, axis=0) * 2  # halved, as the sum of two large numbers may overflow
        deviations = np.abs(table - centre)
    spread = np.median(deviations / 2, axis=0) * 2
    for column in np.flatnonzero(spread == 0):
        moved = deviations[deviations[:, column] > 0, column]
        spread[column] = np.median(moved / 2) * 2 if len(moved) else 0.0
    with np.errstate(over="ignore"):
        return np.asarray(centre), np.minimum(_NORMAL * spread, np.finfo(np.float64).max)


LIMIT = 1e18
"""Maximum absolute value of a scaled number; the square of a larger one overflows in single precision."""

_TRIMMED = 0.01
"""Fraction of the smallest, and of the largest, numbers of a column that its scale ignores."""

_ROUNDING = 2e-6
"""Maximum relative change of a value in a constant column that may be due to rounding in single precision."""

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
    """Center, scale and range (p,) of each column of a table of any type, by which distances of rows are measured.

    In contrast to a ``Standardizer``, the table may have missing numbers, which are replaced by the center, and columns
    that are not numeric: ``known`` has the training values of such a column, and None for a numeric one; it is empty if
    all columns are numeric. A value of such a column becomes 0 if it is known, else 1.
    """

    center: Annotated[FloatArray, floats("p")]
    scale: Annotated[FloatArray, floats("p", low=0.0)]
    low: Annotated[FloatArray, floats("p")]
    high: Annotated[FloatArray, floats("p")]
    known: tuple[tuple[str, ...] | None, ...] = ()

    def check(self) -> None:
        """Raise unless ranges are in order, and ``known`` is empty or has an entry for each column."""
        must(bool((self.low <= self.high).all()), "low must not exceed high")
        must(len(self.known) in (0, len(self.low)), "known must have an entry for each column, or none")

    @classmethod
    def fit(cls, X: Any, some: IndexArray) -> Columns:
        """Compute ranges from all rows, and centers and scales from the different ones among the rows ``some``."""
        known = _known_values(X)
        low, high = np.full((2, X.shape[1]), np.nan)
        for block in table_blocks(X):
            table = _numbers(block, known)
            low = np.fmin(low, np.fmin.reduce(table, axis=0))
            high = np.fmax(high, np.fmax.reduce(table, axis=0))
        low, high = (np.where(np.isnan(end), 0.0, end) for end in (low, high))  # nan if all numbers are missing
        is_single = isinstance(X, np.ndarray) and X.dtype == np.float32
        precision = float(np.finfo(np.float32 if is_single else np.float64).eps)
        low = np.where(high - low <= _ROUNDINGS * precision * np.maximum(np.abs(low), np.abs(high)), high, low)
        part = np.unique(_numbers(take_rows(X, some), known), axis=0)
        center = np.where(low == high, low, _by_column(np.median, part))
        scale = _by_column(_trimmed_std, part)
        scale = np.where(scale > 0.0, scale, high / 2.0 - low / 2.0)  # if only the rows ``some`` have a single value
        peak = np.maximum(np.abs(low), np.abs(high))
        scale = np.where(low < high, scale, np.where(peak > 0.0, peak, 1.0))
        return cls(center, scale, low, high, known)

    @property
    def constant(self) -> BoolArray:
        """Whether a column (p,) has one value only."""
        return np.asarray(self.low == self.high)

    def numbers(self, X: Any) -> FloatArray:
        """Return the table as numbers (n, p), with missing numbers replaced."""
        table = _numbers(X, self.known)
        missing = np.isnan(table)
        return np.where(missing, self.center, table) if missing.any() else table

    def standardize(self, table: FloatArray, jump: float) -> FloatArray:
        """Return (x - center)/scale of each number, farther from 0 by ``jump`` if it differs from a constant column."""
        with np.errstate(over="ignore"):
            Z = np.clip((table - self.center) / self.scale, -LIMIT, LIMIT)
        constant = self.constant
        if constant.any():
            changed = constant & (np.abs(Z) > _ROUNDING)
            Z = np.where(changed, Z + np.copysign(jump, Z), np.where(constant, 0.0, Z))
        return Z

    def beyond(self, table: FloatArray) -> FloatArray:
        """Return the distance (n, p) of each number from the range of its column, in units of its scale."""
        with np.errstate(over="ignore"):
            beyond = np.clip(np.maximum(self.low - table, table - self.high) / self.scale, 0.0, LIMIT)
        constant = self.constant
        return np.where(constant & (beyond <= _ROUNDING), 0.0, beyond) if constant.any() else beyond


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
    """Return the table as numbers (n, p), nan for missing ones."""
    if not known:
        return np.asarray(X.toarray() if issparse(X) else X, dtype=np.float64)
    columns = []
    for j, values in enumerate(known):
        column: Any = np.asarray(_safe_indexing(X, j, axis=1))
        if values is not None:
            columns.append(np.asarray(~np.isin(column.astype(str), values), dtype=np.float64))
        elif column.dtype.kind in "mM":
            columns.append(np.where(np.isnat(column), np.nan, column.astype(np.int64)))
        else:
            columns.append(np.asarray(column, dtype=np.float64))
    return np.column_stack(columns)


def _by_column(function: Callable[[FloatArray], float], table: FloatArray) -> FloatArray:
    """Return a function of the numbers of each column that are not missing, 0 if all are missing."""
    known = ~np.isnan(table)
    return np.array([function(column[at]) if at.any() else 0.0 for column, at in zip(table.T, known.T, strict=True)])


def _trimmed_std(column: FloatArray) -> float:
    """Return the standard deviation of a column clipped to its inner quantiles; if that is zero, without clipping."""
    peak = float(np.abs(column).max()) or 1.0
    unit = column / peak
    ends = np.quantile(unit, (_TRIMMED, 1.0 - _TRIMMED))
    return peak * float(np.clip(unit, *ends).std() or unit.std())


class Encoder(Protocol):
    """Encoder of the columns of a table as inputs, which is fitted to training rows and saved with a model."""

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
    """Encoder of each column as (x - mean) / scale; the scale of a column that is constant up to rounding is 1.

    Outliers would increase the standard deviation until all other values become nearly equal. For columns with
    outliers, marked in ``wild`` (None if there are none), mean and scale are the median and a robust standard
    deviation, and inputs beyond ``BEND`` grow logarithmically.
    """

    mean: Annotated[FloatArray, floats("p")]
    scale: Annotated[FloatArray, floats("p", above=0.0)]
    wild: Annotated[BoolArray | None, flags("p")] = None

    @classmethod
    def fit(cls, rows: RowSource, *, robust: bool = True) -> Standardizer:
        """Fit the standardizer to the columns of ``rows``; ``robust`` is whether outliers are treated separately."""
        low: Any = np.inf
        high: Any = -np.inf
        total, precision = 0.0, 0.0
        for part in rows.blocks(BLOCK_ROWS):
            table = np.asarray(part.X)
            low = np.minimum(low, table.min(axis=0).astype(np.float64))
            high = np.maximum(high, table.max(axis=0).astype(np.float64))
            total += float(len(part) if part.counts is None else part.counts.sum())
            precision = float(np.finfo(np.result_type(table.dtype, np.float32)).eps)
        peak = np.maximum(np.abs(low), np.abs(high))
        peak[peak == 0] = 1.0
        size = rows_within(CACHED_CELLS, len(low))

        def average(function: Callable[[FloatArray], FloatArray]) -> FloatArray:
            """Return the average of a function of the rows, in units of ``peak``, so that nothing overflows."""
            sums = []
            for part in rows.blocks(size):
                shares = np.full(len(part), 1 / total) if part.counts is None else part.counts / total
                sums.append(shares @ function(part.X / peak))
            return np.asarray(sum(sums))

        mean = average(lambda x: x)
        scale = np.sqrt(average(lambda x: (x - mean) ** 2)) * peak
        constant = (high / peak - low / peak <= _ROUNDINGS * precision) | (scale == 0)
        plain = cls(np.where(constant, low, mean * peak), np.where(constant, 1.0, scale))
        if not robust:
            return plain
        step, start, parts = max(1, len(rows) // _SAMPLE), 0, []
        for part in rows.blocks():  # equally spaced rows
            parts.append(np.asarray(part.X[-start % step :: step], dtype=np.float64))
            start += len(part)
        center, spread = robust_scale(np.concatenate(parts))
        has_outliers = ~constant & (spread > 0) & (plain.scale / OUTLIER_RATIO > spread)
        if not has_outliers.any():
            return plain
        return cls(
            np.where(has_outliers, center, plain.mean), np.where(has_outliers, spread, plain.scale), has_outliers
        )

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
                    given = inputs[:, self.wild]
                    size = np.abs(given)
                    tails = np.sign(given) * (BEND + np.log(np.maximum(size, BEND) / BEND))
                    inputs[:, self.wild] = np.where(size > BEND, tails, given)
                scaled[part] = np.clip(inputs, -LIMIT, LIMIT, out=inputs)
        return scaled


@stored
@dataclass(frozen=True)
class TargetScaler:
    """Encoder of the target y as (g(y) - mean) / scale with a link g, by default the identity.

    ``values`` are the values of a discrete target, or values that many rows share, if there are any.
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
        """Fit the scaler to the targets ``y``, each counted ``counts`` times (None: once)."""
        linked = link.forward(y)
        column = Standardizer.fit(Rows(linked[:, None], linked, counts), robust=False)
        return cls(float(column.mean[0]), float(column.scale[0]), link, values)

    @property
    def is_linear(self) -> bool:
        """Whether the link is the identity and the target has no bounds."""
        return self.link == IDENTITY

    @property
    def squared(self) -> float:
        """The factor from scaled variances to variances of the target; raise if it would overflow or underflow."""
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
        # Rounding may move the inverse of a transformed target on a bound beyond the bound.
        return np.clip(self.link.inverse(self.mean + self.scale * scaled), *self.link.support)

    def restore(self, linked: Predictive) -> Predictive:
        """Return the distribution of y, given the distribution of g(y)."""
        return linked if self.is_linear else Transformed(linked, self.link)

    def log_derivative(self, scaled: FloatArray) -> FloatArray:
        """Return the logarithm of the derivative of the scaled target by y, at numbers in scaled units."""
        slope = 0.0 if self.is_linear else self.link.log_derivative(self.inverse(scaled))
        return np.asarray(slope - np.log(self.scale))
