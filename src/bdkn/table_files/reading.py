"""Tables read from files: whole, as a pandas data frame, or in blocks, as Arrow tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from bdkn.errors import InvalidParameterError, require
from bdkn.table_files.csv_files import CsvFile
from bdkn.table_files.formats import STREAM, check_input, format_of
from bdkn.table_files.frames import as_pandas
from bdkn.table_files.parquet_files import check_expansion, opened_parquet, parquet_blocks

_SHOWN = 30
"""Names of columns that an error lists."""


@dataclass(frozen=True)
class TableBlocks:
    """A table that is read in blocks of rows: an iterator of Arrow tables that have the columns asked for."""

    blocks: Iterator[Any]

    def __iter__(self) -> Iterator[Any]:
        return self.blocks


def column_names(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the names of the columns of a table file."""
    require("pyarrow", extra="files")
    check_input(path)
    if format_of(path).kind == "csv":
        return CsvFile.of(path).dialect.names
    with opened_parquet(path) as file:
        return tuple(file.schema_arrow.names)


def read_table(path: str | os.PathLike[str], tell: Callable[[str], None] = lambda note: None) -> Any:
    """Return the whole table as a pandas data frame; call ``tell`` with a note about everything that was guessed."""
    require("pyarrow", "pandas", extra="files")
    if os.fspath(path) != STREAM:
        check_input(path)
    if format_of(path).kind == "csv":
        file = CsvFile.of(path)
        if file.note:
            tell(file.note)
        return as_pandas(file.read(), str(path))
    with opened_parquet(path) as file:
        check_expansion(file, os.fspath(path), file.schema_arrow.names)
        return as_pandas(file.read(), str(path))


def open_blocks(
    path: str | os.PathLike[str], kinds: Mapping[str, str], tell: Callable[[str], None] = lambda note: None
) -> TableBlocks:
    """Return the columns ``kinds`` of a table in blocks of rows, which take little memory.

    Parameters
    ----------
    path : str or path-like
        File to read; "-" is standard input, as CSV.
    kinds : mapping of str to str
        For each column to read from a CSV file: "number", "boolean", "date", or "text", as it stands in the file. The
        columns of a Parquet file have the types that they have.
    tell : callable
        Called with a note about everything that was guessed.

    Returns
    -------
    blocks : TableBlocks
        An iterator of Arrow tables.
    """
    require("pyarrow", extra="files")
    if os.fspath(path) != STREAM:
        check_input(path)
    if format_of(path).kind == "csv":
        file = CsvFile.of(path)
        if file.note:
            tell(file.note)
        check_columns(kinds, file.dialect.names, path)
        return TableBlocks(file.blocks(kinds))
    check_columns(kinds, column_names(path), path)
    return TableBlocks(parquet_blocks(path, list(kinds)))


def check_columns(
    wanted: Mapping[str, str] | Sequence[str], names: Sequence[str], path: str | os.PathLike[str]
) -> None:
    """Raise unless a table has the columns ``wanted``; the message lists what is missing and what there is."""
    missing = [name for name in wanted if name not in names]
    if missing:
        near = get_close_matches(missing[0], names, 1) if len(missing) == 1 else []
        raise InvalidParameterError(
            f"{os.fspath(path)} must have the column{'s' if len(missing) > 1 else ''} "
            f"{_listed(missing)}; it has {_listed(names)}"
            + (f"; did you mean {near[0]!r}?" if near else ". Add what is missing; its cells may be empty")
        )


def _listed(names: Sequence[str]) -> str:
    """Return names in quotation marks, not all if there are many."""
    shown = ", ".join(repr(name if len(name) <= 100 else f"{name[:97]}...") for name in names[:_SHOWN])
    return shown + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")
