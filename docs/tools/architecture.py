"""Write the tables of ``docs/architecture.md`` from the code, and check the paths that the page names.

    python docs/tools/architecture.py            # write the tables
    python docs/tools/architecture.py --check    # write nothing; fail if the page is out of date

A table stands between ``<!-- written: name -->`` and ``<!-- end of name -->``. The walks take a few fits: ``--check``
leaves them to ``tests/test_house.py``.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import runpy
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median

from sklearn.base import BaseEstimator

import bdkn
import bdkn.estimators

ROOT = Path(__file__).parents[2]
PACKAGE = Path(bdkn.__file__).parent
PAGE = ROOT / "docs" / "architecture.md"


def public_estimators() -> list[type]:
    """Return the public estimators of the library, in alphabetical order."""
    public = [getattr(bdkn.estimators, name) for name in sorted(bdkn.__all__) if hasattr(bdkn.estimators, name)]
    return [one for one in public if inspect.isclass(one) and issubclass(one, BaseEstimator)]


def own_classes(estimator: type) -> list[type]:
    """Return the classes of this library in the MRO of a class, itself included."""
    return [one for one in estimator.__mro__ if one.__module__.startswith("bdkn.")]


def constructor_parameters(estimator: type) -> list[str]:
    """Return the names of the parameters of a class's constructor."""
    return list(inspect.signature(estimator).parameters)


def size(paths: Iterable[Path]) -> tuple[int, int]:
    """Return the number of files and of their lines."""
    lines = [len(path.read_text("utf-8").splitlines()) for path in paths]
    return len(lines), sum(lines)


def python_files(part: Path = PACKAGE) -> list[Path]:
    """Return the Python files of a package, or the module itself."""
    return sorted(part.rglob("*.py")) if part.is_dir() else [part]


def layers() -> list[list[str]]:
    """Return the packages of each layer, the highest first, from the contract in ``pyproject.toml``."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    lines = settings["contracts"][0]["layers"]
    return [[name.strip().removeprefix("bdkn.") for name in line.split("|")] for line in lines]


def summary(path: Path) -> str:
    """Return the first sentence of a module's docstring, without its full stop."""
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    sentence = re.split(r"\.(?=\s|$)", docstring.partition("\n\n")[0], maxsplit=1)[0]
    return " ".join(sentence.split()).replace("``", "`").replace("|", "\\|")


def packages_table() -> str:
    """Return the packages by layer, the highest first, with their sizes."""
    rows = []
    for number, names in enumerate(layers(), start=1):
        for name in names:
            package = PACKAGE / name
            part, text = (package, package / "__init__.py") if package.is_dir() else (package.with_suffix(".py"),) * 2
            label = f"`{name}/`" if package.is_dir() else f"`{name}.py`"
            rows.append((str(number), label, summary(text), *map(str, size(python_files(part)))))
    total = ("", "all", "with `__init__.py` and `__main__.py`", *map(str, size(python_files())))
    return markdown(("layer", "package", "contents", "files", "lines"), [*rows, total], numbers_from=3)


def estimators_table() -> str:
    """Return the number of own classes in the MRO and of constructor parameters of each public estimator."""
    rows = [
        (f"`{one.__name__}`", str(len(own_classes(one))), str(len(constructor_parameters(one))))
        for one in public_estimators()
    ]
    return markdown(("estimator", "own classes in its MRO", "constructor parameters"), rows)


def functions_table() -> str:
    """Return the number of functions, and the lines of their bodies without docstrings."""
    trees = [ast.parse(path.read_text("utf-8")) for path in python_files()]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    bodies = [function.body[1 if ast.get_docstring(function) else 0 :] for function in functions]
    lengths = [(body[-1].end_lineno or 0) - body[0].lineno + 1 for body in bodies if body]
    row = (str(len(functions)), f"{median(lengths):.0f}", str(max(lengths)))
    return markdown(("functions", "median lines of a body", "most lines of a body"), [row], numbers_from=0)


def walks_table() -> str:
    """Return the counts of the walks of some fits and a prediction."""
    walk = runpy.run_path(str(ROOT / "benchmarks" / "walk.py"))
    return str(walk["table"]({name: walk["counts"](steps) for name, steps in walk["walks"]().items()}))


def markdown(names: tuple[str, ...], rows: Iterable[tuple[str, ...]], numbers_from: int = 1) -> str:
    """Return a table in Markdown whose columns hold numbers from one on."""
    ruler = ["---" if column < numbers_from else "---:" for column in range(len(names))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (names, ruler, *rows))


TABLES: dict[str, Callable[[], str]] = {
    "packages": packages_table,
    "functions": functions_table,
    "estimators": estimators_table,
    "walks": walks_table,
}
"""The tables of the page by their names; that of the walks takes some fits."""


def with_table(text: str, name: str, table: str) -> str:
    """Return the text of the page with a table."""
    start, end = f"<!-- written: {name} -->\n", f"\n<!-- end of {name} -->"
    pattern = f"{re.escape(start)}.*?{re.escape(end)}"
    text, found = re.subn(pattern, lambda _: f"{start}\n{table}\n{end}", text, flags=re.DOTALL)
    if found != 1:
        raise ValueError(f"{PAGE.name} must have one place for the table {name!r}, has {found}")
    return text


def missing_paths(text: str) -> Iterator[str]:
    """Yield the paths in a text that do not exist, and those as ``path::name`` whose file does not define the name.

    A path is a word in backticks with a slash or the ending of a file. It is relative to ``src/bdkn`` or to the root of
    the repository.
    """
    for word in sorted(set(re.findall(r"`([\w./-]+(?:::\w+)?)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)))):
        name, _, definition = word.partition("::")
        if "/" not in name and not re.search(r"\.(py|md|html|js|toml|cu)$", name):
            continue
        path = next((folder / name for folder in (PACKAGE, ROOT) if (folder / name).exists()), None)
        if path is None:
            yield f"`{word}`: there is no such file or folder in src/bdkn or in the repository"
        elif definition and not re.search(
            rf"^\s*((async )?def|class) {definition}\b|^\s*{definition}\b.*=", path.read_text("utf-8"), re.MULTILINE
        ):
            yield f"`{word}`: {name} does not define {definition}"


def complaints(text: str, names: Iterable[str] = tuple(name for name in TABLES if name != "walks")) -> list[str]:
    """Return what is out of date in the text of the page."""
    old = [name for name in names if text != with_table(text, name, TABLES[name]())]
    return [f"the table {name!r} is out of date; run: python docs/tools/architecture.py" for name in old] + [
        *missing_paths(text)
    ]


def main() -> None:
    """Write the tables, or check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if the page is out of date")
    text = PAGE.read_text("utf-8")
    if not parser.parse_args().check:
        for name, table in TABLES.items():
            text = with_table(text, name, table())
        PAGE.write_text(text, "utf-8")
    found = complaints(text)
    if found:
        raise SystemExit("\n".join(f"{PAGE.relative_to(ROOT)}: {one}" for one in found))


if __name__ == "__main__":
    main()
