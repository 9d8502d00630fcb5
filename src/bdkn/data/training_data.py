"""Reading, checking and encoding of the training rows, and of later tables in the same way."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d, validate_data

from bdkn.arrays import check_readable, column_names, is_frame, read_numbers
from bdkn.data.dask_rows import DaskRows
from bdkn.data.encoder import TableEncoder, warn_of_target_copies
from bdkn.data.folds import Splitting
from bdkn.data.parquet import ParquetRows
from bdkn.data.repeated_rows import find_repeated_rows
from bdkn.data.rows import Rows, RowSource, missing_labels
from bdkn.data.sample import Sample
from bdkn.data.scaling import warn_of_extreme_targets
from bdkn.errors import InvalidParameterError, RepeatedRowsWarning, shown, warn_user
from bdkn.metrics.scores import row_weights
from bdkn.storage.fields import Array as ArrayContent
from bdkn.storage.fields import Number, must, stored
from bdkn.typing import Array, FloatArray, IndexArray

DTYPES = (np.float64, np.float32)
"""NumPy types of input tables that are not converted; all other types are converted to double precision."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingData(Splitting):
    """Checked training data: ``rows`` has all rows; ``encoded`` has the rows to fit, converted to inputs of networks.

    A data frame in ``rows`` is converted to numbers that do not depend on targets. Of rows in blocks, only the random
    ``sample`` is here. ``is_new`` is False if an earlier fit has read the same rows.
    """

    reader: TableReader
    encoded: Rows
    is_new: bool = True
    sample: Sample | None = None

    @classmethod
    def read(
        cls,
        params: Any,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        former: TableReader | None = None,
        sample: Sample | None = None,
        as_given: bool = False,
        allow_nan: bool = False,
        by_cv: bool = True,
    ) -> TrainingData:
        """Check and encode the training rows of a regressor with the parameters ``params``.

        ``former`` is the reader of an earlier fit to the same rows, or None. Rows with sample weight 0 are not used. Of
        rows that repeat each other, one is used, unless the user specifies which rows belong together, by groups or by
        row numbers as ``cv``, or rows are a ``sample`` of rows in blocks. With ``by_cv=False`` the caller calls
        ``by_folds`` and, for a data frame, ``with_target_statistics`` later.
        """
        if former is None:
            owner = type(params).__name__
            reader, rows = TableReader.fit(X, y, sample_weight, owner=owner, as_given=as_given, allow_nan=allow_nan)
            warn_of_extreme_targets(rows.y, rows.counts)
        else:
            reader, rows = former.checked(X, y, sample_weight, is_new=False)
        used = np.arange(len(rows.y)) if rows.counts is None else np.flatnonzero(rows.counts)
        encoded = rows if len(used) == len(rows.y) else rows[used]
        sets, labels, design, cv = None, None, getattr(params, "design", "in-sample"), getattr(params, "cv", None)
        by_row_numbers = design == "cross-fit" and isinstance(cv, Iterable) and not isinstance(cv, str)
        if sample is not None:
            sets = None if sample.units is sample.numbers else _label_codes(sample.units)
        elif groups is not None:
            if design == "in-sample":
                raise InvalidParameterError(
                    "groups need folds, which design='in-sample' does not have; got groups: use design='cross-fit'"
                )
            labels = _labels(groups, len(rows))
            sets = _label_codes(labels[used])
        elif design != "in-sample" and not by_row_numbers:
            # One row of each set of copies is used, and rows with equal inputs are a set
            found = find_repeated_rows(encoded.X, encoded.y)
            if found is not None and found.copies.any():
                if former is None:
                    warn_user(
                        f"{found.copies.sum()} of {len(used)} rows repeat another row, inputs and target, and count "
                        "once; if they are observations of their own, pass groups=np.arange(len(y)); if rows belong "
                        "together in another way, pass their groups",
                        RepeatedRowsWarning,
                    )
                kept = np.flatnonzero(~found.copies)
                used, encoded = used[kept], encoded[kept]
                sets = None if found.sets is None else found.sets[kept]
            elif found is not None:
                sets = found.sets
        data = cls(rows, used, sets, labels, reader=reader, encoded=encoded, is_new=former is None, sample=sample)
        if by_cv and sample is None and design == "cross-fit" and cv is not None:
            data = data.by_cv(cv)
        return data.with_target_statistics() if by_cv and reader.encoder is not None else data

    def with_target_statistics(self) -> TrainingData:
        """Add the target encoding of categories to the inputs; for each row it is computed from rows of other sets."""
        rows = self.encoded
        encoder, inputs = self.reader._required_encoder.learn(rows.X, rows.y, rows.counts, self.sets)
        data = replace(self, encoded=replace(rows, X=inputs))
        if not self.is_new:
            return data
        warn_of_target_copies(encoder, inputs, rows.y)
        return replace(data, reader=replace(self.reader, encoder=encoder))


def _label_codes(labels: NDArray[Any]) -> IndexArray:
    """Return an integer for each label, from 0; equal labels have equal integers."""
    return np.unique(labels, return_inverse=True)[1]


def _labels(groups: ArrayLike, n: int) -> NDArray[Any]:
    """Check the group labels that a user gave for n rows, and return them as an array."""
    try:
        labels = np.asarray(groups)
    except ValueError as error:
        raise InvalidParameterError(f"groups must hold one label per row; got {shown(groups)}") from error
    if labels.shape != (n,):
        is_name = isinstance(groups, str)
        got = f"{shown(groups)}: if this is a column, X[{groups!r}]" if is_name else f"shape {labels.shape}"
        raise InvalidParameterError(f"groups must hold one label per row, shape ({n},); got {got}")
    if (isinstance(groups, np.ma.MaskedArray) and np.ma.getmaskarray(groups).any()) or missing_labels(labels).any():
        raise InvalidParameterError(
            "groups must hold a label for every row; got nan, None or masked ones: give such rows their own"
        )
    labels = labels.astype(str) if labels.dtype.kind == "O" else labels
    if len(np.unique(labels)) < 2:
        raise InvalidParameterError(
            "groups must hold at least 2 labels, as members are compared on held-out groups; got 1"
        )
    return labels


@stored
@dataclass(frozen=True, eq=False)
class TableReader:
    """Reader that checks and encodes tables in the same way as the training table.

    Data frames are encoded as numbers by ``encoder`` (None: the training table was an array). With ``as_given``, tables
    of any library are not encoded, since members are models of the user; ``allow_nan`` is True if all these models
    accept missing values. ``names`` are the names of the columns, if all are text; ``owner`` is the name of the
    regressor's class in error messages.
    """

    owner: str
    n_columns: Annotated[int, Number(low=1, whole=True)]
    names: Annotated[NDArray[Any] | None, ArrayContent(("*",), ("O",))] = None
    encoder: TableEncoder | None = None
    as_given: bool = False
    allow_nan: bool = False

    def check(self) -> None:
        """Raise unless ``names`` and the columns of ``encoder`` agree, and their number is ``n_columns``."""
        names, encoder = self.names, self.encoder
        must(names is None or len(names) == self.n_columns, f"must have the names of {self.n_columns} columns")
        if encoder is not None:
            must(len(encoder.columns) == self.n_columns, f"the table must have {self.n_columns} columns")
            must(names is None or list(map(str, encoder.names)) == list(names), "the table must have the names")

    @classmethod
    def fit(
        cls,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        owner: str,
        as_given: bool = False,
        allow_nan: bool = False,
    ) -> tuple[TableReader, Rows]:
        """Return a reader fitted to a training table, and its checked rows; a data frame is converted to numbers."""
        return cls(owner, 0, as_given=as_given, allow_nan=allow_nan).checked(X, y, sample_weight, is_new=True)

    def read_rows(self, X: Any, y: Any, sample_weight: Any = None) -> Rows:
        """Check and encode rows that came after the fit; return their inputs, targets and sample weights."""
        rows = self.checked(X, y, sample_weight, is_new=False)[1]
        return rows if self.encoder is None else replace(rows, X=self.encoder.expand(rows.X))

    def checked(self, X: Any, y: Any, sample_weight: Any, *, is_new: bool) -> tuple[TableReader, Rows]:
        """Check a table. Return the reader (fitted to the columns if the table ``is_new``), and the checked rows."""
        # One target per row
        if y is None:
            raise InvalidParameterError("this regressor requires y to be passed, but the target y is None")
        table = as_table(X) if self.as_given else None
        check_readable("y", y)
        shape = np.asarray(y).shape
        if len(shape) > 1 and shape[1] != 1:
            raise InvalidParameterError(
                f"y must hold one target per row, shape (n_samples,); got shape {shape}: fit one regressor per target, "
                "for example with sklearn.multioutput.MultiOutputRegressor"
            )

        # A data frame to encode, a table of any library, or an array (scikit-learn sums all numbers to find NaN)
        reader, columns = self, _stand_in(self.owner)() if is_new else self._known_columns()
        if (not self.as_given and is_frame(X)) if is_new else self.takes_frame(X):
            targets = column_or_1d(read_numbers("y", y), warn=True)
            wrong = np.flatnonzero(~np.isfinite(targets))
            if len(wrong):
                raise InvalidParameterError(
                    f"y must hold a finite number for every row; {len(wrong)} of {len(targets)} are missing or "
                    f"infinite, the first in row {wrong[0]}: leave out such rows, known = numpy.isfinite(y), "
                    "fit(X[known], y[known])"
                )
            check_consistent_length(X, targets)
            if is_new:
                encoder = TableEncoder.fit(X)
                named = all(isinstance(name, str) for name in encoder.names)
                names = np.array(encoder.names, dtype=object) if named else None
                reader = replace(self, n_columns=len(encoder.names), names=names, encoder=encoder)
            table = reader._required_encoder.code(X)
        elif self.as_given:
            validate_data(columns, table, y, reset=is_new, skip_check_array=True)
            with np.errstate(over="ignore", invalid="ignore"):
                targets = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"), warn=True)
            check_consistent_length(table, targets)
        else:
            check_readable("X", X)
            if not is_new and is_frame(X):
                column_names(X)  # raises if names are equal
            with np.errstate(over="ignore", invalid="ignore"):
                table, targets = validate_data(columns, X, y, reset=is_new, dtype=DTYPES, y_numeric=True)
        if is_new and reader is self:
            names = getattr(columns, "feature_names_in_", None)
            reader = replace(self, n_columns=columns.n_features_in_, names=names)

        # Counts, and the limit of targets: intervals around them must be in the range of floats
        counts = None if sample_weight is None else check_counts(sample_weight, len(targets))
        with np.errstate(over="ignore"):  # long doubles may become infinite, which is refused below
            targets = np.asarray(targets, dtype=np.float64)
        peak = np.abs(targets).max(initial=0.0)
        if peak > MAX_TARGET:
            row = int(np.argmax(np.abs(targets)))
            example = f", as y / {peak:.0e}" if np.isfinite(peak) else ""
            raise InvalidParameterError(
                f"y must be within ±{MAX_TARGET:g}; row {row} is {targets[row]:g}: fit to targets in other "
                f"units{example}"
            )
        return reader, Rows(table, targets, counts)

    @property
    def n_inputs(self) -> int:
        """Number of inputs: the number of columns of the tables that ``read`` returns."""
        return self.n_columns if self.encoder is None else len(self.encoder.features)

    @property
    def input_names(self) -> NDArray[Any] | None:
        """For each input, the name of the column from which it is computed; None if the columns have no names."""
        if self.encoder is None:
            return self.names
        return np.array(self.encoder.names, dtype=object)[self.encoder.column_of_feature]

    def takes_frame(self, X: Any) -> bool:
        """Return whether ``X`` is a data frame to be encoded column by column, as in training."""
        return self.encoder is not None and (is_frame(X) or not self.encoder.is_plain)

    def read(self, X: Any) -> Any:
        """Check and encode rows to predict; with ``as_given``, return a table of any library without encoding."""
        if type(X) is np.ndarray and self.names is None and not self.as_given:
            # scikit-learn's validation would take as long as the prediction of one row
            is_like_training = X.ndim == 2 and X.dtype in DTYPES and len(X) > 0 and X.shape[1] == self.n_columns
            if is_like_training and np.isfinite(X).all():
                return X
        if self.takes_frame(X):
            return self._required_encoder.transform(X)
        if self.as_given:
            table = validate_data(self._known_columns(), as_table(X), reset=False, skip_check_array=True)
            if isinstance(table, np.ndarray) and not self.allow_nan:
                with np.errstate(over="ignore", invalid="ignore"):
                    assert_all_finite(table, input_name="X")  # members might ignore the column, and not raise
            return table
        check_readable("X", X)
        if is_frame(X):
            column_names(X)  # raises if names are equal
        with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn sums all numbers to find NaN
            rows: Array = validate_data(self._known_columns(), X, reset=False, dtype=DTYPES)
        return rows

    @property
    def _required_encoder(self) -> TableEncoder:
        assert self.encoder is not None, "a model that was fitted to a data frame has its encoder"
        return self.encoder

    def _known_columns(self) -> BaseEstimator:
        """Return an empty estimator with the training columns' number and names, for scikit-learn's checks."""
        stand_in = _stand_in(self.owner)()
        stand_in.n_features_in_ = self.n_columns
        if self.names is not None:
            stand_in.feature_names_in_ = self.names
        return stand_in


@cache
def _stand_in(owner: str) -> Callable[[], Any]:
    """Return an empty estimator class with the name ``owner``, so that scikit-learn's column errors show this name."""
    return type(owner, (BaseEstimator,), {})


def as_table(X: Any) -> Any:
    """Convert a table to a type that a user's models accept, and whose rows can be selected by number.

    Arrays of floating-point numbers are converted to double precision and C order, since members that compute in the
    precision and memory order of their input would otherwise predict different numbers for equal rows.
    """
    if isinstance(X, np.ma.MaskedArray):
        check_readable("X", X)
        X = np.asarray(X)
    if hasattr(X, "columns") and is_frame(X):
        column_names(X)  # raises if names are equal
    if hasattr(X, "column_names") and hasattr(X, "to_pandas"):
        X = X.to_pandas()  # members do not accept tables of pyarrow
    table = X.tocsr() if issparse(X) else X if hasattr(X, "shape") else np.asarray(X)
    if isinstance(table, np.ndarray) and table.dtype.kind == "c":
        raise InvalidParameterError(
            "Complex data not supported: X must hold real numbers; take two columns of their parts"
        )
    if isinstance(table, np.ndarray) and table.dtype.kind in "mMVO":
        check_readable("X", table)
    if len(table.shape) != 2:
        raise InvalidParameterError(
            f"X must be a table, shape (n_samples, n_features); got shape {table.shape}. Reshape your data: "
            "X.reshape(-1, 1) is a single column, X.reshape(1, -1) a single row"
        )
    if not isinstance(table, np.ndarray) and not issparse(table):
        return table
    dtype = np.float64 if table.dtype.kind == "f" else table.dtype
    with np.errstate(over="ignore"):  # long doubles may become infinite, which is refused later
        return table.astype(dtype, copy=False) if issparse(table) else np.asarray(table, dtype=dtype, order="C")


# Targets and weights

MAX_TARGET = 1e305
"""Maximum absolute value of a target: intervals around a larger one would exceed the range of floats."""

_MIN_TOTAL, _MAX_TOTAL = 1e-6, 1e15
"""Smallest and largest allowed sum of the sample weights; outside of these limits, a fit would lose precision."""

_SAFE_TO_SQUARE = 1e120
"""Maximum absolute value of targets for which R² is computed without rescaling; larger squares may overflow."""


def check_counts(sample_weight: ArrayLike, n: int) -> FloatArray:
    """Check the sample weights of n rows; return them as an array in double precision."""
    if isinstance(sample_weight, str):
        raise InvalidParameterError(
            f"sample_weight must hold one number per row, shape ({n},); got {sample_weight!r}: if this is a column, "
            f"X[{sample_weight!r}]"
        )
    given = read_numbers("sample_weight", sample_weight)
    with np.errstate(over="ignore", invalid="ignore"):
        counts: FloatArray = check_array(given, ensure_2d=False, allow_nd=True, input_name="sample_weight")
    if counts.shape != (n,):
        raise InvalidParameterError(f"sample_weight must hold one number per row, shape ({n},); got {counts.shape}")
    if counts.min() < 0:
        raise InvalidParameterError(f"sample_weight must be >= 0, as it counts rows; got {counts.min()}")
    with np.errstate(over="ignore"):
        total = counts.sum()
    if total > _MAX_TOTAL:
        raise InvalidParameterError(
            f"sample_weight must have a finite sum of at most {_MAX_TOTAL:g}, as it counts rows; got "
            f"{total:g}: divide it by its mean"
        )
    if 0 < total < _MIN_TOTAL:
        raise InvalidParameterError(
            f"sample_weight counts rows: these {n} rows count as {total:.3g}, from which nothing can be learned; if "
            f"the weights are relative, divide them by their largest, {counts.max():.3g}, then by their mean"
        )
    if 0 < total < n / 10:
        warn_user(
            f"sample_weight counts rows: these {n} rows count as {total:.3g}, so predictions will be very uncertain; "
            f"if the weights are relative, multiply them by {n}/sum(sample_weight)",
            UserWarning,
        )
    if not total:
        raise InvalidParameterError("Sample weights must contain at least one non-zero number; got only zeros")
    return counts


def check_targets(y: ArrayLike) -> FloatArray:
    """Convert targets to an array in double precision; raise unless there is one finite number per row."""
    if y is None:
        raise InvalidParameterError("this regressor requires y to be passed, but the target y is None")
    with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn sums all numbers first, to see if one is nan
        targets: FloatArray = column_or_1d(check_array(read_numbers("y", y), ensure_2d=False, input_name="y"))
    return targets


def r2(y: FloatArray, mean: FloatArray, sample_weight: ArrayLike | None) -> float:
    """Return the score R² of predicted means; targets may be so large or small that their squares overflow."""
    from sklearn.metrics import r2_score

    check_consistent_length(y, mean)
    weights = None if sample_weight is None else row_weights(sample_weight, len(y)) * len(y)
    peak = max(float(np.abs(y).max()), float(np.abs(mean).max()))
    unit = 1.0 if 1 / _SAFE_TO_SQUARE < peak < _SAFE_TO_SQUARE or not peak else peak
    return float(r2_score(y / unit, mean / unit, sample_weight=weights))


# Row sources


def as_row_source(X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> RowSource | None:
    """Return the row source that a user has given, or None for a table, whose rows are in memory.

    A row source has its own targets, weights and groups. For a dataset of pyarrow or a data frame of Dask they are
    given as names of columns.
    """
    if callable(getattr(type(X), "blocks", None)) and hasattr(type(X), "__len__"):
        given = {"y": y, "sample_weight": sample_weight, "groups": groups}
        named = [name for name, value in given.items() if value is not None]
        if named:
            raise InvalidParameterError(
                f"a row source has its own targets, weights and groups; got {' and '.join(named)} beside it: give them "
                f"to {type(X).__name__}(...), and then fit(source)"
            )
        source: RowSource = X
        return source
    modules = sys.modules  # if ``X`` is an object of a library, this library has been imported
    if "pyarrow.dataset" in modules and isinstance(X, modules["pyarrow.dataset"].Dataset):
        _check_names("a pyarrow Dataset", y, sample_weight, groups)
        return ParquetRows(X, y, sample_weight=sample_weight, groups=groups)
    if "dask.dataframe" in modules and isinstance(X, modules["dask.dataframe"].DataFrame):
        _check_names("a Dask data frame", y, sample_weight, groups)
        return DaskRows(X, y, sample_weight=sample_weight, groups=groups)
    return None


def _check_names(kind: str, y: Any, sample_weight: Any, groups: Any) -> None:
    """Raise unless ``y`` and, if given, ``sample_weight`` and ``groups`` are names of columns."""
    for name, value in (("y", y), ("sample_weight", sample_weight), ("groups", groups)):
        if not isinstance(value, str | int) and (name == "y" or value is not None):
            what = "the name of its column of targets" if name == "y" else "the name of one of its columns"
            raise InvalidParameterError(f"with {kind}, {name} must be {what}; got {shown(value)}: fit(X, 'price')")
