"""What a cell ran on and with."""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("bdkn", "numpy", "scipy", "scikit-learn", "numba")


@cache
def versions(*others: str) -> dict[str, str]:
    """Return the versions of Python, of the packages that matter, and of others as far as they are installed."""
    found = {name: _version(name) for name in (*PACKAGES, *others)}
    return {"Python": platform.python_version(), **{name: text for name, text in found.items() if text is not None}}


@cache
def hardware() -> dict[str, Any]:
    """Return processor, cores, memory and system."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.machine()}",
    }


@cache
def accelerator(device: str | None) -> dict[str, str]:
    """Return the name of the device a regressor computes on, if it is not the processor."""
    if device is None or device == "cpu":
        return {}
    import torch

    is_cuda = device.partition(":")[0] == "cuda" and torch.cuda.is_available()
    return {"device": torch.cuda.get_device_name(device) if is_cuda else device}


def peak_memory_mib() -> float | None:
    """Return the most memory this process ever held, None where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    # Linux counts kibibytes, macOS bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown processor")


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):  # not every system knows these names
        return None
