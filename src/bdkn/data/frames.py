"""Conversion of tables of any type to data frames, to numbers, and to tables for members of a stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import issparse

from bdkn.arrays import check_readable
from bdkn.data.reading import column_names, is_frame
from bdkn.errors import InvalidParameterError, missing_extra


def as_frame(columns: Mapping[str, Any]) -> Any:
    """Return columns as a pandas data frame."""
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise missing_extra("pandas", "frames") from error
    return DataFrame(columns)


def as_table(X: Any) -> Any:
    """Return a table for members of a stack, unchanged if its rows can be selected by number.

    Arrays of floating-point numbers are converted to double precision and C order, since members that compute in the
    precision and memory order of their input would otherwise predict different numbers for equal rows.
    """
    if isinstance(X, np.ma.MaskedArray):
        check_readable("X", X)
        X = np.asarray(X)
    if hasattr(X, "columns") and is_frame(X):
        column_names(X)  # raises if some are equal
    if hasattr(X, "column_names") and hasattr(X, "to_pandas"):
        X = X.to_pandas()  # members do not accept tables of pyarrow
    table = X.tocsr() if issparse(X) else X if hasattr(X, "shape") else np.asarray(X)
    if isinstance(table, np.ndarray) and table.dtype.kind == "c":
        raise InvalidParameterError(
            "Complex data not supported: X must hold real numbers; take two columns of their parts"
        )
    if isinstance(table, np.ndarray) and table.dtype.kind in "mMVO":
        check_readable("X", table)
    if len(table.shape) != 2:
        raise InvalidParameterError(
            f"X must be a table, shape (n_samples, n_features); got shape {table.shape}. Reshape your data: "
            "X.reshape(-1, 1) is a single column, X.reshape(1, -1) a single row"
        )
    if not isinstance(table, np.ndarray) and not issparse(table):
        return table
    dtype = np.float64 if table.dtype.kind == "f" else table.dtype
    with np.errstate(over="ignore"):  # long doubles may become infinite, which is refused later
        return table.astype(dtype, copy=False) if issparse(table) else np.asarray(table, dtype=dtype, order="C")
