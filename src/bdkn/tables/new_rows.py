"""Columns of rows to predict, as training had them: checked, read, and told if they hold what training did not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bdkn.errors import ColumnsWarning, InvalidParameterError, warn_user
from bdkn.tables.columns import CategoryColumn, ColumnEncoder, DateColumn, NumberColumn, check_finite
from bdkn.tables.reading import RawColumn, as_numbers, as_text, reader_of
from bdkn.tables.text import TextColumn
from bdkn.tables.written import first_wrong, shown
from bdkn.typing import FloatArray


def as_fitted(encoder: ColumnEncoder, column: RawColumn) -> RawColumn:
    """Return a column to predict as the kind that it had in training; raise if it cannot be."""
    check_finite(column)
    if isinstance(encoder, CategoryColumn | TextColumn):
        return column if column.kind == "text" else _as_words(column)
    if column.kind == "text":
        return _read_as(encoder, column)
    kinds = {_kind(encoder), column.kind}
    if len(kinds) > 1 and kinds & {"date", "duration"} and not column.missing.all():
        row = int(np.flatnonzero(~column.missing)[0])
        raise InvalidParameterError(
            f"column {column.name!r} held {_kind(encoder)}s in training; it holds {column.kind}s now, as in row "
            f"{row}: convert it"
        )
    return column


def _as_words(column: RawColumn) -> RawColumn:
    """Return a column of numbers as text."""
    text = np.empty(len(column.values), dtype=object)
    text[:] = [None if np.isnan(value) else _plain(value, column.kind) for value in column.values]
    return RawColumn(column.name, "text", text)


def _read_as(encoder: ColumnEncoder, column: RawColumn) -> RawColumn:
    """Return a column of text as numbers of the kind that it had in training; raise if one is none."""
    kind, form = _kind(encoder), str(getattr(encoder, "form", ""))
    try:
        return as_numbers(replace(column, form=form), kind)
    except ValueError:
        row = first_wrong(column.values, reader_of(kind, form))
        how = f", written as {shown(form)}" if kind == "date" and form else ""
        raise InvalidParameterError(
            f"column {column.name!r} held {kind}s in training{how}; row {row} is {column.values[row]!r}: "
            "correct it, or leave it missing"
        ) from None


def _plain(value: float, kind: str) -> str:
    return str(bool(value)) if kind == "boolean" else as_text(value)


def _kind(encoder: ColumnEncoder) -> str:
    return "date" if isinstance(encoder, DateColumn) else str(getattr(encoder, "kind", "number"))


def code_for_frame(X: Any) -> str:
    """Return the Python code that makes a data frame of an object that is none."""
    if hasattr(X, "to_frame"):
        return "X.to_frame().T, for one row,"
    if isinstance(X, dict):
        return "pandas.DataFrame([X]), for one row,"
    if isinstance(X, list) and X and isinstance(X[0], dict):
        return "pandas.DataFrame(X)"
    return "pandas.DataFrame(X, columns=[...])"


def code_of(encoder: ColumnEncoder, column: RawColumn) -> FloatArray:
    """Return the codes of a column to predict; tell if they stand for what training did not have."""
    codes = encoder.code(column)
    if isinstance(encoder, NumberColumn | DateColumn) and not encoder.some_missing:
        _tell_newly_missing(encoder, column)
    if isinstance(encoder, CategoryColumn):
        _tell_unseen(encoder, column, codes)
    return codes


def _tell_newly_missing(encoder: NumberColumn | DateColumn, column: RawColumn) -> None:
    n = int(column.missing.sum())
    if n:
        warn_user(
            f"column {column.name!r} is missing in {n} of {len(column.values)} rows, and was never in training; "
            "these rows are predicted with its median in training, and their intervals do not know that it is missing",
            ColumnsWarning,
        )


def _tell_unseen(encoder: CategoryColumn, column: RawColumn, codes: FloatArray) -> None:
    """Warn if no value of a column was in training, or if it is neither of two: perhaps it is written otherwise."""
    k = len(encoder.values)
    odd = codes[:, 0] == k + 1
    given = list(dict.fromkeys(column.values[odd]))
    if given and ((codes >= k).all() or k == 2):
        warn_user(
            f"column {column.name!r} holds values that it did not have in training: {some_of(given)} in place of "
            f"{some_of(encoder.values)}. If they are the same written in another way, correct them",
            ColumnsWarning,
        )


def check_names(used: Sequence[Any], fitted: Sequence[Any], given: Sequence[Any]) -> None:
    """Raise if columns that are used are missing, and tell which given ones are not used."""
    missing = [name for name in used if name not in set(given)]
    extra = [name for name in given if name not in set(fitted)]
    if missing:
        has = f"; it has {', '.join(map(repr, extra[:10]))}, which the fit did not" if extra else ""
        raise InvalidParameterError(
            f"X must have the columns of the fit; missing: {', '.join(map(repr, missing))}{has}. Add the missing "
            "columns (missing values are allowed), or fit again without them"
        )
    if extra:
        names = ", ".join(map(repr, extra[:10])) + (", .." if len(extra) > 10 else "")
        verb = "columns that the fit did not have are" if len(extra) > 1 else "column that the fit did not have is"
        warn_user(f"{len(extra)} {verb} ignored: {names}", ColumnsWarning)


def some_of(names: Sequence[Any]) -> str:
    """Return the first names of many, for a message."""
    return ", ".join(map(repr, names[:5])) + (", .." if len(names) > 5 else "")
