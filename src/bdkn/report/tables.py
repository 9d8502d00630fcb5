"""Tables of formatted cells, and their layout as text or Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Formatted cells: names in the first column, numbers in the others."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def to_text(table: Table) -> str:
    """Return the table as text in aligned columns, for a fixed-width font."""
    lines = [table.columns, *table.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return table.title + "\n" + "\n".join(_aligned(line, widths) for line in lines) + "\n"


def to_markdown(table: Table) -> str:
    """Return the table as GitHub's Markdown."""
    rule = (":--", *["--:"] * (len(table.columns) - 1))
    return "".join(f"| {' | '.join(line)} |\n" for line in (table.columns, rule, *table.rows))


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    sides = "<" + ">" * (len(line) - 1)
    return "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(line, sides, widths, strict=True)).rstrip()
