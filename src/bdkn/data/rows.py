"""Tables of any type, and rows of a table with their targets: selection by number, joining, and reading in blocks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing

from bdkn.errors import InvalidParameterError, missing_extra
from bdkn.typing import BoolArray, FloatArray, IndexArray

BLOCK_ROWS = 1 << 13
"""Default number of rows of a block, if rows in memory are read in blocks."""

SAMPLED_ROWS = 4096
"""Minimum size of the sample of a large table from which robust scales are computed; it is at most twice as large."""


def take_rows(X: Any, rows: IndexArray | slice) -> Any:
    """Select rows of an array, sparse matrix, data frame or list by number or slice; avoid the copy of a slice."""
    if isinstance(X, np.ndarray) or issparse(X):
        return X[rows]
    if hasattr(X, "num_rows"):  # a table of pyarrow
        if not isinstance(rows, slice):
            return X.take(rows)
        start, stop, _ = rows.indices(X.num_rows)
        return X.slice(start, stop - start)
    return _safe_indexing(X, rows)


def join_tables(tables: Sequence[Any]) -> Any:
    """Concatenate arrays, or data frames of one library; column types are promoted to a common type."""
    if len(tables) == 1:
        return tables[0]
    if isinstance(tables[0], np.ndarray):
        return np.concatenate(tables)
    library = type(tables[0]).__module__.partition(".")[0]
    try:
        if library == "pandas":
            import pandas as pd

            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # if a column has no value in one of the tables
                return pd.concat(tables, ignore_index=True)
        if library == "polars":
            import polars as pl

            return pl.concat(tables, how="vertical_relaxed")
        if library == "pyarrow":
            import pyarrow as pa

            return pa.concat_tables(tables, promote_options="permissive")
        import narwhals.stable.v2 as nw

        return nw.concat([nw.from_native(table, eager_only=True) for table in tables]).to_native()
    except Exception as error:  # each library has its own classes of errors
        raise InvalidParameterError(
            "all parts of a table must be frames of one library, with columns of the same types; two cannot be joined "
            f"({error})"
        ) from error


def as_frame(columns: Mapping[str, Any] | list[dict[str, Any]]) -> Any:
    """Convert a dict of columns, or a list of rows, to a pandas data frame."""
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise missing_extra("pandas", "frames") from error
    return DataFrame(columns)


def missing_labels(labels: NDArray[Any]) -> BoolArray:
    """Return a boolean array, True for each group label that is missing: None, nan, NaT or pandas' NA."""
    if labels.dtype.kind != "O":
        return np.asarray(labels != labels)
    missing = (label is None or type(label).__name__ == "NAType" or bool(np.any(label != label)) for label in labels)
    return np.fromiter(missing, bool, len(labels))


class RowSource(Protocol):
    """Interface of tables whose rows are read in blocks, from memory, from a memory map or from a file.

    The rows have the same order in every pass, so that the fold of a row can depend on its number.
    """

    def __len__(self) -> int:
        """Return the number of rows."""

    def blocks(self, size: int | None = None) -> Iterator[Rows]:
        """Yield all rows in order, in blocks of at most ``size`` rows (None: a size chosen by the source)."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in memory: a table ``X`` of any kind, and targets ``y`` of shape (n,).

    ``counts`` is the number of times that each row is counted (None: once). Rows with equal labels in ``groups`` are in
    the same fold (None: all rows are independent).
    """

    X: Any
    y: FloatArray
    counts: FloatArray | None = None
    groups: NDArray[Any] | None = None

    @classmethod
    def join(cls, parts: Sequence[Rows]) -> Rows:
        """Concatenate rows; either all parts have sample weights (or groups), or no part has."""
        if len(parts) == 1:
            return parts[0]
        counts = [part.counts for part in parts if part.counts is not None]
        groups = [part.groups for part in parts if part.groups is not None]
        return cls(
            join_tables([part.X for part in parts]),
            np.concatenate([part.y for part in parts]),
            np.concatenate(counts) if counts else None,
            np.concatenate(groups) if groups else None,
        )

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, numbers: IndexArray | slice) -> Rows:
        counts = None if self.counts is None else self.counts[numbers]
        groups = None if self.groups is None else self.groups[numbers]
        return Rows(take_rows(self.X, numbers), self.y[numbers], counts, groups)

    def counted(self) -> Rows:
        """Return the rows with a positive sample weight."""
        if self.counts is None or self.counts.all():
            return self
        return self[np.flatnonzero(self.counts)]

    def blocks(self, size: int | None = None) -> Iterator[Rows]:
        """Yield all rows in order, in blocks of at most ``size`` rows (None: a size chosen by the source)."""
        step = size or BLOCK_ROWS
        for start in range(0, len(self), step):
            yield self[start : start + step]
