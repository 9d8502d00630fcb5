"""The command line, the page and the table files use the public interface of the library only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import bdkn

ROOT = Path(bdkn.__file__).parent
FILES = sorted(path for package in ("cli", "report", "table_files") for path in (ROOT / package).rglob("*.py"))


def private_accesses(source: str) -> list[str]:
    """Return the accesses to private attributes of objects that the module neither is nor defines, with their lines."""
    tree = ast.parse(source)
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not (
            isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        ):
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
            names = [str(node.args[1].value)] if isinstance(node.args[1], ast.Constant) else []
        else:
            continue
        found += [(node.lineno, name) for name in names if _is_private(name) and name not in own]
    return [f"line {line}: {name}" for line, name in sorted(found)]


def _is_private(name: str) -> bool:
    """Return whether a name begins with an underscore and is no special method."""
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_private_attribute_of_another_object_is_used(path: Path) -> None:
    assert private_accesses(path.read_text("utf-8")) == []


def test_private_accesses_are_found() -> None:
    source = "from bdkn.model import _inner\nmodel._combined.targets\ngetattr(model, '_state')\nself._own\nx.__len__"
    assert private_accesses(source) == ["line 1: _inner", "line 2: _combined", "line 3: _state"]
    assert private_accesses("def _own(): pass\nother._own()") == []
