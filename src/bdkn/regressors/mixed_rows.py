"""Tables whose rows take each column from another row: those of a prediction and those of a background."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing

from bdkn.arrays import check_readable
from bdkn.errors import InvalidParameterError
from bdkn.typing import IndexArray


@dataclass(frozen=True, eq=False)
class MixedRows:
    """A table, an array or a data frame, of which new rows are made column by column.

    ``owner`` (q,) is the number of the column that each input of an array belongs to: a category or a date may have
    become several inputs, and a column that is not used has none. It is None for a data frame, each of whose columns is
    one.
    """

    table: Any
    owner: IndexArray | None
    n_columns: int

    def take(self, numbers: IndexArray) -> Any:
        """Return the rows (m, p) whose column j is that of the row ``numbers[:, j]`` of the table."""
        if self.owner is None:
            return _frame_of([column_of(self.table, j, numbers[:, j]) for j in range(self.n_columns)], self.table)
        own = len(self.owner) == numbers.shape[1] and bool((np.diff(self.owner) == 1).all())
        rows = numbers if own else numbers[:, self.owner]
        q = self.table.shape[1]
        return self.table.ravel().take(rows * q + np.arange(q))


def dense(table: Any, name: str = "X") -> Any:
    """Return a table with rows and columns: an array, or a data frame as it is; raise if it is none."""
    if issparse(table):
        return table.toarray()
    if not hasattr(table, "shape") or isinstance(table, np.ndarray | np.generic):
        check_readable(name, table)
        table = np.asarray(table)
    if len(table.shape) != 2:
        raise InvalidParameterError(
            f"{name} must be a table, shape (n_samples, n_features); got shape {tuple(table.shape)}"
        )
    return table


def stack_rows(first: Any, second: Any) -> Any:
    """Return the rows of two tables of the same columns as one table."""
    if isinstance(first, np.ndarray):
        return np.ascontiguousarray(np.concatenate([first, np.asarray(second)]))
    if type(first) is not type(second):
        raise InvalidParameterError(
            f"background must be a table of the kind of X, {type(first).__name__}; got {type(second).__name__}"
        )
    names = column_names(first)
    missing = [name for name in names if name not in column_names(second)]
    if missing:
        raise InvalidParameterError(f"background must have the columns of X; it has none named {missing[0]!r}")
    if hasattr(first, "iloc"):
        from pandas import concat

        return concat([first, second[names]], ignore_index=True)
    if hasattr(first, "get_columns"):
        from polars import concat as concat_polars

        return concat_polars([first, second.select(names)], how="vertical_relaxed")
    from pyarrow import concat_tables

    return concat_tables([first, second.select(names)], promote_options="permissive")


def column_names(table: Any) -> list[Any]:
    """Return the names of the columns of a data frame, or their numbers."""
    if hasattr(table, "column_names"):
        return list(table.column_names)
    return list(table.columns) if hasattr(table, "columns") else list(range(table.shape[1]))


def column_of(table: Any, j: int, rows: IndexArray) -> Any:
    """Return some rows of a column, in the type of the table."""
    if isinstance(table, np.ndarray):
        return table[rows, j]
    if hasattr(table, "iloc"):
        return table.iloc[:, j].array.take(rows)
    if hasattr(table, "get_columns"):
        return table.to_series(j).gather(rows)
    return table.column(j).take(rows)


def with_column(table: Any, j: int, values: Sequence[Any]) -> Any:
    """Return the first row of the table once for each value, which replaces its column j."""
    first = np.zeros(len(values), dtype=np.intp)
    columns = [column_of(table, k, first) for k in range(table.shape[1])]
    columns[j] = _like(columns[j], values)
    return _frame_of(columns, table)


def _like(column: Any, values: Sequence[Any]) -> Any:
    """Return values as a column of the type of another one."""
    if isinstance(column, np.ndarray):
        return np.asarray(values)
    if hasattr(column, "gather"):
        return type(column)(column.name, values, dtype=column.dtype, strict=False)
    if hasattr(column, "chunks"):
        from pyarrow import chunked_array

        return chunked_array([list(values)], type=column.type)
    from pandas import Series

    known = getattr(column.dtype, "categories", None)
    whole = column.dtype.kind in "iub" if hasattr(column.dtype, "kind") else False
    if known is not None or whole:  # new values may be no category of the column, and no integer
        return Series(list(values))
    return Series(list(values)).astype(column.dtype)


def _frame_of(columns: list[Any], like: Any) -> Any:
    """Return columns as a table of the type of another one, with its names."""
    if isinstance(like, np.ndarray):
        return np.column_stack(columns)
    if hasattr(like, "iloc"):
        from pandas import DataFrame

        return DataFrame(dict(zip(like.columns, columns, strict=True)), copy=False)
    if hasattr(like, "get_columns"):
        return type(like)(columns)
    return type(like).from_arrays(columns, names=like.column_names)


def take_rows(table: Any, rows: IndexArray) -> Any:
    """Return some rows of a table."""
    return _safe_indexing(table, rows)
