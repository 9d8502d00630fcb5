"""Tables of one block, arrays or data frames: read, cut and joined."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from bdkn.arrays import read_numbers
from bdkn.errors import InvalidParameterError
from bdkn.tables.reading import column_names, is_frame

Columns = tuple[Any, ...] | int
"""The columns of a table: the names of a data frame's, the number of an array's."""


def read_table(X: Any) -> Any:
    """Return a data frame as it is, anything else as an array of numbers with a row per row; arrays are not copied."""
    if is_frame(X):
        return X
    table = X if isinstance(X, np.ndarray) and not isinstance(X, np.ma.MaskedArray) else None
    table = read_numbers("X", X) if table is None or table.dtype.kind not in "biuf" else np.asarray(table)
    if table.ndim != 2:
        raise InvalidParameterError(f"X must be a table, shape (n_samples, n_features); got shape {table.shape}")
    return table


def columns_of(X: Any) -> Columns:
    """Return the columns of a table that ``read_table`` has returned."""
    return int(X.shape[1]) if isinstance(X, np.ndarray) else tuple(column_names(X))


def worded(columns: Columns) -> str:
    """Return columns as they are named in a message."""
    if isinstance(columns, int):
        return f"{columns} columns without names"
    return ", ".join(map(repr, columns[:30])) + (f" and {len(columns) - 30} more" if len(columns) > 30 else "")


def cut(X: Any, start: int, stop: int) -> Any:
    """Return some rows of a table, as views where its library can."""
    if isinstance(X, np.ndarray):
        return X[start:stop]
    if hasattr(X, "iloc"):
        return X.iloc[start:stop]
    return X.slice(start, stop - start)


def join(tables: Sequence[Any]) -> Any:
    """Return tables with the same columns one below the other, in types that hold the values of all."""
    if len(tables) == 1:
        return tables[0]
    if isinstance(tables[0], np.ndarray):
        return np.concatenate(tables)
    try:
        return _joined_frames(tables)
    except Exception as error:  # each library has its own
        raise InvalidParameterError(
            f"all blocks must be frames of one library, with columns of the same types; two cannot be joined ({error})"
        ) from error


def _joined_frames(tables: Sequence[Any]) -> Any:
    library = type(tables[0]).__module__.partition(".")[0]
    if library == "pandas":
        import pandas as pd

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of columns of which one part is missing
            return pd.concat(tables, ignore_index=True)
    if library == "polars":
        import polars as pl

        return pl.concat(tables, how="vertical_relaxed")
    if library == "pyarrow":
        import pyarrow as pa

        return pa.concat_tables(tables, promote_options="permissive")
    import narwhals.stable.v2 as nw

    return nw.concat([nw.from_native(table, eager_only=True) for table in tables]).to_native()
