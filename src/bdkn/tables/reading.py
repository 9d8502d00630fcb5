"""Columns of data frames of any library, as numbers or as text."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.errors import InvalidParameterError
from bdkn.typing import FloatArray

DAY = 86_400.0
"""Seconds of a day."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")

_LEAST_NUMBERS = 10
"""Text that reads as numbers is a column of numbers if it has more different values than this."""


@dataclass(frozen=True, eq=False)
class RawColumn:
    """The values of one column: numbers with nan where they are missing, or text with None.

    ``kind`` is "number", "boolean", "date" (in days since 1970), "duration" (in seconds) or "text". ``levels`` are the
    values of an ordered category, in their order.
    """

    name: Any
    kind: str
    values: NDArray[Any]
    levels: tuple[str, ...] = ()
    note: str = ""

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which values are missing."""
        if self.kind == "text":
            return np.fromiter((value is None for value in self.values), bool, len(self.values))
        return np.asarray(np.isnan(self.values))


def is_frame(X: Any) -> bool:
    """Return whether ``X`` is a data frame or a table of pandas, polars, pyarrow or a library that narwhals knows."""
    if isinstance(X, np.ndarray | list | tuple) or not (hasattr(X, "columns") or hasattr(X, "column_names")):
        return False
    import narwhals.stable.v2 as nw

    return isinstance(nw.from_native(X, eager_only=True, pass_through=True), nw.DataFrame)


def column_names(X: Any) -> list[Any]:
    """Return the names of a frame's columns; raise if some are equal."""
    names = list(X.column_names if hasattr(X, "column_names") else X.columns)
    twice = sorted({str(name) for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise InvalidParameterError(
            f"columns must have different names; got {', '.join(map(repr, twice))} more than once: rename or drop them"
        )
    return names


def read_column(X: Any, name: Any) -> RawColumn:
    """Return a column of a frame; raise if it holds neither numbers, nor dates, nor text."""
    import narwhals.stable.v2 as nw

    series = nw.from_native(X, eager_only=True).get_column(name)
    dtype = series.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        kind = "boolean" if dtype == nw.Boolean else "number"
        return RawColumn(name, kind, np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64))
    if dtype in (nw.Date, nw.Datetime):
        return RawColumn(name, "date", _days(series.to_numpy()))
    if dtype == nw.Duration:
        return RawColumn(name, "duration", _seconds(series.to_numpy()))
    if isinstance(dtype, nw.List | nw.Array | nw.Struct):
        raise InvalidParameterError(
            f"column {name!r} must hold one value per row; got {dtype}: make columns of its parts, or drop it"
        )
    column = _from_values(name, series.to_list())
    return RawColumn(name, "text", column.values, _levels(X, name)) if column.kind == "text" else column


def _from_values(name: Any, values: list[Any]) -> RawColumn:
    """Return a column of Python objects as numbers, dates or durations if all are, else as text."""
    known = [value for value in values if not _is_missing(value)]
    if known and all(isinstance(value, bool | np.bool_) for value in known):
        return RawColumn(name, "boolean", _floats(values))
    if known and all(isinstance(value, Real | Decimal) for value in known):
        return RawColumn(name, "number", _floats(values))
    if known and all(isinstance(value, datetime.date) for value in known):
        return RawColumn(name, "date", _days(np.array([_stamp(value) for value in values], dtype="datetime64[us]")))
    if known and all(isinstance(value, datetime.timedelta) for value in known):
        given = [np.timedelta64("NaT") if _is_missing(value) else np.timedelta64(value) for value in values]
        return RawColumn(name, "duration", _seconds(np.array(given, dtype="timedelta64[us]")))
    text = np.empty(len(values), dtype=object)
    text[:] = [None if _is_missing(value) else str(value) for value in values]
    return RawColumn(name, "text", text)


def read_text(column: RawColumn) -> RawColumn:
    """Return a column of text that reads as numbers, or as dates such as 2026-01-31, as one of these; else itself."""
    return numbers_in_text(column) or dates_in_text(column) or column


def dates_in_text(column: RawColumn) -> RawColumn | None:
    """Return a column of text in which all values are dates or moments of ISO 8601 as dates; None if it is not one."""
    known = {value for value in column.values if value is not None}
    if column.levels or not known or not all(_DATE.match(value) for value in known):
        return None
    try:
        stamps = [None if value is None else datetime.datetime.fromisoformat(value) for value in column.values]
    except ValueError:
        return None
    values = _days(np.array([_stamp(value) for value in stamps], dtype="datetime64[us]"))
    return RawColumn(column.name, "date", values, note="text that reads as dates")


def numbers_in_text(column: RawColumn) -> RawColumn | None:
    """Return a column of text that reads as numbers as a column of numbers; None if it does not.

    Codes such as "00123" are no numbers.
    """
    known = {value for value in column.values if value is not None}
    if column.levels or len(known) <= _LEAST_NUMBERS or not all(map(_reads_as_number, known)):
        return None
    values = np.array([np.nan if value is None else float(value) for value in column.values])
    return RawColumn(column.name, "number", values, note="text that reads as numbers")


def _reads_as_number(text: str) -> bool:
    digits = text.strip().lstrip("+-")
    if not digits[:1].isdigit() or (digits[0] == "0" and digits[1:2].isdigit()):
        return False
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, nan, NaT or pandas' NA."""
    if value is None:
        return True
    same = value == value
    return not same if isinstance(same, bool | np.bool_) else type(value).__name__ == "NAType"


def _floats(values: list[Any]) -> FloatArray:
    return np.array([np.nan if _is_missing(value) else float(value) for value in values], dtype=np.float64)


def _stamp(value: Any) -> np.datetime64:
    if _is_missing(value):
        return np.datetime64("NaT")
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return np.datetime64(value)


def _days(values: NDArray[Any]) -> FloatArray:
    """Return the days since 1970 of moments, nan where they are missing."""
    stamps = np.asarray(values).astype("datetime64[us]")
    return np.where(np.isnat(stamps), np.nan, stamps.astype(np.int64) / (DAY * 1e6))


def _seconds(values: NDArray[Any]) -> FloatArray:
    """Return durations in seconds, nan where they are missing."""
    lengths = np.asarray(values).astype("timedelta64[us]")
    return np.where(np.isnat(lengths), np.nan, lengths.astype(np.int64) / 1e6)


def _levels(X: Any, name: Any) -> tuple[str, ...]:
    """Return the values of an ordered category of pandas, or of an Enum of polars, in their order; else none."""
    dtype = getattr(X[name] if hasattr(X, "columns") else None, "dtype", None)
    if getattr(dtype, "ordered", False):
        return tuple(map(str, dtype.categories))  # type: ignore[union-attr]
    return ()
