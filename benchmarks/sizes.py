"""Print the sizes of the package: files, lines, lengths of functions, depth of inheritance, import cycles.

python benchmarks/sizes.py                   # this source tree
python benchmarks/sizes.py path/to/src/bdkn  # another one, to compare; without its depth of inheritance
"""

from __future__ import annotations

import ast
import inspect
import sys
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path
from statistics import median

import numpy as np

import bdkn

PACKAGE = Path(bdkn.__file__).parent


def trees(package: Path) -> dict[str, ast.Module]:
    """Return the syntax tree of every module by its dotted name."""
    found = {path.relative_to(package.parent).with_suffix("").parts: path for path in package.rglob("*.py")}
    return {
        ".".join(parts).removesuffix(".__init__"): ast.parse(path.read_text(encoding="utf-8"))
        for parts, path in found.items()
    }


def function_lengths(modules: dict[str, ast.Module]) -> list[int]:
    """Return the lines of each function's body, without its docstring."""
    nodes = [node for tree in modules.values() for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    bodies = [function.body[1 if ast.get_docstring(function) else 0 :] for function in functions]
    return [body[-1].end_lineno - body[0].lineno + 1 for body in bodies if body]  # type: ignore[operator]


def modules_in_cycles(modules: dict[str, ast.Module]) -> int:
    """Return how many modules must be removed, one of each cycle that is found, until there is no import cycle."""

    def imports(tree: ast.Module) -> set[str]:
        found = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    found.add(full if full in modules else node.module)
        return found & modules.keys()

    edges = {name: imports(tree) - {name} for name, tree in modules.items()}
    removed = 0
    while True:
        try:
            TopologicalSorter(edges).prepare()
            return removed
        except CycleError as error:
            gone, removed = error.args[1][0], removed + 1
            edges = {name: targets - {gone} for name, targets in edges.items() if name != gone}


def deepest(modules: dict[str, ast.Module]) -> tuple[int, str]:
    """Return the largest number of classes of this package in the MRO of one class, itself included, and its name."""
    found = (0, "")
    for name in modules:
        try:
            members = vars(import_module(name)).values()
        except ImportError:
            continue
        for cls in members:
            if inspect.isclass(cls) and cls.__module__.startswith("bdkn.") and not issubclass(cls, BaseException):
                own = [one for one in cls.__mro__ if one.__module__.startswith("bdkn.")]
                found = max(found, (len(own), cls.__name__))
    return found


def main() -> None:
    """Print one line per size."""
    package = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else PACKAGE
    modules = trees(package)
    lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in package.rglob("*.py")]
    lengths = function_lengths(modules)
    print(f"{len(lines):6} files")
    print(f"{sum(lines):6} lines")
    print(f"{max(lines):6} lines in the longest file")
    print(f"{len(lengths):6} functions")
    print(f"{median(lengths):6.0f} lines, median function")
    print(f"{np.quantile(lengths, 0.9):6.0f} lines, 90 % quantile")
    print(f"{max(lengths):6} lines, longest function")
    print(f"{modules_in_cycles(modules):6} modules to remove until there is no import cycle")
    if package == PACKAGE:
        print("{:6} own classes at most in the MRO of one ({})".format(*deepest(modules)))


if __name__ == "__main__":
    main()
