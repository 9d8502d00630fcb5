"""Tables of the page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bdkn.arrays import check_readable
from bdkn.data.reading import RawColumn, column_names, is_frame, read_column
from bdkn.errors import InvalidParameterError
from bdkn.typing import IndexArray


@dataclass(frozen=True, eq=False)
class TableView:
    """A table with the names of its columns."""

    table: Any
    names: tuple[Any, ...]

    @classmethod
    def of(cls, X: Any, names: Sequence[Any] | None = None) -> TableView:
        """Return the view of a table; ``names`` are the columns to look at, or names for those of an array."""
        if is_frame(X):
            wanted = tuple(column_names(X) if names is None else names)
            lacking = [name for name in wanted if name not in set(column_names(X))]
            if lacking:
                raise InvalidParameterError(
                    f"X must have the columns of the fit; missing: {', '.join(map(repr, lacking))}"
                )
            return cls(X[list(wanted)] if hasattr(X, "iloc") else X.select(list(wanted)), wanted)
        check_readable("X", X)
        table = np.asarray(X)
        if table.ndim != 2:
            raise InvalidParameterError(f"X must be a table, shape (n_samples, n_features); got shape {table.shape}")
        return cls(table, tuple(f"column {j}" for j in range(table.shape[1])) if names is None else tuple(names))

    def __len__(self) -> int:
        return int(self.table.shape[0])

    def column(self, name: Any) -> RawColumn:
        """Return the values of a column: numbers with nan where they are missing, or text with None."""
        if is_frame(self.table):
            return read_column(self.table, name)
        return RawColumn(name, "number", np.asarray(self.table[:, self.names.index(name)], dtype=np.float64))

    def rows(self, numbers: IndexArray) -> TableView:
        """Return some rows."""
        if hasattr(self.table, "iloc"):
            return TableView(self.table.iloc[numbers], self.names)
        if hasattr(self.table, "set_column"):
            return TableView(self.table.take(numbers), self.names)
        return TableView(self.table[numbers], self.names)


_MARKDOWN = re.compile(r"[\\`*_\[\]|~$]")


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
    """Return the table as GitHub's Markdown; cells may contain Markdown, but they cannot end their cell or line."""
    rule = (":--", *["--:"] * (len(table.columns) - 1))
    lines = (tuple(map(_one_cell, line)) for line in (table.columns, rule, *table.rows))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def markdown_text(text: str) -> str:
    """Return a text of others as Markdown that shows it: nothing in it is a link, an image, emphasis or HTML."""
    return _MARKDOWN.sub(r"\\\g<0>", " ".join(text.split())).replace("&", "&amp;").replace("<", "&lt;")


def _one_cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\|", " ".join(text.splitlines()))


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    sides = "<" + ">" * (len(line) - 1)
    return "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(line, sides, widths, strict=True)).rstrip()
