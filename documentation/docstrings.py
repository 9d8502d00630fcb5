"""Docstrings as they are at run time, for the API reference.

The docstrings of regressors share parts, which a decorator puts in when the class is made. MkDocs reads the source
without running it and would show the names of these parts.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import griffe


class RuntimeDocstrings(griffe.Extension):
    """Replaces docstrings that have shared parts, written as ``<name>``, by those of the imported classes."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Replace the docstring of ``cls`` and those of its methods, if they have shared parts."""
        for member in (cls, *cls.functions.values()):
            if member.docstring and "\n<" in inspect.cleandoc(member.docstring.value):
                member.docstring.value = inspect.getdoc(_runtime(member.module.path, member.path)) or ""


def _runtime(module: str, path: str) -> Any:
    """Return the object with this dotted ``path`` in a ``module``."""
    found = importlib.import_module(module)
    for name in path.removeprefix(f"{module}.").split("."):
        found = getattr(found, name)
    return found
