"""CSV and TSV files, also compressed, read by Apache Arrow."""

from __future__ import annotations

import gzip
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

from bdkn.errors import InvalidParameterError
from bdkn.table_files.dialect import HEAD_BYTES, Dialect, detect_dialect
from bdkn.table_files.formats import STREAM, TableFormat, format_of
from bdkn.table_files.replayed import Replayed
from bdkn.table_files.wrong_lines import BOOLEAN, DATE, NUMBER, TEXT, find_wrong_line

MISSING = ("", "#N/A", "N/A", "n/a", "NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None")
"""Texts that stand for a missing value."""

_BLOCK_BYTES = 8 << 20
"""Bytes that Arrow parses at a time, if a whole file is read."""

_STREAM_BYTES = 2 << 20
"""The same if it is read in blocks: Arrow reads up to 32 of them ahead, whatever their size."""

_BLOCK_ROWS = 1 << 16
"""About how many rows a block has."""


@dataclass(frozen=True)
class CsvFile:
    """A CSV file and how it is written. ``head`` is what was read of standard input to see that, else None."""

    path: str
    format: TableFormat
    dialect: Dialect
    head: bytes | None = None

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> CsvFile:
        """Return the file with the dialect that its beginning shows."""
        place, form = os.fspath(path), format_of(path)
        try:
            head = _head_of(place, form)
        except (EOFError, gzip.BadGzipFile) as error:
            raise _not_gzip(place) from error
        dialect = detect_dialect(head, _named(place), delimiter=form.delimiter, whole=len(head) < HEAD_BYTES)
        return cls(place, form, dialect, head if place == STREAM else None)

    @property
    def note(self) -> str:
        """What was guessed about the file, as a sentence; empty if nothing."""
        if not self.dialect.guessed:
            return ""
        return f"{self.path} is not in UTF-8; it is read as {self.dialect.encoding} (Western European)"

    def read(self) -> Any:
        """Return the whole file as an Arrow table; columns of whole numbers with leading zeros are text."""
        import pyarrow as pa
        import pyarrow.csv as arrow_csv

        source = self if self.head is None else _InMemory(self.head + sys.stdin.buffer.read())
        with self._errors({}), source._opened() as file:
            table = arrow_csv.read_csv(file, *self._options())
            if any(pa.types.is_binary(field.type) for field in table.schema):
                raise pa.ArrowInvalid("some text is not in UTF-8")
        codes = [name for name in self._with_zeros(table, source) if name in table.column_names]
        if not codes:
            return table
        with source._opened() as file:
            return arrow_csv.read_csv(file, *self._options(dict.fromkeys(codes, TEXT)))

    def blocks(self, kinds: Mapping[str, str]) -> Iterator[Any]:
        """Yield the columns ``kinds`` of the file in blocks of rows, as Arrow tables."""
        import pyarrow as pa
        import pyarrow.csv as arrow_csv

        dates = [name for name, kind in kinds.items() if kind == DATE]
        with self._errors(kinds), self._opened() as file:
            reader = arrow_csv.open_csv(file, *self._options(kinds, list(kinds), _STREAM_BYTES))
            for batches in _grouped(reader, _BLOCK_ROWS):
                table = pa.Table.from_batches(batches).combine_chunks()
                for name in dates:
                    table = table.set_column(table.column_names.index(name), name, read_dates(table[name]))
                yield table

    def _with_zeros(self, table: Any, source: Any) -> list[str]:
        """Return the names of columns of whole numbers, some of which are written with leading zeros."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.csv as arrow_csv

        whole = [field.name for field in table.schema if pa.types.is_integer(field.type)]
        if not whole:
            return []
        with source._opened() as file:
            texts = arrow_csv.read_csv(file, *self._options(dict.fromkeys(whole, TEXT), whole))
        return [name for name in whole if pc.any(pc.match_substring_regex(texts[name], r"^\s*[+-]?0[0-9]")).as_py()]

    def _options(
        self,
        kinds: Mapping[str, str] | None = None,
        columns: list[str] | None = None,
        block_bytes: int = _BLOCK_BYTES,
    ) -> tuple[Any, ...]:
        import pyarrow as pa
        import pyarrow.csv as arrow_csv

        types = {NUMBER: pa.float64(), BOOLEAN: pa.bool_(), DATE: pa.string(), TEXT: pa.string()}
        dialect = self.dialect
        reading = arrow_csv.ReadOptions(
            encoding="utf8" if dialect.encoding.startswith("utf-8") else dialect.encoding,
            column_names=list(dialect.names),
            skip_rows=dialect.blank,
            skip_rows_after_names=1,
            block_size=block_bytes,
        )
        parsing = arrow_csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=dialect.multiline)
        converting = arrow_csv.ConvertOptions(
            column_types={name: types[kind] for name, kind in (kinds or {}).items()},
            include_columns=columns,
            null_values=list(MISSING),
            decimal_point=dialect.decimal,
        )
        return reading, parsing, converting

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """Yield the bytes of the file, not compressed, as Arrow reads them."""
        import pyarrow as pa

        if self.head is not None:
            yield pa.PythonFile(io.BufferedReader(Replayed(self.head, sys.stdin.buffer), _BLOCK_BYTES), mode="r")
            return
        with pa.input_stream(self.path, compression="gzip" if self.format.gzip else None) as file:
            yield file

    @contextmanager
    def _errors(self, kinds: Mapping[str, str]) -> Iterator[None]:
        """Turn an error of Arrow into one that names the line."""
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            raise self._wrong_line(kinds) or InvalidParameterError(
                f"{_named(self.path)} cannot be read as a table: {_first_line(error)}"
            ) from error
        except OSError as error:
            if self.format.gzip:
                raise _not_gzip(self.path) from error
            raise

    def _wrong_line(self, kinds: Mapping[str, str]) -> InvalidParameterError | None:
        if self.path == STREAM:
            return None  # which cannot be read again
        with _binary(self.path, self.format) as file:
            return find_wrong_line(file, self.dialect, self.path, kinds, frozenset(MISSING))


@dataclass(frozen=True)
class _InMemory:
    """What was read of standard input."""

    data: bytes

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        import pyarrow as pa

        yield pa.BufferReader(self.data)


def _grouped(batches: Iterable[Any], rows: int) -> Iterator[list[Any]]:
    """Yield batches together until they have so many rows; never none."""
    group: list[Any] = []
    for batch in batches:
        if batch.num_rows:
            group.append(batch)
        if sum(part.num_rows for part in group) >= rows:
            yield group
            group = []
    if group:
        yield group


def _head_of(path: str, form: TableFormat) -> bytes:
    """Return the first bytes of a file or of standard input."""
    if path == STREAM:
        return sys.stdin.buffer.read(HEAD_BYTES)
    with _binary(path, form) as file:
        return file.read(HEAD_BYTES)


def _binary(path: str, form: TableFormat) -> BinaryIO:
    file: Any = gzip.open(path, "rb") if form.gzip else open(path, "rb")  # noqa: SIM115
    return file  # type: ignore[no-any-return]


def read_dates(column: Any) -> Any:
    """Return a column of texts as moments, or as it is if not all are such as 2024-03-31 or 2024-03-31 12:00:00."""
    import pyarrow as pa

    try:
        return without_missing(column).cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return column


def without_missing(column: Any) -> Any:
    """Return a column of texts in which those that stand for a missing value are missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    absent = pc.is_in(column, value_set=pa.array(MISSING, column.type))
    return pc.if_else(absent, pa.scalar(None, column.type), column)


def _named(path: str) -> str:
    return "standard input" if path == STREAM else path


def _not_gzip(path: str) -> InvalidParameterError:
    return InvalidParameterError(f"{path} must be compressed by gzip, as its name says; it is not, or it is damaged")


def _first_line(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error).splitlines()[0])[:200]
