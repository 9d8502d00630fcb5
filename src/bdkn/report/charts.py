"""The charts of the page: predictions with bands, reliability, and the PIT."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bdkn.report.evaluation import CHANCE, LEVELS, Evaluation, chance_of
from bdkn.report.svg import Chart, label_room, padded_range
from bdkn.report.wording import number, percent
from bdkn.typing import FloatArray, IndexArray

WIDE, NARROW = 720.0, 344.0
"""Widths for which a chart is drawn: for a page on a desk and on a phone."""

_MOST_DOTS = 320
"""Rows that are drawn; of more, evenly spaced ones."""

_BINS = 10

_SHARES = tuple((share, percent(share)) for share in (0.0, 0.25, 0.5, 0.75, 1.0))

Cells = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Figure:
    """A chart in one or two widths, with its numbers as a table."""

    drawings: tuple[str, ...]
    columns: tuple[str, ...]
    rows: Cells


def draw_predictions(evaluation: Evaluation, target: str) -> Figure:
    """Draw rows in the order of their predicted mean: bands, means, and what was observed."""
    order = np.argsort(evaluation.mean, kind="stable")
    shown, fewer = _spaced(order, _MOST_DOTS), _spaced(order, _MOST_DOTS // 3)
    title = f"Predictions of {target} with intervals"
    about = f"{len(shown)} rows in the order of their predicted mean, with 50 % and 90 % intervals and observed values."
    both = tuple(
        _predictions(evaluation, some, width, target).render(f"predictions-{kind}", title, about, kind)
        for some, width, kind in ((shown, WIDE, "wide"), (fewer, NARROW, "narrow"))
    )
    rows = tuple(_prediction_cells(evaluation, i) for i in _spaced(shown, 25))
    return Figure(both, ("row", "mean", "lower 90 %", "upper 90 %", "observed"), rows)


def _spaced(order: IndexArray, most: int) -> IndexArray:
    """Return evenly spaced ones of these rows."""
    return np.asarray(order[np.unique(np.linspace(0, len(order) - 1, min(len(order), most)).astype(int))])


def _prediction_cells(evaluation: Evaluation, i: int) -> tuple[str, ...]:
    values = (evaluation.mean[i], *evaluation.interval[i], evaluation.y[i])
    return (str(i), *(number(float(value), 4) for value in values))


def _predictions(evaluation: Evaluation, shown: IndexArray, width: float, target: str) -> Chart:
    y, held = evaluation.y[shown], evaluation.held[shown]
    ends, half = evaluation.interval[shown], evaluation.half[shown]
    low, high = _drawn_range(y, ends)
    place: FloatArray = np.arange(len(shown), dtype=np.float64) + 0.5
    chart = Chart(width, 330.0 if width == WIDE else 280.0, (0.0, float(len(shown))), (low, high))
    chart.left = label_room((low, high))
    chart.axes(f"{len(shown)} rows, in the order of the prediction", target)
    steps = np.repeat(np.arange(len(shown) + 1.0), 2)[1:-1]  # a step per row, so that single rows can be seen
    for pair, kind in ((ends, "band90"), (half, "band50")):
        lower, upper = (np.repeat(np.clip(pair[:, k], low, high), 2) for k in (0, 1))
        chart.area(steps, lower, upper, kind)
    chart.line(place, np.clip(evaluation.mean[shown], low, high), "mean")
    for x, value, inside, i in zip(place, y, held, shown, strict=True):
        mean, (lower, upper) = evaluation.mean[i], evaluation.interval[i]
        tip = f"row {i}: observed {number(value)}, predicted {number(mean)} ({number(lower)} to {number(upper)})"
        chart.dot(x, float(np.clip(value, low, high)), "dot" if inside else "dot missed", tip)
    return chart


def _drawn_range(y: FloatArray, ends: FloatArray) -> tuple[float, float]:
    """Return a range with all targets, and most of the intervals: a few very wide ones are cut."""
    low, high = np.quantile(ends[:, 0], 0.02), np.quantile(ends[:, 1], 0.98)
    return padded_range(float(min(low, y.min())), float(max(high, y.max())))


def draw_reliability(evaluation: Evaluation) -> Figure:
    """Draw how many targets lie in central intervals of each level, with what chance allows."""
    n, covered = len(evaluation.y), evaluation.covered
    chance = np.array([chance_of(n, float(level)) for level in LEVELS])
    chart = Chart(NARROW, 300.0, (0.0, 1.0), (0.0, 1.0), left=40.0)
    chart.axes("probability of the interval", "share of rows that it held, %", _SHARES, _plain_percent)
    ends = np.array([0.0, *LEVELS, 1.0])
    chart.area(ends, np.array([0.0, *chance[:, 0], 1.0]), np.array([0.0, *chance[:, 1], 1.0]), "chance")
    chart.line((0, 1), (0, 1), "ideal")
    chart.line(ends, np.array([0.0, *covered, 1.0]), "curve")
    for level, share, (low, high) in zip(LEVELS, covered, chance, strict=True):
        tip = f"{percent(level)} intervals held {percent(share)} (chance: {percent(low)} to {percent(high)})"
        chart.dot(float(level), float(share), "knot" if low <= share <= high else "knot missed", tip, 3.0)
    rows = tuple(
        (percent(level), percent(share, 1), f"{percent(low)} to {percent(high)}")
        for level, share, (low, high) in zip(LEVELS, covered, chance, strict=True)
    )
    about = f"Observed coverage of {n} rows at {len(LEVELS)} levels; the diagonal is perfect calibration."
    drawing = chart.render("reliability", "Coverage by level", about)
    return Figure((drawing,), ("level", "held", "chance allows"), rows)


def draw_pit(evaluation: Evaluation) -> Figure:
    """Draw where targets lie in their predicted distributions, with what chance allows."""
    n = len(evaluation.y)
    shares = np.histogram(np.clip(evaluation.pit, 0.0, 1.0), bins=_BINS, range=(0.0, 1.0))[0] / n
    low, high = chance_of(n, 1.0 / _BINS, 1.0 - (1.0 - CHANCE) / _BINS)  # of all bars together
    chart = Chart(NARROW, 300.0, (0.0, 1.0), (0.0, max(1.15 * float(shares.max()), 1.3 * high)), left=40.0)
    chart.axes("probability predicted below the target", "share of rows, %", _SHARES, _plain_percent)
    for k, share in enumerate(shares):
        inside, ends = low <= share <= high, (k / _BINS, (k + 1) / _BINS)
        tip = f"{percent(ends[0])} to {percent(ends[1])}: {percent(share, 1)} of the rows"
        chart.bar(ends, float(share), "column" if inside else "column missed", tip)
    chart.area((0, 1), np.array([low, low]), np.array([high, high]), "chance over")
    chart.line((0, 1), (1 / _BINS, 1 / _BINS), "ideal")
    rows = tuple((f"{percent(k / _BINS)} to {percent((k + 1) / _BINS)}", percent(s, 1)) for k, s in enumerate(shares))
    about = f"Histogram of the probability predicted below each of {n} targets; flat is perfect calibration."
    return Figure((chart.render("pit", "Probability integral transform", about),), ("range", "share of rows"), rows)


def _plain_percent(share: float) -> str:
    return f"{100 * share:g}"
