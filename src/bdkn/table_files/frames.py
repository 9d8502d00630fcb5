"""Arrow tables as pandas data frames, with types that regressors know."""

from __future__ import annotations

import re
from typing import Any

from bdkn.errors import InvalidParameterError
from bdkn.table_files.csv_files import without_missing

_INDEX = re.compile(r"__index_level_\d+__")


def as_pandas(table: Any, place: str = "the table") -> Any:
    """Return an Arrow table as a data frame.

    Dates are ``datetime64``, times of day and texts are texts, decimals are numbers in double precision, booleans with
    missing values are nullable, and columns without any value are missing numbers.
    """
    converted = plain_columns(table, place)
    try:
        frame = converted.to_pandas(ignore_metadata=True)
    except (KeyError, ValueError, OverflowError) as error:  # as for the name of a time zone that there is not
        raise InvalidParameterError(f"{place} cannot be made a data frame; it has {error}: drop that column") from error
    for name in converted.column_names:
        if converted.schema.field(name).type == "bool" and converted[name].null_count:
            frame[name] = frame[name].astype("boolean")
    return frame


def plain_columns(table: Any, place: str = "the table") -> Any:
    """Return an Arrow table with columns of the types that regressors know, without the row names of pandas."""
    import pyarrow as pa

    names = [name for name in table.column_names if not _INDEX.fullmatch(name)]
    return pa.table({name: _plain(table[name], name, place) for name in names})


def _plain(column: Any, name: str, place: str) -> Any:
    """Return an Arrow column in one of the types that become numbers, booleans, dates, durations or text."""
    import pyarrow as pa

    kind, is_a = column.type, pa.types
    if is_a.is_null(kind) or is_a.is_decimal(kind) or is_a.is_float16(kind):
        return column.cast(pa.float64())
    if is_a.is_date(kind):
        return column.cast(pa.timestamp("ms"))
    if is_a.is_time(kind):
        return column.cast(pa.string())
    if is_a.is_string(kind) or is_a.is_large_string(kind) or is_a.is_string_view(kind):
        return without_missing(column)
    kind = kind.value_type if is_a.is_dictionary(kind) else kind
    text = is_a.is_string(kind) or is_a.is_large_string(kind)
    if not (text or is_a.is_integer(kind) or is_a.is_floating(kind) or is_a.is_boolean(kind) or is_a.is_temporal(kind)):
        raise InvalidParameterError(
            f"columns must hold numbers, booleans, dates or text; {name!r} of {place} holds {kind}: drop that column"
        )
    return column
