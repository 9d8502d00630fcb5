"""Chunks of encoded rows in a temporary file: rows of all places of the source in each, so that all are alike."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

from bdkn.blocks.numbering import CHUNK_ROWS, Numbers, chunk_of
from bdkn.errors import InvalidParameterError
from bdkn.rows import Rows
from bdkn.typing import IndexArray

_NUMBERS_AT_ONCE = 2**20
"""Row numbers whose chunks are computed at once."""

Encoded = tuple[Numbers, Numbers, Rows]
"""Numbers of rows, the numbers that folds are functions of, and the rows as networks see them."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows as networks see them, in the order of their numbers, and the ``units`` that folds are functions of."""

    rows: Rows
    units: Numbers

    def __len__(self) -> int:
        return len(self.units)

    def __sizeof__(self) -> int:  # by which Dask decides what to move and what to keep in memory
        return sum(array.nbytes for array in (self.rows.X, self.rows.y, self.units)) + 8 * len(self)


def number_of_chunks(n: int, chunk_rows: int = CHUNK_ROWS) -> int:
    """Return the number of chunks of about equal size for so many rows."""
    return -(-n // chunk_rows)


class ChunkFile(AbstractContextManager["ChunkFile"]):
    """A temporary file with chunks of encoded rows; it is removed when the block is left.

    Parameters
    ----------
    sizes : array (C,)
        The number of rows for which each chunk has room.
    n_inputs : int
        Inputs of a row.
    weighted : bool
        Whether rows have counts.
    folder : str, optional
        Where the file is made; None: where the system keeps temporary files.
    """

    def __init__(self, sizes: IndexArray, n_inputs: int, *, weighted: bool, folder: str | None = None) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        counts = [("counts", "<f8")] if weighted else []
        self._record = np.dtype([("X", "<f4", (n_inputs,)), ("y", "<f8"), ("units", "<u8"), *counts])
        self._starts = np.concatenate([[0], np.cumsum(self.sizes)])
        self._written = np.zeros(len(self.sizes), dtype=np.int64)
        self._lock = threading.Lock()
        self._file: BinaryIO = tempfile.TemporaryFile(prefix="bdkn-", suffix=".rows", dir=folder)  # noqa: SIM115
        self._reserve()

    def _reserve(self) -> None:
        """Ask for the space of all rows, so that a disk that is too small is known before the work begins."""
        size = int(self._starts[-1]) * self._record.itemsize
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._file.fileno(), 0, size)
            else:
                self._file.truncate(size)
        except OSError as error:
            self._file.close()
            raise InvalidParameterError(
                f"a fit in blocks writes the encoded rows to a temporary file, which needs {size / 1e9:.3g} GB in "
                f"{tempfile.gettempdir()}: {error.strerror}; give it another folder, environment variable TMPDIR"
            ) from error

    def __enter__(self) -> ChunkFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def nbytes(self) -> int:
        """The size of the file."""
        return int(self._starts[-1]) * self._record.itemsize

    def append(self, numbers: Numbers, units: Numbers, rows: Rows) -> None:
        """Write rows, each to the end of its chunk."""
        chunks = chunk_of(numbers, len(self))
        order = np.argsort(chunks, kind="stable")
        records = np.empty(len(rows), dtype=self._record)
        records["X"], records["y"], records["units"] = rows.X[order], rows.y[order], units[order]
        if rows.counts is not None:
            records["counts"] = rows.counts[order]
        ends = np.cumsum(np.bincount(chunks, minlength=len(self)))
        for chunk, end in enumerate(ends.tolist()):
            start = 0 if chunk == 0 else int(ends[chunk - 1])
            if end > start:
                self._write(chunk, records[start:end])

    def _write(self, chunk: int, records: np.ndarray[Any, Any]) -> None:
        place = int(self._starts[chunk] + self._written[chunk])
        self._file.seek(place * self._record.itemsize)
        self._file.write(records.data)
        self._written[chunk] += len(records)

    def read(self, chunk: int) -> Chunk:
        """Return a chunk; threads may read at the same time."""
        records = np.empty(int(self._written[chunk]), dtype=self._record)
        with self._lock:
            self._file.seek(int(self._starts[chunk]) * self._record.itemsize)
            self._file.readinto(records.view(np.uint8).data)  # type: ignore[attr-defined]
        counts = records["counts"].copy() if "counts" in (self._record.names or ()) else None
        rows = Rows(np.ascontiguousarray(records["X"]), records["y"].copy(), counts)
        return Chunk(rows, records["units"].copy())

    def __iter__(self) -> Iterator[Chunk]:
        return (self.read(chunk) for chunk in range(len(self)))


def write_chunks(blocks: Iterable[Encoded], sizes: IndexArray, n_inputs: int, *, weighted: bool) -> ChunkFile:
    """Return a file of all rows, which come block by block."""
    file = ChunkFile(sizes, n_inputs, weighted=weighted)
    try:
        for numbers, units, rows in blocks:
            file.append(numbers, units, rows)
    except BaseException:
        file.__exit__(None, None, None)
        raise
    return file


def chunk_sizes(numbers: Iterable[Numbers], n_chunks: int) -> IndexArray:
    """Return the number of rows of each chunk, for row numbers given in parts."""
    sizes = np.zeros(n_chunks, dtype=np.int64)
    for part in numbers:
        sizes += np.bincount(chunk_of(part, n_chunks), minlength=n_chunks)
    return sizes


def consecutive_numbers(n: int) -> Iterator[Numbers]:
    """Yield the numbers from 0 to n - 1 in parts."""
    for start in range(0, n, _NUMBERS_AT_ONCE):
        yield np.arange(start, min(start + _NUMBERS_AT_ONCE, n), dtype=np.uint64)
