"""Row source of Parquet files and pyarrow datasets."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bdkn.arrays import column_names
from bdkn.data.sources import BlockSource, NamedColumns, Piece, block_rows, not_numeric
from bdkn.errors import InvalidParameterError, listed, parquet_errors, require, shown

_ENDINGS = (".parquet", ".pq", ".parq")
"""File extensions of Parquet files."""

_BUFFER = 1 << 18
"""Size of the read buffer for each column of a Parquet file, in bytes."""


class ParquetRows(BlockSource):
    """Rows of Parquet files, read in blocks that take little memory.

    Files of a folder or a pattern are read in the order of their names, files of a list in the given order. Large row
    groups are read in parts.

    Parameters
    ----------
    source : str, path-like, list of these, or pyarrow Dataset
        A file, a folder with Parquet files, a pattern such as ``"rows/*.parquet"``, several of these, or a dataset of
        ``pyarrow.dataset``, which may be filtered. Names of folders such as ``year=2026`` give a column ``year``.
    target : str
        The name of the column of targets.
    columns : list of str, optional
        The names of the columns to predict from; by default all except target, weights and groups. No other is read.
    sample_weight : str, optional
        The name of a column with the number of times that each row is counted.
    groups : str, optional
        The name of a column of labels; rows with equal labels are in the same fold.

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
        import pyarrow as pa
        import pyarrow.dataset as ds
        from pyarrow import types as is_a

        self._dataset = _open_dataset(source)
        self._files: list[Any] | None = None  # None if the dataset is filtered or has other than Parquet files
        with suppress(ValueError):  # raised by a filtered dataset
            fragments = list(self._dataset.get_fragments())
            self._files = fragments if all(isinstance(part, ds.ParquetFileFragment) for part in fragments) else None
        place = _place(source, self._files)
        names = [str(name) for name in column_names(self._dataset.schema.empty_table())]
        self.columns = NamedColumns.of(
            place, names, target, columns=columns, sample_weight=sample_weight, groups=groups
        )
        if source is self._dataset or self._files is None:
            schema = self._dataset.schema
        else:
            schema = _common_schema(self._files, None if columns is None else self.columns.all)
        self._schema = pa.schema([schema.field(name) for name in self.columns.all])
        for name in self.columns.numeric:
            kind = self._schema.field(name).type
            tests = (is_a.is_integer, is_a.is_floating, is_a.is_decimal, is_a.is_boolean, is_a.is_null)
            if not any(test(kind) for test in tests):
                raise not_numeric(name, kind, place)
        super().__init__(self.columns.role_names)

    def _count(self) -> int:
        parts = [self._dataset] if self._files is None else self._files
        return sum(part.count_rows() for part in parts)

    def _pieces(self, size: int | None) -> Iterator[Piece]:
        import pyarrow as pa

        size = size or block_rows(len(self.columns.inputs))
        for part in self._files or ():
            for table in _file_tables(part, self._schema, size):
                yield self._piece(table, part.path)
        if self._files is None:
            names = self._schema.names
            with parquet_errors("the dataset"):  # Arrow reads as few batches in advance as possible, to save memory
                scanner = self._dataset.scanner(names, batch_size=size, batch_readahead=1, fragment_readahead=1)
                for batch in scanner.to_batches():
                    yield self._piece(pa.Table.from_batches([batch]), "")

    def _piece(self, table: Any, path: str) -> Piece:
        X = table.select(self.columns.inputs)
        return self.columns.piece(
            X,
            lambda name: table[name].cast("float64", safe=False).to_numpy(),
            lambda name: table[name].to_numpy(),
            os.path.basename(path),
        )


def _place(source: Any, files: Sequence[Any] | None) -> str:
    """Return a name of the Parquet source for error messages, such as the path of its file."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return "the dataset" if not files else files[0].path if len(files) == 1 else f"{files[0].path} and other files"


def _open_dataset(source: Any) -> Any:
    """Open a file, a folder, a pattern or a list of files as a pyarrow dataset; return a dataset unchanged."""
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    if isinstance(source, ds.Dataset):
        return source
    if isinstance(source, str) and "://" in source:
        with parquet_errors(source):
            return ds.dataset(source, format="parquet", partitioning="hive")
    files, folder = _find_files(source)
    parts = {} if folder is None else {"partitioning": "hive", "partition_base_dir": folder}
    with parquet_errors(files[0]):
        column_names(pq.read_schema(files[0]).empty_table())  # raises if names are equal
        return ds.dataset(files, format="parquet", **parts)


def _find_files(source: Any) -> tuple[list[str], str | None]:
    """Return the paths of the Parquet files of a source, and the path of the folder if the source is a folder."""
    if isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        if os.path.isdir(name):
            return _files_of(Path(name)), name
        found = sorted(glob.glob(name, recursive=True)) if not os.path.exists(name) else [name]
        if not found:
            raise InvalidParameterError(f"there is no file {shown(name)}; check the name and the folder")
        return found, None
    are_files = isinstance(source, Sequence) and all(isinstance(file, str | os.PathLike) for file in source)
    if not are_files or not source:
        raise InvalidParameterError(
            "ParquetRows needs a file, a folder, a pattern such as 'rows/*.parquet', a list of files or a pyarrow "
            f"Dataset; got {shown(source)}"
        )
    return [file for one in source for file in _find_files(one)[0]], None


def _files_of(folder: Path) -> list[str]:
    """Return the paths of the Parquet files of a folder and its subfolders, sorted by name, without hidden files."""
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    found = [
        file
        for file in files
        if file.suffix.lower() in _ENDINGS and not any(part.startswith((".", "_")) for part in file.parts)
    ]
    if not found:
        has = f"it has {listed(sorted(map(str, files)))}" if files else "it is empty"
        raise InvalidParameterError(
            f"the folder {folder} must hold Parquet files, whose names end in {', '.join(_ENDINGS)}; {has}"
        )
    return [str(folder / file) for file in sorted(found, key=Path.as_posix)]


def _common_schema(fragments: Sequence[Any], names: Sequence[str] | None) -> Any:
    """Return the common Arrow schema of all files, for the columns ``names`` (None: all); raise if there is none."""
    import pyarrow as pa

    schema = None
    for part in fragments:
        with parquet_errors(part.path):
            own = part.physical_schema.remove_metadata()
        for name, value in _partition(part).items():
            if name not in own.names:
                own = own.append(pa.field(name, pa.scalar(value).type))
        required = column_names(own.empty_table()) if names is None else names
        known = set(own.names) & set(required)
        if schema is not None and (missing := set(schema.names) ^ known):
            raise InvalidParameterError(
                f"all files must have the columns of the first; {part.path} and {fragments[0].path} differ in "
                f"{listed(sorted(missing))}: name the columns to read, columns=[...], or correct the file"
            )
        own = pa.schema([own.field(name) for name in required if name in known])
        try:
            schema = own if schema is None else pa.unify_schemas([schema, own], promote_options="permissive")
        except pa.ArrowException as error:
            raise InvalidParameterError(
                f"columns must have one type in all files; those of {part.path} differ ({error}): write it anew"
            ) from error
    return schema


def _file_tables(part: Any, schema: Any, size: int) -> Iterator[Any]:
    """Yield the rows of a Parquet file as Arrow tables of at most ``size`` rows, with the columns of ``schema``.

    Columns are decoded in parts, so that a large row group is never in memory as a whole.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    inside = set(part.physical_schema.names)
    names = [name for name in schema.names if name in inside]
    fixed = {name: value for name, value in _partition(part).items() if name not in inside}
    groups = [group.id for group in part.row_groups]
    with (
        parquet_errors(part.path),
        part.filesystem.open_input_file(part.path) as raw,
        pq.ParquetFile(raw, buffer_size=_BUFFER, pre_buffer=False) as file,
    ):
        for batch in file.iter_batches(batch_size=size, row_groups=groups, columns=names):
            columns = [
                batch.column(name).cast(kind)
                if name in inside
                else pa.repeat(pa.scalar(fixed.get(name), kind), batch.num_rows)
                for name, kind in zip(schema.names, schema.types, strict=True)
            ]
            yield pa.table(columns, schema=schema)


def _partition(part: Any) -> dict[str, Any]:
    """Return the columns encoded in folder names and their values, such as year: 2026 for year=2026/part.parquet."""
    import pyarrow.dataset as ds

    return dict(ds.get_partition_keys(part.partition_expression))
