"""The code stays as small, as straight and as free of repetition as it is.

``docs/architecture.md`` shows most of these numbers; ``python docs/tools/architecture.py`` writes it.
"""

from __future__ import annotations

import ast
import io
import runpy
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import combinations
from pathlib import Path

import pytest

import bdkn

ROOT = Path(__file__).parents[1]
PACKAGE = Path(bdkn.__file__).parent
PAGE = runpy.run_path(str(ROOT / "docs" / "tools" / "architecture.py"))
WALK = runpy.run_path(str(ROOT / "benchmarks" / "walk.py"))

# The numbers that were reached, plus a tenth (classes and parameters: without it). Before you raise a limit, look for
# something to simplify. If what a change adds is worth it, raise the limit in the same change, and say why in
# its message. A change that makes a number much smaller lowers the limit. ``python docs/tools/architecture.py`` and
# ``python benchmarks/walk.py`` print the numbers.
LIMITS = {
    "files": 160,
    "lines": 39_000,
    "pairs of repeated lines": 4,
    "own classes in the MRO of BDKNRegressor": 2,
    "own classes in the MRO of BayesianStackingRegressor": 3,
    "own classes in the MRO of DeepEnsembleRegressor": 2,
    "parameters of BDKNRegressor": 24,
    "parameters of BayesianStackingRegressor": 24,
    "parameters of DeepEnsembleRegressor": 15,
    "file switches of default fit": 72,
    "package switches of default fit": 42,
    "file switches of predict_dist": 19,
    "package switches of predict_dist": 13,
    "file switches of from_paper fit": 35,
    "package switches of from_paper fit": 18,
    "file switches of stack fit": 104,
    "package switches of stack fit": 64,
}

MIN_LINES = 6
"""Minimum number of equal code lines for a pair of places to count as repeated."""


@pytest.fixture(scope="module")
def walks() -> dict[str, dict[str, int]]:
    return {name: WALK["counts"](steps) for name, steps in WALK["walks"]().items()}


def test_every_package_has_a_layer() -> None:
    names = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    layers = [name for layer in PAGE["layers"]() for name in layer]
    assert sorted(layers) == sorted(names - {"__init__", "__main__"})


def test_size() -> None:
    files, lines = PAGE["size"](PAGE["python_files"]())
    assert files <= LIMITS["files"]
    assert lines <= LIMITS["lines"]


@pytest.mark.parametrize("estimator", PAGE["public_estimators"](), ids=lambda one: one.__name__)
def test_estimators(estimator: type) -> None:
    assert len(PAGE["own_classes"](estimator)) <= LIMITS[f"own classes in the MRO of {estimator.__name__}"]
    assert len(PAGE["constructor_parameters"](estimator)) <= LIMITS[f"parameters of {estimator.__name__}"]


@pytest.mark.no_cover
@pytest.mark.parametrize("what", [what for what in LIMITS if " switches of " in what])
def test_walks(what: str, walks: dict[str, dict[str, int]]) -> None:
    count, _, name = what.partition(" of ")
    assert walks[name][count] <= LIMITS[what], "python benchmarks/walk.py --list shows the walk"


@pytest.mark.no_cover
def test_the_page_has_the_walks(walks: dict[str, dict[str, int]]) -> None:
    assert WALK["table"](walks) in PAGE["PAGE"].read_text("utf-8"), "run: python docs/tools/architecture.py"


@pytest.mark.no_cover
def test_the_page_is_up_to_date_and_its_paths_exist() -> None:
    assert PAGE["complaints"](PAGE["PAGE"].read_text("utf-8")) == []


@pytest.mark.no_cover
def test_tables_out_of_date_are_found() -> None:
    text = PAGE["PAGE"].read_text("utf-8")
    (old,) = PAGE["complaints"](text.replace("| `BDKNRegressor` |", "| `Regressor` |"), ["estimators"])
    assert "'estimators' is out of date" in old
    with pytest.raises(ValueError, match="one place for the table 'estimators', has 0"):
        PAGE["with_table"](text.replace("<!-- written: estimators -->", ""), "estimators", "")


def test_wrong_paths_are_found() -> None:
    text = "`errors.py`, `errors.py::BDKNError`, `docs/`, `fit`\n`nothing/`, `errors.py::Nothing`, `a.py`"
    assert [one.partition(":")[0] for one in PAGE["missing_paths"](text)] == ["`a.py`", "`errors.py", "`nothing/`"]


def test_summaries_are_first_sentences(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('"""One thing, in ``a.b``\nor two. Another sentence."""\n')
    assert PAGE["summary"](tmp_path / "a.py") == "One thing, in `a.b` or two"


# Repeated lines


def code_lines(source: str) -> list[tuple[int, str]]:
    """Return the numbers and texts of the lines of code, without spaces and comments.

    Docstrings, imports, the lines of a function's parameters and lone brackets are left out.
    """
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            skipped |= set(range(node.lineno + 1, node.body[0].lineno))
        elif isinstance(node, ast.Import | ast.ImportFrom) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        ):
            skipped |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    words: dict[int, list[str]] = defaultdict(list)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            words[token.start[0]].append(token.string)
    lines = [(number, " ".join(words[number])) for number in sorted(words.keys() - skipped)]
    return [(number, text) for number, text in lines if any(character.isalnum() for character in text)]


def repeated(sources: dict[str, str], least: int = MIN_LINES) -> Iterator[str]:
    """Yield each pair of places that have the same run of at least ``least`` lines of code, its longest run once."""
    lines = {name: code_lines(source) for name, source in sources.items()}
    places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for name, numbered in lines.items():
        texts = [text for _, text in numbered]
        for start in range(len(texts) - least + 1):
            places[tuple(texts[start : start + least])].append((name, start))
    pairs = {pair for same in places.values() for pair in combinations(same, 2)}
    for (one, at), (other, there) in sorted(pairs):
        if ((one, at - 1), (other, there - 1)) in pairs:
            continue  # the run began earlier
        length = least
        while ((one, at + length - least + 1), (other, there + length - least + 1)) in pairs:
            length += 1
        (first, last), (start, end) = (
            (lines[name][begin][0], lines[name][begin + length - 1][0]) for name, begin in ((one, at), (other, there))
        )
        yield f"{one}:{first}-{last} ~ {other}:{start}-{end}"


def sources_of(paths: Iterable[Path]) -> dict[str, str]:
    return {str(path.relative_to(PACKAGE)): path.read_text("utf-8") for path in paths}


@pytest.mark.no_cover
def test_few_lines_are_repeated() -> None:
    pairs = list(repeated(sources_of(PAGE["python_files"]())))
    assert len(pairs) <= LIMITS["pairs of repeated lines"], "\n".join(pairs)


def test_repeated_lines_are_found() -> None:
    body = "def f(x):\n    y = x\n    return y\n"
    commented = '"""Text."""\nimport a\n\n\ndef f(x):  # a comment\n    """Text."""\n\n    y = x\n    return y\n'
    assert list(repeated({"a": body, "b": commented}, least=3)) == ["a:1-3 ~ b:5-9"]
    assert list(repeated({"a": body, "b": body.replace("y", "z")}, least=3)) == []
    assert list(repeated({"a": body + "\n\n" + body}, least=2)) == ["a:1-3 ~ a:6-8"]


# Import cycles: ``from package import name`` counts as an import of ``package.name`` where that is a module, else of
# the package. Imports inside functions and for type checkers count, too.


Graph = dict[str, set[str]]


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


@pytest.mark.no_cover
def test_no_module_imports_itself_through_others() -> None:
    names = {path: ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in PAGE["python_files"]()}
    edges = graph({name.removesuffix(".__init__"): path.read_text("utf-8") for path, name in names.items()})
    assert sum(map(len, edges.values())) > len(edges), "imports should be found"
    assert cycle(edges) == []


def test_cycles_are_found() -> None:
    lazy = "def use():\n    from p import a\n"
    assert sorted(set(cycle(graph({"p": "", "p.a": "import p.b", "p.b": lazy})))) == ["p.a", "p.b"]
    typed = "if TYPE_CHECKING:\n    from p.a import thing\n"
    assert sorted(set(cycle(graph({"p": "", "p.a": "from p.b import x, y", "p.b": typed})))) == ["p.a", "p.b"]
    assert cycle(graph({"p": "from p.a import x", "p.a": "from p.b import y", "p.b": "import numpy"})) == []
