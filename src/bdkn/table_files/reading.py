"""Read table files of all formats."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from bdkn.errors import InvalidParameterError, require
from bdkn.table_files.csv_files import CsvFile, check_header, without_missing
from bdkn.table_files.formats import STREAM, check_input, format_of

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


LEAST_BYTES = 1 << 30
"""A file may always expand to so many bytes."""

MOST_FACTOR = 1000
"""Beyond these, it may expand to so many times its size. A value that repeats is stored once, so that a few kB can hold
any number of rows."""

_BLOCK_ROWS = 1 << 16
_WIDTH = 8
"""Bytes of a number in memory."""


@contextmanager
def opened_parquet(path: str | os.PathLike[str], texts: Sequence[str] = ()) -> Iterator[Any]:
    """Yield an open Parquet file, in which the columns ``texts`` are read as codes; errors of it name the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False, read_dictionary=list(texts)) as file:
            check_header(file.schema_arrow.names, os.fspath(path))
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InvalidParameterError(
            f"{os.fspath(path)} cannot be read as Parquet ({reason}); it is damaged, incomplete or of another kind"
        ) from error


def parquet_blocks(path: str | os.PathLike[str], columns: list[str]) -> Iterator[Any]:
    """Yield columns of a Parquet file in blocks of rows, as Arrow tables."""
    import pyarrow as pa

    with opened_parquet(path) as file:
        check_expansion(file, os.fspath(path), columns)
        for batch in file.iter_batches(batch_size=_BLOCK_ROWS, columns=columns):
            yield pa.Table.from_batches([batch]).select(columns)


def check_expansion(file: Any, path: str, columns: Sequence[str]) -> None:
    """Raise if columns of an open Parquet file need more memory than the size of the file can explain."""
    import pyarrow as pa

    most = max(LEAST_BYTES, MOST_FACTOR * os.path.getsize(path))
    schema, rows = file.schema_arrow, file.metadata.num_rows
    texts = [name for name in columns if pa.types.is_string(schema.field(name).type)]
    _compare(path, _WIDTH * rows * len(columns), most)
    if not texts:
        return
    with opened_parquet(path, texts) as coded:
        total = 0
        for batch in coded.iter_batches(batch_size=_BLOCK_ROWS, columns=texts):
            total += sum(map(_characters, batch.columns))
            _compare(path, total, most)


def _characters(column: Any) -> int:
    """Return the bytes of a column of codes of texts, if each text was written out."""
    import pyarrow.compute as pc

    lengths = pc.cast(pc.binary_length(column.dictionary), "int64")
    return pc.sum(lengths.take(column.indices)).as_py() or 0


def _compare(path: str, size: int, most: int) -> None:
    if size > most:
        raise InvalidParameterError(
            f"{path} must not expand to more than {MOST_FACTOR:,} times its size; it expands to {size >> 20:,} MiB or "
            "more. If that is what you expect, write it as CSV first, or as several files"
        )


_SHOWN = 30
"""Names of columns that an error lists."""


@dataclass(frozen=True)
class TableBlocks:
    """A table that is read in blocks of rows: an iterator of Arrow tables that have the columns asked for."""

    blocks: Iterator[Any]

    def __iter__(self) -> Iterator[Any]:
        return self.blocks


def column_names(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the names of the columns of a table file."""
    require("pyarrow", extra="files")
    check_input(path)
    if format_of(path).kind == "csv":
        return CsvFile.of(path).dialect.names
    with opened_parquet(path) as file:
        return tuple(file.schema_arrow.names)


def read_table(path: str | os.PathLike[str], tell: Callable[[str], None] = lambda note: None) -> Any:
    """Return the whole table as a pandas data frame; call ``tell`` with a note about everything that was guessed."""
    require("pyarrow", "pandas", extra="files")
    if os.fspath(path) != STREAM:
        check_input(path)
    if format_of(path).kind == "csv":
        file = CsvFile.of(path)
        if file.note:
            tell(file.note)
        return as_pandas(file.read(), str(path))
    with opened_parquet(path) as file:
        check_expansion(file, os.fspath(path), file.schema_arrow.names)
        return as_pandas(file.read(), str(path))


def open_blocks(
    path: str | os.PathLike[str], kinds: Mapping[str, str], tell: Callable[[str], None] = lambda note: None
) -> TableBlocks:
    """Return the columns ``kinds`` of a table in blocks of rows, which take little memory.

    Parameters
    ----------
    path : str or path-like
        File to read; "-" is standard input, as CSV.
    kinds : mapping of str to str
        For each column to read from a CSV file: "number", "boolean", "date", or "text", as it stands in the file. The
        columns of a Parquet file have the types that they have.
    tell : callable
        Called with a note about everything that was guessed.

    Returns
    -------
    blocks : TableBlocks
        An iterator of Arrow tables.
    """
    require("pyarrow", extra="files")
    if os.fspath(path) != STREAM:
        check_input(path)
    if format_of(path).kind == "csv":
        file = CsvFile.of(path)
        if file.note:
            tell(file.note)
        check_columns(kinds, file.dialect.names, path)
        return TableBlocks(file.blocks(kinds))
    check_columns(kinds, column_names(path), path)
    return TableBlocks(parquet_blocks(path, list(kinds)))


def check_columns(
    wanted: Mapping[str, str] | Sequence[str], names: Sequence[str], path: str | os.PathLike[str]
) -> None:
    """Raise unless a table has the columns ``wanted``; the message lists what is missing and what there is."""
    missing = [name for name in wanted if name not in names]
    if missing:
        near = get_close_matches(missing[0], names, 1) if len(missing) == 1 else []
        raise InvalidParameterError(
            f"{os.fspath(path)} must have the column{'s' if len(missing) > 1 else ''} "
            f"{_listed(missing)}; it has {_listed(names)}"
            + (f"; did you mean {near[0]!r}?" if near else ". Add what is missing; its cells may be empty")
        )


def _listed(names: Sequence[str]) -> str:
    """Return names in quotation marks, not all if there are many."""
    shown = ", ".join(repr(name if len(name) <= 100 else f"{name[:97]}...") for name in names[:_SHOWN])
    return shown + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")
