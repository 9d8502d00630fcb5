"""Formats and compression of table files, and checks of their paths."""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from bdkn.errors import InvalidParameterError, shown

ALLOWED_BYTES = 1 << 26
"""Uncompressed size up to which every gzip file is read, in bytes."""

MAX_EXPANSION = 100
"""Maximum ratio of uncompressed to compressed size of larger gzip files; usual tables have 3 to 20."""

DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)
"""Types of errors that are raised when a damaged or incomplete gzip file is read."""

STREAM = "-"
"""Path that stands for standard input or standard output, in the format CSV."""

_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")


class _Bytes(io.RawIOBase):
    """Base class of streams of bytes that can be read."""

    def readable(self) -> bool:
        """Return True."""
        return True


class Expanded(_Bytes):
    """Stream of the uncompressed bytes of a gzip file; reading raises if they are too many for the file's size."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file: Any = gzip.open(path, "rb")  # noqa: SIM115
        self._path, self._count = os.fspath(path), 0
        self._most = max(ALLOWED_BYTES, MAX_EXPANSION * os.stat(path).st_size)

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read up to ``len(buffer)`` bytes into ``buffer``; return their number, which is 0 at the end."""
        count: int = self._file.readinto(buffer)
        self._count += count
        if self._count > self._most:
            raise InvalidParameterError(
                f"{self._path} must not expand to more than {MAX_EXPANSION} times its size; it expands to more than "
                f"{self._most >> 20:,} MiB. If that is what you expect, unpack it first: gunzip {self._path}"
            )
        return count

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def open_binary(path: str | os.PathLike[str], *, packed: bool, buffer_bytes: int = 1 << 16) -> BinaryIO:
    """Open a file to read bytes; with ``packed``, it is a gzip file, which is uncompressed."""
    file: Any = io.BufferedReader(Expanded(path), buffer_bytes) if packed else open(path, "rb")  # noqa: SIM115
    return file  # type: ignore[no-any-return]


class Replayed(_Bytes):
    """Stream of the bytes ``head``, which were already read, followed by the other bytes of the stream ``rest``."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = io.BytesIO(head), rest

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read up to ``len(buffer)`` bytes into ``buffer``; return their number, 0 at the end."""
        data = self._head.read(len(buffer)) or self._rest.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


@dataclass(frozen=True)
class TableFormat:
    """Format of a table file; ``kind`` is "csv" or "parquet", and ``delimiter`` is None if it has to be detected."""

    kind: str
    delimiter: str | None = None
    gzip: bool = False


def format_of(path: str | os.PathLike[str]) -> TableFormat:
    """Return the format of a table file by the extension of its name; raise if it is unknown."""
    name = Path(path).name.lower()
    if name == STREAM:
        return TableFormat("csv")
    packed = name.endswith(".gz")
    inner = Path(name.removesuffix(".gz")).suffix
    if inner in (".parquet", ".pq") and not packed:
        return TableFormat("parquet")
    if inner in (".csv", ".txt"):
        return TableFormat("csv", None, packed)
    if inner in (".tsv", ".tab"):
        return TableFormat("csv", "\t", packed)
    raise InvalidParameterError(
        f"the name of a table file must end in one of {', '.join(_ENDINGS)}; got {os.fspath(path)}: rename the file, "
        "or export the table as CSV"
    )


def check_input(path: str | os.PathLike[str]) -> None:
    """Raise unless ``path`` is an ordinary file that exists."""
    place = Path(path)
    try:
        mode = place.stat().st_mode
    except PermissionError:
        raise InvalidParameterError(f"{place} cannot be reached; check the permissions of its folder") from None
    except (OSError, ValueError):  # it does not exist, is a link to itself, or has an invalid name
        raise InvalidParameterError(f"there is no file {shown(str(place))}; check the name and the folder") from None
    if stat.S_ISDIR(mode):
        raise InvalidParameterError(f"a table must be a file; got {place}, which is a folder: name a file in it")
    if not stat.S_ISREG(mode):
        raise InvalidParameterError(
            f"a table must be an ordinary file; got {place}, which is a pipe or a device: `bdkn predict` reads a pipe "
            "by the name -, as standard input; for all else write it to a file first"
        )
    if not os.access(place, os.R_OK):
        raise InvalidParameterError(f"{place} cannot be read; check its permissions")


def check_name(place: Path) -> None:
    """Raise if the operating system does not allow a file with this name."""
    try:
        os.lstat(place)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:  # too long, inside a file, or with a zero byte
        raise InvalidParameterError(
            f"the output must be a file that can be written; got {str(place)!r} ({error}): choose another name"
        ) from error


def check_output(path: str | os.PathLike[str], *inputs: str | os.PathLike[str]) -> None:
    """Raise unless a file can be written to ``path``, which must not be one of the ``inputs``."""
    place = Path(path)
    check_name(place)
    if place.is_dir():
        raise InvalidParameterError(f"the output must be a file; got {place}, which is a folder: name a file in it")
    if not place.parent.is_dir():
        raise InvalidParameterError(f"the folder {place.parent} does not exist; create it first, or choose another")
    if not os.access(place.parent, os.W_OK):
        raise InvalidParameterError(f"the folder {place.parent} cannot be written to; choose another")
    for other in inputs:
        if place.exists() and Path(other).exists() and place.samefile(other):
            raise InvalidParameterError(f"the output must not be the input; got {place} for both: choose another name")
