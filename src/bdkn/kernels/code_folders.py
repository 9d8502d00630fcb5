"""The folders in which compiled code is kept, and who may have written what is in them."""

from __future__ import annotations

import functools
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba.misc.appdirs import AppDirs

_HERE = Path(__file__).parent
_config: Any = numba.config
_AppDirs: Any = AppDirs
_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""How files are opened: no links, and no waiting for the writer of a pipe."""


def readable() -> Iterator[Path]:
    """Yield the folders to look for code in: the user's choice, the package's, the user's cache, a temporary one."""
    yield from _lasting()
    if (folder := _temporary(make=False)) is not None:
        yield folder


def write_first(write: Callable[[Path], None]) -> None:
    """Call ``write`` with the folders in turn, until one takes the file; say so once if it will not last."""
    for folder in _lasting():
        if _is_written(write, folder, mode=0o755):
            return
    folder_for_now = _temporary(make=True)
    if folder_for_now is not None and _is_written(write, folder_for_now, mode=0o700):
        _say_once(f"compiled code is kept in {folder_for_now}, which may not last")
    else:
        _say_once("compiled code cannot be kept, and every process will compile it again")


def read_trusted(path: Path) -> bytes | None:
    """Return the content of a file that only this user, root or the owner of this library can have written."""
    try:
        with open(os.open(path, _READ), "rb") as file:
            return file.read() if _is_trusted(os.fstat(file.fileno())) else None
    except OSError:
        return None


def _lasting() -> Iterator[Path]:
    if _config.CACHE_DIR:  # nothing but what the user chose
        yield Path(_config.CACHE_DIR)
        return
    yield _HERE / "__pycache__"
    user = Path(_AppDirs("bdkn", appauthor=False).user_cache_dir)
    if user.is_absolute():  # without a home, "~" stays as it is
        yield user


def _user() -> int | None:
    """Return the number of the user, None on systems without one."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def _temporary(*, make: bool) -> Path | None:
    """Return this user's own folder among the temporary ones, None if others could put something in its place."""
    user = _user()
    if user is None:  # on Windows a user's cache can always be written
        return None
    try:
        parent = Path(tempfile.gettempdir())
        folder = parent / f"bdkn-code-{user}"
        above = parent.stat()
        if make:
            folder.mkdir(mode=0o700, exist_ok=True)
        here = folder.lstat()
    except OSError:
        return None
    is_guarded = above.st_uid in (0, user) and (above.st_mode & stat.S_ISVTX or not above.st_mode & 0o022)
    is_private = stat.S_ISDIR(here.st_mode) and here.st_uid == user and not here.st_mode & 0o077
    return folder if is_guarded and is_private else None


def _is_trusted(file: os.stat_result) -> bool:
    if not stat.S_ISREG(file.st_mode):
        return False
    user = _user()
    if user is None:
        return True
    return file.st_uid in _trusted_owners(user) and not file.st_mode & 0o022


def _trusted_owners(user: int) -> set[int]:
    """Return who can make this process run code anyway: the user, root, and the owner of this file."""
    try:
        return {0, user, _HERE.stat().st_uid}
    except OSError:
        return {0, user}


def _is_written(write: Callable[[Path], None], folder: Path, mode: int) -> bool:
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
        write(folder)
    except OSError:
        return False
    return True


@functools.cache
def _say_once(what: str) -> None:
    tried = ", ".join(map(str, _lasting()))
    text = (
        f"bdkn: {what}, since none of these folders can be written: {tried}; set the environment variable "
        "NUMBA_CACHE_DIR to a folder that you can write and others cannot"
    )
    print(text, file=sys.stderr, flush=True)
