"""Recognize row sources among the arguments of ``fit``."""

from __future__ import annotations

import sys
from typing import Any

from bdkn.data.dask_rows import DaskRows
from bdkn.data.parquet import ParquetRows
from bdkn.data.rows import RowSource
from bdkn.errors import InvalidParameterError, shown


def as_row_source(X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> RowSource | None:
    """Return the row source that a user has given, or None for a table, whose rows are in memory.

    Parameters
    ----------
    X : object
        A row source, a dataset of pyarrow, a data frame of Dask, or a table.
    y, sample_weight, groups : object, optional
        Not with a row source, which has its own. With a dataset or a frame of Dask: names of its columns.

    Returns
    -------
    source : RowSource or None
        The rows; None for a table.
    """
    given = {"y": y, "sample_weight": sample_weight, "groups": groups}
    if is_row_source(X):
        _check_none(type(X).__name__, given)
        source: RowSource = X
        return source
    if _is_a(X, "pyarrow.dataset", "Dataset"):
        _check_names("a pyarrow Dataset", given)
        return ParquetRows(X, y, sample_weight=sample_weight, groups=groups)
    if _is_a(X, "dask.dataframe", "DataFrame"):
        _check_names("a Dask data frame", given)
        return DaskRows(X, y, sample_weight=sample_weight, groups=groups)
    return None


def is_row_source(X: Any) -> bool:
    """Return whether an object is a row source: its class has the method ``blocks`` and a length."""
    return callable(getattr(type(X), "blocks", None)) and hasattr(type(X), "__len__")


def _is_a(X: Any, module: str, name: str) -> bool:
    """Return whether ``X`` is of a class of a library; which has been imported, if there is such an object."""
    return module in sys.modules and isinstance(X, getattr(sys.modules[module], name))


def _check_none(kind: str, given: dict[str, Any]) -> None:
    named = [name for name, value in given.items() if value is not None]
    if named:
        raise InvalidParameterError(
            f"a row source has its own targets, weights and groups; got {' and '.join(named)} beside it: give them to "
            f"{kind}(...), and then fit(source)"
        )


def _check_names(kind: str, given: dict[str, Any]) -> None:
    """Raise unless targets, weights and groups are names of columns; there must be targets."""
    for name, value in given.items():
        wrong = value is None if name == "y" else False
        if wrong or not (value is None or isinstance(value, str | int)):
            what = "the name of its column of targets" if name == "y" else "the name of one of its columns"
            raise InvalidParameterError(f"with {kind}, {name} must be {what}; got {shown(value)}: fit(X, 'price')")
