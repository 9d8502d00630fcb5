"""What became of the columns of a table, in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bdkn.data.columns import CategoryColumn, ColumnEncoder, DateColumn, NumberColumn, TextColumn, UnusedColumn
from bdkn.data.encoder import TableEncoder
from bdkn.errors import ColumnsWarning, warn_user
from bdkn.typing import FloatArray

_COPY = 1e-9
"""A column repeats the target if its correlation with it, or that of their ranks, is less than this from ±1."""


@dataclass(frozen=True, eq=False)
class ColumnReport:
    """What each column of a table became, and why. It is the attribute ``columns_`` of a fitted regressor.

    Parameters
    ----------
    rows : list of dict
        For each column: its "name"; its "kind" ("number", "boolean", "category", "text", "date", "duration", or, if it
        is not used, "constant", "identifier" or "empty"); what it "becomes"; and "why".
    """

    rows: list[dict[str, Any]]

    @classmethod
    def of(cls, encoder: TableEncoder) -> ColumnReport:
        """Return the report about an encoder.

        Parameters
        ----------
        encoder : TableEncoder
            The encoder of a table.

        Returns
        -------
        report : ColumnReport
            One entry per column.
        """
        notes = encoder.notes or ("",) * len(encoder.columns)
        return cls([_row(column, note) for column, note in zip(encoder.columns, notes, strict=True)])

    @classmethod
    def of_numbers(cls, names: Iterable[Any]) -> ColumnReport:
        """Return the report about the columns of an array of numbers.

        Parameters
        ----------
        names : iterable
            Their names or numbers.

        Returns
        -------
        report : ColumnReport
            One entry per column.
        """
        return cls([{"name": name, "kind": "number", "becomes": "itself", "why": ""} for name in names])

    def to_frame(self) -> Any:
        """Return the report as a pandas data frame.

        Returns
        -------
        frame : pandas.DataFrame
            One row per column.
        """
        from pandas import DataFrame

        return DataFrame(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        width = {key: max(len(str(row[key])) for row in self.rows) for key in ("name", "kind")}
        lines = [
            f"{row['name']!s:{width['name']}}  {row['kind']:{width['kind']}}  {row['becomes']}"
            + (f" ({row['why']})" if row["why"] else "")
            for row in self.rows
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


def tell_copies(encoder: TableEncoder, inputs: FloatArray, y: FloatArray) -> None:
    """Warn of columns of numbers that repeat the target."""
    if len(y) < 10 or np.ptp(y) == 0:
        return
    places = np.searchsorted(encoder.column_of_feature, np.arange(len(encoder.columns)))
    numbers = [(c.name, inputs[:, j]) for c, j in zip(encoder.columns, places, strict=True) if _is_number(c)]
    found = [name for name, values in numbers if _repeats(values, y)]
    if found:
        names, source = ", ".join(map(repr, found)), "one of them" if len(found) > 1 else "it"
        warn_user(
            f"column{'s' if len(found) > 1 else ''} {names} repeat{'' if len(found) > 1 else 's'} the target: it can "
            f"be computed from {source}. If it will not be known when you predict, drop it and fit again",
            ColumnsWarning,
        )


def _is_number(column: ColumnEncoder) -> bool:
    return isinstance(column, NumberColumn)


def _repeats(values: FloatArray, y: FloatArray) -> bool:
    """Return whether the target is a linear function of the values up to rounding."""
    if np.ptp(values) == 0:
        return False
    with np.errstate(all="ignore"):
        return bool(abs(np.corrcoef(values, y)[0, 1]) > 1 - _COPY)


def _row(column: ColumnEncoder, note: str) -> dict[str, Any]:
    kind, becomes, why = _words(column)
    return {"name": column.name, "kind": kind, "becomes": becomes, "why": "; ".join(filter(None, (note, why)))}


def _words(column: ColumnEncoder) -> tuple[str, str, str]:
    """Return kind, what a column becomes, and why."""
    if isinstance(column, UnusedColumn):
        return column.kind, "nothing: it is not used", column.why
    if isinstance(column, TextColumn):
        return (
            "text",
            f"{column.n_codes} numbers, by the parts of words in it",
            "nearly every row has a text of its own",
        )
    if isinstance(column, DateColumn):
        return "date", ", ".join(("the day as a number", *_cycles(column))), _missing(column)
    if isinstance(column, CategoryColumn):
        return (
            "category",
            _category(column),
            _n_values(column) + _also(_missing(column)),
        )
    assert isinstance(column, NumberColumn)
    return column.kind, "itself" + (", and whether it is missing" if column.some_missing else ""), _missing(column)


def _category(column: CategoryColumn) -> str:
    hot = sum(" = " in feature for feature in column.features)
    whole = "every value" if hot >= len(column.values) - 1 else f"the {hot} most frequent values"
    parts = [f"one input for {whole}"] if hot else []
    if column.ordered:
        parts.append("the number of its level")
    if _has_statistics(column):
        parts.append("the mean target of other rows with this value, and how many there are")
    return ", ".join(parts) or "nothing: targets of its values differ no more than by chance"


def _has_statistics(column: CategoryColumn) -> bool:
    """Return whether statistics of targets are inputs; they are equal if the targets of values do not differ."""
    learned = column.inputs[:, -2:]
    return column.n_target > 0 and (not learned.any() or bool(np.ptp(learned, axis=0).any()))


def _n_values(column: CategoryColumn) -> str:
    return "1 value" if len(column.values) == 1 else f"{len(column.values)} values"


def _cycles(column: DateColumn) -> tuple[str, ...]:
    words = {1.0: "time of day", 7.0: "weekday"}
    return tuple(words.get(length, "time of year") for length in column.cycles)


def _missing(column: Any) -> str:
    return "some values are missing" if column.some_missing else ""


def _also(text: str) -> str:
    return f", {text}" if text else ""
