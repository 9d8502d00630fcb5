"""Write files completely or not at all, and by one process at a time."""

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
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from bdkn.errors import InvalidParameterError

try:
    import fcntl
except ImportError:  # Windows
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
        if _lock_part(file):
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


def _lock_part(file: BinaryIO) -> bool:
    """Lock a new part; return False if somebody took it for one of the dead, and removed it, in the meantime."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:  # no locks here
        return True
    return os.fstat(file.fileno()).st_nlink > 0


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """Yield a file to write, which is renamed to ``target`` when the block ends without an error.

    Readers see either the old or the new content, never a part of it. A link stays, and what it points to is replaced.
    A file that is replaced keeps its mode and, where that is allowed, its owner; a new one has the mode that the umask
    says. A writer that is killed may leave a hidden ``.part`` file beside the target, which is never read; it is
    removed when a file is next written to this folder.
    """
    path = check_target(target)
    sweep(path.parent)
    part, file = open_part(path)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            _keep_mode(path, part)
            if os.name != "nt":
                os.replace(part, path)  # while the part is locked, so that nobody takes it for one of the dead
        if os.name == "nt":  # where an open file cannot be renamed
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def replace_file(target: Path, content: bytes) -> None:
    """Write ``content`` to the file ``target``, completely or not at all."""
    with replacing(target) as file:
        file.write(content)


def check_target(target: Path) -> Path:
    """Return the path of a file that can be replaced or made, with links followed; raise if it cannot be one."""
    path = Path(os.path.realpath(target))
    if path.is_dir():
        raise IsADirectoryError(f"{target} is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist; create it first, or choose another")
    if path.is_symlink():
        raise InvalidParameterError(f"{target} is a link that leads to itself; remove it, or choose another name")
    if path.exists() and not path.is_file():
        raise InvalidParameterError(
            f"{target} must be the name of a file, which is replaced as a whole; it is a {_kind(path)}: choose another"
        )
    return path


def sweep(folder: Path) -> None:
    """Remove the parts that writers which are no longer alive have left in a folder."""
    with suppress(OSError), os.scandir(folder) as entries:
        for path in [Path(entry.path) for entry in entries if entry.name.endswith(".part")]:
            with suppress(OSError):
                remove_dead(path)


def _keep_mode(path: Path, part: Path) -> None:
    """Give a part the mode and the owner of the file that it replaces."""
    try:
        old = path.stat()
    except FileNotFoundError:
        return
    if hasattr(os, "chown"):
        with suppress(OSError):  # only a superuser may give files away
            os.chown(part, old.st_uid, old.st_gid)
    os.chmod(part, stat.S_IMODE(old.st_mode))


def _kind(path: Path) -> str:
    if path.is_fifo():
        return "pipe"
    return "socket" if path.is_socket() else "device"


@contextmanager
def alone(path: Path, tell: Callable[[str], None] | None = None) -> Iterator[None]:
    """Keep other processes that use this function with the same path waiting until the block ends.

    The path must exist. The file may be replaced in the block: who waits then continues with the new one. A process
    that is killed keeps nobody waiting. On Windows and on file systems without locks, nobody waits.
    """
    descriptor = _lock_path(path, tell) if fcntl is not None else None
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lock_path(path: Path, tell: Callable[[str], None] | None) -> int | None:
    """Return the open and locked file that has this path, None if there are no locks."""
    while True:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            _wait(descriptor, path, tell)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except OSError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # it was replaced while this process waited


def _wait(descriptor: int, path: Path, tell: Callable[[str], None] | None) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if tell is not None:
            tell(f"waiting for another process, which changes {path}")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
