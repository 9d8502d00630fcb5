"""Tables written to files in blocks; a file appears when it is complete, and not at all after an error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bdkn.errors import InvalidParameterError, require
from bdkn.persistence import replacing
from bdkn.table_files.formats import STREAM, TableFormat, format_of
from bdkn.table_files.formulas import without_formulas


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
