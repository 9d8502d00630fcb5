"""Drawing as SVG: axes and marks for charts, and tracks, the bars of one line of a table.

Colours are classes of the page's style, so that a chart follows its theme. ``data-tip`` is what the page shows of a
mark under the pointer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

from bdkn.typing import FloatArray

Range = tuple[float, float]


def ticks(low: float, high: float, most: int) -> list[float]:
    """Return at most about ``most`` round numbers between two ends."""
    span = high - low
    if not (span > 0 and math.isfinite(span)):
        return [low]
    raw = span / max(most, 1)
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) + 0.0 for k in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_label(value: float) -> str:
    """Return a round number with as many digits as it has."""
    if value == 0 or 1e-4 <= abs(value) < 1e7:
        return f"{value:,.10g}".replace("-", "−").replace(",", "\u202f" if abs(value) >= 10_000 else "")
    return f"{value:g}".replace("-", "−")


def label_room(y_range: Range) -> float:
    """Return the room that the labels of a vertical axis need, and its name."""
    return 28.0 + 6.4 * max(len(tick_label(value)) for value in ticks(*y_range, 5))


def padded_range(low: float, high: float, share: float = 0.04) -> Range:
    """Return the range with some room at both ends."""
    room = share * (high - low) or abs(low) * share or 1.0
    return low - room, high + room


@dataclass
class Chart:
    """A chart with two axes; methods add marks, ``render`` returns the SVG."""

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
        """Return the horizontal place of a value."""
        low, high = self.x_range
        return self.left + (value - low) / (high - low) * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        """Return the vertical place of a value."""
        low, high = self.y_range
        return self.height - self.bottom - (value - low) / (high - low) * (self.height - self.bottom - self.top)

    def axes(
        self,
        x_label: str,
        y_label: str,
        x_ticks: Sequence[tuple[float, str]] = (),
        y_format: Callable[[float], str] = tick_label,
        n_ticks: int = 5,
    ) -> None:
        """Draw horizontal grid lines, the labels of both axes, and their ticks."""
        for value in ticks(*self.y_range, n_ticks):
            self._line((self.left, self.y(value)), (self.width - self.right, self.y(value)), "grid")
            self._text(self.left - 7, self.y(value) + 3.5, y_format(value), "tick end")
        for value, label in x_ticks:
            kind = "tick end" if value == self.x_range[1] else "tick middle"
            self._text(self.x(value), self.height - self.bottom + 16, label, kind)
        middle = (self.left + self.width - self.right) / 2
        self._text(middle, self.height - 5, x_label, "label middle")
        self._text(0, 0, y_label, "label middle", f"translate(10 {(self.height - self.bottom) / 2:.0f}) rotate(-90)")

    def area(self, xs: Sequence[float] | FloatArray, low: FloatArray, high: FloatArray, kind: str) -> None:
        """Draw a band between two curves."""
        there = [f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in zip(xs, high, strict=True)]
        back = [f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in zip(xs, low, strict=True)]
        self.marks.append(f'<polygon class="{kind}" points="{" ".join(there + back[::-1])}"/>')

    def line(self, xs: Sequence[float] | FloatArray, ys: Sequence[float] | FloatArray, kind: str) -> None:
        """Draw a curve."""
        points = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in zip(xs, ys, strict=True))
        self.marks.append(f'<polyline class="{kind}" points="{points}"/>')

    def dot(self, x: float, y: float, kind: str, tip: str, size: float = 2.6) -> None:
        """Draw a dot."""
        place = f'cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="{size}"'
        self.marks.append(f'<circle class="{kind}" {place} data-tip="{escape(tip)}"/>')

    def bar(self, x: Range, y: float, kind: str, tip: str) -> None:
        """Draw a bar from zero."""
        left, right, top = self.x(x[0]), self.x(x[1]), self.y(y)
        size = f'width="{right - left - 2:.1f}" height="{max(0.0, self.y(self.y_range[0]) - top):.1f}"'
        self.marks.append(
            f'<rect class="{kind}" x="{left + 1:.1f}" y="{top:.1f}" {size} rx="1.5" data-tip="{escape(tip)}"/>'
        )

    def _line(self, start: Range, stop: Range, kind: str) -> None:
        ends = f'x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{stop[0]:.1f}" y2="{stop[1]:.1f}"'
        self.marks.append(f'<line class="{kind}" {ends}/>')

    def _text(self, x: float, y: float, text: str, kind: str, move: str = "") -> None:
        place = f'x="{x:.1f}" y="{y:.1f}"' + (f' transform="{move}"' if move else "")
        self.marks.append(f'<text class="{kind}" {place}>{escape(text)}</text>')

    def render(self, name: str, title: str, about: str, kind: str = "") -> str:
        """Return the SVG with its title and description for those who cannot see it."""
        head = f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(about)}</desc>'
        box = f'viewBox="0 0 {self.width:g} {self.height:g}" role="img" aria-labelledby="{name}-t {name}-d"'
        return f'<svg class="chart {kind}" {box}>{head}{"".join(self.marks)}</svg>'


def track(marks: Sequence[str]) -> str:
    """Return marks between 0 and 100 as a drawing that is as wide as its place."""
    head = '<svg class="track" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">'
    return f"{head}{''.join(marks)}</svg>"


def segment(start: float, stop: float, kind: str, tip: str = "", *, thin: bool = False) -> str:
    """Return a bar of a track from one share of its length to another; a thin one for intervals."""
    left, right = (100 * min(max(share, 0.0), 1.0) for share in (start, stop))
    y, height = (5.2, 1.6) if thin else (1, 10)
    tipped = f' data-tip="{escape(tip)}"' if tip else ""
    return f'<rect class="{kind}" x="{left:.2f}" y="{y}" width="{right - left:.2f}" height="{height}"{tipped}/>'


def point(at: float, kind: str) -> str:
    """Return a dot of a track, a line without length whose end is round."""
    x = 100 * min(max(at, 0.0), 1.0)
    return f'<line class="point {kind}" x1="{x:.2f}" x2="{x:.2f}" y1="6" y2="6"/>'


def rule(at: float, kind: str = "rule") -> str:
    """Return a vertical line of a track."""
    x = 100 * min(max(at, 0.0), 1.0)
    return f'<line class="{kind}" x1="{x:.2f}" x2="{x:.2f}" y1="0" y2="12"/>'
