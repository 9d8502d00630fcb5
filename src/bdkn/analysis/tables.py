"""Uniform access to arrays and data frames of any library: column names, values of a column, selection of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bdkn.arrays import check_readable, column_names, is_frame
from bdkn.data.reading import RawColumn, read_column, read_text
from bdkn.data.rows import take_rows
from bdkn.errors import InvalidParameterError
from bdkn.typing import IndexArray

__all__ = ["RawColumn", "TableView", "read_column", "read_text"]


@dataclass(frozen=True, eq=False)
class TableView:
    """An array or data frame of any library, with the names of its columns."""

    table: Any
    names: tuple[Any, ...]

    @classmethod
    def of(cls, X: Any, names: Sequence[Any] | None = None) -> TableView:
        """Return a ``TableView`` of X; ``names`` selects columns of a data frame, or names the columns of an array."""
        if is_frame(X):
            present = column_names(X)
            wanted = tuple(present if names is None else names)
            missing = [name for name in wanted if name not in present]
            if missing:
                raise InvalidParameterError(
                    f"X must have the columns of the fit; missing: {', '.join(map(repr, missing))}"
                )
            return cls(X[list(wanted)] if hasattr(X, "iloc") else X.select(list(wanted)), wanted)
        check_readable("X", X)
        table = np.asarray(X)
        if table.ndim != 2:
            raise InvalidParameterError(f"X must be a table, shape (n_samples, n_features); got shape {table.shape}")
        return cls(table, tuple(f"column {j}" for j in range(table.shape[1])) if names is None else tuple(names))

    def __len__(self) -> int:
        return int(self.table.shape[0])

    def column(self, name: Any) -> RawColumn:
        """Return the values of a column: numbers with nan where they are missing, or text with None."""
        if is_frame(self.table):
            return read_column(self.table, name)
        return RawColumn(name, "number", np.asarray(self.table[:, self.names.index(name)], dtype=np.float64))

    def rows(self, numbers: IndexArray) -> TableView:
        """Return a view of the rows with these numbers."""
        return TableView(take_rows(self.table, numbers), self.names)
