"""The environment of a computation: versions of packages, processor, memory and operating system."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("bdkn", "numpy", "scipy", "scikit-learn", "numba")
"""The packages whose versions can change a result."""


def versions(others: Sequence[str] = ()) -> dict[str, str]:
    """Return the versions of Python, of ``PACKAGES`` and of those ``others`` that are installed."""
    found = {name: _version(name) for name in (*PACKAGES, *others)}
    return {"Python": platform.python_version(), **{name: text for name, text in found.items() if text is not None}}


@cache
def hardware() -> dict[str, Any]:
    """Return processor, number of cores, memory in GiB and system."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def describe_machine() -> str:
    """Return one line about processor, cores, vector width, system and versions, for the record of a benchmark."""
    from bdkn.kernels.tile import LANES

    about = hardware()
    packages = ", ".join(f"{name} {number}" for name, number in versions(("torch", "jax")).items())
    return f"{about['processor']}, {about['cores']} cores, {32 * LANES}-bit vectors, {about['system']}; {packages}"


@cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown processor")


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):  # not every system has these names
        return None
