"""No module imports itself through others, imports inside functions and for type checkers included.

``from package import name`` counts as an import of ``package.name`` where that is a module, else of the package.
"""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import bdkn

ROOT = Path(bdkn.__file__).parents[1]
Graph = dict[str, set[str]]


def modules(root: Path, package: str) -> dict[str, Path]:
    """Return the files of all modules of a package by their dotted names."""
    found = {path.relative_to(root).with_suffix("").parts: path for path in (root / package).rglob("*.py")}
    return {".".join(parts).removesuffix(".__init__"): path for parts, path in found.items()}


def imports(source: str) -> set[str]:
    """Return every dotted name that a module may import, wherever the import stands."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def graph(sources: dict[str, str]) -> Graph:
    """Return which modules each module imports."""

    def resolve(name: str) -> str | None:
        return next((known for known in (name, name.rpartition(".")[0]) if known in sources), None)

    found = {module: {resolve(name) for name in imports(source)} for module, source in sources.items()}
    return {module: {name for name in names if name is not None and name != module} for module, names in found.items()}


def cycle(edges: Graph) -> list[str]:
    """Return the modules of a cycle, or none."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_through_others() -> None:
    sources = {name: path.read_text() for name, path in modules(ROOT, "bdkn").items()}
    edges = graph(sources)
    assert sum(map(len, edges.values())) > len(edges), "imports should be found"
    assert cycle(edges) == []


def test_cycles_are_found() -> None:
    lazy = "def use():\n    from p import a\n"
    assert sorted(set(cycle(graph({"p": "", "p.a": "import p.b", "p.b": lazy})))) == ["p.a", "p.b"]
    typed = "if TYPE_CHECKING:\n    from p.a import thing\n"
    assert sorted(set(cycle(graph({"p": "", "p.a": "from p.b import x, y", "p.b": typed})))) == ["p.a", "p.b"]
    assert cycle(graph({"p": "from p.a import x", "p.a": "from p.b import y", "p.b": "import numpy"})) == []
