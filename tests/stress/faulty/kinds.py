"""What happens to a process while it works: errors of files, limits, and a clock that runs backwards."""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from faulty.works import empty

_TOUCHING = ("open", "os.rename", "os.remove", "os.mkdir", "os.chmod", "os.listdir", "os.scandir", "os.truncate")


def at_step(folder: Path, step: int, do: Callable[[], None]) -> Callable[[], None]:
    """Return what makes a process do something just before its k-th operation on a file or folder of this folder."""

    def arm() -> None:
        count = 0

        def hook(event: str, args: tuple[object, ...]) -> None:
            nonlocal count
            if event in _TOUCHING and args and isinstance(args[0], str | os.PathLike) and _is_below(args[0], folder):
                count += 1
                if count == step:
                    do()

        sys.addaudithook(hook)

    return arm


def _is_below(path: str | os.PathLike[str], folder: Path) -> bool:
    return os.fspath(path).startswith(str(folder))


def signal_itself(number: int) -> Callable[[], None]:
    """Return what sends a signal to the own process."""
    return lambda: os.kill(os.getpid(), number)


def fail(code: int) -> Callable[[], None]:
    """Return what raises an error of the operating system."""

    def do() -> None:
        raise OSError(code, os.strerror(code))

    return do


def file_size_limit(limit: int) -> Callable[[], None]:
    """Return what keeps a process from writing files larger than this."""

    def arm() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return arm


_HELD: list[bytearray] = []


def memory_limit(left: int) -> Callable[[], None]:
    """Return what leaves a process so many bytes of memory: it may take no more, and what it has is used up."""

    def arm() -> None:
        pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize(),) * 2)
        for size in (1 << 20, 1 << 16, 1 << 12, 1 << 9):
            _take(size)
        freed = 0
        while _HELD and freed < left:
            freed += len(_HELD.pop(0))

    return arm


def _take(size: int) -> None:
    """Take all memory in blocks of this size."""
    try:
        while True:
            _HELD.append(bytearray(size))
    except MemoryError:
        return


def clock_backwards(chance: Random) -> Callable[[], None]:
    """Return what makes the clock of a process jump back by up to a year, and run backwards from there."""
    start, step = time.time() - chance.uniform(0, 3e7), chance.uniform(0, 10)

    def arm() -> None:
        calls = iter(range(10**9))
        time.time = lambda: start - step * next(calls)
        time.time_ns = lambda: int(1e9 * time.time())

    return arm


ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EDQUOT)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """Yield a folder on a disk of its own of four megabytes, None if that is not allowed."""
    folder.mkdir(exist_ok=True)
    made = os.system(f"mount -t tmpfs -o size=4m tmpfs '{folder}' 2>/dev/null") == 0
    try:
        yield folder if made else None
    finally:
        if made:
            os.system(f"umount -l '{folder}'")


def fill(disk: Path, left: int) -> Path:
    """Fill a disk up to so many bytes, and return the file that does it."""
    filler = disk / "filler"
    space = os.statvfs(disk)
    with filler.open("wb") as file:
        file.write(bytes(max(0, space.f_bavail * space.f_frsize - left)))
    return filler


@contextmanager
def read_only(disk: Path) -> Iterator[None]:
    """Make a disk read-only for a while."""
    os.system(f"mount -o remount,ro '{disk}'")
    try:
        yield
    finally:
        os.system(f"mount -o remount,rw '{disk}'")


def clean(folder: Path) -> Path:
    """Return the folder, made if necessary, without anything in it."""
    folder.mkdir(parents=True, exist_ok=True)
    empty(folder)
    return folder
