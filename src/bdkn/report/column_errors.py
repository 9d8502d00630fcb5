"""Errors by column: in which range, or for which value, predictions are worse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bdkn.report.evaluation import Evaluation
from bdkn.report.wording import number
from bdkn.tables.reading import RawColumn
from bdkn.typing import BoolArray, FloatArray

_BINS = 5
"""Ranges of a column of numbers, each with equally many rows."""

_MOST_VALUES = 6
"""Values of a column that are shown by themselves; the others are put together."""

_FEWEST = 5
"""Rows that a range or a value has at least."""


@dataclass(frozen=True, eq=False)
class ColumnErrors:
    """Errors in ranges or values of one column: labels, rows, mean absolute errors and their standard errors.

    ``chance`` is the probability of differences as large as these if errors did not depend on the column.
    """

    name: str
    labels: tuple[str, ...]
    rows: tuple[int, ...]
    error: FloatArray
    spread: FloatArray
    held: FloatArray
    chance: float


def errors_by_column(evaluation: Evaluation) -> list[ColumnErrors]:
    """Return the errors along each column that has at least two ranges, those that differ most first."""
    found = [_along(evaluation, name) for name in evaluation.view.names]
    return sorted((errors for errors in found if errors is not None), key=lambda errors: errors.chance)


def _along(evaluation: Evaluation, name: Any) -> ColumnErrors | None:
    size = evaluation.own_scores["absolute"]
    groups = [(label, at) for label, at in divide(evaluation.view.column(name)) if at.sum() >= _FEWEST]
    if len(groups) < 2:
        return None
    parts = [size[at] for _, at in groups]
    chance = float(stats.kruskal(*parts).pvalue) if np.ptp(size) > 0 else 1.0
    return ColumnErrors(
        str(name),
        tuple(label for label, _ in groups),
        tuple(len(part) for part in parts),
        np.array([part.mean() for part in parts]),
        np.array([part.std() / np.sqrt(len(part)) for part in parts]),
        np.array([evaluation.held[at].mean() for _, at in groups]),
        chance,
    )


def divide(column: RawColumn) -> list[tuple[str, BoolArray]]:
    """Return labels, and which rows they are for: ranges of numbers, or values, most frequent first."""
    if column.kind in ("text", "boolean"):
        return _by_value(np.array([cell(column, i) for i in range(len(column.values))]))
    return _ranges(column)


def cell(column: RawColumn, i: int) -> str:
    """Return a value of a column in words."""
    value = column.values[i]
    if value is None or value != value:
        return "missing"
    if column.kind == "boolean":
        return "yes" if value else "no"
    if column.kind == "date":
        return day(float(value))
    return str(value) if column.kind == "text" else number(float(value))


def day(days: float) -> str:
    """Return the date that is so many days after the beginning of 1970."""
    return str(np.datetime64(0, "D") + np.timedelta64(int(np.floor(days)), "D"))


def _by_value(text: NDArray[np.str_]) -> list[tuple[str, BoolArray]]:
    found, counts = np.unique(text, return_counts=True)
    first = found[np.argsort(-counts, kind="stable")][:_MOST_VALUES]
    groups = [(str(value), np.asarray(text == value)) for value in first]
    others = ~np.isin(text, first)
    return [*groups, ("others", others)] if others.any() else groups


def _ranges(column: RawColumn) -> list[tuple[str, BoolArray]]:
    """Return ranges of equally many rows, or single values if there are few; missing numbers by themselves."""
    numbers, known = column.values, ~column.missing
    distinct = np.unique(numbers[known])
    if len(distinct) <= _MOST_VALUES:
        groups = [(cell(column, int(np.argmax(numbers == value))), numbers == value) for value in distinct]
    else:
        edges = np.unique(np.quantile(numbers[known], np.linspace(0.0, 1.0, _BINS + 1)))
        bins = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2)
        groups = [(_range_label(column, at), at) for k in range(len(edges) - 1) if (at := known & (bins == k)).any()]
    return groups if known.all() else [*groups, ("missing", ~known)]


def _range_label(column: RawColumn, at: BoolArray) -> str:
    rows = np.flatnonzero(at)
    ends = rows[column.values[rows].argmin()], rows[column.values[rows].argmax()]
    first, last = (cell(column, int(i)) for i in ends)
    return first if first == last else f"{first} to {last}"
