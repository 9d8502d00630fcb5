"""The machine, and the versions of the packages that can change a result."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("bdkn", "numpy", "scipy", "scikit-learn", "numba")
"""Packages whose versions can change a result."""


def versions(others: Sequence[str] = ()) -> dict[str, str]:
    """Return the versions of Python, of ``PACKAGES`` and of ``others``, as far as they are installed."""
    found = {"Python": platform.python_version()}
    for name in (*PACKAGES, *others):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@cache
def hardware() -> dict[str, Any]:
    """Return processor, number of cores, memory in GiB and operating system; the memory is None if it is unknown."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    try:
        memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):  # not every operating system has these settings
        memory = None
    return {
        "processor": models[0] if models else platform.processor() or "unknown processor",
        "cores": os.cpu_count(),
        "memory_gib": memory,
        "system": f"{platform.system()} {platform.machine()}",
    }


def describe_machine() -> str:
    """Return one line about processor, cores, vector width, system and versions, for the record of a benchmark."""
    from bdkn.kernels.dense import LANES

    about = hardware()
    packages = ", ".join(f"{name} {number}" for name, number in versions(("torch", "jax")).items())
    return f"{about['processor']}, {about['cores']} cores, {32 * LANES}-bit vectors, {about['system']}; {packages}"
