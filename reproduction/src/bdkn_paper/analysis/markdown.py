"""Tables in Markdown."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MARKDOWN = re.compile(r"[\\`*_\[\]|~$]")


@dataclass(frozen=True)
class Table:
    """Formatted cells: names in the first column, numbers in the others."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def to_markdown(table: Table) -> str:
    """Return the table as GitHub's Markdown; cells may contain Markdown, but they cannot end their cell or line."""
    rule = (":--", *["--:"] * (len(table.columns) - 1))
    lines = (tuple(map(_one_cell, line)) for line in (table.columns, rule, *table.rows))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def markdown_text(text: str) -> str:
    """Return Markdown that shows a text as it is: nothing in it is a link, an image, emphasis or HTML."""
    return _MARKDOWN.sub(r"\\\g<0>", " ".join(text.split())).replace("&", "&amp;").replace("<", "&lt;")


def _one_cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\|", " ".join(text.splitlines()))
