"""Parts of the page that are lines of a table with a bar in each: errors, drivers, variance, support, members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bdkn.regressors.aggregation import CombiningRegressor
from bdkn.report.column_errors import ColumnErrors
from bdkn.report.drivers import Driver
from bdkn.report.evaluation import Evaluation
from bdkn.report.svg import point, rule, segment, track
from bdkn.report.wording import count, number, percent
from bdkn.typing import FloatArray

PARTS = {
    "noise": "what remains if all else is known",
    "disagreement": "members differ about the row",
    "weights": "the weights of the members are not certain",
    "outside": "the row is far from the training rows",
    "shape": "the shape that neighbours give to predictions",
}
"""Parts of the variance, in the order in which they are drawn."""

_FIFTHS = ("surest fifth", "second", "third", "fourth", "least sure fifth")


@dataclass(frozen=True)
class Line:
    """A line: its label, its bar, its value, and perhaps a note."""

    label: str
    track: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Lines:
    """Lines under a heading; ``columns`` name what the lines show, for those who read them as a table."""

    title: str
    lines: Sequence[Line]
    columns: tuple[str, str] = ("", "")
    note: str = ""
    legend: Sequence[tuple[str, str]] = field(default_factory=tuple)


def error_lines(errors: ColumnErrors, overall: float) -> Lines:
    """Return the mean absolute error in each range of a column, with its standard error, beside that of all rows."""
    most = max(float(np.max(errors.error + 2.0 * errors.spread)), 1.2 * overall) or 1.0
    lines = []
    for k, label in enumerate(errors.labels):
        value, spread = float(errors.error[k]), float(errors.spread[k])
        bar = segment((value - 2 * spread) / most, (value + 2 * spread) / most, "whisker", thin=True)
        is_worse = value - 2.0 * spread > overall
        marks = [rule(overall / most), bar, point(value / most, "worse" if is_worse else "")]
        held = f"{count(errors.rows[k], 'row')}, {percent(float(errors.held[k]))} of intervals held"
        lines.append(Line(label, track(marks), number(value), held))
    return Lines(errors.name, lines, (errors.name, "mean absolute error"))


def driver_lines(drivers: Sequence[Driver], most: int = 12) -> tuple[Lines, ...]:
    """Return how much the strongest columns drive the mean, and the variance; nothing if that is not known."""
    means = [(str(d.name), d.mean, d.mean_error, number) for d in drivers if d.mean > 0.0]
    variances = [(str(d.name), d.variance, d.variance_error, percent) for d in drivers if d.variance > 0.0]
    variances = sorted(variances, key=lambda line: -line[1])
    groups = (("The mean", means[:most], "column"), ("The variance", variances[:most], "column second"))
    return tuple(_whiskers(title, values, kind) for title, values, kind in groups if values)


def _whiskers(title: str, values: Sequence[tuple[str, float, float, Callable[[float], str]]], kind: str) -> Lines:
    """Return bars with whiskers of two standard errors."""
    most = max(value + 2.0 * error for _, value, error, _ in values)
    lines = []
    for name, value, error, shown in values:
        ends = max(0.0, value - 2.0 * error) / most, (value + 2.0 * error) / most
        marks = [segment(0.0, value / most, kind), segment(*ends, "whisker", thin=True)]
        lines.append(Line(name, track(marks), shown(value), f"standard error {shown(error)}"))
    return Lines(title, lines, ("column", "how much it moves predictions"))


def _bars(title: str, values: Sequence[tuple[str, float, str]], kind: str) -> Lines:
    most = max((value for _, value, _ in values), default=1.0) or 1.0
    lines = [Line(name, track([segment(0.0, value / most, kind)]), text) for name, value, text in values]
    return Lines(title, lines, ("member", title))


def variance_lines(parts: Mapping[str, FloatArray], std: FloatArray) -> Lines | None:
    """Return what the variance consists of, for fifths of the rows from the surest to the least sure."""
    if not parts or len(std) < len(_FIFTHS):
        return None
    groups = np.array_split(np.argsort(std, kind="stable"), len(_FIFTHS))
    lines = [_variance_line("all rows", parts, np.arange(len(std)), std)]
    lines += [_variance_line(name, parts, rows, std) for name, rows in zip(_FIFTHS, groups, strict=True)]
    legend = [(name, PARTS[name]) for name in PARTS if name in parts]
    return Lines("", lines, ("rows", "standard deviation"), legend=legend)


def _variance_line(name: str, parts: Mapping[str, FloatArray], rows: Any, std: FloatArray) -> Line:
    means = {part: float(values[rows].mean()) for part, values in parts.items()}
    whole = sum(max(value, 0.0) for value in means.values()) or 1.0
    marks, start = [], 0.0
    for part in PARTS:
        share = max(means.get(part, 0.0), 0.0) / whole
        marks.append(segment(start, start + share, f"part-{part}", f"{name}: {part} {percent(share)}"))
        start += share
    told = ", ".join(f"{part} {percent(means[part] / whole)}" for part in PARTS if part in means)
    return Line(name, track(marks), f"± {number(float(np.sqrt(np.mean(std[rows] ** 2))))}", told)


def support_lines(evaluation: Evaluation) -> Lines | None:
    """Return how many rows lie inside of the training rows, in gaps between them, and outside."""
    report = evaluation.support
    if report is None:
        return None
    n, lines = len(report), []
    for status, words in (("inside", "inside"), ("gap", "in a gap"), ("outside", "outside")):
        at = report.status == status
        named = Counter(str(column) for column in report.column[at]).most_common(3)
        because = ", ".join(f"{name} ({k})" for name, k in named) if status != "inside" else ""
        bar = track([segment(0.0, float(at.mean()), f"support-{status}")])
        lines.append(Line(words, bar, f"{int(at.sum())} of {n}", f"by {because}" if because else ""))
    return Lines("", lines, ("where", "rows"))


def member_lines(model: Any, most: int = 24) -> Lines:
    """Return the weight of each member with its 95 % interval; of an unweighted ensemble, the error of each."""
    names = list(model.member_names_)[:most]
    left = len(model.member_names_) - len(names)
    note = f"{count(left, 'more member')} not shown." if left else ""
    if not isinstance(model, CombiningRegressor):
        errors = model.member_table()["rmse"][:most]
        values = [(name, float(rmse), number(float(rmse))) for name, rmse in zip(names, errors, strict=True)]
        return replace(_bars("RMSE on the training rows", values, "column"), note=note)
    lower, upper = (part[:most] for part in model.weight_posterior().interval(0.95))
    ends = min(0.0, float(lower.min())), max(float(upper.max()), 1e-12)
    lines = [
        _weight_line(name, (weight, first, last), ends, 1.0 / len(model.member_names_))
        for name, weight, first, last in zip(names, model.weights_[:most], lower, upper, strict=True)
    ]
    return Lines("", lines, ("member", "weight"), note)


def _weight_line(name: str, weight: tuple[float, float, float], ends: tuple[float, float], equal: float) -> Line:
    """Return the line of a weight, which comes with the ends of its interval."""
    zero, even, value, first, last = ((x - ends[0]) / (ends[1] - ends[0]) for x in (0.0, equal, *weight))
    marks = [rule(zero, "zero"), rule(even), segment(first, last, "whisker", thin=True), point(value, "")]
    shown = [f"{x:.2f}".replace("-", "−") for x in weight]
    return Line(name, track(marks), shown[0], f"95 % interval {shown[1]} to {shown[2]}")
