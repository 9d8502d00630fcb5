"""Parquet files, read whole or in blocks, unless they expand to more than their size can explain."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bdkn.errors import InvalidParameterError
from bdkn.table_files.dialect import check_header

LEAST_BYTES = 1 << 30
"""A file may always expand to so many bytes."""

MOST_FACTOR = 1000
"""Beyond these, it may expand to so many times its size. A value that repeats is stored once, so that a few kB can hold
any number of rows."""

_BLOCK_ROWS = 1 << 16
_WIDTH = 8
"""Bytes of a number in memory."""


@contextmanager
def opened_parquet(path: str | os.PathLike[str], texts: Sequence[str] = ()) -> Iterator[Any]:
    """Yield an open Parquet file, in which the columns ``texts`` are read as codes; errors of it name the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False, read_dictionary=list(texts)) as file:
            check_header(file.schema_arrow.names, os.fspath(path))
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InvalidParameterError(
            f"{os.fspath(path)} cannot be read as Parquet ({reason}); it is damaged, incomplete or of another kind"
        ) from error


def parquet_blocks(path: str | os.PathLike[str], columns: list[str]) -> Iterator[Any]:
    """Yield columns of a Parquet file in blocks of rows, as Arrow tables."""
    import pyarrow as pa

    with opened_parquet(path) as file:
        check_expansion(file, os.fspath(path), columns)
        for batch in file.iter_batches(batch_size=_BLOCK_ROWS, columns=columns):
            yield pa.Table.from_batches([batch]).select(columns)


def check_expansion(file: Any, path: str, columns: Sequence[str]) -> None:
    """Raise if columns of an open Parquet file need more memory than the size of the file can explain."""
    import pyarrow as pa

    most = max(LEAST_BYTES, MOST_FACTOR * os.path.getsize(path))
    schema, rows = file.schema_arrow, file.metadata.num_rows
    texts = [name for name in columns if pa.types.is_string(schema.field(name).type)]
    _compare(path, _WIDTH * rows * len(columns), most)
    if not texts:
        return
    with opened_parquet(path, texts) as coded:
        total = 0
        for batch in coded.iter_batches(batch_size=_BLOCK_ROWS, columns=texts):
            total += sum(map(_characters, batch.columns))
            _compare(path, total, most)


def _characters(column: Any) -> int:
    """Return the bytes of a column of codes of texts, if each text was written out."""
    import pyarrow.compute as pc

    lengths = pc.cast(pc.binary_length(column.dictionary), "int64")
    return pc.sum(lengths.take(column.indices)).as_py() or 0


def _compare(path: str, size: int, most: int) -> None:
    if size > most:
        raise InvalidParameterError(
            f"{path} must not expand to more than {MOST_FACTOR:,} times its size; it expands to {size >> 20:,} MiB or "
            "more. If that is what you expect, write it as CSV first, or as several files"
        )
