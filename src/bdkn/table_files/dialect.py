"""How a CSV file is written: encoding, delimiter, decimal point, header; detected where it is safe."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bdkn.errors import InvalidParameterError

HEAD_BYTES = 1 << 20
"""Bytes at the beginning of a file by which its dialect is detected."""

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
    lines = text.splitlines(keepends=True)
    if not whole and len(lines) > 1:
        lines = lines[:-1]  # the last one may be cut
    if not any(line.strip() for line in lines):
        raise InvalidParameterError(f"{place} is empty; it must have a line of column names, and a line per row")
    separator = delimiter or _find_delimiter(lines[:_LINES])
    rows = _parsed(lines[:_LINES], separator)
    names = check_header(rows[0], place)
    decimal, blank = _find_decimal(rows[1:], separator), next(i for i, line in enumerate(lines) if line.strip())
    return Dialect(encoding, separator, decimal, names, '"' in text, encoding == GUESSED, blank)


def check_header(header: Sequence[str], place: str) -> tuple[str, ...]:
    """Return the names of the columns; raise if they are numbers, missing, or not different."""
    names = [name.strip() for name in header]
    if all(_NUMBER.fullmatch(name) for name in names):
        raise InvalidParameterError(
            f"the first line of {place} must hold the names of the columns; got numbers: {', '.join(names[:5])}. "
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
        width = len(rows[0])
        return (0.0, 0) if width < 2 else (sum(len(row) == width for row in rows) / len(rows), width)

    return max(_DELIMITERS, key=merit)


def _find_decimal(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    """Return a comma if numbers are written with one, and none with a point; this is not decided among commas."""
    cells = [cell.strip() for row in rows for cell in row]
    if delimiter == "," or any(_WITH_POINT.fullmatch(cell) for cell in cells):
        return "."
    return "," if any(_WITH_COMMA.fullmatch(cell) for cell in cells) else "."


def _parsed(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    return [row for row in csv.reader(lines, delimiter=delimiter) if row]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (" and others" if len(names) > 5 else "")
