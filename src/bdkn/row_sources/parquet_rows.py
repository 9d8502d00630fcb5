"""Rows of Parquet files and other Arrow datasets, in blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from bdkn.errors import require
from bdkn.row_sources.blocks import Passes, Piece, block_rows
from bdkn.row_sources.named_columns import NamedColumns, not_numeric
from bdkn.row_sources.parquet_files import (
    common_schema,
    file_tables,
    open_dataset,
    parquet_fragments,
    scanned_tables,
)
from bdkn.rows import Rows
from bdkn.tables.reading import column_names


class ParquetRows:
    """Rows of Parquet files, read in blocks that take little memory.

    Rows are those of the files one after the other: of a folder or a pattern by their names, of a list in its order.
    Large row groups are read in parts.

    Parameters
    ----------
    source : str, path-like, list of these, or pyarrow Dataset
        A file, a folder with Parquet files, a pattern such as ``"rows/*.parquet"``, several of these, or a dataset of
        ``pyarrow.dataset``, which may be filtered. Folders such as ``year=2026`` are columns, too.
    target : str
        The name of the column of targets.
    columns : list of str, optional
        The names of the columns that predict; all others are not read. By default all but those named here.
    sample_weight : str, optional
        The name of a column that says how many times each row is counted.
    groups : str, optional
        The name of a column of labels; rows with equal labels belong together.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from bdkn import ParquetRows
    >>> folder = tempfile.TemporaryDirectory()
    >>> table = pa.table({"area": [50.0, 60.0, 80.0], "heating": ["gas", None, "oil"], "rent": [900, 1000, 1400]})
    >>> pq.write_table(table, f"{folder.name}/flats.parquet")
    >>> source = ParquetRows(folder.name, "rent")
    >>> len(source), [(block.X.column_names, block.y.tolist()) for block in source.blocks(2)]
    (3, [(['area', 'heating'], [900.0, 1000.0]), (['area', 'heating'], [1400.0])])
    >>> folder.cleanup()
    """

    def __init__(
        self,
        source: Any,
        target: str,
        *,
        columns: Sequence[str] | None = None,
        sample_weight: str | None = None,
        groups: str | None = None,
    ) -> None:
        require("pyarrow", extra="files")
        self._dataset = open_dataset(source)
        self._files = parquet_fragments(self._dataset)
        place = _place(source, self._files)
        names = [str(name) for name in column_names(self._dataset.schema.empty_table())]
        self.columns = NamedColumns.of(
            place, names, target, columns=columns, sample_weight=sample_weight, groups=groups
        )
        self._schema = self._common_schema(source is self._dataset, None if columns is None else self.columns.all)
        self._check_types(place)
        self._passes = Passes(self.columns.words)

    def __len__(self) -> int:
        if self._passes.n_rows is None:
            parts = [self._dataset] if self._files is None else self._files
            self._passes.end(sum(part.count_rows() for part in parts))
        assert self._passes.n_rows is not None, "rows that were counted have a number"
        return self._passes.n_rows

    def blocks(self, size: int | None = None) -> Iterator[Rows]:
        """Yield all rows in order, in blocks of at most ``size`` rows.

        Parameters
        ----------
        size : int, optional
            Rows of a block; by default 65 536, of tables with more than 64 columns fewer.

        Returns
        -------
        blocks : iterator of Rows
            Blocks, whose ``X`` is an Arrow table; all but the last have ``size`` rows.
        """
        return self._passes.blocks(self._pieces(size or block_rows(self.columns.inputs)), size)

    def _pieces(self, size: int) -> Iterator[Piece]:
        if self._files is None:
            for table in scanned_tables(self._dataset, self._schema, size):
                yield self._piece(table, "")
            return
        for part in self._files:
            for table in file_tables(part, self._schema, size):
                yield self._piece(table, part.path)

    def _piece(self, table: Any, place: str) -> Piece:
        weights, groups = (
            None if name is None else table[name] for name in (self.columns.sample_weight, self.columns.groups)
        )
        return Piece(
            table.select(self.columns.inputs),
            _numbers(table[self.columns.target]),
            None if weights is None else _numbers(weights),
            None if groups is None else groups.to_numpy(),
            os.path.basename(place),
        )

    def _common_schema(self, given: bool, names: Sequence[str] | None) -> Any:
        """Return the types of the columns that are read: those of a dataset that was given, or those of all files."""
        import pyarrow as pa

        own = given or self._files is None
        schema = self._dataset.schema if own else common_schema(self._files or (), names)
        return pa.schema([schema.field(name) for name in self.columns.all])

    def _check_types(self, place: str) -> None:
        from pyarrow import types as is_a

        for name in self.columns.numeric:
            kind = self._schema.field(name).type
            tests = (is_a.is_integer, is_a.is_floating, is_a.is_decimal, is_a.is_boolean, is_a.is_null)
            if not any(test(kind) for test in tests):
                raise not_numeric(name, kind, place)


def _place(source: Any, files: Sequence[Any] | None) -> str:
    """Return the words for all files, for messages."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return "the dataset" if not files else files[0].path if len(files) == 1 else f"{files[0].path} and other files"


def _numbers(column: Any) -> Any:
    """Return an Arrow column of numbers in double precision, nan where they are missing."""
    return column.cast("float64", safe=False).to_numpy()
