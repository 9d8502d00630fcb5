"""Grids and tables as text, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import replace
from io import StringIO

from bdkn.table_files.writing import no_formula
from bdkn_paper.analysis.markdown import Table, to_markdown
from bdkn_paper.analysis.results import dataset_title, method_title
from bdkn_paper.tables.score_grid import Entry, Grid, Mark

FORMATS = ("text", "markdown", "latex", "csv")

_MARKDOWN: Mapping[Mark, str] = {"best": "**{}**", "second": "_{}_", "": "{}"}
_LATEX: Mapping[Mark, str] = {"best": r"\textbf{{{}}}", "second": r"\underline{{{}}}", "": "{}"}
_SPECIAL = str.maketrans(
    {
        **{c: rf"\{c}" for c in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        "±": r"$\pm$",
        "–": "--",
        "−": "-",
        "×": r"$\times$",
        **dict.fromkeys("\n\r\t", " "),
    }
)


def entry_text(entry: Entry, digits: int) -> str:
    """Return mean ± standard deviation."""
    sample = entry.sample
    return "–" if sample is None else f"{sample.mean:.{digits}f} ± {sample.std:.{digits}f}"


def grid_table(grid: Grid, show: Callable[[Entry, str], str] = lambda entry, text: text) -> Table:
    """Return the grid as a table, with entries formatted by ``show``."""
    rows = (
        (dataset_title(name), *(show(entry, entry_text(entry, digits)) for entry in entries))
        for name, entries, digits in zip(grid.datasets, grid.entries, grid.digits, strict=True)
    )
    return Table(grid.title, ("data set", *map(method_title, grid.methods)), tuple(rows))


def grid_markdown(grid: Grid) -> str:
    """Return the grid with the best in bold and the second best in italics."""
    return to_markdown(grid_table(grid, lambda entry, text: _MARKDOWN[entry.mark].format(text)))


def grid_latex(grid: Grid) -> str:
    """Return the grid in LaTeX, for the package booktabs."""
    table = grid_table(grid, lambda entry, text: _LATEX[entry.mark].format(latex_escape(text)))
    return _tabular(replace(table, rows=tuple((latex_escape(name), *cells) for name, *cells in table.rows)))


def grid_csv(grid: Grid) -> str:
    """Return one line per entry: data set, method, metric, mean, standard deviation, splits."""
    lines = (
        (name, method, grid.metric, entry.sample.mean, entry.sample.std, len(entry.sample))
        for name, entries in zip(grid.datasets, grid.entries, strict=True)
        for method, entry in zip(grid.methods, entries, strict=True)
        if entry.sample is not None
    )
    return _csv([("dataset", "method", "metric", "mean", "std", "splits"), *lines])


def to_latex(table: Table) -> str:
    """Return a table in LaTeX, for the package booktabs."""
    return _tabular(Table(table.title, table.columns, tuple(tuple(map(latex_escape, row)) for row in table.rows)))


def to_csv(table: Table) -> str:
    """Return a table as CSV."""
    return _csv([table.columns, *table.rows])


def latex_escape(text: str) -> str:
    """Escape the characters that are special in LaTeX."""
    return text.translate(_SPECIAL)


def _tabular(table: Table) -> str:
    """Return the tabular of a table whose rows are already LaTeX."""
    columns = tuple(map(latex_escape, table.columns))
    head, *body = (" & ".join(row) + r" \\" for row in (columns, *table.rows))
    rule = "l" + "r" * (len(columns) - 1)
    lines = (rf"\begin{{tabular}}{{{rule}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}")
    return "\n".join(lines) + "\n"


def _csv(rows: list[tuple[object, ...]]) -> str:
    text = StringIO()
    lines = ([no_formula(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()
