"""Files and folders that one process at a time reads, changes and writes back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@contextmanager
def alone(path: Path, tell: Callable[[str], None] | None = None) -> Iterator[None]:
    """Keep other processes that use this function with the same path waiting until the block ends.

    The path must exist. The file may be replaced in the block: who waits then continues with the new one. A process
    that is killed keeps nobody waiting. On Windows and on file systems without locks, nobody waits.
    """
    descriptor = _locked(path, tell) if fcntl is not None else None
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _locked(path: Path, tell: Callable[[str], None] | None) -> int | None:
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
