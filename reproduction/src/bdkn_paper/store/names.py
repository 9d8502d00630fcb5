"""Names of experiments, methods and data sets, which become names of files."""

from __future__ import annotations

import re
from typing import Any

from bdkn.errors import InvalidParameterError

MOST_CHARACTERS = 80
"""Longest name: with an ending it fits into the name of a file on every system."""

_RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}


def check_name(given: Any) -> None:
    """Raise unless a name can be part of the name of a file on every system, and stays in its folder."""
    if not isinstance(given, str):
        raise InvalidParameterError(f"a name must be text; got {_shortened(given)}")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", given) or len(given) > MOST_CHARACTERS or given[-1] == ".":
        raise InvalidParameterError(
            "a name must be letters, digits, '.', '_' and '-', begin with a letter or digit, not end with '.', and "
            f"have at most {MOST_CHARACTERS} characters; got {_shortened(given)}"
        )
    if given.partition(".")[0].lower() in _RESERVED:
        raise InvalidParameterError(f"a name must not be one that Windows reserves for devices; got {given!r}")


def _shortened(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 100 else f"{text[:97]}..."
