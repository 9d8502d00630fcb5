"""Encoding of a data frame as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from bdkn.data.columns import (
    ONE_HOT,
    CategoryColumn,
    ColumnEncoder,
    DateColumn,
    NumberColumn,
    TextColumn,
    UnusedColumn,
    check_finite,
    normal_scores,
    parts_of_rows,
)
from bdkn.data.reading import (
    RawColumn,
    as_numbers,
    as_text,
    column_names,
    first_wrong,
    is_frame,
    read_column,
    read_text,
    reader_of,
    shown,
)
from bdkn.errors import ColumnsWarning, InvalidParameterError, warn_user
from bdkn.storage.fields import Part, must, stored
from bdkn.typing import FloatArray, IndexArray

_FREE_TEXT = 0.5
"""A column of text is free text, or an identifier, if more than this share of its values occur once."""

_FEWEST_TEXTS = 30

_AnyColumn = Annotated[ColumnEncoder, Part(CategoryColumn, DateColumn, NumberColumn, TextColumn, UnusedColumn)]


@stored
@dataclass(frozen=True, eq=False)
class TableEncoder:
    """Encoder of the columns of a data frame, fitted to training rows.

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

    columns: tuple[_AnyColumn, ...]
    notes: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise unless columns are distinct, and at least one is used."""
        must(len(self.notes) in (0, len(self.columns)), "must have a note for each column, or none")
        must(len(set(self.names)) == len(self.names), "no column must be there twice")
        must(sum(column.n_codes for column in self.columns) > 0, "must use at least one column")

    @classmethod
    def fit(cls, X: Any, *, one_hot: int = ONE_HOT, targets: bool | None = None) -> TableEncoder:
        """Return the encoder of a training frame; target statistics are still to be learned.

        Parameters
        ----------
        X : data frame
            Training rows.
        one_hot : int
            Most values of a category that have an input each.
        targets : bool, optional
            Whether categories have target statistics; None: those with more values than ``one_hot``.

        Returns
        -------
        encoder : TableEncoder
            The encoder.
        """
        names = column_names(X)
        if not names:
            raise InvalidParameterError("X must have at least one column; got a data frame without columns")
        raw = [_checked(read_column(X, name)) for name in names]
        columns = tuple(_fit_column(column, one_hot, targets) for column in raw)
        if not sum(column.n_codes for column in columns):
            raise InvalidParameterError(
                f"at least one column must be usable; got {', '.join(f'{c.name!r}: {_why(c)}' for c in columns)}"
            )
        return cls(columns, tuple(column.note for column in raw))

    @property
    def names(self) -> tuple[Any, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def is_plain(self) -> bool:
        """Whether all columns are numbers without missing ones, so that an array can take the place of a frame."""
        return all(isinstance(column, NumberColumn) and not column.some_missing for column in self.columns)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(feature for column in self.columns for feature in column.features)

    @property
    def column_of_feature(self) -> IndexArray:
        """The number of the column that each input comes from."""
        return np.repeat(np.arange(len(self.columns)), [len(column.features) for column in self.columns])

    @property
    def column_groups(self) -> list[list[int]]:
        """The numbers of the inputs that each column becomes."""
        owner = self.column_of_feature
        return [np.flatnonzero(owner == number).tolist() for number in range(len(self.columns))]

    def code(self, X: Any) -> FloatArray:
        """Return the codes of a frame's rows, which do not depend on targets.

        Parameters
        ----------
        X : data frame
            Rows; columns are found by name, and others are ignored with a warning.

        Returns
        -------
        codes : ndarray of shape (n_samples, n_codes)
            Finite numbers.
        """
        if not is_frame(X):
            raise InvalidParameterError(
                f"X must be a data frame with the columns of the fit, {some_of(self.names)}; got a "
                f"{type(X).__name__}: {code_for_frame(X)} makes one"
            )
        used = [column for column in self.columns if column.n_codes]
        check_names([column.name for column in used], self.names, column_names(X))
        parts = [code_of(column, as_fitted(column, read_column(X, column.name))) for column in used]
        if not len(parts[0]):
            raise InvalidParameterError("X must have at least one row; got a data frame without rows")
        return np.hstack(parts)

    def numbers(self, X: Any, name: Any) -> FloatArray | None:
        """Return a column of text that was read as numbers or dates in training as these.

        Parameters
        ----------
        X : data frame
            Rows.
        name : object
            The name of the column.

        Returns
        -------
        numbers : ndarray of shape (n_samples,) or None
            Numbers, or days since 1970, nan where they are missing; None if the column is no such text.
        """
        encoder = self.columns[self.names.index(name)] if name in self.names else None
        if not isinstance(encoder, NumberColumn | DateColumn) or not is_frame(X):
            return None
        column = read_column(X, name)
        return as_fitted(encoder, column).values if column.kind == "text" else None

    def expand(self, codes: FloatArray) -> FloatArray:
        """Return the inputs of codes.

        Parameters
        ----------
        codes : ndarray of shape (n_samples, n_codes)
            Codes.

        Returns
        -------
        inputs : ndarray of shape (n_samples, n_inputs)
            Finite numbers.
        """
        if all(isinstance(column, NumberColumn) for column in self.columns):
            return codes
        return np.hstack([column.expand(part) for column, part in zip(self.columns, self._parts(codes), strict=True)])

    def transform(self, X: Any) -> FloatArray:
        """Return the inputs of a frame's rows.

        Parameters
        ----------
        X : data frame
            Rows to predict.

        Returns
        -------
        inputs : ndarray of shape (n_samples, n_inputs)
            Finite numbers.
        """
        return self.expand(self.code(X))

    def learn(
        self, codes: FloatArray, y: FloatArray, counts: FloatArray | None = None, sets: IndexArray | None = None
    ) -> tuple[TableEncoder, FloatArray]:
        """Return the encoder with target statistics, and the inputs of the training rows.

        Parameters
        ----------
        codes : ndarray of shape (n_samples, n_codes)
            Codes of the training rows.
        y : ndarray of shape (n_samples,)
            Their targets.
        counts : ndarray of shape (n_samples,), optional
            How many times each row is counted.
        sets : ndarray of shape (n_samples,), optional
            The number of the set that each row belongs to; statistics for a row are those of rows of other sets.

        Returns
        -------
        encoder : TableEncoder
            The encoder for rows to predict.
        inputs : ndarray of shape (n_samples, n_inputs)
            Inputs of the training rows, in which statistics of targets are those of other rows.
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
    """Return the encoder of one column by its kind."""
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
    if n_values > max(_FEWEST_TEXTS, _FREE_TEXT * len(known)):
        if np.mean([" " in text.strip() for text in known]) < 0.5:
            return UnusedColumn(
                column.name, "identifier", f"{n_values} of {len(known)} values are different single words"
            )
        return TextColumn.fit(column)
    return CategoryColumn.fit(column, one_hot=one_hot, targets=targets)


def _checked(column: RawColumn) -> RawColumn:
    """Return a training column, text that reads as numbers as numbers; raise if it holds infinite numbers."""
    check_finite(column)
    return read_text(column) if column.kind == "text" else column


def _why(column: ColumnEncoder) -> str:
    return column.why if isinstance(column, UnusedColumn) else "used"


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
