"""Charts of the HTML report, as SVG.

Colours are CSS classes, so that charts follow the light or dark theme of the report. The attribute ``data-tip`` is the
tooltip of a dot or a bar.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from bdkn.report.evaluation import CHANCE, LEVELS, PIT_BINS, ColumnErrors, Driver, Evaluation, chance_of
from bdkn.report.wording import count, number, percent
from bdkn.typing import FloatArray, IndexArray

Range = tuple[float, float]

WIDE, NARROW = 720.0, 344.0
"""Widths of a chart in pixels: for a large screen and for a phone."""

_TICKS = 5
"""Approximate number of horizontal grid lines of a chart."""

_MAX_DOTS = 320
"""Maximum number of rows in a chart; if there are more, evenly spaced ones are drawn."""


def ticks(low: float, high: float, most: int) -> list[float]:
    """Return about ``most`` round numbers between ``low`` and ``high``, for the ticks of an axis."""
    span = high - low
    if not (span > 0 and math.isfinite(span)):
        return [low]
    raw = span / max(most, 1)
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) + 0.0 for k in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_label(value: float) -> str:
    """Return the label of a tick, a round number, with all of its digits."""
    if value == 0 or 1e-4 <= abs(value) < 1e7:
        return f"{value:,.10g}".replace("-", "−").replace(",", "\u202f" if abs(value) >= 10_000 else "")
    return f"{value:g}".replace("-", "−")


@dataclass
class Chart:
    """A chart with two axes. Methods such as ``line`` draw on it; ``render`` returns the SVG. Sizes are in pixels."""

    width: float
    height: float
    x_range: Range
    y_range: Range
    left: float = 46.0
    bottom: float = 40.0
    top: float = 10.0
    right: float = 8.0
    marks: list[str] = field(default_factory=list)

    def x(self, value: float) -> float:
        """Return the horizontal position of a value, in pixels."""
        low, high = self.x_range
        return self.left + (value - low) / (high - low) * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        """Return the vertical position of a value, in pixels."""
        low, high = self.y_range
        return self.height - self.bottom - (value - low) / (high - low) * (self.height - self.bottom - self.top)

    def axes(
        self,
        x_label: str,
        y_label: str,
        x_ticks: Sequence[tuple[float, str]] = (),
        y_format: Callable[[float], str] = tick_label,
    ) -> None:
        """Draw horizontal grid lines, the labels of both axes, and their ticks."""
        for value in ticks(*self.y_range, _TICKS):
            ends = f'x1="{self.left:.1f}" y1="{self.y(value):.1f}" x2="{self.width - self.right:.1f}"'
            self.marks.append(f'<line class="grid" {ends} y2="{self.y(value):.1f}"/>')
            self._text(self.left - 7, self.y(value) + 3.5, y_format(value), "tick end")
        for value, label in x_ticks:
            kind = "tick end" if value == self.x_range[1] else "tick middle"
            self._text(self.x(value), self.height - self.bottom + 16, label, kind)
        middle = (self.left + self.width - self.right) / 2
        self._text(middle, self.height - 5, x_label, "label middle")
        self._text(0, 0, y_label, "label middle", f"translate(10 {(self.height - self.bottom) / 2:.0f}) rotate(-90)")

    def area(self, xs: Sequence[float] | FloatArray, low: FloatArray, high: FloatArray, kind: str) -> None:
        """Draw a band between two curves; ``kind`` is its CSS class."""
        there = [f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in zip(xs, high, strict=True)]
        back = [f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in zip(xs, low, strict=True)]
        self.marks.append(f'<polygon class="{kind}" points="{" ".join(there + back[::-1])}"/>')

    def line(self, xs: Sequence[float] | FloatArray, ys: Sequence[float] | FloatArray, kind: str) -> None:
        """Draw a curve; ``kind`` is its CSS class."""
        points = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in zip(xs, ys, strict=True))
        self.marks.append(f'<polyline class="{kind}" points="{points}"/>')

    def dot(self, x: float, y: float, kind: str, tip: str, size: float = 2.6) -> None:
        """Draw a dot with the CSS class ``kind`` and the tooltip ``tip``."""
        place = f'cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="{size}"'
        self.marks.append(f'<circle class="{kind}" {place} data-tip="{escape(tip)}"/>')

    def bar(self, x: Range, y: float, kind: str, tip: str) -> None:
        """Draw a bar from the bottom up to ``y``, with the CSS class ``kind`` and the tooltip ``tip``."""
        left, right, top = self.x(x[0]), self.x(x[1]), self.y(y)
        size = f'width="{right - left - 2:.1f}" height="{max(0.0, self.y(self.y_range[0]) - top):.1f}"'
        self.marks.append(
            f'<rect class="{kind}" x="{left + 1:.1f}" y="{top:.1f}" {size} rx="1.5" data-tip="{escape(tip)}"/>'
        )

    def _text(self, x: float, y: float, text: str, kind: str, move: str = "") -> None:
        place = f'x="{x:.1f}" y="{y:.1f}"' + (f' transform="{move}"' if move else "")
        self.marks.append(f'<text class="{kind}" {place}>{escape(text)}</text>')

    def render(self, name: str, title: str, about: str, kind: str = "") -> str:
        """Return the SVG, with a title and a description for screen readers."""
        head = f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(about)}</desc>'
        box = f'viewBox="0 0 {self.width:g} {self.height:g}" role="img" aria-labelledby="{name}-t {name}-d"'
        return f'<svg class="chart {kind}" {box}>{head}{"".join(self.marks)}</svg>'


def track(marks: Sequence[str]) -> str:
    """Return a small SVG of elements with x from 0 to 100, which is stretched to the width of its place."""
    head = '<svg class="track" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">'
    return f"{head}{''.join(marks)}</svg>"


def segment(start: float, stop: float, kind: str, tip: str = "", *, thin: bool = False) -> str:
    """Return a bar for ``track`` between two fractions of its length; ``thin`` for error bars."""
    left, right = (100 * min(max(share, 0.0), 1.0) for share in (start, stop))
    y, height = (5.2, 1.6) if thin else (1, 10)
    tipped = f' data-tip="{escape(tip)}"' if tip else ""
    return f'<rect class="{kind}" x="{left:.2f}" y="{y}" width="{right - left:.2f}" height="{height}"{tipped}/>'


def point(at: float, kind: str) -> str:
    """Return a dot for ``track`` at a fraction of its length, drawn as a line of length zero with a round end."""
    x = 100 * min(max(at, 0.0), 1.0)
    return f'<line class="point {kind}" x1="{x:.2f}" x2="{x:.2f}" y1="6" y2="6"/>'


def rule(at: float, kind: str = "rule") -> str:
    """Return a vertical line for ``track`` at a fraction of its length."""
    x = 100 * min(max(at, 0.0), 1.0)
    return f'<line class="{kind}" x1="{x:.2f}" x2="{x:.2f}" y1="0" y2="12"/>'


PARTS = {
    "noise": "the variance that remains if everything else is known",
    "disagreement": "members differ about the row",
    "weights": "the weights of the members are not certain",
    "outside": "the row is far from the training rows",
    "shape": "neighbours change the shape of the distribution",
}
"""Meanings of the parts of the variance, in the order in which the parts are drawn."""

_MAX_DRIVERS = 12
"""Maximum number of columns whose effects are drawn."""

_MAX_MEMBERS = 24
"""Maximum number of members whose weights are drawn."""

_FIFTHS = ("surest fifth", "second", "third", "fourth", "least sure fifth")


@dataclass(frozen=True)
class Line:
    """A line of a list in the HTML report: a label, a small drawing, a value, and a note."""

    label: str
    track: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Lines:
    """A list in the HTML report with its heading; ``columns`` names labels and values for screen readers."""

    title: str
    lines: Sequence[Line]
    columns: tuple[str, str] = ("", "")
    note: str = ""
    legend: Sequence[tuple[str, str]] = field(default_factory=tuple)


def error_lines(errors: ColumnErrors, overall: float) -> Lines:
    """Return a list of the mean absolute error in each range of a column, compared with the ``overall`` error."""
    most = max(float(np.max(errors.error + 2.0 * errors.spread)), 1.2 * overall) or 1.0
    lines = []
    for k, label in enumerate(errors.labels):
        value, spread = float(errors.error[k]), float(errors.spread[k])
        bar = segment((value - 2 * spread) / most, (value + 2 * spread) / most, "whisker", thin=True)
        is_worse = value - 2.0 * spread > overall
        marks = [rule(overall / most), bar, point(value / most, "worse" if is_worse else "")]
        held = f"{count(errors.rows[k], 'row')}, {percent(float(errors.held[k]))} in their interval"
        lines.append(Line(label, track(marks), number(value), held))
    return Lines(errors.name, lines, (errors.name, "mean absolute error"))


def driver_lines(drivers: Sequence[Driver]) -> tuple[Lines, ...]:
    """Return lists of the largest effects of columns on mean and variance, with error bars of two standard errors."""
    found = []
    for title, key, kind, shown in (
        ("The mean", "mean", "column", number),
        ("The variance", "variance", "column second", percent),
    ):
        values = [(str(one.name), getattr(one, key), getattr(one, f"{key}_error")) for one in drivers]
        values = sorted((one for one in values if one[1] > 0.0), key=lambda one: -one[1])[:_MAX_DRIVERS]
        most = max((value + 2.0 * error for _, value, error in values), default=1.0)
        lines = []
        for name, value, error in values:
            ends = max(0.0, value - 2.0 * error) / most, (value + 2.0 * error) / most
            marks = [segment(0.0, value / most, kind), segment(*ends, "whisker", thin=True)]
            lines.append(Line(name, track(marks), shown(value), f"standard error {shown(error)}"))
        if lines:
            found.append(Lines(title, lines, ("column", "effect on predictions")))
    return tuple(found)


def variance_lines(parts: Mapping[str, FloatArray], std: FloatArray) -> Lines | None:
    """Return a list of the parts of the variance: for all rows, and for fifths of the rows by standard deviation."""
    if not parts or len(std) < len(_FIFTHS):
        return None
    fifths = np.array_split(np.argsort(std, kind="stable"), len(_FIFTHS))
    names, lines = [name for name in PARTS if name in parts], []
    for label, rows in (("all rows", np.arange(len(std))), *zip(_FIFTHS, fifths, strict=True)):
        means = {name: float(parts[name][rows].mean()) for name in names}
        total = sum(max(value, 0.0) for value in means.values()) or 1.0
        marks, start = [], 0.0
        for name, mean in means.items():
            share = max(mean, 0.0) / total
            marks.append(segment(start, start + share, f"part-{name}", f"{label}: {name} {percent(share)}"))
            start += share
        note = ", ".join(f"{name} {percent(mean / total)}" for name, mean in means.items())
        lines.append(Line(label, track(marks), f"± {number(float(np.sqrt(np.mean(std[rows] ** 2))))}", note))
    return Lines("", lines, ("rows", "standard deviation"), legend=[(name, PARTS[name]) for name in names])


def support_lines(evaluation: Evaluation) -> Lines | None:
    """Return a list of the numbers of rows near training rows, in gaps between them, and outside their range."""
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


def member_lines(model: Any) -> Lines:
    """Return a list of the members' weights with 95 % intervals; for an unweighted ensemble, of their errors."""
    n = len(model.member_names_)
    names = list(model.member_names_)[:_MAX_MEMBERS]
    note = f"{count(n - len(names), 'more member')} not shown." if n > len(names) else ""
    if not hasattr(model, "weight_posterior"):
        errors = model.member_table()["rmse"][: len(names)].tolist()
        most = max(errors, default=1.0) or 1.0
        bars = [track([segment(0.0, error / most, "column")]) for error in errors]
        lines = [Line(name, bar, number(error)) for name, bar, error in zip(names, bars, errors, strict=True)]
        title = "RMSE on the training rows"
        return Lines(title, lines, ("member", title), note)
    lower, upper = (part[: len(names)] for part in model.weight_posterior().interval(0.95))
    start, stop = min(0.0, float(lower.min())), max(float(upper.max()), 1e-12)
    lines = []
    for name, *weight in zip(names, model.weights_[: len(names)], lower, upper, strict=True):
        zero, equal, value, first, last = ((x - start) / (stop - start) for x in (0.0, 1.0 / n, *weight))
        marks = [rule(zero, "zero"), rule(equal), segment(first, last, "whisker", thin=True), point(value, "")]
        shown = [f"{x:.2f}".replace("-", "−") for x in weight]
        lines.append(Line(name, track(marks), shown[0], f"95\u202f% interval {shown[1]} to {shown[2]}"))
    return Lines("", lines, ("member", "weight"), note)


_SHARES = tuple((share, percent(share)) for share in (0.0, 0.25, 0.5, 0.75, 1.0))


@dataclass(frozen=True)
class Figure:
    """A chart, drawn in one or two widths, and a table of its numbers with the header ``columns``."""

    drawings: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def draw_predictions(evaluation: Evaluation, target: str) -> Figure:
    """Draw intervals, predicted means and observed values of rows, sorted by the predicted mean."""
    order = np.argsort(evaluation.mean, kind="stable")
    shown = _spaced(order, _MAX_DOTS)
    title = f"Predictions of {target} with intervals"
    about = f"{len(shown)} rows in the order of their predicted mean, with 50 % and 90 % intervals and observed values."
    drawings = tuple(
        _draw_rows(evaluation, rows, width, target).render(f"predictions-{kind}", title, about, kind)
        for rows, width, kind in ((shown, WIDE, "wide"), (_spaced(order, _MAX_DOTS // 3), NARROW, "narrow"))
    )
    cells = []
    for i in _spaced(shown, 25):
        values = (evaluation.mean[i], *evaluation.interval[i], evaluation.y[i])
        cells.append((str(i), *(number(float(value), 4) for value in values)))
    return Figure(drawings, ("row", "mean", "lower 90 %", "upper 90 %", "observed"), tuple(cells))


def _spaced(order: IndexArray, most: int) -> IndexArray:
    """Return at most ``most`` elements of ``order``, evenly spaced."""
    return np.asarray(order[np.unique(np.linspace(0, len(order) - 1, min(len(order), most)).astype(int))])


def _draw_rows(evaluation: Evaluation, shown: IndexArray, width: float, target: str) -> Chart:
    y, held, ends = evaluation.y[shown], evaluation.held[shown], evaluation.interval[shown]
    # The vertical axis shows all targets and most of the intervals; a few very wide ones are cut.
    low = min(float(np.quantile(ends[:, 0], 0.02)), float(y.min()))
    high = max(float(np.quantile(ends[:, 1], 0.98)), float(y.max()))
    margin = 0.04 * (high - low) or 0.04 * abs(low) or 1.0
    low, high = low - margin, high + margin
    place: FloatArray = np.arange(len(shown), dtype=np.float64) + 0.5
    chart = Chart(width, 330.0 if width == WIDE else 280.0, (0.0, float(len(shown))), (low, high))
    chart.left = 28.0 + 6.4 * max(len(tick_label(value)) for value in ticks(low, high, _TICKS))
    chart.axes(f"{len(shown)} rows, in the order of the prediction", target)
    steps = np.repeat(np.arange(len(shown) + 1.0), 2)[1:-1]  # a step per row, so that single rows can be seen
    for pair, kind in ((ends, "band90"), (evaluation.half[shown], "band50")):
        lower, upper = (np.repeat(np.clip(pair[:, k], low, high), 2) for k in (0, 1))
        chart.area(steps, lower, upper, kind)
    chart.line(place, np.clip(evaluation.mean[shown], low, high), "mean")
    for x, value, inside, i in zip(place, y, held, shown, strict=True):
        mean, (lower, upper) = evaluation.mean[i], evaluation.interval[i]
        tip = f"row {i}: observed {number(value)}, predicted {number(mean)} ({number(lower)} to {number(upper)})"
        chart.dot(x, float(np.clip(value, low, high)), "dot" if inside else "dot missed", tip)
    return chart


def draw_reliability(evaluation: Evaluation) -> Figure:
    """Draw the observed coverage of central intervals at each level, with the range that chance allows."""
    n, covered = len(evaluation.y), evaluation.covered
    chance = np.array([chance_of(n, float(level)) for level in LEVELS])
    chart = Chart(NARROW, 300.0, (0.0, 1.0), (0.0, 1.0), left=40.0)
    chart.axes("probability of the interval", "share of rows inside, %", _SHARES, lambda share: f"{100 * share:g}")
    ends = np.array([0.0, *LEVELS, 1.0])
    chart.area(ends, np.array([0.0, *chance[:, 0], 1.0]), np.array([0.0, *chance[:, 1], 1.0]), "chance")
    chart.line((0, 1), (0, 1), "ideal")
    chart.line(ends, np.array([0.0, *covered, 1.0]), "curve")
    for level, share, (low, high) in zip(LEVELS, covered, chance, strict=True):
        tip = f"{percent(share)} of rows in their {percent(level)} interval (chance: {percent(low)} to {percent(high)})"
        chart.dot(float(level), float(share), "knot" if low <= share <= high else "knot missed", tip, 3.0)
    rows = tuple(
        (percent(level), percent(share, 1), f"{percent(low)} to {percent(high)}")
        for level, share, (low, high) in zip(LEVELS, covered, chance, strict=True)
    )
    about = f"Observed coverage of {n} rows at {len(LEVELS)} levels; the diagonal is perfect calibration."
    drawing = chart.render("reliability", "Coverage by level", about)
    return Figure((drawing,), ("level", "observed", "chance allows"), rows)


def draw_pit(evaluation: Evaluation) -> Figure:
    """Draw the histogram of the probability integral transform, with the range that chance allows."""
    n = len(evaluation.y)
    shares = evaluation.pit_counts / n
    low, high = chance_of(n, 1.0 / PIT_BINS, 1.0 - (1.0 - CHANCE) / PIT_BINS)  # for all bars together
    chart = Chart(NARROW, 300.0, (0.0, 1.0), (0.0, max(1.15 * float(shares.max()), 1.3 * high)), left=40.0)
    chart.axes("probability predicted below the target", "share of rows, %", _SHARES, lambda share: f"{100 * share:g}")
    ranges = [(k / PIT_BINS, (k + 1) / PIT_BINS) for k in range(PIT_BINS)]
    for ends, share in zip(ranges, shares, strict=True):
        inside = low <= share <= high
        tip = f"{percent(ends[0])} to {percent(ends[1])}: {percent(share, 1)} of the rows"
        chart.bar(ends, float(share), "column" if inside else "column missed", tip)
    chart.area((0, 1), np.array([low, low]), np.array([high, high]), "chance over")
    chart.line((0, 1), (1 / PIT_BINS, 1 / PIT_BINS), "ideal")
    rows = tuple(
        (f"{percent(start)} to {percent(stop)}", percent(share, 1))
        for (start, stop), share in zip(ranges, shares, strict=True)
    )
    about = f"Histogram of the probability predicted below each of {n} targets; flat is perfect calibration."
    return Figure((chart.render("pit", "Probability integral transform", about),), ("range", "share of rows"), rows)
