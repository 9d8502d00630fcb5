"""Write table files.

Spreadsheets evaluate some texts as formulas: those that begin with =, @, a tab or a carriage return, and those that
begin with + or - and contain more than digits and punctuation. In CSV, such texts get a quotation mark (') in front, so
that spreadsheets show them. Numbers never change, nor do texts such as "-", "-12,5" and "+41 44 123 45 67".
"""

from __future__ import annotations

import io
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
"""Character that is written in front of a text that spreadsheets would evaluate as a formula."""

_PATTERN = r"^(?:[=@\t\r\n\x{FF1D}\x{FF20}]|[+\-\x{FF0B}\x{FF0D}].*[^0-9\s.,:;'()/+\-%])"
"""Pattern of formulas for RE2, which Arrow uses; the characters given as numbers are =, @, + and - of full width."""

_NUMBER = r"^[+\-](?:[0-9.,]+[eE][+\-]?[0-9]+|[iI]nf|[iI]nfinity|nan|NaN)$"

_FORMULA = re.compile(re.sub(r"\\x\{(....)\}", r"\\u\1", _PATTERN), re.DOTALL | re.ASCII)


def no_formula(text: str) -> str:
    """Return a text, with a quotation mark in front if spreadsheets would evaluate it as a formula."""
    return MARK + text if _FORMULA.match(text) and not re.match(_NUMBER, text) else text


def without_formulas(table: Any) -> tuple[Any, int]:
    """Mark names and texts that spreadsheets would evaluate; return the Arrow table and the number of marked texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns, count = [], 0
    for column in table.columns:
        if pa.types.is_dictionary(column.type) or pa.types.is_string_view(column.type):
            column = column.cast(pa.string())
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            is_number = pc.match_substring_regex(column, _NUMBER)
            is_formula = pc.and_not(pc.match_substring_regex(column, f"(?s){_PATTERN}"), is_number)
            found = pc.sum(is_formula).as_py() or 0
            if found:
                mark, separator = pa.scalar(MARK, column.type), pa.scalar("", column.type)
                column = pc.if_else(is_formula, pc.binary_join_element_wise(mark, column, separator), column)
            count += found
        columns.append(column)
    return pa.table(columns, names=[no_formula(name) for name in table.column_names]), count


@dataclass
class BlockWriter:
    """Writer of Arrow tables, one after the other, to one file; the first table determines the columns.

    ``rows`` is the number of rows written. ``marked`` is the number of texts in a CSV file with a quotation mark in
    front, because spreadsheets would evaluate them; there are none if ``formulas``.
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
            if self.format.kind == "csv" and not self.formulas:
                table, count = without_formulas(table)
                self.marked += count
            if self._writer is None:
                self._writer = self._stack.enter_context(self._arrow_writer(table.schema))
            self._writer.write_table(table)
            self.rows += table.num_rows
        except pa.ArrowException as error:
            raise InvalidParameterError(
                f"columns of a table that is written as {self.format.kind} must hold numbers, booleans, dates or text; "
                f"{str(error).splitlines()[0][:200]}: leave that column out"
            ) from error

    def _arrow_writer(self, schema: Any) -> Any:
        import pyarrow as pa

        if self.format.kind == "parquet":
            import pyarrow.parquet as pq

            # Text is stored as codes of a dictionary, as it is often repeated; numbers hardly ever are.
            texts = [item.name for item in schema if pa.types.is_string(item.type)]
            return pq.ParquetWriter(self.file, schema, compression="zstd", use_dictionary=texts or False)
        import pyarrow.csv as arrow_csv

        options = arrow_csv.WriteOptions(delimiter=self.format.delimiter or ",", quoting_style="needed")
        return arrow_csv.CSVWriter(self.file, schema, write_options=options)


@contextmanager
def writing(path: str | os.PathLike[str], *, formulas: bool = False) -> Iterator[BlockWriter]:
    """Yield a writer of a table file; the file gets its name when the block ends without an error.

    The format is chosen by the extension; "-" is standard output, as CSV. Texts in CSV that spreadsheets would evaluate
    get a quotation mark in front, unless ``formulas``.
    """
    require("pyarrow", extra="files")
    import pyarrow as pa

    form = format_of(path)
    with ExitStack() as stack:
        to_stream = os.fspath(path) == STREAM  # standard output may lack ``buffer``
        raw: Any = sys.stdout.buffer if to_stream else stack.enter_context(replacing(Path(path)))
        with ExitStack() as inner:
            file = inner.enter_context(pa.PythonFile(_Unclosed(raw), mode="w"))
            if form.gzip:
                file = inner.enter_context(pa.CompressedOutputStream(file, "gzip"))
            yield BlockWriter(file, form, inner, formulas)


class _Unclosed(io.RawIOBase):
    """An open file that remains open when Arrow closes it."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: Any) -> int:
        """Write bytes."""
        count: int = self._file.write(data)
        return count

    def flush(self) -> None:
        """Flush the file."""
        self._file.flush()

    def writable(self) -> bool:
        """Return True."""
        return True
