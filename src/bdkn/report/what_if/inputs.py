"""The inputs of a what-if: a slider or a menu for each column, and rows to start from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.report.evaluation import Evaluation
from bdkn.report.table_view import TableView

_STEPS = 200
"""Steps of a slider."""


def describe_inputs(view: TableView, order: Sequence[str]) -> list[dict[str, Any]]:
    """Return one input per column of numbers, in the order of the table; ``place`` is where the page shows it."""
    return [{**describe_number(name, view.values(name)), "place": order.index(name)} for name in view.names]


def describe_number(name: str, values: NDArray[Any]) -> dict[str, Any]:
    """Return the slider of a column of numbers: its ends, which are those of the rows, and its step."""
    known = np.asarray(values, dtype=np.float64)
    known = known[np.isfinite(known)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    whole = bool(len(known)) and bool((known == np.round(known)).all())
    if low == high:
        low, high = low - 1.0, high + 1.0
    step = 1.0 if whole and high - low >= 1.0 else _round_step((high - low) / _STEPS)
    return {"name": name, "kind": "number", "low": low, "high": high, "step": step, "whole": whole}


def _round_step(step: float) -> float:
    """Return the largest of 1, 2, 5 times a power of ten that is not larger."""
    unit = 10.0 ** np.floor(np.log10(step))
    return float(f"{unit * max(factor for factor in (1, 2, 5) if factor * unit <= step * 1.0000001):.3g}")


def starting_rows(evaluation: Evaluation) -> list[dict[str, Any]]:
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
    return [
        {"label": label, "row": i, "values": row_values(evaluation.view, i), "observed": float(evaluation.y[i])}
        for label, i in chosen.items()
    ]


def row_values(view: TableView, i: int) -> list[Any]:
    """Return the values of a row as JSON; None where one is missing."""
    return [_plain(view.values(name)[i]) for name in view.names]


def _plain(value: Any) -> Any:
    if value is None or value != value:
        return None
    if isinstance(value, np.datetime64):
        return str(value)[:10]
    return value.item() if isinstance(value, np.generic) else value


def _ranks_from_middle(values: NDArray[Any]) -> NDArray[Any]:
    """Return how far each value is from the median, in ranks."""
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return np.asarray(np.abs(ranks - (len(values) - 1) / 2.0))
