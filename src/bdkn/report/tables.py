"""Tables of formatted cells, and their layout as text or Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bdkn.report.compare import LEVEL, Score


@dataclass(frozen=True)
class Table:
    """Formatted cells: names in the first column, numbers in the others."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def score_table(scores: Sequence[Score], title: str) -> Table:
    """Return the table of scores, one row per model."""
    columns = ("model", "RMSE", "NLL", "CRPS", f"{LEVEL:.0%} coverage", f"{LEVEL:.0%} width", "fit, s")
    return Table(title, columns, tuple(_score_row(score) for score in scores))


def weight_table(members: Mapping[str, Sequence[Any]], title: str) -> Table:
    """Return the table of weights, one row per member, from the ``member_table`` of a cross-fitted BDKN regressor."""
    columns = ("member", "weight", "95% interval", "held-out RMSE", "epochs")
    cells = zip(*(members[key] for key in ("member", "weight", "lower", "upper", "rmse", "epochs")), strict=True)
    return Table(
        title,
        columns,
        tuple(
            (name, f"{weight:.2f}", f"{lower:.2f} to {upper:.2f}", _digits(rmse), f"{epochs}")
            for name, weight, lower, upper, rmse, epochs in cells
        ),
    )


def to_text(table: Table) -> str:
    """Return the table as text in aligned columns, for a fixed-width font."""
    lines = [table.columns, *table.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return table.title + "\n" + "\n".join(_aligned(line, widths) for line in lines) + "\n"


def to_markdown(table: Table) -> str:
    """Return the table as GitHub's Markdown."""
    rule = (":--", *["--:"] * (len(table.columns) - 1))
    return "".join(f"| {' | '.join(line)} |\n" for line in (table.columns, rule, *table.rows))


def _score_row(score: Score) -> tuple[str, ...]:
    numbers = (_digits(score.rmse), _digits(score.nll), _digits(score.crps))
    seconds = "–" if score.seconds is None else f"{score.seconds:.2f}"
    return (score.model, *numbers, f"{score.coverage:.1%}", _digits(score.interval_width), seconds)


def _digits(value: float) -> str:
    """Return the number with four significant digits; five or six digits before the point in place of an exponent."""
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e6 else f"{value:#.4g}"


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    sides = "<" + ">" * (len(line) - 1)
    return "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(line, sides, widths, strict=True)).rstrip()
