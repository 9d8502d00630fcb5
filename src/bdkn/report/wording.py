"""Numbers, counts and the environment in words."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def number(value: float, digits: int = 3) -> str:
    """Return a number with some significant digits; a whole one with all of its digits, if they are not too many."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "–∞" if value < 0 else "–"
    size = math.floor(math.log10(abs(value))) if value else 0
    if size >= 9 or size < -4:
        return f"{value:.{digits - 1}e}".replace("-", "−")
    if value == round(value):
        return _plain(value, 0)
    return _plain(_rounded(value, size - digits + 1), digits - 1 - size)


def with_error(value: float, error: float) -> str:
    """Return a number and its standard error, both to the second digit of the error."""
    if not (math.isfinite(value) and math.isfinite(error)) or error <= 0:
        return number(value)
    if abs(value) >= 1e9:
        return f"{number(value)} ± {number(error, 2)}"
    place = math.floor(math.log10(error)) - 1
    return " ± ".join(_plain(_rounded(part, place), -place) for part in (value, error))


_LARGEST_SHARE = 1e6


def _rounded(value: float, place: int) -> float:
    """Return the value to the digit of 10^place."""
    return round(value, -place) if place < 0 else float(round(value / 10**place) * 10**place)


def _plain(value: float, places: int) -> str:
    """Return a number with decimal places, if it is not whole, and thousands apart if it has five digits."""
    text = f"{value:,.{max(0, places)}f}".replace("-", "−")
    return text.replace(",", "\u202f" if abs(value) >= 10_000 else "")


def percent(share: float, digits: int = 0) -> str:
    """Return a share in percent; a dash for a share of nothing, which is no number or a huge one."""
    return f"{100 * share:.{digits}f}\u202f%".replace("-", "−") if abs(share) < _LARGEST_SHARE else "–"


def count(n: int, noun: str) -> str:
    """Return "1 row", "2 rows"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}".replace(",", "\u202f")


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
    from bdkn.kernels.dense import LANES

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
