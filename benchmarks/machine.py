"""What a benchmark ran on, for its record."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def describe_machine() -> str:
    """Return processor, cores, system and the versions that matter, in one line."""
    return f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}; {_versions()}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = dict(line.split(":", 1) for line in info.read_text().splitlines() if ":" in line)
        fields = {key.strip(): value.strip() for key, value in lines.items()}
        vectors = next((name for name in ("avx512f", "avx2") if name in fields.get("flags", "").split()), "no AVX2")
        return f"{fields.get('model name', platform.processor())} ({vectors})"
    return platform.processor() or "unknown processor"


def _versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for package in ("numpy", "scipy", "numba", "torch", "jax"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
