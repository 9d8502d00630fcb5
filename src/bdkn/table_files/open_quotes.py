"""A quotation mark that is never closed: all that follows it in a CSV file becomes one cell, and its rows are lost."""

from __future__ import annotations

import io
import re
from typing import Any, BinaryIO

from bdkn.errors import InvalidParameterError
from bdkn.table_files.dialect import Dialect

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
