"""Docstrings as they are at run time, for the API reference.

The docstrings of regressors share parts, which a decorator puts in when the class is made. MkDocs reads the source
without running it and would show the names of these parts. And of choices, ``{"a", "b"} or None, default="b"``, its
reader takes the first one for the default, so braces are taken away.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import griffe


class RuntimeDocstrings(griffe.Extension):
    """Replaces docstrings that have shared parts, written as ``<name>``, by those of the imported classes."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Replace shared parts of the docstring of ``obj``, and braces around choices; give methods inherited ones."""
        if obj.docstring is None and obj.parent is not None and obj.parent.is_class and not obj.name.startswith("_"):
            owner = _runtime(obj.module.path, obj.parent.path)
            if inspect.isfunction(vars(owner).get(obj.name)) or isinstance(vars(owner).get(obj.name), property):
                obj.docstring = griffe.Docstring(inspect.getdoc(getattr(owner, obj.name)) or "", parent=obj)
        if obj.docstring is None:
            return
        text = inspect.cleandoc(obj.docstring.value)
        if re.search(r"^<[\w ]+>$", text, flags=re.MULTILINE):
            text = inspect.getdoc(_runtime(obj.module.path, obj.path)) or ""
        obj.docstring.value = re.sub(r"^(\*{0,2}\w+ : .*?)\{(.*?)\}", r"\1\2", text, flags=re.MULTILINE)


def _runtime(module: str, path: str) -> Any:
    """Return the object with this dotted ``path`` in a ``module``."""
    found = importlib.import_module(module)
    for name in path.removeprefix(f"{module}.").split("."):
        found = getattr(found, name)
    return found
