"""What a benchmark ran on, for its record."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from bdkn.bench.machine import hardware, versions
from bdkn.kernels.tile import LANES

RIVALS = ("torch", "jax")


def describe_machine() -> str:
    """Return processor, cores, vectors, system and the versions that matter, in one line."""
    found = dict(versions())
    for package in RIVALS:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    about = hardware()
    packages = ", ".join(f"{name} {number}" for name, number in found.items())
    return f"{about['processor']}, {about['cores']} cores, {32 * LANES}-bit vectors, {about['system']}; {packages}"
