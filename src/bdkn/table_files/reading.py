"""Read table files of all formats."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from bdkn.blocks import READ_ROWS
from bdkn.errors import InvalidParameterError, did_you_mean, listed, parquet_errors, require
from bdkn.table_files.csv_files import CsvFile, check_header, without_missing
from bdkn.table_files.formats import STREAM, check_input, format_of

_INDEX_NAMES = re.compile(r"__index_level_\d+__")
"""Pattern of the names of Parquet columns in which pandas stores an index without a name."""

ALLOWED_BYTES = 1 << 30
"""Size in memory up to which every Parquet file is read, in bytes."""

MAX_EXPANSION = 1000
"""Maximum ratio of size in memory to file size, for larger files. It is high as files store repeated values once."""

_NUMBER_BYTES = 8
"""Size of a number in memory, in bytes."""


def column_names(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the names of the columns of a table file."""
    require("pyarrow", extra="files")
    check_input(path)
    if format_of(path).kind == "csv":
        return CsvFile.of(path).dialect.names
    with _opened_parquet(path) as file:
        return tuple(file.schema_arrow.names)


def read_table(path: str | os.PathLike[str], notify: Callable[[str], None] = lambda note: None) -> Any:
    """Read a whole table file as a pandas data frame; ``notify`` is called with a note on each assumption."""
    require("pyarrow", "pandas", extra="files")
    csv_file = _csv_file(path, notify)
    if csv_file is not None:
        return as_pandas(csv_file.read(), str(path))
    with _opened_parquet(path) as file:
        _check_expansion(file, os.fspath(path), file.schema_arrow.names)
        return as_pandas(file.read(), str(path))


def open_blocks(
    path: str | os.PathLike[str], kinds: Mapping[str, str], notify: Callable[[str], None] = lambda note: None
) -> Iterator[Any]:
    """Return blocks of rows of a table file, as Arrow tables with the columns ``kinds``; "-" is CSV on standard input.

    A column of a CSV file is read as the given type: "number", "boolean", "date", or "text" (unchanged). Columns of
    a Parquet file keep their types. ``notify`` is called with a note on each assumption about the file.
    """
    require("pyarrow", extra="files")
    csv_file = _csv_file(path, notify)
    check_columns(kinds, column_names(path) if csv_file is None else csv_file.dialect.names, path)
    return _parquet_blocks(path, list(kinds)) if csv_file is None else csv_file.blocks(kinds)


def _csv_file(path: str | os.PathLike[str], notify: Callable[[str], None]) -> CsvFile | None:
    """Return the CSV file at a path; None if it is a Parquet file."""
    if os.fspath(path) != STREAM:
        check_input(path)
    if format_of(path).kind != "csv":
        return None
    file = CsvFile.of(path)
    if file.note:
        notify(file.note)
    return file


def check_columns(
    required: Mapping[str, str] | Sequence[str], names: Sequence[str], path: str | os.PathLike[str]
) -> None:
    """Raise unless a table has the columns ``required``; the message lists missing and existing columns."""
    missing = [name for name in required if name not in names]
    if missing:
        hint = did_you_mean(missing[0], names) if len(missing) == 1 else ""
        raise InvalidParameterError(
            f"{os.fspath(path)} must have the column{'s' if len(missing) > 1 else ''} "
            f"{listed(missing)}; it has {listed(names)}" + (hint or ". Add what is missing; its cells may be empty")
        )


@contextmanager
def _opened_parquet(path: str | os.PathLike[str], texts: Sequence[str] = ()) -> Iterator[Any]:
    """Yield an open Parquet file, in which the columns ``texts`` are dictionary-encoded; errors name the file."""
    import pyarrow.parquet as pq

    with (
        parquet_errors(os.fspath(path)),
        pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False, read_dictionary=list(texts)) as file,
    ):
        check_header(file.schema_arrow.names, os.fspath(path))
        yield file


def _parquet_blocks(path: str | os.PathLike[str], columns: list[str]) -> Iterator[Any]:
    """Yield columns of a Parquet file in blocks of rows, as Arrow tables."""
    import pyarrow as pa

    with _opened_parquet(path) as file:
        _check_expansion(file, os.fspath(path), columns)
        for batch in file.iter_batches(batch_size=READ_ROWS, columns=columns):
            yield pa.Table.from_batches([batch]).select(columns)


def _check_expansion(file: Any, path: str, columns: Sequence[str]) -> None:
    """Raise if columns of an open Parquet file would need implausibly much memory for the size of the file."""
    import pyarrow as pa
    import pyarrow.compute as pc

    most = max(ALLOWED_BYTES, MAX_EXPANSION * os.path.getsize(path))

    def check(size: int) -> None:
        if size > most:
            raise InvalidParameterError(
                f"{path} must not expand to more than {MAX_EXPANSION:,} times its size; it expands to {size >> 20:,} "
                "MiB or more. If that is what you expect, write it as CSV, or as several files"
            )

    schema, total = file.schema_arrow, 0
    check(_NUMBER_BYTES * file.metadata.num_rows * len(columns))
    texts = [name for name in columns if pa.types.is_string(schema.field(name).type)]
    if not texts:
        return
    with _opened_parquet(path, texts) as coded:
        for batch in coded.iter_batches(batch_size=READ_ROWS, columns=texts):
            for column in batch.columns:
                lengths = pc.cast(pc.binary_length(column.dictionary), "int64")
                total += pc.sum(lengths.take(column.indices)).as_py() or 0
            check(total)


def as_pandas(table: Any, place: str = "the table") -> Any:
    """Return an Arrow table as a pandas data frame.

    Dates become ``datetime64``, times of day become text, decimals become numbers in double precision, booleans with
    missing values become nullable, and columns without any value become missing numbers.
    """
    converted = plain_columns(table, place)
    try:
        frame = converted.to_pandas(ignore_metadata=True)
    except (KeyError, ValueError, OverflowError) as error:  # such as an unknown time zone
        raise InvalidParameterError(f"{place} cannot be made a data frame; it has {error}: drop that column") from error
    for name in converted.column_names:
        if converted.schema.field(name).type == "bool" and converted[name].null_count:
            frame[name] = frame[name].astype("boolean")
    return frame


def plain_columns(table: Any, place: str = "the table") -> Any:
    """Return an Arrow table with columns of types that regressors accept, without the index of pandas."""
    import pyarrow as pa

    names = [name for name in table.column_names if not _INDEX_NAMES.fullmatch(name)]
    return pa.table({name: _plain(table[name], name, place) for name in names})


def _plain(column: Any, name: str, place: str) -> Any:
    """Convert an Arrow column to numbers, booleans, dates, durations or text; raise if that is not possible."""
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
