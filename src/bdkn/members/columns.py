"""Columns of a table as numbers that can be compared: standardized, whatever the kind of table and column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing

from bdkn.lazy import lazy
from bdkn.persistence.fields import floats, must, stored
from bdkn.typing import BoolArray, FloatArray, IndexArray

_LIMIT = 1e18
"""Standardized numbers are clipped to ±_LIMIT, so that their squares are numbers."""

_BLOCK_CELLS = 1 << 18
"""Cells of a block: two megabytes in double precision."""

_EXTREME = 0.01
"""Share of the smallest and of the largest numbers of a column that do not determine its scale."""

_ROUNDING = 2e-6
"""Change of a constant column, in units of its value, that may be rounding in single precision."""

_ROUNDINGS = 10
"""Rounding errors over which the values of a constant column may extend."""


@stored
@dataclass(frozen=True, eq=False)
class Columns:
    """The centre, the scale and the range (p,) of each column of a table; a missing number counts as the centre.

    ``known`` has the values of each column that holds no numbers, and None for the others; it is empty if all columns
    hold numbers. Such a column counts as 0 where its value is known, and as 1 where it is not.
    """

    center: Annotated[FloatArray, floats("p")]
    scale: Annotated[FloatArray, floats("p", low=0.0)]
    low: Annotated[FloatArray, floats("p")]
    high: Annotated[FloatArray, floats("p")]
    known: tuple[tuple[str, ...] | None, ...] = ()

    def check(self) -> None:
        """Raise unless ranges are in order, and all columns or none have known values."""
        must(bool((self.low <= self.high).all()), "low must not exceed high")
        must(len(self.known) in (0, len(self.low)), "known must have an entry for each column, or none")

    @classmethod
    def fit(cls, X: Any, some: IndexArray) -> Columns:
        """Return the columns of a table, with ranges of all rows, and centres and scales of ``some``.

        Rows that are equal count once.
        """
        known = _known_values(X)
        low, high = np.full((2, X.shape[1]), np.nan)
        for block in row_blocks(X):
            table = _numbers(block, known)
            low = np.fmin(low, np.fmin.reduce(table, axis=0))
            high = np.fmax(high, np.fmax.reduce(table, axis=0))
        part = np.unique(_numbers(take(X, some), known), axis=0)
        low, high = (np.where(np.isnan(end), 0.0, end) for end in (low, high))  # nothing but missing numbers
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
        """Return (x - center)/scale of each number, where a constant column that changes counts ``jump`` more."""
        with np.errstate(over="ignore"):
            Z = np.clip((table - self.center) / self.scale, -_LIMIT, _LIMIT)
        if self._some_constant:
            changed = self.constant & (np.abs(Z) > _ROUNDING)
            Z = np.where(changed, Z + np.copysign(jump, Z), np.where(self.constant, 0.0, Z))
        return Z

    @lazy
    def _some_constant(self) -> bool:
        return bool(self.constant.any())

    def beyond(self, table: FloatArray) -> FloatArray:
        """Return by how much (n, p) each number lies below or above the range of its column, in units of its scale."""
        with np.errstate(over="ignore"):
            beyond = np.clip(np.maximum(self.low - table, table - self.high) / self.scale, 0.0, _LIMIT)
        return np.where(self.constant & (beyond <= _ROUNDING), 0.0, beyond) if self._some_constant else beyond


def take(X: Any, rows: IndexArray | slice) -> Any:
    """Return some rows of a table of any kind."""
    return X[rows] if isinstance(X, np.ndarray) or issparse(X) else _safe_indexing(X, rows)


def row_blocks(X: Any) -> Iterator[Any]:
    """Yield the rows of a table of any kind, some at a time."""
    slices = block_slices(*X.shape)
    if len(slices) == 1:
        yield X
        return
    for some in slices:
        yield take(X, some)


def block_slices(n_rows: int, n_columns: int) -> list[slice]:
    """Return the rows of each block of a table, at least one block, which may be empty."""
    size = max(1, _BLOCK_CELLS // n_columns)
    return [slice(start, start + size) for start in range(0, max(1, n_rows), size)]


def _known_values(X: Any) -> tuple[tuple[str, ...] | None, ...]:
    """Return the values of each column that holds no numbers; empty if all do."""
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
    """Return a function of each column's numbers that are not missing, 0 where all are."""
    known = ~np.isnan(table)
    return np.array([function(column[at]) if at.any() else 0.0 for column, at in zip(table.T, known.T, strict=True)])


def _precision(X: Any) -> float:
    """Return the relative rounding error of the numbers of a table."""
    is_single = isinstance(X, np.ndarray) and X.dtype == np.float32
    return float(np.finfo(np.float32 if is_single else np.float64).eps)


def _scales(table: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the standard deviation of each column without its extremes; of a constant column, its value or 1.

    A column of which all but a few numbers are equal has the standard deviation of all.
    """
    varied = _without_missing(_trimmed_std, table)
    varied = np.where(varied > 0.0, varied, high / 2.0 - low / 2.0)  # some rows may all be equal, where not all are
    peak = np.maximum(np.abs(low), np.abs(high))
    return np.where(low < high, varied, np.where(peak > 0.0, peak, 1.0))


def _trimmed_std(column: FloatArray) -> float:
    peak = float(np.abs(column).max()) or 1.0
    unit = column / peak
    ends = np.quantile(unit, (_EXTREME, 1.0 - _EXTREME))
    return peak * float(np.clip(unit, *ends).std() or unit.std())
