"""CSV files: dialect, lines and columns."""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

from bdkn.errors import InvalidParameterError
from bdkn.table_files.formats import DAMAGED, STREAM, Replayed, TableFormat, format_of, open_binary

_CHUNK = 1 << 20
_ENDS = re.compile(r'["\n]')


def may_be_open(table: Any) -> bool:
    """Return whether a text in the last row of an Arrow table goes over several lines, as one that never ends does."""
    import pyarrow as pa

    if not table.num_rows:
        return False
    last = table.slice(table.num_rows - 1)
    texts = (column[0].as_py() for column in last.columns if pa.types.is_string(column.type))
    return any(text is not None and ("\n" in text or "\r" in text) for text in texts)


def check_quotes(file: BinaryIO, dialect: Dialect, place: str) -> None:
    """Raise if a file ends inside of a cell in quotation marks; the message names the line where the cell begins."""
    line = open_line(io.TextIOWrapper(file, encoding=dialect.encoding, newline="", errors="replace"), dialect.delimiter)
    if line is not None:
        raise unclosed(place, f"the one that begins in line {line} is never closed")


def unclosed(place: str, what: str) -> InvalidParameterError:
    """Return the error about a quotation mark that is not closed."""
    return InvalidParameterError(
        f"a cell of {place} that begins with a quotation mark must end with one; {what}, and all that follows would be "
        "in this cell: close it, or remove it"
    )


def open_line(text: io.TextIOWrapper, delimiter: str) -> int | None:
    """Return the number of the line where a cell begins that is never closed; None if there is none.

    A mark begins a cell where a cell can begin; in a cell, a mark ends it, and one more directly after it goes on.
    """
    line, first, closed_at, base, before = 1, 0, -2, 0, "\n"
    start: int | None = None
    while chunk := text.read(_CHUNK):
        for found in _ENDS.finditer(chunk):
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


_MOST_LINE = 1 << 24
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE)

NUMBER, BOOLEAN, DATE, TEXT = "number", "boolean", "date", "text"
"""How a column of a CSV file is read."""


def find_wrong_line(
    file: BinaryIO, dialect: Dialect, place: str, kinds: Mapping[str, str], missing: frozenset[str]
) -> InvalidParameterError | None:
    """Return the error about the first line with too many or too few cells, or with a cell that must be a number.

    None if there is no such line; ``kinds`` has the columns that must be numbers, ``missing`` the texts for no value.
    """
    width = len(dialect.names)
    numbers = [j for j, name in enumerate(dialect.names) if kinds.get(name) == NUMBER]
    try:
        for line, row in _rows(file, dialect):
            if len(row) != width:
                return InvalidParameterError(
                    f"every line of {place} must have {width} cells, as its first line has; line {line} has "
                    f"{len(row)}: {_shortened(dialect.delimiter.join(row))!r}. Correct or remove that line"
                )
            for j in numbers:
                if not _is_number(row[j], dialect.decimal, missing):
                    return InvalidParameterError(
                        f"column {dialect.names[j]!r} of {place} must hold numbers; line {line} has "
                        f"{_shortened(row[j])!r}. Correct that cell, or leave it empty if the number is missing"
                    )
    except csv.Error:
        return InvalidParameterError(
            f"no cell of {place} must be longer than {csv.field_size_limit():,} characters, and no line longer than "
            f"{_MOST_LINE:,}; one is: perhaps a quotation mark is not closed"
        )
    except UnicodeError:
        return InvalidParameterError(
            f"{place} must be text in one encoding; it begins as {dialect.encoding}, but a line further down is not "
            "in it: save it again as UTF-8"
        )
    return None


def _rows(file: BinaryIO, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the line and the cells of each row after the header."""
    text = io.TextIOWrapper(file, encoding=dialect.encoding, newline="")
    reader = csv.reader(_lines(text), delimiter=dialect.delimiter)
    header = False
    try:
        for row in reader:
            if row and not header:
                header = True
            elif row:
                yield reader.line_num, row
    finally:
        text.detach()  # whoever opened the file closes it


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    """Yield the lines of a text; raise if one is so long that it would fill the memory."""
    while line := text.readline(_MOST_LINE):
        if len(line) == _MOST_LINE:
            raise csv.Error
        yield line


def _is_number(cell: str, decimal: str, missing: frozenset[str]) -> bool:
    return cell in missing or _NUMBER.fullmatch(cell.strip().replace(decimal, ".")) is not None


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


HEAD_BYTES = 1 << 20
"""Bytes at the beginning of a file by which its dialect is detected."""

MOST_HEADER = 1 << 24
"""Longest line of names, in bytes."""

GUESSED = "windows-1252"
"""The encoding of a file that is not in UTF-8 and does not say what it is in."""

UNNAMED = "unnamed column"
"""Name of a first column whose name is empty: the row names that many programs write."""

_DELIMITERS = (",", ";", "\t", "|")
_LINES = 200
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_WITH_COMMA, _WITH_POINT = re.compile(r"[+-]?\d+,\d+"), re.compile(r"[+-]?\d*\.\d+")
_LOCAL_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Dialect:
    """Encoding, delimiter and decimal point of a CSV file, and the names of its columns.

    ``multiline`` says that quoted values may contain ends of lines, ``guessed`` that the encoding is a guess, and
    ``blank`` how many empty lines there are above the names.
    """

    encoding: str
    delimiter: str
    decimal: str
    names: tuple[str, ...]
    multiline: bool = False
    guessed: bool = False
    blank: int = 0


def detect_dialect(head: bytes, place: str, *, delimiter: str | None = None, whole: bool = False) -> Dialect:
    """Return the dialect of a CSV file that begins with ``head``; ``whole`` if that is all of it."""
    encoding, text = _decode(head)
    if "\0" in text:
        raise InvalidParameterError(
            f"{place} must be text; it contains zeros, as files of other kinds do, and texts in UTF-16 that do not "
            "begin with a mark: save it as UTF-8"
        )
    lines = list(io.StringIO(text, newline=""))
    if not whole:
        lines = _without_last(lines, place)  # it may be cut
    if not any(line.strip() for line in lines):
        raise InvalidParameterError(f"{place} is empty; it must have a line of column names, and a line per row")
    separator = delimiter or _find_delimiter(lines[:_LINES])
    rows = _parsed(lines[:_LINES], separator)
    if not rows:
        raise InvalidParameterError(
            f"the first line of {place} must hold the names of the columns; one is longer than "
            f"{csv.field_size_limit():,} characters: perhaps a quotation mark is not closed"
        )
    names = check_header(rows[0], place)
    decimal, blank = _find_decimal(rows[1:], separator), next(i for i, line in enumerate(lines) if line.strip())
    return Dialect(encoding, separator, decimal, names, '"' in text, encoding == GUESSED, blank)


def check_header(header: Sequence[str], place: str) -> tuple[str, ...]:
    """Return the names of the columns; raise if they are numbers, missing, or not different."""
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
            f"names of columns must be different; {place} has {_listed(repeated)} more than once: rename or remove one"
        )
    return tuple(names)


def _decode(head: bytes) -> tuple[str, str]:
    """Return the encoding and the text of the beginning of a file."""
    for mark, encoding in _BOMS.items():
        if head.startswith(mark):
            return encoding, head.decode(encoding, errors="ignore")
    try:
        return "utf-8", codecs.getincrementaldecoder("utf-8")().decode(head)  # the last character may be cut
    except UnicodeDecodeError:
        return GUESSED, head.decode(GUESSED, errors="replace")


def _find_delimiter(lines: Sequence[str]) -> str:
    """Return the delimiter that divides most lines into as many cells as the first; a comma if none divides it."""

    def merit(delimiter: str) -> tuple[float, int]:
        rows = _parsed(lines, delimiter)
        width = len(rows[0]) if rows else 0
        return (0.0, 0) if width < 2 else (sum(len(row) == width for row in rows) / len(rows), width)

    return max(_DELIMITERS, key=merit)


def _find_decimal(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    """Return a comma if numbers are written with one, and none with a point; this is not decided among commas."""
    cells = [cell.strip() for row in rows for cell in row]
    if delimiter == "," or any(_WITH_POINT.fullmatch(cell) for cell in cells):
        return "."
    return "," if any(_WITH_COMMA.fullmatch(cell) for cell in cells) else "."


def _parsed(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """Return the rows of some lines, up to a cell that is longer than the module csv allows."""
    rows: list[list[str]] = []
    try:
        rows.extend(row for row in csv.reader(lines, delimiter=delimiter) if row)
    except csv.Error:
        return rows
    return rows


def _without_last(lines: list[str], place: str) -> list[str]:
    if len(lines) < 2:
        raise InvalidParameterError(
            f"the first line of {place} must hold the names of the columns; it is longer than {MOST_HEADER >> 20} MiB"
        )
    return lines[:-1]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(_cut(name)) for name in names[:5]) + (" and others" if len(names) > 5 else "")


def _cut(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:97]}..."


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
