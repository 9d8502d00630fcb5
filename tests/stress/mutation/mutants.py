"""Mutants of a module: where each is, how it is told apart, and its syntax tree."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mutation.operators import changes, is_name_in_message, is_wording

SOURCE = Path(__file__).parents[3] / "src" / "bdkn"
_LEFT_ALONE = {"annotation", "returns", "decorator_list", "bases", "type_params", "ctx", "op", "ops", "pattern"}
Owner = ast.FunctionDef | ast.ClassDef | ast.Module


@dataclass(frozen=True)
class Place:
    """A place in a syntax tree: a field of a node, or one entry of a field that is a list."""

    parent: ast.AST
    field: str
    index: int | None

    def put(self, node: ast.AST) -> ast.AST:
        """Put a node in this place and return what was there."""
        if self.index is None:
            former = getattr(self.parent, self.field)
            setattr(self.parent, self.field, node)
        else:
            entries = getattr(self.parent, self.field)
            former, entries[self.index] = entries[self.index], node
        result: ast.AST = former
        return result


@dataclass(frozen=True)
class Mutant:
    """One change of one module.

    ``owner`` is the outermost function around it, or the class if it is the default of a field, or the module.
    """

    file: str
    owner_name: str
    operator: str
    before: str
    after: str
    occurrence: int
    line: int
    last_line: int
    place: Place = field(repr=False, compare=False)
    new: ast.AST = field(repr=False, compare=False)
    owner: Owner = field(repr=False, compare=False)
    module: ast.Module = field(repr=False, compare=False)

    @property
    def key(self) -> str:
        """What identifies the mutant, whatever stands in other functions of the file."""
        return f"{self.file}::{self.owner_name}::{self.operator}::{self.before} -> {self.after}::{self.occurrence}"


@dataclass(frozen=True)
class _Found:
    place: Place
    node: ast.AST
    statement: ast.stmt
    owner: Owner
    owner_name: str


def mutants_of(file: str) -> list[Mutant]:
    """Return the mutants of a file, which is named relative to the package, in the order of the source."""
    module = ast.parse((SOURCE / file).read_text(encoding="utf-8"))
    seen: Counter[tuple[str, ...]] = Counter()
    mutants = []
    for found in _nodes(module, module, "module", None):
        for operator, new in changes(found.node):
            before, after = _text(found.node), _text(new)
            if before == after:
                continue
            name = (found.owner_name, operator, before, after)
            mutants.append(
                Mutant(file, found.owner_name, operator, before, after, seen[name], *_lines(found.statement),
                       found.place, new, found.owner, module)
            )  # fmt: skip
            seen[name] += 1
    return mutants


def _text(node: ast.AST) -> str:
    """Return the source of a node in one line; of a compound statement its first."""
    text = ast.unparse(ast.fix_missing_locations(node)).strip()
    return text.split("\n")[0]


def _lines(statement: ast.stmt) -> tuple[int, int]:
    """Return the first and the last line of a statement, of a compound statement those of its head."""
    body = getattr(statement, "body", None)
    if isinstance(body, list) and body:
        return statement.lineno, max(statement.lineno, body[0].lineno - 1)
    return statement.lineno, statement.end_lineno or statement.lineno


def _nodes(node: ast.AST, owner: Owner, owner_name: str, statement: ast.stmt | None) -> Iterator[_Found]:
    """Yield the nodes below one that may be changed."""
    for name, value in ast.iter_fields(node):
        if name in _LEFT_ALONE or (name == "keywords" and isinstance(node, ast.ClassDef)):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                yield from _below(Place(node, name, index), child, owner, owner_name, statement)


def _below(place: Place, child: ast.AST, owner: Owner, owner_name: str, statement: ast.stmt | None) -> Iterator[_Found]:
    inner = child if isinstance(child, ast.stmt) else statement
    in_module = isinstance(owner, ast.Module)
    if isinstance(child, ast.Raise) and not in_module and inner is not None:
        yield _Found(place, child, inner, owner, owner_name)
    if is_wording(child) or is_name_in_message(place.parent, place.field, place.index):
        return
    if isinstance(child, ast.FunctionDef | ast.ClassDef) and not isinstance(owner, ast.FunctionDef):
        name = child.name if in_module else f"{owner_name}.{child.name}"
        yield from _nodes(child, child, name, inner)
        return
    if not isinstance(owner, ast.FunctionDef) and isinstance(child, ast.stmt) and not _is_value(child):
        return
    if inner is not None and not (child is inner and not isinstance(owner, ast.FunctionDef)):
        yield _Found(place, child, inner, owner, owner_name)
    yield from _nodes(child, owner, owner_name, inner)


def _is_value(statement: ast.stmt) -> bool:
    """Return whether a statement outside functions gives a name a value that is simple enough to be changed."""
    value = getattr(statement, "value", None)
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or value is None:
        return False
    return not any(
        isinstance(node, ast.Lambda) or getattr(node, "id", "") in ("field", "TypeVar") for node in ast.walk(value)
    )
