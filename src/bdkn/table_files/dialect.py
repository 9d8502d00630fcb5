"""How a CSV file is written: encoding, delimiter, decimal point, header; detected where it is safe."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bdkn.errors import InvalidParameterError

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
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")


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
    if all(_NUMBER.fullmatch(name) for name in names):
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
