"""The schema of a record: which fields it has, and what they may hold. Records are read from files of others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from bdkn.errors import InvalidParameterError
from bdkn_paper.store.cell import Cell
from bdkn_paper.store.names import check_name

Check = Callable[[str, Any], None]
"""A function of where a value stands and the value, which raises if it is not allowed."""

MOST_DEPTH = 16
"""How deeply values may be nested."""

_MOST = 2**63
"""Bound of whole numbers."""


def check_record(record: Any) -> None:
    """Raise unless a record has the fields that its readers need, of the right types; the message says which."""
    _table("the record", record)
    for name in ("cell", "status"):
        _require("the record", record, name)
    _check_cell(record["cell"])
    if record["status"] not in ("done", "failed"):
        raise _wrong("status", "'done' or 'failed'", record["status"])
    for name in _OF_DONE if record["status"] == "done" else ():
        _require("the record", record, name)
    for name, value in record.items():
        _FIELDS.get(name, nested)(name, value)
    _check_parts(record)


def _check_cell(cell: Any) -> None:
    _table("cell", cell)
    for name in cell:
        if name not in _CELL:
            raise InvalidParameterError(f"cell must have no field but {', '.join(_CELL)}; got {_shortened(name)}")
    for part in fields(Cell):
        if part.default is MISSING and part.default_factory is MISSING:
            _require("cell", cell, part.name)
    for name, value in cell.items():
        _CELL[name](f"cell.{name}", value)


def _check_parts(record: Mapping[str, Any]) -> None:
    """Raise unless the parts of a record that has a result are complete."""
    if record["status"] == "failed":
        return
    _require("seconds", record["seconds"], "fit")
    for name in ("train", "test"):
        _require("rows", record["rows"], name)
    if record["cell"].get("kind") == "curves":
        _require("the record", record, "curves")
    if len({len(values) for values in record.get("curves", {}).values()}) > 1:
        raise InvalidParameterError("curves must have one value per epoch each; they have different lengths")


def text(where: str, value: Any) -> None:
    """Raise unless a value is text."""
    if not isinstance(value, str):
        raise _wrong(where, "text", value)


def number(where: str, value: Any) -> None:
    """Raise unless a value is a number; it need not be finite."""
    if not (isinstance(value, float) or _is_whole(value)):
        raise _wrong(where, "a number", value)


def finite(where: str, value: Any) -> None:
    """Raise unless a value is a finite number."""
    number(where, value)
    if not math.isfinite(value):
        raise _wrong(where, "a finite number", value)


def count(where: str, value: Any) -> None:
    """Raise unless a value is a whole number that is not negative."""
    if not (_is_whole(value) and value >= 0):
        raise _wrong(where, "a whole number >= 0", value)


def nested(where: str, value: Any, depth: int = MOST_DEPTH, leaf: Check = number) -> None:
    """Raise unless a value consists of texts, numbers, true, false and null, not too deeply nested."""
    if isinstance(value, dict | list):
        if depth == 0:
            raise InvalidParameterError(f"{where} must not be nested deeper than {MOST_DEPTH} levels")
        for part in value.values() if isinstance(value, dict) else value:
            nested(where, part, depth - 1, leaf)
    elif value is not None and not isinstance(value, bool | str):
        leaf(where, value)


def _name(where: str, value: Any) -> None:
    try:
        check_name(value)
    except InvalidParameterError as error:
        raise InvalidParameterError(f"{where}: {error}") from None


def _parameters(where: str, value: Any) -> None:
    _table(where, value)
    nested(where, value, leaf=finite)


def _table(where: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise _wrong(where, "a table of names and values", value)


def _table_of(check: Check) -> Check:
    def check_all(where: str, value: Any) -> None:
        _table(where, value)
        for name, part in value.items():
            check(f"{where}.{_shortened(name)[1:-1]}", part)

    return check_all


def _list_of(check: Check) -> Check:
    def check_all(where: str, value: Any) -> None:
        if not isinstance(value, list):
            raise _wrong(where, "a list", value)
        for part in value:
            check(where, part)

    return check_all


def _fact(where: str, value: Any) -> None:
    """Raise unless a value is text, a number, true, false or null."""
    nested(where, value, depth=0)


def _numbers(where: str, value: Any) -> None:
    (_list_of(number) if isinstance(value, list) else number)(where, value)


def _number_or_null(where: str, value: Any) -> None:
    if value is not None:
        number(where, value)


def _hardware(where: str, value: Any) -> None:
    _table_of(_fact)(where, value)
    for name in ("cores", "threads"):
        _number_or_null(f"{where}.{name}", value.get(name))


def _rows(where: str, value: Any) -> None:
    _table_of(count)(where, value)
    if 0 in value.values():
        raise InvalidParameterError(f"{where} must be at least 1 each; got 0")


_CELL: dict[str, Check] = {
    **dict.fromkeys(("experiment", "method", "dataset", "regressor", "kind"), _name),
    **dict.fromkeys(("split", "seed"), count),
    **dict.fromkeys(("base", "parameters"), _parameters),
    "data": text,
}

_OF_DONE = ("rows", "metrics", "seconds", "hardware")

_FIELDS: dict[str, Check] = {
    "cell": lambda where, value: None,  # checked first
    "status": text,
    "rows": _rows,
    "metrics": _table_of(number),
    "student_t": _table_of(number),
    "model": _table_of(_numbers),
    "seconds": _table_of(number),
    "curves": _table_of(_list_of(number)),
    "warnings": _list_of(text),
    "memory_mib": _number_or_null,
    "versions": _table_of(text),
    "hardware": _hardware,
    "traceback": text,
}


def _require(where: str, given: Mapping[str, Any], name: str) -> None:
    if name not in given:
        raise InvalidParameterError(f"{where} must have the field {name!r}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MOST


def _wrong(where: str, kind: str, value: Any) -> InvalidParameterError:
    return InvalidParameterError(f"{where} must be {kind}; got {_shortened(value)}")


def _shortened(value: Any) -> str:
    shown = f"{type(value).__name__}" if isinstance(value, dict | list) else repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
