"""The inputs of a what-if: a slider, a menu or a date for each column, and rows to start from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bdkn.report.column_errors import cell
from bdkn.report.evaluation import Evaluation
from bdkn.report.what_if.arrays import packed
from bdkn.tables import TableEncoder
from bdkn.tables.columns import CategoryColumn, DateColumn, NumberColumn, UnusedColumn
from bdkn.tables.reading import DAY
from bdkn.typing import FloatArray

_STEPS = 200
"""Steps of a slider."""


def describe_inputs(evaluation: Evaluation, order: Sequence[Any]) -> dict[str, Any]:
    """Return one input per column, the encoder of the columns, the names of inputs, and rows to start from.

    ``order`` are the columns in the order in which the page shows them.
    """
    names, table, codes = evaluation.view.names, _table(evaluation), codes_of(evaluation)
    if table is None:
        columns, encoders = [_number(values[:, 0]) for values in codes], None
        features = [str(name) for name in names]
    else:
        columns = [_input(column, values) for column, values in zip(table.columns, codes, strict=True)]
        encoders = [describe_column(column) for column in table.columns]
        features = [str(table.names[j]) for j in table.column_of_feature]
    for name, column in zip(names, columns, strict=True):
        column.update(name=str(name), place=order.index(name))
    rows = [{**row, "values": values_of(evaluation, codes, row["row"])} for row in _starting_rows(evaluation)]
    return {"columns": columns, "table": encoders, "features": features, "rows": rows}


def _table(evaluation: Evaluation) -> TableEncoder | None:
    return getattr(evaluation.model, "table_", None)


def codes_of(evaluation: Evaluation) -> list[FloatArray]:
    """Return the codes of each column, (n, codes); without an encoder the numbers of the column."""
    table, view = _table(evaluation), evaluation.view
    if table is None:
        return [view.column(name).values[:, None] for name in view.names]
    ends = np.cumsum([column.n_codes for column in table.columns])
    return np.split(table.code(view.table), ends[:-1], axis=1)


def values_of(evaluation: Evaluation, codes: Sequence[FloatArray], i: int) -> list[Any]:
    """Return the values of a row as the page keeps them: numbers, dates, or codes with a text."""
    return [_value(evaluation, j, values[i], i) for j, values in enumerate(codes)]


def describe_column(column: Any) -> dict[str, Any]:
    """Return the encoder of a column as JSON."""
    if isinstance(column, NumberColumn):
        return {"kind": "number", "fill": column.fill, "missing": column.some_missing}
    if isinstance(column, DateColumn):
        return {"kind": "date", "fill": column.fill, "missing": column.some_missing, "cycles": list(column.cycles)}
    if isinstance(column, CategoryColumn):
        return {"kind": "category", "width": column.inputs.shape[1], "inputs": packed(column.inputs, "f8")}
    return {"kind": "unused" if isinstance(column, UnusedColumn) else "given"}


def _input(column: Any, codes: FloatArray) -> dict[str, Any]:
    """Return what the page shows for a column: a slider, a menu, a date, or only its value."""
    if isinstance(column, NumberColumn) and column.kind == "boolean":
        return {"kind": "menu", "values": [*_choice(("no", "yes")), *_missing(column, None)]}
    if isinstance(column, NumberColumn):
        known = codes[codes[:, 1] == 0.0, 0] if column.some_missing else codes[:, 0]
        return {**_number(known), "missing": column.some_missing}
    if isinstance(column, DateColumn):
        return {"kind": "date", "hours": 1.0 in column.cycles}
    if isinstance(column, CategoryColumn):
        k = len(column.values)
        unseen = {"label": "a value not seen before", "value": k + 1}
        return {"kind": "menu", "values": [*_choice(column.values), *_missing(column, k), unseen]}
    return {"kind": "unused" if isinstance(column, UnusedColumn) else "fixed"}


def _choice(labels: Sequence[str]) -> list[dict[str, Any]]:
    return [{"label": label, "value": value} for value, label in enumerate(labels)]


def _missing(column: Any, value: Any) -> list[dict[str, Any]]:
    return [{"label": "missing", "value": value}] if column.some_missing else []


def _number(known: FloatArray) -> dict[str, Any]:
    """Return the slider of a column of numbers: its ends, which are those of the rows, and its step."""
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    whole = bool((known == np.round(known)).all())
    if low == high:
        low, high = low - 1.0, high + 1.0
    step = 1.0 if whole and high - low >= 1.0 else _round_step((high - low) / _STEPS)
    return {"kind": "number", "low": low, "high": high, "step": step, "missing": False}


def _round_step(step: float) -> float:
    """Return the largest of 1, 2, 5 times a power of ten that is not larger."""
    unit = 10.0 ** np.floor(np.log10(step))
    return float(f"{unit * max(factor for factor in (1, 2, 5) if factor * unit <= step * 1.0000001):.3g}")


def _value(evaluation: Evaluation, j: int, codes: FloatArray, i: int) -> Any:
    table = _table(evaluation)
    if table is None:
        return float(codes[0])
    column = table.columns[j]
    if isinstance(column, UnusedColumn) or (getattr(column, "some_missing", False) and len(codes) > 1 and codes[1]):
        return None
    if isinstance(column, DateColumn):
        return _moment(float(codes[0]))
    if isinstance(column, CategoryColumn):
        return int(codes[0])
    if isinstance(column, NumberColumn):
        return float(codes[0])
    return {"label": cell(evaluation.view.column(evaluation.view.names[j]), i), "codes": codes.tolist()}


def _moment(days: float) -> str:
    """Return a moment as the date field of a page has it, to the second."""
    return str(np.datetime64(round(days * DAY), "s"))


def _starting_rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return rows to start from: a typical one, the surest, the least sure, and the lowest and highest prediction."""
    mean, std = evaluation.mean, evaluation.std
    chosen = {
        "a typical row": int(np.argmin(_ranks_from_middle(mean) + _ranks_from_middle(std))),
        "the surest row": int(np.argmin(std)),
        "the least sure row": int(np.argmax(std)),
        "the lowest prediction": int(np.argmin(mean)),
        "the highest prediction": int(np.argmax(mean)),
        "the largest error": int(np.argmax(np.abs(evaluation.y - mean))),
    }
    return [{"label": label, "row": i, "observed": float(evaluation.y[i])} for label, i in chosen.items()]


def _ranks_from_middle(values: FloatArray) -> FloatArray:
    """Return how far each value is from the median, in ranks."""
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return np.asarray(np.abs(ranks - (len(values) - 1) / 2.0))
