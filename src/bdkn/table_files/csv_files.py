"""CSV files: detection of their dialect, reading into Arrow tables, and errors that name the line.

Arrow reads the files. When it fails, the file is read once more with the module csv, to find the line for the message.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from bdkn.blocks import READ_ROWS
from bdkn.errors import InvalidParameterError, listed
from bdkn.table_files.formats import DAMAGED, STREAM, Replayed, TableFormat, format_of, open_binary

MISSING = ("", "#N/A", "N/A", "n/a", "NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None")
"""Texts that stand for a missing value."""

UNNAMED = "unnamed column"
"""Name for a first column whose name is empty; many programs write row numbers into such a column."""

_ASSUMED_ENCODING = "windows-1252"
"""Encoding of a file that is not in UTF-8 and has no byte order mark."""

_HEAD_BYTES = 1 << 20
"""Number of bytes at the beginning of a file from which its dialect is detected; more if the header is longer."""

_MAX_HEADER = 1 << 24
"""Maximum length of the header, in bytes."""

_MAX_LINE = 1 << 24
"""Maximum length of a line, in characters."""

_BLOCK_BYTES = 8 << 20
"""Number of bytes that Arrow parses at a time if a whole file is read."""

_STREAM_BYTES = 2 << 20
"""Number of bytes that Arrow parses at a time if a file is read in blocks; it reads up to 32 times as many ahead."""

_SAMPLE_LINES = 200
"""Number of lines from which delimiter and decimal point are detected."""

_DELIMITERS = (",", ";", "\t", "|")
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_END_OF_HEADER = re.compile(rb"[^\r\n][\r\n]")
_WITH_COMMA, _WITH_POINT = re.compile(r"[+-]?\d+,\d+"), re.compile(r"[+-]?\d*\.\d+")
_LOCAL_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE)


@dataclass(frozen=True)
class Dialect:
    """Encoding, delimiter and decimal point of a CSV file, and the names of its columns.

    ``multiline`` is whether values in quotation marks may contain ends of lines, ``assumed`` whether the encoding is
    assumed, and ``blank`` the number of empty lines above the header.
    """

    encoding: str
    delimiter: str
    decimal: str
    names: tuple[str, ...]
    multiline: bool = False
    assumed: bool = False
    blank: int = 0


@dataclass(frozen=True)
class CsvFile:
    """A CSV file and its dialect. For standard input, ``head`` holds the bytes from which the dialect was detected."""

    path: str
    format: TableFormat
    dialect: Dialect
    head: bytes | None = None

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> CsvFile:
        """Return the file with the dialect detected from its beginning."""
        place, form = os.fspath(path), format_of(path)
        try:
            if place == STREAM:
                head, whole = _read_head(sys.stdin.buffer)
            else:
                with open_binary(place, packed=form.gzip) as file:
                    head, whole = _read_head(file)
        except DAMAGED as error:
            raise _not_gzip(place) from error
        dialect = detect_dialect(head, _place_name(place), delimiter=form.delimiter, whole=whole)
        return cls(place, form, dialect, head if place == STREAM else None)

    @property
    def note(self) -> str:
        """A sentence on the assumptions about the file; empty if there are none."""
        if not self.dialect.assumed:
            return ""
        return f"{self.path} is not in UTF-8; it is read as {self.dialect.encoding} (Western European)"

    def read(self) -> Any:
        """Return the whole file as an Arrow table; columns of integers such as 007 and 0x10 are text."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.csv as arrow_csv

        content = None if self.head is None else self.head + sys.stdin.buffer.read()

        def read(kinds: Mapping[str, str], columns: list[str] | None = None) -> Any:
            with self._opened(content) as file:
                return arrow_csv.read_csv(file, *self._options(_BLOCK_BYTES, kinds, columns))

        with self._errors({}):
            table = read({})
            if any(pa.types.is_binary(field.type) for field in table.schema):
                raise pa.ArrowInvalid("some text is not in UTF-8")
        if self.dialect.multiline and _ends_in_multiline_text(table):
            self._check_quotes()
        integers = [field.name for field in table.schema if pa.types.is_integer(field.type)]
        if not integers:
            return table
        texts = read(dict.fromkeys(integers, "text"), integers)
        pattern = r"^\s*[+-]?0[0-9xX]"
        codes = [name for name in integers if pc.any(pc.match_substring_regex(texts[name], pattern)).as_py()]
        return read(dict.fromkeys(codes, "text")) if codes else table

    def blocks(self, kinds: Mapping[str, str]) -> Iterator[Any]:
        """Yield blocks of rows as Arrow tables; ``kinds`` has the type of each column to read, by its name."""
        import pyarrow as pa
        import pyarrow.csv as arrow_csv

        ends_open = False
        with self._errors(kinds), self._opened() as file:
            reader = arrow_csv.open_csv(file, *self._options(_STREAM_BYTES, kinds, list(kinds)))
            for batches in _grouped(reader, READ_ROWS):
                table = pa.Table.from_batches(batches).combine_chunks()
                for name in (name for name, kind in kinds.items() if kind == "date"):
                    table = table.set_column(table.column_names.index(name), name, read_dates(table[name]))
                yield table
                ends_open = self.dialect.multiline and _ends_in_multiline_text(table)
        if ends_open:
            self._check_quotes()

    @contextmanager
    def _opened(self, content: bytes | None = None) -> Iterator[Any]:
        """Yield an open file for Arrow, with the uncompressed bytes of the file or, if given, with ``content``."""
        import pyarrow as pa

        if content is not None:
            yield pa.BufferReader(content)
        elif self.head is not None:
            yield pa.PythonFile(io.BufferedReader(Replayed(self.head, sys.stdin.buffer), _BLOCK_BYTES), mode="r")
        elif self.format.gzip:
            with open_binary(self.path, packed=True, buffer_bytes=_STREAM_BYTES) as raw:
                yield pa.PythonFile(raw, mode="r")
        else:
            with pa.input_stream(self.path, compression=None) as file:
                yield file

    def _options(self, block_bytes: int, kinds: Mapping[str, str], columns: list[str] | None) -> tuple[Any, ...]:
        """Return Arrow's options for reading, for parsing and for converting a CSV file."""
        import pyarrow as pa
        import pyarrow.csv as arrow_csv

        types = {"number": pa.float64(), "boolean": pa.bool_(), "date": pa.string(), "text": pa.string()}
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
            column_types={name: types[kind] for name, kind in kinds.items()},
            include_columns=columns,
            null_values=list(MISSING),
            decimal_point=dialect.decimal,
        )
        return reading, parsing, converting

    @contextmanager
    def _errors(self, kinds: Mapping[str, str]) -> Iterator[None]:
        """Convert errors of Arrow inside the block to an error that names the line."""
        import pyarrow as pa

        try:
            yield
        except DAMAGED as error:
            raise _not_gzip(self.path) from error
        except (pa.ArrowException, UnicodeDecodeError) as error:
            wrong_line = None
            if self.path != STREAM:  # standard input cannot be read again
                with open_binary(self.path, packed=self.format.gzip) as file:
                    wrong_line = _find_wrong_line(file, self.dialect, self.path, kinds)
            if wrong_line is not None:
                raise wrong_line from error
            reason = re.sub(r"\s+", " ", str(error).splitlines()[0])[:200]
            if "straddling" in str(error):
                reason = (
                    "it has no line below the names, or a line or a cell in quotation marks that is longer than "
                    f"{_STREAM_BYTES >> 20} MiB; perhaps a quotation mark is not closed"
                )
            raise InvalidParameterError(f"{_place_name(self.path)} cannot be read as a table: {reason}") from error
        except OSError as error:
            if self.format.gzip:
                raise _not_gzip(self.path) from error
            raise

    def _check_quotes(self) -> None:
        """Raise if the file ends inside a cell in quotation marks; the message names the line where the cell begins."""
        where = None
        if self.path == STREAM:  # standard input cannot be read again
            where = "the last one goes over several lines, and perhaps is never closed"
        else:
            with open_binary(self.path, packed=self.format.gzip) as file:
                text = io.TextIOWrapper(file, encoding=self.dialect.encoding, newline="", errors="replace")
                line = _open_line(text, self.dialect.delimiter)
            if line is not None:
                where = f"the one that begins in line {line} is never closed"
        if where is not None:
            raise InvalidParameterError(
                f"a cell of {_place_name(self.path)} that begins with a quotation mark must end with one; {where}, and "
                "all that follows would be in this cell: close it, or remove it"
            )


def _grouped(batches: Iterable[Any], n_rows: int) -> Iterator[list[Any]]:
    """Yield batches in groups of at least ``n_rows`` rows; the last group may be smaller."""
    group: list[Any] = []
    for batch in batches:
        if batch.num_rows:
            group.append(batch)
        if sum(part.num_rows for part in group) >= n_rows:
            yield group
            group = []
    if group:
        yield group


def _place_name(path: str) -> str:
    return "standard input" if path == STREAM else path


def _not_gzip(path: str) -> InvalidParameterError:
    return InvalidParameterError(f"{path} must be compressed by gzip, as its name says; it is not, or it is damaged")


def read_dates(column: Any) -> Any:
    """Convert a text column to timestamps if all texts are like 2024-03-31 or 2024-03-31 12:00:00."""
    import pyarrow as pa

    try:
        return without_missing(column).cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return column


def without_missing(column: Any) -> Any:
    """Return a text column in which texts that stand for a missing value, such as "NA", are null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = pc.is_in(column, value_set=pa.array(MISSING, column.type))
    return pc.if_else(missing, pa.scalar(None, column.type), column)


# Detection of the dialect


def _read_head(file: BinaryIO) -> tuple[bytes, bool]:
    """Read the beginning of a file, with the whole header unless it is too long; also return whether that is all."""
    parts, more = [], file.read(_HEAD_BYTES)
    while more:
        parts.append(more)
        if len(parts) * _HEAD_BYTES >= _MAX_HEADER or _END_OF_HEADER.search(more):
            break
        more = file.read(_HEAD_BYTES)
    return b"".join(parts), len(more) < _HEAD_BYTES


def detect_dialect(head: bytes, place: str, *, delimiter: str | None = None, whole: bool = False) -> Dialect:
    """Return the dialect of a CSV file that begins with ``head``; ``whole`` is whether ``head`` is the whole file."""
    encoding, text = _decode(head)
    if "\0" in text:
        raise InvalidParameterError(
            f"{place} must be text; it contains zeros, as files of other kinds do, and texts in UTF-16 that do not "
            "begin with a mark: save it as UTF-8"
        )
    lines = list(io.StringIO(text, newline=""))
    if not whole and len(lines) < 2:
        raise InvalidParameterError(
            f"the first line of {place} must hold the names of the columns; it is longer than {_MAX_HEADER >> 20} MiB"
        )
    lines = lines if whole else lines[:-1]  # the last one may be cut
    blank = next((i for i, line in enumerate(lines) if line.strip()), None)
    if blank is None:
        raise InvalidParameterError(f"{place} is empty; it must have a line of column names, and a line per row")
    separator = delimiter or _find_delimiter(lines[:_SAMPLE_LINES])
    rows = _parsed(lines[:_SAMPLE_LINES], separator)
    if not rows:
        raise InvalidParameterError(
            f"the first line of {place} must hold the names of the columns; one is longer than "
            f"{csv.field_size_limit():,} characters: perhaps a quotation mark is not closed"
        )
    names, decimal = check_header(rows[0], place), "."
    if separator != ",":  # a decimal comma if numbers have one, and none a point
        cells = [cell.strip() for row in rows[1:] for cell in row]
        with_point = any(_WITH_POINT.fullmatch(cell) for cell in cells)
        decimal = "," if not with_point and any(_WITH_COMMA.fullmatch(cell) for cell in cells) else "."
    return Dialect(encoding, separator, decimal, names, '"' in text, encoding == _ASSUMED_ENCODING, blank)


def check_header(header: Sequence[str], place: str) -> tuple[str, ...]:
    """Return the column names in a header; raise if they are numbers, missing or repeated."""
    names = [name.strip() for name in header]
    if not names:
        raise InvalidParameterError(f"a table must have at least one column; {place} has none")
    if all(_LOCAL_NUMBER.fullmatch(name) for name in names):
        raise InvalidParameterError(
            f"the first line of {place} must hold the names of the columns; got numbers: {_cut(', '.join(names[:5]))}. "
            "Add a line of names on top"
        )
    if names[0] == "":
        names[0] = UNNAMED
    if "" in names:
        raise InvalidParameterError(
            f"every column of {place} must have a name; column {names.index('') + 1} has none: name it in line 1"
        )
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InvalidParameterError(
            f"names of columns must be different; {place} has {listed(repeated, 5)} more than once: rename or remove "
            "one"
        )
    return tuple(names)


def _decode(head: bytes) -> tuple[str, str]:
    """Decode the beginning of a file; return its encoding and the text."""
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding, head.decode(encoding, errors="ignore")
    try:
        return "utf-8", codecs.getincrementaldecoder("utf-8")().decode(head)  # the last character may be cut
    except UnicodeDecodeError:
        return _ASSUMED_ENCODING, head.decode(_ASSUMED_ENCODING, errors="replace")


def _find_delimiter(lines: Sequence[str]) -> str:
    """Return the delimiter for which most lines have as many cells as the first line; a comma if there is none."""

    def merit(delimiter: str) -> tuple[float, int]:
        rows = _parsed(lines, delimiter)
        width = len(rows[0]) if rows else 0
        return (0.0, 0) if width < 2 else (sum(len(row) == width for row in rows) / len(rows), width)

    return max(_DELIMITERS, key=merit)


def _parsed(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """Divide lines into cells; stop at a cell that is longer than the module csv permits."""
    rows: list[list[str]] = []
    with suppress(csv.Error):
        rows.extend(row for row in csv.reader(lines, delimiter=delimiter) if row)
    return rows


# Search for the line with an error


def _find_wrong_line(
    file: BinaryIO, dialect: Dialect, place: str, kinds: Mapping[str, str]
) -> InvalidParameterError | None:
    """Return an error about the first line with a wrong number of cells, or with a cell that is not a number.

    Return None if there is no such line. Columns with the kind "number" in ``kinds`` must hold numbers.
    """
    width = len(dialect.names)
    numbers = [j for j, name in enumerate(dialect.names) if kinds.get(name) == "number"]
    text = io.TextIOWrapper(file, encoding=dialect.encoding, newline="")
    reader = csv.reader(_lines(text), delimiter=dialect.delimiter)
    try:
        rows = (row for row in reader if row)
        next(rows, None)  # the header
        for row in rows:
            if len(row) != width:
                return InvalidParameterError(
                    f"every line of {place} must have {width} cells, as its first line has; line {reader.line_num} has "
                    f"{len(row)}: {_cut(dialect.delimiter.join(row), 60)!r}. Correct or remove that line"
                )
            for j in numbers:
                number = row[j].strip().replace(dialect.decimal, ".")
                if row[j] not in MISSING and not _NUMBER.fullmatch(number):
                    return InvalidParameterError(
                        f"column {dialect.names[j]!r} of {place} must hold numbers; line {reader.line_num} has "
                        f"{_cut(row[j], 60)!r}. Correct that cell, or leave it empty if the number is missing"
                    )
    except csv.Error:
        return InvalidParameterError(
            f"no cell of {place} must be longer than {csv.field_size_limit():,} characters, and no line longer than "
            f"{_MAX_LINE:,}; one is: perhaps a quotation mark is not closed"
        )
    except UnicodeError:
        return InvalidParameterError(
            f"{place} must be text in one encoding; it begins as {dialect.encoding}, but a line further down is not "
            "in it: save it again as UTF-8"
        )
    finally:
        text.detach()  # the caller closes the file
    return None


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    """Yield the lines of a text; raise if one is so long that it might not fit into memory."""
    while line := text.readline(_MAX_LINE):
        if len(line) == _MAX_LINE:
            raise csv.Error
        yield line


def _cut(text: str, most: int = 100) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _ends_in_multiline_text(table: Any) -> bool:
    """Return whether the last row of an Arrow table has a text of several lines, as an unclosed cell would be."""
    import pyarrow as pa

    if not table.num_rows:
        return False
    last = table.slice(table.num_rows - 1)
    texts = (column[0].as_py() for column in last.columns if pa.types.is_string(column.type))
    return any(text is not None and ("\n" in text or "\r" in text) for text in texts)


def _open_line(text: io.TextIOWrapper, delimiter: str) -> int | None:
    """Return the number of the line where a cell begins that is never closed; None if there is none.

    A quotation mark begins a cell only directly after a delimiter or the end of a line. Within a cell it ends the cell,
    unless another one follows directly.
    """
    line, first, closed_at, base, before = 1, 0, -2, 0, "\n"
    start: int | None = None  # line in which a cell begins that is not yet closed
    while chunk := text.read(1 << 20):
        for found in re.finditer(r'["\n]', chunk):
            at = found.start()
            previous = chunk[at - 1] if at else before
            if found[0] == "\n":
                line += 1
            elif start is not None:
                first, closed_at, start = start, base + at, None
            elif base + at == closed_at + 1:
                start = first
            elif previous in (delimiter, "\n", "\r"):
                start = line
        base, before = base + len(chunk), chunk[-1]
    text.detach()
    return start
