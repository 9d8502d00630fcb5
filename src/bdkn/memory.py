"""The memory limit of this process, and a check before large allocations."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from bdkn.errors import InvalidParameterError

_MIN_CHECKED_BYTES = 1 << 28
"""Size of an allocation above which the available memory is checked, in bytes."""

_GROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files with the memory limit of a container on Linux, in bytes."""


def check_memory(what: str, size: float, advice: str) -> None:
    """Raise if ``size`` bytes for ``what`` exceed the memory of this machine or the limit of this process."""
    if size <= _MIN_CHECKED_BYTES:
        return
    limit = memory_limit()
    if limit is not None and size > limit:
        raise InvalidParameterError(
            f"{what} would take about {_gigabytes(size)} of memory; there are {_gigabytes(limit)}: {advice}"
        )


def memory_limit() -> int | None:
    """Return the maximum memory of this process, in bytes: the lowest limit of machine, container and process.

    None if it is unknown.
    """
    known = []
    if hasattr(os, "sysconf"):
        with suppress(ValueError, OSError):
            known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for name in _GROUP_LIMITS:
        with suppress(OSError, ValueError):  # there is no such file, or it contains "max"
            known.append(int(Path(name).read_text(encoding="ascii")))
            break
    try:
        import resource
    except ImportError:  # not on this operating system
        return min(known, default=None)
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return min(known if limit == resource.RLIM_INFINITY else [*known, limit], default=None)


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.0f} GB" if size >= 1e10 else f"{size / 1e9:.1f} GB"
