"""Encoding of a data frame as numbers, and a report on it in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bdkn.data.columns import (
    CYCLES,
    ONE_HOT,
    CategoryColumn,
    ColumnEncoder,
    DateColumn,
    NumberColumn,
    TextColumn,
    UnusedColumn,
    normal_scores,
    parts_of_rows,
)
from bdkn.data.reading import RawColumn, as_numbers, as_text, column_names, is_frame, read_column, read_text
from bdkn.errors import ColumnsWarning, InvalidParameterError, listed, warn_user
from bdkn.storage.fields import must, stored
from bdkn.typing import FloatArray, IndexArray

_FREE_TEXT = 0.5
"""Minimum ratio of different values to rows for a column of text to be free text or an identifier."""

_MAX_CATEGORIES = 30
"""Number of different values up to which a column of text is a category, whatever the number of rows."""

_TOLERANCE = 1e-9
"""Maximum distance of the correlation from ±1 if a column repeats the target."""


@stored
@dataclass(frozen=True, eq=False)
class TableEncoder:
    """Encoder of the columns of a data frame as inputs.

    Examples
    --------
    >>> import pandas as pd
    >>> from bdkn.data.encoder import TableEncoder
    >>> frame = pd.DataFrame({"area": [50.0, None, 80.0], "heating": ["gas", "oil", "gas"]})
    >>> encoder = TableEncoder.fit(frame)
    >>> encoder.features
    ('area', 'area is missing', 'heating = oil')
    >>> encoder.transform(frame).tolist()
    [[50.0, 0.0, 0.0], [65.0, 1.0, 1.0], [80.0, 0.0, 0.0]]
    """

    columns: tuple[ColumnEncoder, ...]
    notes: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise unless columns have different names and at least one is used."""
        must(len(self.notes) in (0, len(self.columns)), "must have a note for each column, or none")
        must(len(set(self.names)) == len(self.names), "no column must be there twice")
        must(sum(column.n_codes for column in self.columns) > 0, "must use at least one column")

    @classmethod
    def fit(cls, X: Any, *, one_hot: int = ONE_HOT, targets: bool | None = None) -> TableEncoder:
        """Fit the encoder to a training frame, without the statistics of targets, see ``learn``.

        A category with more than ``one_hot`` values has indicators of its frequent values only. ``targets`` is whether
        statistics of targets are inputs of categories; by default, of those with more than ``one_hot`` values.
        """
        names = column_names(X)
        if not names:
            raise InvalidParameterError("X must have at least one column; got a data frame without columns")
        raw = []
        for name in names:
            column = read_column(X, name)
            _check_finite(column)
            raw.append(read_text(column) if column.kind == "text" else column)
        columns = tuple(_fit_column(column, one_hot, targets) for column in raw)
        if not sum(column.n_codes for column in columns):
            reasons = [f"{column.name!r}: {getattr(column, 'why', 'used')}" for column in columns]
            raise InvalidParameterError(f"at least one column must be usable; got {', '.join(reasons)}")
        return cls(columns, tuple(column.note for column in raw))

    @property
    def names(self) -> tuple[Any, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def is_plain(self) -> bool:
        """Whether all columns are numbers without missing values, so that rows may be an array."""
        return all(isinstance(column, NumberColumn) and not column.some_missing for column in self.columns)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(feature for column in self.columns for feature in column.features)

    @property
    def column_of_feature(self) -> IndexArray:
        """The number of the column that each input comes from."""
        return np.repeat(np.arange(len(self.columns)), [len(column.features) for column in self.columns])

    def code(self, X: Any) -> FloatArray:
        """Return the codes (n, n_codes) of the rows of a data frame: finite numbers that do not depend on targets.

        Columns are identified by name, and additional ones are ignored with a warning.
        """
        if not is_frame(X):
            raise InvalidParameterError(
                f"X must be a data frame with the columns of the fit, {listed(self.names, 5)}; got a "
                f"{type(X).__name__}: {_code_for_frame(X)} makes one"
            )
        used = [column for column in self.columns if column.n_codes]
        _check_names([column.name for column in used], self.names, column_names(X))
        parts = []
        for encoder in used:
            column = _as_fitted(encoder, read_column(X, encoder.name))
            parts.append(encoder.code(column))
            _warn_of_new_values(encoder, column, parts[-1])
        if not len(parts[0]):
            raise InvalidParameterError("X must have at least one row; got a data frame without rows")
        return np.hstack(parts)

    def numbers(self, X: Any, name: Any) -> FloatArray | None:
        """Return a column of text as numbers, or as days since 1970, if it was converted to these in training.

        Missing values are nan. Return None for other columns.
        """
        encoder = self.columns[self.names.index(name)] if name in self.names else None
        if not isinstance(encoder, NumberColumn | DateColumn) or not is_frame(X):
            return None
        column = read_column(X, name)
        return _as_fitted(encoder, column).values if column.kind == "text" else None

    def expand(self, codes: FloatArray) -> FloatArray:
        """Return the inputs (n, n_inputs) of codes."""
        if all(isinstance(column, NumberColumn) for column in self.columns):
            return codes
        return np.hstack([column.expand(part) for column, part in zip(self.columns, self._parts(codes), strict=True)])

    def transform(self, X: Any) -> FloatArray:
        """Return the inputs (n, n_inputs) of the rows of a data frame."""
        return self.expand(self.code(X))

    def learn(
        self, codes: FloatArray, y: FloatArray, counts: FloatArray | None = None, sets: IndexArray | None = None
    ) -> tuple[TableEncoder, FloatArray]:
        """Return the encoder with statistics of targets, and the inputs of the training rows with these codes.

        Each row is counted ``counts`` times. In its inputs, statistics of targets are computed from other rows, of
        other ``sets`` if the number of the set of each row is given.
        """
        times = np.ones(len(y)) if counts is None else counts
        scores, parts = normal_scores(y, times), parts_of_rows(len(y), sets)
        learned, inputs = [], []
        for column, part in zip(self.columns, self._parts(codes), strict=True):
            if isinstance(column, CategoryColumn):
                column, filled = column.learn(part, scores, times, parts)
            else:
                filled = column.expand(part)
            learned.append(column)
            inputs.append(filled)
        return replace(self, columns=tuple(learned)), np.hstack(inputs)

    def _parts(self, codes: FloatArray) -> list[FloatArray]:
        ends = np.cumsum([column.n_codes for column in self.columns])
        return np.split(codes, ends[:-1], axis=1)


def _fit_column(column: RawColumn, one_hot: int, targets: bool | None) -> ColumnEncoder:
    """Return the encoder of a column, chosen by its values."""
    missing = column.missing
    if missing.all():
        return UnusedColumn(column.name, "empty", "all values are missing")
    if column.kind == "date":
        return DateColumn.fit(column)
    if column.kind != "text":
        return NumberColumn.fit(column)
    known = column.values[~missing].astype(str)
    n_values = len(np.unique(known))
    if n_values == 1 and not missing.any():
        return UnusedColumn(column.name, "constant", f"all values are {str(known[0])!r}")
    if n_values <= max(_MAX_CATEGORIES, _FREE_TEXT * len(known)):
        return CategoryColumn.fit(column, one_hot=one_hot, targets=targets)
    if np.mean([" " in text.strip() for text in known]) >= 0.5:
        return TextColumn.fit(column)
    return UnusedColumn(column.name, "identifier", f"{n_values} of {len(known)} values are different single words")


def _check_finite(column: RawColumn) -> None:
    """Raise if a column has infinite numbers."""
    if column.kind != "text" and np.isinf(column.values).any():
        row = int(np.flatnonzero(np.isinf(column.values))[0])
        raise InvalidParameterError(
            f"column {column.name!r} must hold finite or missing numbers; row {row} is {column.values[row]}: "
            "correct it, or leave it missing"
        )


def _as_fitted(encoder: ColumnEncoder, column: RawColumn) -> RawColumn:
    """Return a column to predict, converted to the kind that it had in training; raise if that is impossible."""
    _check_finite(column)
    if isinstance(encoder, CategoryColumn | TextColumn):
        if column.kind == "text":
            return column
        text = np.empty(len(column.values), dtype=object)
        values = column.values.astype(bool) if column.kind == "boolean" else column.values
        missing = column.missing
        text[:] = [None if absent else as_text(value) for value, absent in zip(values, missing, strict=True)]
        return RawColumn(column.name, "text", text)
    if column.kind == "text":
        return as_numbers(replace(column, form=getattr(encoder, "form", "")), encoder.kind)
    if column.kind != encoder.kind and {encoder.kind, column.kind} & {"date", "duration"} and not column.missing.all():
        row = int(np.flatnonzero(~column.missing)[0])
        raise InvalidParameterError(
            f"column {column.name!r} held {encoder.kind}s in training; it holds {column.kind}s now, as in row "
            f"{row}: convert it"
        )
    return column


def _warn_of_new_values(encoder: ColumnEncoder, column: RawColumn, codes: FloatArray) -> None:
    """Warn if values are missing in a column without missing values in training, or if they were not in training."""
    missing = int(column.missing.sum())
    if missing and isinstance(encoder, NumberColumn | DateColumn) and not encoder.some_missing:
        warn_user(
            f"column {column.name!r} is missing in {missing} of {len(column.values)} rows, and was never in training; "
            "these rows are predicted with its median in training, and their intervals do not know that it is missing",
            ColumnsWarning,
        )
    if not isinstance(encoder, CategoryColumn):
        return
    k = len(encoder.values)
    unseen = list(dict.fromkeys(column.values[codes[:, 0] == k + 1]))
    if unseen and ((codes >= k).all() or k == 2):  # no value is known, or it is neither of two: perhaps a spelling
        warn_user(
            f"column {column.name!r} holds values that it did not have in training: {listed(unseen, 5)} in place of "
            f"{listed(encoder.values, 5)}. If they are the same written in another way, correct them",
            ColumnsWarning,
        )


def _check_names(used: Sequence[Any], fitted: Sequence[Any], given: Sequence[Any]) -> None:
    """Raise if columns that are used are missing; warn of columns that were not in training."""
    missing = [name for name in used if name not in set(given)]
    extra = [name for name in given if name not in set(fitted)]
    if missing:
        has = f"; it has {listed(extra, 10)}, which the fit did not" if extra else ""
        raise InvalidParameterError(
            f"X must have the columns of the fit; missing: {listed(missing)}{has}. Add the missing "
            "columns (missing values are allowed), or fit again without them"
        )
    if extra:
        verb = "columns that the fit did not have are" if len(extra) > 1 else "column that the fit did not have is"
        warn_user(f"{len(extra)} {verb} ignored: {listed(extra, 10)}", ColumnsWarning)


def _code_for_frame(X: Any) -> str:
    """Return the Python code that converts an object to a data frame."""
    if hasattr(X, "to_frame"):
        return "X.to_frame().T, for one row,"
    if isinstance(X, dict):
        return "pandas.DataFrame([X]), for one row,"
    if isinstance(X, list) and X and isinstance(X[0], dict):
        return "pandas.DataFrame(X)"
    return "pandas.DataFrame(X, columns=[...])"


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
