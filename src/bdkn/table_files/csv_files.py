"""CSV and TSV files, also compressed, read by Apache Arrow."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

from bdkn.errors import InvalidParameterError
from bdkn.table_files.dialect import HEAD_BYTES, MOST_HEADER, Dialect, detect_dialect
from bdkn.table_files.expanded import DAMAGED, open_binary
from bdkn.table_files.formats import STREAM, TableFormat, format_of
from bdkn.table_files.open_quotes import check_quotes, may_be_open, unclosed
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
        except DAMAGED as error:
            raise _not_gzip(place) from error
        dialect = detect_dialect(head.data, _named(place), delimiter=form.delimiter, whole=head.whole)
        return cls(place, form, dialect, head.data if place == STREAM else None)

    @property
    def note(self) -> str:
        """What was guessed about the file, as a sentence; empty if nothing."""
        if not self.dialect.guessed:
            return ""
        return f"{self.path} is not in UTF-8; it is read as {self.dialect.encoding} (Western European)"

    def read(self) -> Any:
        """Return the whole file as an Arrow table; columns of whole numbers such as 007 and 0x10 are text."""
        import pyarrow as pa
        import pyarrow.csv as arrow_csv

        source = self if self.head is None else _InMemory(self.head + sys.stdin.buffer.read())
        with self._errors({}), source._opened() as file:
            table = arrow_csv.read_csv(file, *self._options())
            if any(pa.types.is_binary(field.type) for field in table.schema):
                raise pa.ArrowInvalid("some text is not in UTF-8")
        if self.dialect.multiline and may_be_open(table):
            self._check_quotes()
        codes = [name for name in self._with_zeros(table, source) if name in table.column_names]
        if not codes:
            return table
        with source._opened() as file:
            return arrow_csv.read_csv(file, *self._options(dict.fromkeys(codes, TEXT)))

    def blocks(self, kinds: Mapping[str, str]) -> Iterator[Any]:
        """Yield the columns ``kinds`` of the file in blocks of rows, as Arrow tables."""
        import pyarrow as pa
        import pyarrow.csv as arrow_csv

        dates, ends_open = [name for name, kind in kinds.items() if kind == DATE], False
        with self._errors(kinds), self._opened() as file:
            reader = arrow_csv.open_csv(file, *self._options(kinds, list(kinds), _STREAM_BYTES))
            for batches in _grouped(reader, _BLOCK_ROWS):
                table = pa.Table.from_batches(batches).combine_chunks()
                for name in dates:
                    table = table.set_column(table.column_names.index(name), name, read_dates(table[name]))
                yield table
                ends_open = self.dialect.multiline and may_be_open(table)
        if ends_open:
            self._check_quotes()

    def _check_quotes(self) -> None:
        """Raise if the file ends inside of a cell in quotation marks."""
        if self.path == STREAM:  # which cannot be read again
            raise unclosed(_named(self.path), "the last one goes over several lines, and perhaps is never closed")
        with open_binary(self.path, packed=self.format.gzip) as file:
            check_quotes(file, self.dialect, self.path)

    def _with_zeros(self, table: Any, source: Any) -> list[str]:
        """Return the names of columns of whole numbers, some of which are written with leading zeros or as 0x10."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.csv as arrow_csv

        whole = [field.name for field in table.schema if pa.types.is_integer(field.type)]
        if not whole:
            return []
        with source._opened() as file:
            texts = arrow_csv.read_csv(file, *self._options(dict.fromkeys(whole, TEXT), whole))
        return [name for name in whole if pc.any(pc.match_substring_regex(texts[name], r"^\s*[+-]?0[0-9xX]")).as_py()]

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
        if self.format.gzip:
            with open_binary(self.path, packed=True, buffer_bytes=_STREAM_BYTES) as raw:
                yield pa.PythonFile(raw, mode="r")
            return
        with pa.input_stream(self.path, compression=None) as file:
            yield file

    @contextmanager
    def _errors(self, kinds: Mapping[str, str]) -> Iterator[None]:
        """Turn an error of Arrow into one that names the line."""
        import pyarrow as pa

        try:
            yield
        except DAMAGED as error:
            raise _not_gzip(self.path) from error
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise self._wrong_line(kinds) or InvalidParameterError(
                f"{_named(self.path)} cannot be read as a table: {_reason(error)}"
            ) from error
        except OSError as error:
            if self.format.gzip:
                raise _not_gzip(self.path) from error
            raise

    def _wrong_line(self, kinds: Mapping[str, str]) -> InvalidParameterError | None:
        if self.path == STREAM:
            return None  # which cannot be read again
        with open_binary(self.path, packed=self.format.gzip) as file:
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


@dataclass(frozen=True)
class _Head:
    """The first bytes of a file; ``whole`` if that is all of it."""

    data: bytes
    whole: bool

    @classmethod
    def of(cls, file: BinaryIO) -> _Head:
        """Return so many bytes that the line of names is complete, unless it is too long."""
        parts, more = [], file.read(HEAD_BYTES)
        while more:
            parts.append(more)
            if len(parts) * HEAD_BYTES >= MOST_HEADER or _HAS_LINE.search(more):
                break
            more = file.read(HEAD_BYTES)
        return cls(b"".join(parts), len(more) < HEAD_BYTES)


_HAS_LINE = re.compile(rb"[^\r\n][\r\n]")


def _head_of(path: str, form: TableFormat) -> _Head:
    """Return the first bytes of a file or of standard input."""
    if path == STREAM:
        return _Head.of(sys.stdin.buffer)
    with open_binary(path, packed=form.gzip) as file:
        return _Head.of(file)


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


def _reason(error: Exception) -> str:
    """Return why a file cannot be read."""
    if "straddling" in str(error):
        return (
            f"it has no line below the names, or a line or a cell in quotation marks that is longer than "
            f"{_STREAM_BYTES >> 20} MiB; perhaps a quotation mark is not closed"
        )
    return re.sub(r"\s+", " ", str(error).splitlines()[0])[:200]
