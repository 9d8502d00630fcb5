"""Compressed files that do not expand to more than their size can explain: a few kB of gzip can hold gigabytes."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from typing import Any, BinaryIO

from bdkn.errors import InvalidParameterError

LEAST_BYTES = 1 << 26
"""A compressed file may always expand to so many bytes."""

MOST_FACTOR = 100
"""Beyond these, it may expand to so many times its size; tables of numbers and words expand to 3 to 20 times theirs."""

DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)
"""What reading a damaged or unfinished file raises."""


class Expanded(io.RawIOBase):
    """The content of a gzip file; reading on raises when it is more than its size can explain."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file: Any = gzip.open(path, "rb")  # noqa: SIM115
        self._path, self._count = os.fspath(path), 0
        self._most = max(LEAST_BYTES, MOST_FACTOR * os.stat(path).st_size)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read up to ``len(buffer)`` bytes into ``buffer``; return their number, 0 at the end."""
        count: int = self._file.readinto(buffer)
        self._count += count
        if self._count > self._most:
            raise InvalidParameterError(
                f"{self._path} must not expand to more than {MOST_FACTOR} times its size; it expands to more than "
                f"{self._most >> 20:,} MiB. If that is what you expect, unpack it first: gunzip {self._path}"
            )
        return count

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def open_binary(path: str | os.PathLike[str], *, packed: bool, buffer_bytes: int = 1 << 16) -> BinaryIO:
    """Return a file open for reading, expanded if it is ``packed`` by gzip."""
    file: Any = io.BufferedReader(Expanded(path), buffer_bytes) if packed else open(path, "rb")  # noqa: SIM115
    return file  # type: ignore[no-any-return]
