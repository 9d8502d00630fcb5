"""Files that others may have written: ordinary ones, not too large, JSON or TOML that is not nested too deeply."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path
from typing import Any

from bdkn.errors import InvalidParameterError

MOST_TOML_BYTES = 1 << 20
"""Largest size of a TOML file."""


def read_file(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """Return the content of a file; raise unless it is an ordinary file of at most so many bytes."""
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):  # a pipe never ends, nor does a device
        raise InvalidParameterError("it must be an ordinary file")
    if found.st_size > most_bytes:
        raise InvalidParameterError(f"it must have at most {most_bytes:,} bytes; it has {found.st_size:,}")
    return Path(path).read_bytes()


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the tables of a TOML file; raise ``ValueError`` if it is none."""
    try:
        return tomllib.loads(read_file(path, MOST_TOML_BYTES).decode("utf-8"))
    except RecursionError:
        raise InvalidParameterError("its values must not be nested so deeply") from None
