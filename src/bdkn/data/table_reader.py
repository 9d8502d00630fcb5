"""Reading of tables: training tables are checked and encoded, later ones are read as the training table was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d, validate_data

from bdkn.arrays import check_readable
from bdkn.data.encoder import TableEncoder
from bdkn.data.frames import as_table
from bdkn.data.reading import column_names, is_frame
from bdkn.data.rows import Rows
from bdkn.data.training_rows import (
    check_counts,
    check_not_none,
    check_single_output,
    check_size,
    check_targets_of_frame,
)
from bdkn.storage.fields import Array as ArrayContent
from bdkn.storage.fields import Number, must, stored
from bdkn.typing import Array, FloatArray

DTYPES = (np.float64, np.float32)
"""Arrays of these types are used as they are; all others are converted to double precision."""


@stored
@dataclass(frozen=True, eq=False)
class TableReader:
    """Reader of tables with the columns of the training table.

    Data frames are encoded as numbers by ``encoder`` (None: the training table was an array). With ``as_given`` tables
    of any library are passed on as they are, to members that a user has chosen; ``allow_nan`` is True if all of these
    take missing values. ``names`` are the names of the columns, if all are text; ``owner`` is the class that error
    messages name.
    """

    owner: str
    n_columns: Annotated[int, Number(low=1, whole=True)]
    names: Annotated[NDArray[Any] | None, ArrayContent(("*",), ("O",))] = None
    encoder: TableEncoder | None = None
    as_given: bool = False
    allow_nan: bool = False

    def check(self) -> None:
        """Raise unless there is a name for each column, and the encoder is of these columns."""
        names, encoder = self.names, self.encoder
        must(names is None or len(names) == self.n_columns, f"must have the names of {self.n_columns} columns")
        if encoder is not None:
            must(len(encoder.columns) == self.n_columns, f"the table must have {self.n_columns} columns")
            must(names is None or list(map(str, encoder.names)) == list(names), "the table must have the names")

    @classmethod
    def fit(
        cls, X: Any, y: ArrayLike, owner: str, *, as_given: bool = False, allow_nan: bool = False
    ) -> tuple[TableReader, Any, FloatArray]:
        """Return the reader of a training table, its rows (of a data frame the codes of its columns), and targets."""
        check_single_output(y)
        stand_in = _stand_in(owner)()
        if is_frame(X) and not as_given:
            targets = check_targets_of_frame(y)
            check_consistent_length(X, targets)
            encoder = TableEncoder.fit(X)
            named = all(isinstance(name, str) for name in encoder.names)
            names = np.array(encoder.names, dtype=object) if named else None
            return cls(owner, len(encoder.names), names, encoder), encoder.code(X), targets
        table, targets = _check_array_and_targets(stand_in, X, y, reset=True, as_given=as_given)
        names = getattr(stand_in, "feature_names_in_", None)
        return cls(owner, stand_in.n_features_in_, names, None, as_given, allow_nan), table, targets

    @property
    def n_inputs(self) -> int:
        """Number of columns of the tables that ``read`` returns."""
        return self.n_columns if self.encoder is None else len(self.encoder.features)

    @property
    def input_names(self) -> NDArray[Any] | None:
        """Name of the column that each input comes from, None if the columns have no names."""
        if self.encoder is None:
            return self.names
        return np.array(self.encoder.names, dtype=object)[self.encoder.column_of_feature]

    def takes_frame(self, X: Any) -> bool:
        """Return whether the columns of ``X`` are to be encoded, as those of the training table were."""
        return self.encoder is not None and (is_frame(X) or not self.encoder.is_plain)

    def read(self, X: Any) -> Any:
        """Return checked rows to predict: numbers or, with ``as_given``, a table of any library."""
        if type(X) is np.ndarray and self.names is None and not self.as_given and self._is_valid(X):
            return X  # scikit-learn's validation would take as long as the prediction of one row
        if self.takes_frame(X):
            return self._required_encoder.transform(X)
        if self.as_given:
            table = validate_data(self._known_columns(), as_table(X), reset=False, skip_check_array=True)
            if isinstance(table, np.ndarray) and not self.allow_nan:
                with np.errstate(over="ignore", invalid="ignore"):
                    assert_all_finite(table, input_name="X")  # the members in use may all ignore such a column
            return table
        check_plain_table(X)
        with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn sums all numbers first, to find NaN
            rows: Array = validate_data(self._known_columns(), X, reset=False, dtype=DTYPES)
        return rows

    def read_training(self, X: Any, y: ArrayLike) -> tuple[Any, FloatArray]:
        """Return rows (of a data frame the codes of its columns) and targets that come after those of the fit."""
        check_single_output(y)
        if self.takes_frame(X):
            targets = check_targets_of_frame(y)
            check_consistent_length(X, targets)
            return self._required_encoder.code(X), targets
        return _check_array_and_targets(self._known_columns(), X, y, reset=False, as_given=self.as_given)

    def read_rows(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> Rows:
        """Return later rows as inputs, with targets and counts."""
        rows = counted_rows(*self.read_training(X, y), sample_weight)
        return rows if self.encoder is None else replace(rows, X=self.encoder.expand(rows.X))

    @property
    def _required_encoder(self) -> TableEncoder:
        assert self.encoder is not None, "a model that was fitted to a data frame has its encoder"
        return self.encoder

    def _is_valid(self, X: Array) -> bool:
        """Return whether an array is as the training table was, and finite."""
        return (
            X.ndim == 2
            and X.dtype in DTYPES
            and X.shape[0] > 0
            and X.shape[1] == self.n_columns
            and bool(np.isfinite(X).all())
        )

    def _known_columns(self) -> BaseEstimator:
        """Return an estimator with the columns of the training table, for the checks of scikit-learn."""
        stand_in = _stand_in(self.owner)()
        stand_in.n_features_in_ = self.n_columns
        if self.names is not None:
            stand_in.feature_names_in_ = self.names
        return stand_in


@cache
def _stand_in(owner: str) -> Callable[[], Any]:
    """Return a class of that name, in which scikit-learn's checks keep and compare columns."""
    return type(owner, (BaseEstimator,), {})


def counted_rows(table: Any, targets: FloatArray, sample_weight: ArrayLike | None) -> Rows:
    """Return checked rows with counts, which may be zero."""
    counts = None if sample_weight is None else check_counts(sample_weight, len(targets))
    with np.errstate(over="ignore"):  # long doubles may be infinite in double precision, which is refused as such
        rows = Rows(table, np.asarray(targets, dtype=np.float64), counts)
    check_size(rows.y)
    return rows


def check_plain_table(X: Any) -> None:
    """Raise if a table, which is not encoded, has values that would be taken for other numbers, or equal names."""
    check_readable("X", X)
    if hasattr(X, "columns") and is_frame(X):
        column_names(X)


def _check_array_and_targets(
    stand_in: Any, X: Any, y: ArrayLike, *, reset: bool, as_given: bool
) -> tuple[Any, FloatArray]:
    """Return a checked table that is not encoded, and its targets; ``stand_in`` keeps the columns on ``reset``."""
    check_not_none(y)
    if as_given:
        table = as_table(X)
        validate_data(stand_in, table, y, reset=reset, skip_check_array=True)
        with np.errstate(over="ignore", invalid="ignore"):
            targets = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"), warn=True)
        check_consistent_length(table, targets)
        return table, targets
    check_plain_table(X)
    with np.errstate(over="ignore", invalid="ignore"):
        rows, targets = validate_data(stand_in, X, y, reset=reset, dtype=DTYPES, y_numeric=True)
    return rows, targets
