"""Columns and rows of a table of any kind: a NumPy array, or a frame of pandas, polars or pyarrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.errors import InvalidParameterError
from bdkn.typing import IndexArray


@dataclass(frozen=True, eq=False)
class TableView:
    """A table with the names of its columns."""

    table: Any
    names: tuple[str, ...]

    @classmethod
    def of(cls, X: Any, names: Any = None) -> TableView:
        """Return the view of a table; ``names`` are the columns to look at, or names for those of an array."""
        if _is_frame(X):
            own = tuple(str(name) for name in _frame_names(X))
            return cls(X, own if names is None else tuple(str(name) for name in names))
        table = np.asarray(X)
        if table.ndim != 2:
            raise InvalidParameterError(f"X must be a table, shape (n_samples, n_features); got shape {table.shape}")
        plain = tuple(f"column {j}" for j in range(table.shape[1]))
        return cls(table, plain if names is None else tuple(str(name) for name in names))

    def __len__(self) -> int:
        return int(self.table.shape[0])

    def values(self, name: str) -> NDArray[Any]:
        """Return the values of a column: numbers in double precision, or objects."""
        if not _is_frame(self.table):
            return np.asarray(self.table[:, self.names.index(name)])
        return _as_array(self.table[name])

    def rows(self, numbers: IndexArray) -> TableView:
        """Return some rows."""
        if hasattr(self.table, "iloc"):
            return TableView(self.table.iloc[numbers], self.names)
        if hasattr(self.table, "set_column"):
            return TableView(self.table.take(numbers), self.names)
        return TableView(self.table[numbers], self.names)

    def with_column_of(self, name: str, numbers: IndexArray) -> Any:
        """Return the table in which one column has the values of the rows ``numbers``."""
        table = self.table
        if hasattr(table, "iloc"):
            return table.assign(**{name: table[name].iloc[numbers].set_axis(table.index)})
        if hasattr(table, "set_column"):
            place = table.column_names.index(name)
            return table.set_column(place, name, table.column(name).take(numbers))
        if hasattr(table, "with_columns"):
            return table.with_columns(table[name][numbers])
        changed = table.copy()
        changed[:, self.names.index(name)] = table[numbers, self.names.index(name)]
        return changed


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns") or hasattr(X, "column_names")


def _frame_names(X: Any) -> list[Any]:
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def _as_array(column: Any) -> NDArray[Any]:
    """Return a column of a frame as an array; numbers and truth values in double precision, missing ones as nan."""
    values = np.asarray(column.to_numpy(zero_copy_only=False) if hasattr(column, "chunks") else column)
    if values.dtype.kind in "iufb":
        return values.astype(np.float64)
    if values.dtype.kind != "O":
        return values
    try:
        numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    except (TypeError, ValueError):
        return values
    return values if any(isinstance(value, bool | np.bool_) for value in values) else numbers
