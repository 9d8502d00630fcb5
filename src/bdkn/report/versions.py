"""What a result was made with."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version

PACKAGES = ("bdkn", "numpy", "scipy", "scikit-learn", "numba", "matplotlib")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that matter, the kind of machine and its cores."""
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return {"Python": platform.python_version(), **{name: version(name) for name in PACKAGES}, "machine": machine}
