"""Write table files.

A text that begins with =, @, a tab or a carriage return, or with + or - and is more than digits and punctuation, gets a
quotation mark (') in front when it is written to CSV. Spreadsheets then show it. Numbers are never changed, nor are
texts such as "-", "-12,5" and "+41 44 123 45 67", in which there is nothing to compute.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bdkn.errors import InvalidParameterError, require
from bdkn.storage.atomic import replacing
from bdkn.table_files.formats import STREAM, TableFormat, format_of

MARK = "'"
"""What is put in front of a text that a spreadsheet would compute."""

_PATTERN = r"^(?:[=@\t\r\n\x{FF1D}\x{FF20}]|[+\-\x{FF0B}\x{FF0D}].*[^0-9\s.,:;'()/+\-%])"
"""In the language of RE2, which Arrow uses; the characters named by numbers are =, @, + and - of full width."""

_NUMBER = r"^[+\-](?:[0-9.,]+[eE][+\-]?[0-9]+|[iI]nf|[iI]nfinity|nan|NaN)$"

_FORMULA = re.compile(re.sub(r"\\x\{(....)\}", r"\\u\1", _PATTERN), re.DOTALL | re.ASCII)


def no_formula(text: str) -> str:
    """Return a text that no spreadsheet computes."""
    return MARK + text if _FORMULA.match(text) and not re.match(_NUMBER, text) else text


def without_formulas(table: Any) -> tuple[Any, int]:
    """Return an Arrow table whose names and texts no spreadsheet computes, and how many texts were marked."""
    import pyarrow as pa

    columns, count = [], 0
    for column in table.columns:
        if pa.types.is_dictionary(column.type) or pa.types.is_string_view(column.type):
            column = column.cast(pa.string())
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column, found = _marked(column)
            count += found
        columns.append(column)
    return pa.table(columns, names=[no_formula(name) for name in table.column_names]), count


def _marked(column: Any) -> tuple[Any, int]:
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pc.match_substring_regex(column, _NUMBER)
    found = pc.and_not(pc.match_substring_regex(column, f"(?s){_PATTERN}"), numbers)
    count = pc.sum(found).as_py() or 0
    if not count:
        return column, 0
    mark = pa.scalar(MARK, column.type)
    return pc.if_else(found, pc.binary_join_element_wise(mark, column, pa.scalar("", column.type)), column), count


@dataclass
class BlockWriter:
    """Writes Arrow tables, one after the other, to one file; the first determines the columns.

    ``rows`` is how many rows were written, ``marked`` how many texts in a CSV file got a quotation mark in front,
    because a spreadsheet would compute them (none if ``formulas``).
    """

    file: Any
    format: TableFormat
    _stack: ExitStack
    formulas: bool = False
    rows: int = 0
    marked: int = 0
    _writer: Any = field(default=None, repr=False)

    def write(self, table: Any) -> None:
        """Append the rows of an Arrow table."""
        import pyarrow as pa

        try:
            self._write(table)
        except pa.ArrowException as error:
            raise InvalidParameterError(
                f"columns of a table that is written as {self.format.kind} must hold numbers, booleans, dates or text; "
                f"{str(error).splitlines()[0][:200]}: leave that column out"
            ) from error

    def _write(self, table: Any) -> None:
        if self.format.kind == "csv" and not self.formulas:
            table, count = without_formulas(table)
            self.marked += count
        if self._writer is None:
            self._writer = self._stack.enter_context(self._opened(table.schema))
        self._writer.write_table(table)
        self.rows += table.num_rows

    def _opened(self, schema: Any) -> Any:
        if self.format.kind == "parquet":
            import pyarrow.parquet as pq

            return pq.ParquetWriter(self.file, schema, compression="zstd", use_dictionary=_texts(schema))
        import pyarrow.csv as arrow_csv

        options = arrow_csv.WriteOptions(delimiter=self.format.delimiter or ",", quoting_style="needed")
        return arrow_csv.CSVWriter(self.file, schema, write_options=options)


@contextmanager
def writing(path: str | os.PathLike[str], *, formulas: bool = False) -> Iterator[BlockWriter]:
    """Yield a writer of a table file; the file gets its name when the block ends without an error.

    The format is that of the ending; "-" is standard output, as CSV. Texts in CSV that a spreadsheet would compute get
    a quotation mark in front, unless ``formulas``.
    """
    require("pyarrow", extra="files")
    form = format_of(path)
    with ExitStack() as stack:
        if os.fspath(path) == STREAM:
            raw: Any = _Unclosed(sys.stdout.buffer)
        else:
            raw = stack.enter_context(replacing(Path(path)))
        with ExitStack() as inner:
            yield BlockWriter(_sink(raw, form, inner), form, inner, formulas)


def _sink(raw: Any, form: TableFormat, stack: ExitStack) -> Any:
    """Return what Arrow writes to: the open file, through gzip if so asked."""
    import pyarrow as pa

    file = stack.enter_context(pa.PythonFile(_Unclosed(raw), mode="w"))
    return stack.enter_context(pa.CompressedOutputStream(file, "gzip")) if form.gzip else file


def _texts(schema: Any) -> list[str] | bool:
    """Return the columns that Parquet stores as codes of a dictionary: texts, which repeat; numbers hardly do."""
    import pyarrow as pa

    return [item.name for item in schema if pa.types.is_string(item.type)] or False


class _Unclosed:
    """An open file that another owner closes."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: Any) -> int:
        """Write bytes."""
        count: int = self._file.write(data)
        return count

    def flush(self) -> None:
        """Flush the file."""
        self._file.flush()

    def close(self) -> None:
        """Flush the file, which stays open."""
        self._file.flush()

    def tell(self) -> int:
        """Return the position."""
        position: int = self._file.tell()
        return position

    def readable(self) -> bool:
        """Return False."""
        return False

    def writable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return False."""
        return False
