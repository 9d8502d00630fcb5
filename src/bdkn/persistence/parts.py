"""Parts: the hidden files that are written first and renamed then, locked as long as their writer lives."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed: that is the lock
    fcntl = None  # type: ignore[assignment]

_NAME = re.compile(r"\..*\.[0-9]+\.[0-9a-f]{8}\.part", re.DOTALL)
_LONGEST = 80
_OLD = 24 * 3600.0


def open_part(target: Path) -> tuple[Path, BinaryIO]:
    """Return the path of a new part of a file, and the part, open and locked."""
    start = os.fsencode(target.name)[:_LONGEST].decode(errors="ignore")  # names have at most 255 bytes, parts as well
    while True:
        part = target.with_name(f".{start}.{os.getpid()}.{os.urandom(4).hex()}.part")
        try:
            file = open(part, "xb")  # noqa: SIM115
        except FileExistsError:
            continue
        if _locked(file):
            return part, file
        file.close()


def remove_dead(path: Path) -> None:
    """Remove a file if it is a part, and its writer is no longer alive.

    Where a file system has no locks, parts of the last day are taken for those of the living.
    """
    if _NAME.fullmatch(path.name) is None or path.is_symlink() or not path.is_file():
        return
    if fcntl is None:
        path.unlink()
        return
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        except OSError:
            if time.time() - path.stat().st_mtime < _OLD:
                return
        path.unlink()


def _locked(file: BinaryIO) -> bool:
    """Lock a new part; return False if somebody took it for one of the dead, and removed it, in the meantime."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:  # no locks here
        return True
    return os.fstat(file.fileno()).st_nlink > 0
