"""Arrow tables as pandas data frames, with types that regressors know."""

from __future__ import annotations

import re
from typing import Any

from bdkn.errors import InvalidParameterError
from bdkn.table_files.csv_files import MISSING

_INDEX = re.compile(r"__index_level_\d+__")


def as_pandas(table: Any, place: str = "the table") -> Any:
    """Return an Arrow table as a data frame.

    Dates are ``datetime64``, times of day and texts are texts, decimals are numbers in double precision, booleans with
    missing values are nullable, and columns without any value are missing numbers.
    """
    names = [name for name in table.column_names if not _INDEX.fullmatch(name)]
    converted = table.select(names)
    for place_of, name in enumerate(names):
        column = _plain(converted[name], name, place)
        converted = converted.set_column(place_of, name, column)
    frame = converted.to_pandas(ignore_metadata=True)
    for name in names:
        if converted.schema.field(name).type == "bool" and converted[name].null_count:
            frame[name] = frame[name].astype("boolean")
    return frame


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
    if is_a.is_nested(kind) or is_a.is_binary(kind) or is_a.is_large_binary(kind):
        raise InvalidParameterError(
            f"columns must hold numbers, booleans, dates or text; {name!r} of {place} holds {kind}: drop that column"
        )
    return column


def without_missing(column: Any) -> Any:
    """Return a column of texts in which those that stand for a missing value are missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    absent = pc.is_in(column, value_set=pa.array(MISSING, column.type))
    return pc.if_else(absent, pa.scalar(None, column.type), column)
