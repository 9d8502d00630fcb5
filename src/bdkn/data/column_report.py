"""Report on the columns of a table, in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bdkn.data.columns import CYCLES, ColumnEncoder, DateColumn, NumberColumn, TextColumn, UnusedColumn
from bdkn.data.encoder import TableEncoder
from bdkn.errors import ColumnsWarning, warn_user
from bdkn.typing import FloatArray

_TOLERANCE = 1e-9
"""Maximum distance of the correlation from ±1 if a column repeats the target."""


@dataclass(frozen=True, eq=False)
class ColumnReport:
    """Inputs of each column of a table, with the reason: the attribute ``columns_`` of a fitted regressor.

    Parameters
    ----------
    rows : list of dict
        For each column: its "name"; its "kind" ("number", "boolean", "category", "text", "date", "duration", or, if it
        is not used, "constant", "identifier" or "empty"); what it "becomes"; and "why".
    """

    rows: list[dict[str, Any]]

    @classmethod
    def of(cls, encoder: TableEncoder) -> ColumnReport:
        """Return the report on an encoder.

        Parameters
        ----------
        encoder : TableEncoder
            The encoder of a table.

        Returns
        -------
        report : ColumnReport
            One entry per column.
        """
        rows = []
        for column, note in zip(encoder.columns, encoder.notes or ("",) * len(encoder.columns), strict=True):
            becomes, why = _becomes_and_why(column)
            why = "; ".join(filter(None, (note, why)))
            rows.append({"name": column.name, "kind": column.kind, "becomes": becomes, "why": why})
        return cls(rows)

    @classmethod
    def of_numbers(cls, names: Iterable[Any]) -> ColumnReport:
        """Return the report on the columns of an array of numbers.

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


def warn_of_target_copies(encoder: TableEncoder, inputs: FloatArray, y: FloatArray) -> None:
    """Warn of columns of numbers that repeat the target."""
    if len(y) < 10 or np.ptp(y) == 0:
        return
    first_input = np.searchsorted(encoder.column_of_feature, np.arange(len(encoder.columns)))
    found = [
        column.name
        for column, j in zip(encoder.columns, first_input, strict=True)
        if isinstance(column, NumberColumn) and _is_linear(inputs[:, j], y)
    ]
    if found:
        names, source = ", ".join(map(repr, found)), "one of them" if len(found) > 1 else "it"
        warn_user(
            f"column{'s' if len(found) > 1 else ''} {names} repeat{'' if len(found) > 1 else 's'} the target: it can "
            f"be computed from {source}. If it will not be known when you predict, drop it and fit again",
            ColumnsWarning,
        )


def _is_linear(values: FloatArray, y: FloatArray) -> bool:
    """Return whether the target is a linear function of the values up to rounding."""
    if np.ptp(values) == 0:
        return False
    with np.errstate(all="ignore"):
        return bool(abs(np.corrcoef(values, y)[0, 1]) > 1 - _TOLERANCE)


def _becomes_and_why(column: ColumnEncoder) -> tuple[str, str]:
    """Return the words for the inputs of a column, and for the reason."""
    if isinstance(column, UnusedColumn):
        return "nothing: it is not used", column.why
    if isinstance(column, TextColumn):
        return f"{column.n_codes} numbers, by the parts of words in it", "nearly every row has a text of its own"
    missing = "some values are missing" if column.some_missing else ""
    if isinstance(column, NumberColumn):
        return "itself" + (", and whether it is missing" if column.some_missing else ""), missing
    if isinstance(column, DateColumn):
        return ", ".join(["the day as a number", *(CYCLES[length] for length in column.cycles)]), missing
    n, indicators, parts = len(column.values), sum(" = " in feature for feature in column.features), []
    if indicators:
        which = "every value" if indicators >= n - 1 else f"the {indicators} most frequent values"
        parts.append(f"one input for {which}")
    if column.ordered:
        parts.append("the number of its level")
    statistics = column.inputs[:, -2:]  # equal for all values if the targets of values do not differ
    if column.n_target > 0 and (not statistics.any() or np.ptp(statistics, axis=0).any()):
        parts.append("the mean target of other rows with this value, and how many there are")
    becomes = ", ".join(parts) or "nothing: targets of its values differ no more than by chance"
    return becomes, ("1 value" if n == 1 else f"{n} values") + (f", {missing}" if missing else "")
