"""Errors by column: in which range, or for which value, predictions are worse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bdkn.report.evaluation import Evaluation
from bdkn.report.wording import number
from bdkn.typing import FloatArray

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


def _along(evaluation: Evaluation, name: str) -> ColumnErrors | None:
    size = evaluation.own_scores["absolute"]
    groups = [(label, at) for label, at in divide(evaluation.view.values(name)) if at.sum() >= _FEWEST]
    if len(groups) < 2:
        return None
    parts = [size[at] for _, at in groups]
    chance = float(stats.kruskal(*parts).pvalue) if np.ptp(size) > 0 else 1.0
    return ColumnErrors(
        name,
        tuple(label for label, _ in groups),
        tuple(len(part) for part in parts),
        np.array([part.mean() for part in parts]),
        np.array([part.std() / np.sqrt(len(part)) for part in parts]),
        np.array([evaluation.held[at].mean() for _, at in groups]),
        chance,
    )


def divide(values: NDArray[Any]) -> list[tuple[str, NDArray[np.bool_]]]:
    """Return labels, and which rows they are for: ranges of numbers, or values, most frequent first."""
    if values.dtype.kind == "f":
        return _ranges(values)
    if values.dtype.kind in "mM":
        return _ranges(values.astype("int64").astype(np.float64), values)
    text = np.array([_label(value) for value in values], dtype=object)
    return _by_value(text)


def _label(value: Any) -> str:
    return "missing" if value is None or value != value else str(value)


def _by_value(text: NDArray[Any]) -> list[tuple[str, NDArray[np.bool_]]]:
    found, counts = np.unique(text.astype(str), return_counts=True)
    first = found[np.argsort(-counts, kind="stable")][:_MOST_VALUES]
    groups = [(str(value), np.asarray(text == value)) for value in first]
    others = ~np.isin(text.astype(str), first)
    return [*groups, ("others", others)] if others.any() else groups


def _ranges(numbers: FloatArray, shown: NDArray[Any] | None = None) -> list[tuple[str, NDArray[np.bool_]]]:
    """Return ranges of equally many rows, or single values if there are few; missing numbers by themselves."""
    known = ~np.isnan(numbers)
    distinct = np.unique(numbers[known])
    if len(distinct) <= _MOST_VALUES and shown is None:
        groups = [(number(float(value)), np.asarray(numbers == value)) for value in distinct]
    else:
        edges = np.unique(np.quantile(numbers[known], np.linspace(0.0, 1.0, _BINS + 1)))
        groups = [
            (_range_label(numbers, shown, at), at)
            for k in range(len(edges) - 1)
            if (at := (numbers >= edges[k]) & ((numbers < edges[k + 1]) | (k == len(edges) - 2))).any()
        ]
    return [*groups, ("missing", ~known)] if not known.all() else groups


def _range_label(numbers: FloatArray, shown: NDArray[Any] | None, at: NDArray[np.bool_]) -> str:
    if shown is not None:
        return f"{str(shown[at].min())[:10]} to {str(shown[at].max())[:10]}"
    return f"{number(float(numbers[at].min()))} to {number(float(numbers[at].max()))}"
