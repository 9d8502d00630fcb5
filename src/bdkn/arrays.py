"""Data frames among user input, and conversion to arrays of numbers, which refuses masked values, dates and text."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.errors import InvalidParameterError, shown
from bdkn.typing import FloatArray

_INDEX_NAMES = re.compile(r"__index_level_\d+__")
"""Names of the columns in which pyarrow stores the index of a pandas data frame."""

_MAX_FLOAT = float(np.finfo(np.float64).max)

_NO_NUMBERS = {
    "c": "complex numbers: take their real part, or two columns of their parts",
    "M": "dates: subtract a date, and divide by a unit of time, such as numpy.timedelta64(1, 'D')",
    "m": "durations: divide them by a unit of time, such as numpy.timedelta64(1, 's')",
    "V": "a structured array: numpy.lib.recfunctions.structured_to_unstructured makes a table of it",
}
"""Parts of error messages on arrays that do not hold real numbers, with advice, by the ``kind`` of their dtype."""


def is_frame(X: Any) -> bool:
    """Return whether ``X`` is a data frame of pandas, polars, pyarrow or another library that narwhals supports."""
    if type(X).__name__ == "LazyFrame":
        raise InvalidParameterError("X must be a table in memory; got a LazyFrame: X.collect() makes one")
    if isinstance(X, np.ndarray | list | tuple) or not (hasattr(X, "columns") or hasattr(X, "column_names")):
        return False
    import narwhals.stable.v2 as nw

    try:
        return isinstance(nw.from_native(X, eager_only=True, pass_through=True), nw.DataFrame)
    except nw.exceptions.DuplicateError:
        column_names(X)  # raises an error that names the columns
        raise


def column_names(X: Any) -> list[Any]:
    """Return the names of the columns of a data frame; raise if two columns have the same name."""
    if hasattr(X, "column_names"):
        names = [name for name in X.column_names if not _INDEX_NAMES.fullmatch(name)]
    else:
        names = list(X.columns)
    twice = sorted({str(name) for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise InvalidParameterError(
            f"columns must have different names; got {', '.join(map(repr, twice))} more than once: rename or drop them"
        )
    return names


def read_numbers(name: str, given: Any) -> FloatArray:
    """Return numbers as an array in double precision, nan in place of None; raise if a value is not a number.

    An array in double precision is returned unchanged. ``name`` is the name of the parameter in messages.
    """
    if type(given) is np.ndarray and given.dtype == np.float64:
        return given
    if hasattr(given, "toarray") and hasattr(given, "nnz"):
        raise InvalidParameterError(f"{name} must be an array; got a sparse matrix: {name}.toarray() makes one")
    check_readable(name, given)
    array = _as_array(name, given)
    if array.dtype.kind == "c":
        raise InvalidParameterError(f"{name} must hold numbers; got {_NO_NUMBERS['c']}")
    if array.dtype.kind not in "OSU":
        with np.errstate(over="ignore"):
            return np.asarray(array, dtype=np.float64)
    numbers = np.empty(array.shape)
    for place, value in np.ndenumerate(array):
        try:
            numbers[place] = np.nan if value is None else float(value)
        except (TypeError, ValueError, OverflowError) as error:
            where = _place(place) if place else "it"
            raise InvalidParameterError(
                f"{name} must hold numbers; {where} is {shown(value)}: convert them, as with pandas.to_numeric, "
                "without separators of thousands and units"
            ) from error
    return numbers


def check_readable(name: str, given: Any) -> None:
    """Raise if values are masked, dates, durations or records, which NumPy would convert to meaningless numbers."""
    if type(given) is np.ndarray and given.dtype.kind in "biuf":
        return
    if isinstance(given, np.ma.MaskedArray) and np.ma.getmaskarray(given).any():
        where = _place(np.argwhere(np.ma.getmaskarray(given))[0])
        raise InvalidParameterError(
            f"{name} must hold a number everywhere; {where} is masked: fill such values, as with {name}.filled(0.0), "
            "leave out these rows, or give a data frame, whose columns may have missing values"
        )
    array = _as_array(name, given)
    if array.dtype.kind in "MmV":
        raise InvalidParameterError(f"{name} must hold numbers; got {_NO_NUMBERS[array.dtype.kind]}")
    if array.dtype.kind != "O":
        return
    for place, value in np.ndenumerate(array):
        kind = type(value).__name__
        if kind in ("NAType", "NaTType"):
            raise InvalidParameterError(
                f"{name} must hold a number everywhere; {_place(place)} is missing ({value!r}): drop or fill such "
                "values, or give a data frame, whose columns may have missing values"
            )
        if isinstance(value, int) and abs(value) > _MAX_FLOAT:
            raise InvalidParameterError(
                f"{name} must hold numbers of double precision; {_place(place)} is {shown(value)}, which is too large"
            )
        if hasattr(value, "isoformat") or isinstance(value, np.datetime64 | np.timedelta64):
            raise InvalidParameterError(
                f"{name} must hold numbers; {_place(place)} is {shown(value)}: give dates in columns of a data frame, "
                "or as numbers"
            )


def _as_array(name: str, given: Any) -> NDArray[Any]:
    """Convert to an array of any dtype; raise if the conversion fails."""
    try:
        return np.asarray(given)
    except Exception as error:  # ragged lists, objects with their own __array__
        raise InvalidParameterError(f"{name} must be an array of numbers; got {shown(given)} ({error})") from error


def _place(place: Any) -> str:
    """Return the position of a value in words, for messages: its row and, in a table, its column."""
    numbers = [int(number) for number in place]
    if not numbers:
        return "it"
    return f"row {numbers[0]}" + (f", column {numbers[1]}" if len(numbers) == 2 else "")
