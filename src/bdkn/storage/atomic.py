"""Write files completely or not at all, and by one process at a time.

A file is written as a temporary file in the same folder, with the ending ``.part``, and renamed when it is complete.
The writing process keeps it locked: other processes recognise files that a killed process left, as these have no lock.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from bdkn.errors import InvalidParameterError

try:
    import fcntl
except ImportError:  # on Windows no locks are needed, since an open file cannot be removed
    fcntl = None  # type: ignore[assignment]

_PART_NAME = re.compile(r"\..*\.[0-9]+\.[0-9a-f]{8}\.part", re.DOTALL)

_MAX_NAME = 80
"""Maximum number of bytes of a file's name used in the name of its temporary file; file systems allow 255 in all."""

_ABANDONED = 24 * 3600.0
"""Age of a temporary file, in seconds, after which it is removed on file systems without locks."""


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """Yield an open temporary file, which is renamed to ``target`` when the block ends without an error.

    Readers see either the old or the new content, never a part of it. If ``target`` is a symbolic link, the file that
    it points to is replaced. A file that is replaced keeps its permissions and, where possible, its owner; a new file
    has the permissions of the umask. A process that is killed may leave a hidden ``.part`` file in the folder, which is
    never read; it is removed when a file is next written to this folder.
    """
    path = _check_target(target)
    remove_abandoned_parts(path.parent)
    part, file = open_part(path)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            _copy_mode(path, part)
            if os.name != "nt":
                os.replace(part, path)  # while the file is locked, so that no process removes it as abandoned
        if os.name == "nt":  # Windows cannot rename an open file
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def replace_file(target: Path, content: bytes) -> None:
    """Write ``content`` to the file ``target``, completely or not at all."""
    with replacing(target) as file:
        file.write(content)


def _check_target(target: Path) -> Path:
    """Return the path without symbolic links; raise unless a file can be created or replaced there."""
    path = Path(os.path.realpath(target))
    if path.is_dir():
        raise IsADirectoryError(f"{target} is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist; create it first, or choose another")
    if path.is_symlink():
        raise InvalidParameterError(f"{target} is a link that leads to itself; remove it, or choose another name")
    if path.exists() and not path.is_file():
        found = "pipe" if path.is_fifo() else "socket" if path.is_socket() else "device"
        raise InvalidParameterError(
            f"{target} must be the name of a file, which is replaced as a whole; it is a {found}: choose another"
        )
    return path


def open_part(target: Path) -> tuple[Path, BinaryIO]:
    """Create a locked temporary file in the folder of ``target``; return its path and the open file."""
    start = os.fsencode(target.name)[:_MAX_NAME].decode(errors="ignore")
    while True:
        part = target.with_name(f".{start}.{os.getpid()}.{os.urandom(4).hex()}.part")
        try:
            file = open(part, "xb")  # noqa: SIM115
        except FileExistsError:
            continue
        if _lock_part(file):
            return part, file
        file.close()


def _lock_part(file: BinaryIO) -> bool:
    """Lock a new temporary file; return False if another process removed it as abandoned before it was locked."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:  # the file system has no locks
        return True
    return os.fstat(file.fileno()).st_nlink > 0


def remove_abandoned_parts(folder: Path) -> None:
    """Remove the temporary files in a folder that were left by processes that no longer run."""
    with suppress(OSError), os.scandir(folder) as entries:
        for path in [Path(entry.path) for entry in entries if entry.name.endswith(".part")]:
            with suppress(OSError):
                remove_abandoned(path)


def remove_abandoned(path: Path) -> None:
    """Remove a file if it is a temporary file that was left by a process that no longer runs.

    On a file system without locks, a temporary file that is less than a day old is kept.
    """
    if _PART_NAME.fullmatch(path.name) is None or path.is_symlink() or not path.is_file():
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
            if time.time() - path.stat().st_mtime < _ABANDONED:
                return
        path.unlink()


def _copy_mode(path: Path, part: Path) -> None:
    """Give the temporary file ``part`` the permissions and the owner of the file ``path`` that it will replace."""
    try:
        old = path.stat()
    except FileNotFoundError:
        return
    if hasattr(os, "chown"):
        with suppress(OSError):  # only a superuser may change the owner
            os.chown(part, old.st_uid, old.st_gid)
    os.chmod(part, stat.S_IMODE(old.st_mode))


@contextmanager
def locked(path: Path, notify: Callable[[str], None] | None = None) -> Iterator[None]:
    """Lock a path until the block ends; other processes that lock the same path wait.

    The path must exist. If the file is replaced in the block, waiting processes continue with the new file. The lock of
    a process that is killed is released. On Windows and on some file systems nothing is locked. ``notify`` is called
    with a message if this process must wait.
    """
    descriptor = _lock_path(path, notify) if fcntl is not None else None
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lock_path(path: Path, notify: Callable[[str], None] | None) -> int | None:
    """Open and lock the file at a path; return its file descriptor, None if the file system has no locks."""
    while True:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if notify is not None:
                    notify(f"waiting for another process, which changes {path}")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except OSError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the file was replaced while this process waited
