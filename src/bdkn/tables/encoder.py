"""The encoder of a data frame: columns by name, each by its kind, as one table of numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from bdkn.errors import InvalidParameterError
from bdkn.persistence.fields import Part, must, stored
from bdkn.tables.columns import (
    ONE_HOT,
    CategoryColumn,
    ColumnEncoder,
    DateColumn,
    NumberColumn,
    UnusedColumn,
    check_finite,
)
from bdkn.tables.new_rows import as_fitted, check_names, code_for_frame, code_of, some_of
from bdkn.tables.reading import (
    RawColumn,
    column_names,
    is_frame,
    read_column,
    read_text,
)
from bdkn.tables.target_statistics import normal_scores, parts_of_rows
from bdkn.tables.text import TextColumn
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
    >>> from bdkn.tables import TableEncoder
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
