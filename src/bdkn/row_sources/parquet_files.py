"""Parquet files of a row source: which they are, what columns they have, and their rows as Arrow tables."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bdkn.errors import InvalidParameterError, shown
from bdkn.row_sources.tables import worded
from bdkn.tables.reading import column_names

_ENDINGS = (".parquet", ".pq", ".parq")
_BUFFER = 1 << 18
"""Bytes of each column that are read at a time."""


def open_dataset(source: Any) -> Any:
    """Return the Arrow dataset of a file, a folder, a pattern, a list of files, or a dataset."""
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    if isinstance(source, ds.Dataset):
        return source
    if isinstance(source, str) and "://" in source:
        with named_errors(source):
            return ds.dataset(source, format="parquet", partitioning="hive")
    files, folder = find_files(source)
    parts = {} if folder is None else {"partitioning": "hive", "partition_base_dir": folder}
    with named_errors(files[0]):
        column_names(pq.read_schema(files[0]).empty_table())  # which raises if some are equal
        return ds.dataset(files, format="parquet", **parts)


def find_files(source: Any) -> tuple[list[str], str | None]:
    """Return the Parquet files that a user has named, and their folder if it is one."""
    if isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        if os.path.isdir(name):
            return _files_of(Path(name)), name
        found = sorted(glob.glob(name, recursive=True)) if not os.path.exists(name) else [name]
        if not found:
            raise InvalidParameterError(f"there is no file {shown(name)}; check the name and the folder")
        return found, None
    if (
        not isinstance(source, Sequence)
        or not all(isinstance(file, str | os.PathLike) for file in source)
        or not source
    ):
        raise InvalidParameterError(
            "ParquetRows needs a file, a folder, a pattern such as 'rows/*.parquet', a list of files or a pyarrow "
            f"Dataset; got {shown(source)}"
        )
    return [file for one in source for file in find_files(one)[0]], None


def _files_of(folder: Path) -> list[str]:
    """Return the Parquet files of a folder and the folders in it, by their names; hidden ones are left out."""
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    found = [file for file in files if file.suffix.lower() in _ENDINGS and not _is_hidden(file)]
    if not found:
        has = f"it has {worded(tuple(sorted(map(str, files))))}" if files else "it is empty"
        raise InvalidParameterError(
            f"the folder {folder} must hold Parquet files, whose names end in {', '.join(_ENDINGS)}; {has}"
        )
    return [str(folder / file) for file in sorted(found, key=Path.as_posix)]


def _is_hidden(file: Path) -> bool:
    return any(part.startswith((".", "_")) for part in file.parts)


def parquet_fragments(dataset: Any) -> list[Any] | None:
    """Return the files of a dataset; None if it is filtered or of another format, and must be read by Arrow."""
    import pyarrow.dataset as ds

    try:
        fragments = list(dataset.get_fragments())
    except ValueError:  # filtered
        return None
    return fragments if all(isinstance(part, ds.ParquetFileFragment) for part in fragments) else None


def common_schema(fragments: Sequence[Any], names: Sequence[str] | None) -> Any:
    """Return the schema of columns (None: all) in all files; raise if a file has other columns or other types."""
    import pyarrow as pa

    schema = None
    for part in fragments:
        with named_errors(part.path):
            own = with_partition(part)
        wanted = column_names(own.empty_table()) if names is None else names
        known = set(own.names) & set(wanted)
        if schema is not None and (missing := set(schema.names) ^ known):
            raise InvalidParameterError(
                f"all files must have the columns of the first; {part.path} and {fragments[0].path} differ in "
                f"{worded(tuple(sorted(missing)))}: name the columns to read, columns=[...], or correct the file"
            )
        own = pa.schema([own.field(name) for name in wanted if name in known])
        try:
            schema = own if schema is None else pa.unify_schemas([schema, own], promote_options="permissive")
        except pa.ArrowException as error:
            raise InvalidParameterError(
                f"columns must have one type in all files; those of {part.path} differ ({error}): write it anew"
            ) from error
    return schema


def with_partition(part: Any) -> Any:
    """Return the schema of a file, with the columns that the names of its folders tell."""
    import pyarrow as pa

    schema = part.physical_schema.remove_metadata()
    for name, value in _partition(part).items():
        if name not in schema.names:
            schema = schema.append(pa.field(name, pa.scalar(value).type))
    return schema


def file_tables(part: Any, schema: Any, size: int) -> Iterator[Any]:
    """Yield the rows of a file as Arrow tables of at most ``size`` rows, with the columns of a schema.

    Columns are decoded as they are needed, so that a large row group is never in memory as a whole.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    inside = set(part.physical_schema.names)
    names = [name for name in schema.names if name in inside]
    fixed = {name: value for name, value in _partition(part).items() if name not in inside}
    groups = [group.id for group in part.row_groups]
    with (
        named_errors(part.path),
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


def scanned_tables(dataset: Any, schema: Any, size: int) -> Iterator[Any]:
    """Yield the rows of any dataset as Arrow tables of at most ``size`` rows, of which Arrow reads few ahead."""
    import pyarrow as pa

    with named_errors("the dataset"):
        scanner = dataset.scanner(columns=schema.names, batch_size=size, batch_readahead=1, fragment_readahead=1)
        for batch in scanner.to_batches():
            yield pa.Table.from_batches([batch])


@contextmanager
def named_errors(place: str) -> Iterator[None]:
    """Raise errors of Arrow as one that names the file."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InvalidParameterError(
            f"{place} cannot be read as Parquet ({reason}); it is damaged, incomplete or of another kind"
        ) from error


def _partition(part: Any) -> dict[str, Any]:
    """Return the values of columns that the names of a file's folders tell, as in year=2026/part.parquet."""
    import pyarrow.dataset as ds

    return dict(ds.get_partition_keys(part.partition_expression))
