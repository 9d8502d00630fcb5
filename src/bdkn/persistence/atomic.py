"""Files that are written completely or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from bdkn.errors import InvalidParameterError
from bdkn.persistence.parts import open_part, remove_dead


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
