"""Which line of a CSV file is wrong: found by a second, slower reading, after the fast one failed."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from bdkn.errors import InvalidParameterError
from bdkn.table_files.dialect import Dialect

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
