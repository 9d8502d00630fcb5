"""What the page says in words: warnings, the rows the model is least sure of, and how the model was made."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from bdkn.predictive.links import (
    IDENTITY,
    ContinuedLink,
    IdentityLink,
    LogitLink,
    LogLink,
    MirroredLink,
    YeoJohnsonLink,
)
from bdkn.regressors.aggregation import ALIKE, CombiningRegressor
from bdkn.report.column_errors import cell
from bdkn.report.environment import versions
from bdkn.report.evaluation import LEVEL, Evaluation, chance_of
from bdkn.report.verdict import pit_chance
from bdkn.report.wording import count, number, percent

_FEW_ROWS = 50
_MANY_OUTSIDE = 0.1
_SURELY = 0.001

_LEAST_SURE = 8
"""Rows that are listed."""


def warnings_of(evaluation: Evaluation, note: str = "") -> list[str]:
    """Return what a reader should know before trusting the page, in plain words; nothing if all is well."""
    found = [_training_rows(evaluation), _few_rows(evaluation), *_calibration(evaluation), _outside(evaluation), note]
    return [text for text in found if text]


def _training_rows(evaluation: Evaluation) -> str:
    """Return a warning if rows were seen in training: then nearly all prototypes of the model are among them."""
    if evaluation.support is None:
        return ""
    prototypes = len(evaluation.model._combined.widening.support.prototypes)
    seen, n = int(np.sum(evaluation.support.ratio < 1e-9)), len(evaluation.y)
    if seen < max(10, 0.25 * min(n, prototypes)):
        return ""
    return (
        f"At least {seen} of these {count(n, 'row')} are training rows, or equal to some. The numbers on this page are "
        "then better than they would be for new rows: give rows that the model has not seen."
    )


def _few_rows(evaluation: Evaluation) -> str:
    n = len(evaluation.y)
    if n >= _FEW_ROWS:
        return ""
    low, high = chance_of(n, LEVEL)
    return (
        f"With {count(n, 'row')}, numbers are rough: by chance alone, calibrated {percent(LEVEL)} intervals hold "
        f"between {percent(low)} and {percent(high)} of them."
    )


def _calibration(evaluation: Evaluation) -> list[str]:
    n, share, found = len(evaluation.y), float(evaluation.held.mean()), []
    low, high = chance_of(n, LEVEL)
    if share < low:
        found.append(
            f"Intervals are too narrow: {percent(LEVEL)} intervals held {percent(share)} of the rows, and chance "
            f"allows {percent(low)} at least. New rows may differ from the training rows."
        )
    error = evaluation.y - evaluation.mean
    bias, spread = float(error.mean()), float(error.std() / np.sqrt(n))
    if n >= _FEW_ROWS and abs(bias) > 3.5 * spread:
        way = "low" if bias > 0 else "high"
        found.append(f"Predictions are too {way} by {number(abs(bias))} on average, more than chance explains.")
    if n >= _FEW_ROWS and low <= share <= high and pit_chance(evaluation.pit) < _SURELY:
        found.append("The shape of the predicted distributions does not fit: see the histogram under Calibration.")
    return found


def _outside(evaluation: Evaluation) -> str:
    if evaluation.support is None:
        return ""
    far = float(np.mean(evaluation.support.status != "inside"))
    if far <= _MANY_OUTSIDE:
        return ""
    return (
        f"{percent(far)} of the rows are farther from all training rows than those are from each other: predictions "
        "there are extrapolations."
    )


def least_sure(evaluation: Evaluation, columns: Sequence[Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return a table of the rows with the largest standard deviation, and why, with some columns."""
    order = np.argsort(-evaluation.std, kind="stable")[:_LEAST_SURE]
    shown = list(columns)[:3]
    values = [evaluation.view.column(name) for name in shown]
    head = ("row", "predicted", f"{percent(LEVEL)} interval", "observed", "why", *map(str, shown))
    rows = []
    for i in order:
        ends = f"{number(evaluation.interval[i, 0])} to {number(evaluation.interval[i, 1])}"
        cells = (str(i), number(evaluation.mean[i]), ends, number(evaluation.y[i]), _why(evaluation, int(i)))
        rows.append((*cells, *(cell(column, int(i)) for column in values)))
    return head, rows


def _why(evaluation: Evaluation, i: int) -> str:
    """Return the largest part of the variance of a row in words."""
    if evaluation.support is not None and evaluation.support.status[i] != "inside":
        where = "outside the range of" if evaluation.support.status[i] == "outside" else "in a gap of"
        return f"{where} {evaluation.support.column[i]}"
    if not evaluation.parts:
        return "–"
    largest = max(evaluation.parts, key=lambda name: float(evaluation.parts[name][i]))
    return {"disagreement": "members disagree", "shape": "neighbours differ"}.get(largest, largest)


def members_alike(model: Any) -> str:
    """Return a sentence if the data do not tell the members apart."""
    if not isinstance(model, CombiningRegressor) or model.members_told_apart_:
        return ""
    return f"Here {ALIKE}: equal weights are as likely as these, so read nothing into their order."


def how_made(evaluation: Evaluation, given: int) -> list[tuple[str, str]]:
    """Return the model, its parameters, rows, seed and versions."""
    model = evaluation.model
    found = [("Model", type(model).__name__), ("Parameters", _parameters(model))]
    if isinstance(model, CombiningRegressor):
        found += [
            ("Learned from", count(round(model.combination_.n), "row")),
            ("Members in use", str(len(model.member_names_))),
            ("Degrees of freedom", number(model.dof_)),
            ("Target", describe_link(model.link_)),
            ("Shape", "mixed with densities of neighbours" if model.density_ is not None else "Student-t"),
        ]
        if model.provenance_ is not None:
            found.append(("Seed", str(model.provenance_.entropy)))
    n = len(evaluation.y)
    found.append(("Rows of this page", count(n, "row") if n == given else f"{n} drawn from {count(given, 'row')}"))
    return [*found, *versions().items()]


def _parameters(model: Any) -> str:
    """Return the parameters that differ from their defaults."""
    signature = inspect.signature(type(model)).parameters
    own = model.get_params(deep=False)
    changed = [f"{name}={value!r}" for name, value in own.items() if not _is_default(value, signature, name)]
    return ", ".join(changed) or "all as by default"


def _is_default(value: Any, signature: Any, name: str) -> bool:
    return name == "verbose" or (name in signature and repr(signature[name].default) == repr(value))


def describe_link(link: Any) -> str:
    """Return in words how the target was transformed."""
    if link == IDENTITY:
        return "predicted as it is"
    inner = link.link if isinstance(link, ContinuedLink) else link
    words: dict[type, str] = {
        IdentityLink: "predicted as it is",
        LogLink: "predicted by its logarithm",
        MirroredLink: "predicted by the logarithm of its distance to the upper bound",
        LogitLink: "predicted by its logit",
        YeoJohnsonLink: "predicted by a power of it",
    }
    told = words.get(type(inner), "transformed")
    lower, upper = link.support
    bounds = [f"{name} {number(end)}" for name, end in (("from", lower), ("to", upper)) if np.isfinite(end)]
    return f"{told}, bounds {' '.join(bounds)}" if bounds else told
