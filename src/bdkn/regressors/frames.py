"""Conversion to data frames, and of data frames to numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.errors import missing_extra
from bdkn.typing import Array, FloatArray


def as_frame(columns: Mapping[str, Any]) -> Any:
    """Return columns as a pandas data frame."""
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise missing_extra("pandas", "frames") from error
    return DataFrame(columns)


def numeric_names(X: Any) -> tuple[Any, ...]:
    """Return the names of the columns of a data frame that hold numbers."""
    return tuple(name for name in X.columns if _numbers(X[name]) is not None)


def numeric_table(X: Any, names: tuple[Any, ...] | None = None) -> Array | None:
    """Return some columns of a data frame (None: all that hold numbers), or an array, as numbers; None if it has none.

    A sparse matrix is not converted.
    """
    if hasattr(X, "indptr"):
        return None
    if not hasattr(X, "columns"):
        return X if isinstance(X, np.ndarray) and X.dtype in (np.float32, np.float64) else _numbers(X)
    columns = [_numbers(X[name]) for name in (numeric_names(X) if names is None else names)]
    known = [column for column in columns if column is not None]
    return np.column_stack(known) if known else None


def _numbers(values: Any) -> FloatArray | None:
    """Return values in double precision, or None if they are no numbers."""
    array: NDArray[Any] = np.asarray(values)
    try:
        return None if array.dtype.kind in "SUmM" else array.astype(np.float64)
    except (TypeError, ValueError):
        return None
