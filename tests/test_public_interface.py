"""The command line, the page and the table files use the public interface of the library only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import bdkn

ROOT = Path(bdkn.__file__).parent
FILES = sorted(path for package in ("cli", "report", "table_files") for path in (ROOT / package).rglob("*.py"))


def private_accesses(source: str) -> list[str]:
    """Return the accesses to private attributes and modules of other objects than ``self`` and ``cls``."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bdkn"):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            found += [f"line {node.lineno}: {name}" for name in names if _is_private(name)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
            name = node.args[1]
            if isinstance(name, ast.Constant) and _is_private(str(name.value)):
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def _is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_private_attribute_of_another_object_is_used(path: Path) -> None:
    assert private_accesses(path.read_text("utf-8")) == []


def test_private_accesses_are_found() -> None:
    source = "from bdkn.model import _inner\nmodel._combined.targets\ngetattr(model, '_state')\nself._own\nx.__len__"
    assert private_accesses(source) == ["line 1: _inner", "line 2: model._combined", "line 3: getattr(model, '_state')"]
