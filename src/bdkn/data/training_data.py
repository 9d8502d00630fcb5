"""The rows of a fit: tables are read, checked and encoded, in memory or as a sample of rows that are read in blocks.

Later tables are read as the training table was.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d, validate_data

from bdkn.arrays import check_readable, read_numbers
from bdkn.data.column_report import warn_of_target_copies
from bdkn.data.dask_rows import DaskRows
from bdkn.data.encoder import TableEncoder
from bdkn.data.folds import Folds, OwnFolds, Splitting
from bdkn.data.frames import as_table
from bdkn.data.parquet import ParquetRows
from bdkn.data.reading import column_names, is_frame
from bdkn.data.rows import Rows, RowSource
from bdkn.data.sample import Sample
from bdkn.data.scaling import TargetScaler, robust_scale
from bdkn.data.target_values import find_values
from bdkn.errors import ExtremeTargetWarning, InvalidParameterError, shown, warn_user
from bdkn.metrics.scores import row_weights
from bdkn.predictive.links import Link
from bdkn.storage.fields import Array as ArrayContent
from bdkn.storage.fields import Number, must, stored
from bdkn.typing import Array, FloatArray, IndexArray


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Rows of a fit.

    ``splitting`` has all rows as they were read, the numbers of those that are used, and the sets of rows that belong
    together. ``sample`` is that of rows in blocks, None for rows in memory.
    """

    reader: TableReader
    splitting: Splitting
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
        as_given: bool = False,
        allow_nan: bool = False,
    ) -> TrainingData:
        """Return the checked rows of a fit in memory; ``former`` is the reader of a fit that had the same rows."""
        y = check_not_none(y)
        if former is None:
            owner = type(params).__name__
            reader, table, targets = TableReader.fit(X, y, owner, as_given=as_given, allow_nan=allow_nan)
        else:
            reader, (table, targets) = former, former.read_training(X, y)
        rows = counted_rows(table, targets, sample_weight)
        if former is None:
            warn_of_extreme_targets(rows)
        if params.design == "in-sample":
            if groups is not None:
                raise InvalidParameterError(
                    "groups divide rows into folds, of which design='in-sample' has none; got some"
                )
            return cls(reader, Splitting.plain(rows), former is None)
        cv = None if params.design == "hold-out" else params.cv
        return cls(reader, Splitting.of(rows, groups, cv, warn=former is None), former is None)

    @classmethod
    def of_sample(cls, params: Any, sample: Sample) -> TrainingData:
        """Return the data of a sample of rows in blocks."""
        rows = sample.rows
        reader, table, targets = TableReader.fit(rows.X, rows.y, type(params).__name__)
        given = counted_rows(table, targets, rows.counts)
        warn_of_extreme_targets(given)
        sets = None if sample.units is sample.numbers else np.unique(sample.units, return_inverse=True)[1]
        return cls(reader, Splitting(given, np.arange(len(given)), sets), sample=sample)

    def by_cv(self, cv: Any) -> TrainingData:
        """Return the data whose sets of rows are the folds of ``cv``, if it defines which rows belong together."""
        return replace(self, splitting=self.splitting.by_cv(cv))

    def by_folds(self, folds: Folds | OwnFolds, cv: Any) -> TrainingData:
        """Return the data whose sets of rows are these folds, if ``cv`` defines which rows belong together."""
        return replace(self, splitting=self.splitting.by_folds(folds, cv))

    def encoded(self) -> tuple[TableReader, Rows]:
        """Return the reader with statistics of targets, and the rows that are used, as numbers.

        Statistics for a row are those of rows of other sets.
        """
        rows, encoder = self.splitting.used_rows(), self.reader.encoder
        if encoder is None:
            return self.reader, rows
        encoder, inputs = encoder.learn(rows.X, rows.y, rows.counts, self.splitting.sets)
        if not self.is_new:
            return self.reader, replace(rows, X=inputs)
        warn_of_target_copies(encoder, inputs, rows.y)
        return replace(self.reader, encoder=encoder), replace(rows, X=inputs)

    def sets_of(self, numbers: IndexArray | None) -> IndexArray | None:
        """Return the numbers of the sets of some of the rows that are used (None: of all)."""
        sets = self.splitting.sets
        return sets if sets is None or numbers is None else sets[numbers]


def fit_targets(rows: Rows, link: Link, *, standardize_y: bool) -> TargetScaler:
    """Return the link and the scale of the targets, and the values that many of them share."""
    values = find_values(rows.y, rows.counts)
    if standardize_y:
        return TargetScaler.fit(rows.y, rows.counts, link, values)
    return TargetScaler(0.0, 1.0, link, values)


# Tables of numbers and data frames

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
        """Return the reader of a training table, the table itself (a data frame as codes), and the targets."""
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
        """Return rows (a data frame as codes) and targets that come after those of the fit."""
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


# Targets and weights

_EXTREME = 1e6
"""Distance from the median at which a target is extreme, in robust standard deviations."""

LARGEST_TARGET = 1e305
"""Largest absolute value of a target: intervals around a larger one would exceed the range of floats."""

_LEAST_COUNTED, _MOST_COUNTED = 1e-6, 1e15
"""Sums of weights, as numbers of rows, within which the sums of a fit keep their digits."""

_SQUARED = 1e120
"""Sums of squares of larger numbers may overflow, and those of their inverses underflow."""


def check_targets_of_frame(y: ArrayLike) -> FloatArray:
    """Return the targets of the rows of a data frame; raise, naming the first row whose target is no number."""
    check_not_none(y)
    targets: FloatArray = column_or_1d(read_numbers("y", y), warn=True)
    wrong = np.flatnonzero(~np.isfinite(targets))
    if len(wrong):
        raise InvalidParameterError(
            f"y must hold a finite number for every row; {len(wrong)} of {len(targets)} are missing or infinite, the "
            f"first in row {wrong[0]}: leave out such rows, known = numpy.isfinite(y), fit(X[known], y[known])"
        )
    return targets


def check_not_none(y: ArrayLike | None) -> ArrayLike:
    """Return the targets; raise if there are none at all."""
    if y is None:
        raise InvalidParameterError("this regressor requires y to be passed, but the target y is None")
    return y


def check_single_output(y: ArrayLike) -> None:
    """Raise if there are several targets per row."""
    check_readable("y", y)
    shape = np.asarray(y).shape
    if len(shape) > 1 and shape[1] != 1:
        raise InvalidParameterError(
            f"y must hold one target per row, shape (n_samples,); got shape {shape}: fit one regressor per target, "
            "for example with sklearn.multioutput.MultiOutputRegressor"
        )


def warn_of_extreme_targets(rows: Rows) -> None:
    """Warn of targets that are so far from all others that they determine the scale of all predictions."""
    counted = np.arange(len(rows)) if rows.counts is None else np.flatnonzero(rows.counts)
    if not len(counted):
        return
    centre, spread = (float(part[0]) for part in robust_scale(rows.y[counted, None]))
    with np.errstate(over="ignore"):
        extreme = counted[np.abs(rows.y[counted] - centre) / _EXTREME > spread] if spread > 0 else counted[:0]
    if 0 < len(extreme) <= max(1, len(counted) // 100):
        named = ", ".join(f"y[{row}] = {rows.y[row]:.6g}" for row in extreme[:5])
        warn_user(
            f"{len(extreme)} of {len(counted)} targets {'is' if len(extreme) == 1 else 'are'} extreme: {named}"
            f"{', ..' if len(extreme) > 5 else ''}; all others lie about {spread:.3g} around {centre:.3g}, which "
            "predictions cannot resolve beside such numbers: correct or drop these rows, or fit to a logarithm of y",
            ExtremeTargetWarning,
        )


def check_counts(sample_weight: ArrayLike, n: int) -> FloatArray:
    """Return how many times each of n rows is counted; raise unless these are such numbers."""
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
    if total > _MOST_COUNTED:
        raise InvalidParameterError(
            f"sample_weight must have a finite sum of at most {_MOST_COUNTED:g}, as it counts rows; got "
            f"{total:g}: divide it by its mean"
        )
    if 0 < total < _LEAST_COUNTED:
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
    """Return the targets in double precision; raise unless they are one finite number per row."""
    check_not_none(y)
    with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn sums all numbers first, to see if one is nan
        targets: FloatArray = column_or_1d(check_array(read_numbers("y", y), ensure_2d=False, input_name="y"))
    return targets


def check_size(y: FloatArray) -> None:
    """Raise if predictions around a target would exceed the range of floats."""
    peak = np.abs(y).max(initial=0.0)
    if peak > LARGEST_TARGET:
        row = int(np.argmax(np.abs(y)))
        example = f", as y / {peak:.0e}" if np.isfinite(peak) else ""
        raise InvalidParameterError(
            f"y must be within ±{LARGEST_TARGET:g}; row {row} is {y[row]:g}: fit to targets in other units{example}"
        )


def r2(y: FloatArray, mean: FloatArray, sample_weight: ArrayLike | None) -> float:
    """Return R² of predicted means, also of numbers whose squares leave the range of double precision."""
    from sklearn.metrics import r2_score

    check_consistent_length(y, mean)
    weights = None if sample_weight is None else row_weights(sample_weight, len(y)) * len(y)
    peak = max(float(np.abs(y).max()), float(np.abs(mean).max()))
    unit = 1.0 if 1 / _SQUARED < peak < _SQUARED or not peak else peak
    return float(r2_score(y / unit, mean / unit, sample_weight=weights))


# Row sources


def as_row_source(X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> RowSource | None:
    """Return the row source that a user has given, or None for a table, whose rows are in memory.

    Parameters
    ----------
    X : object
        A row source, a dataset of pyarrow, a data frame of Dask, or a table.
    y, sample_weight, groups : object, optional
        Not with a row source, which has its own. With a dataset or a frame of Dask: names of its columns.

    Returns
    -------
    source : RowSource or None
        The rows; None for a table.
    """
    given = {"y": y, "sample_weight": sample_weight, "groups": groups}
    if is_row_source(X):
        _check_none(type(X).__name__, given)
        source: RowSource = X
        return source
    if _is_a(X, "pyarrow.dataset", "Dataset"):
        _check_names("a pyarrow Dataset", given)
        return ParquetRows(X, y, sample_weight=sample_weight, groups=groups)
    if _is_a(X, "dask.dataframe", "DataFrame"):
        _check_names("a Dask data frame", given)
        return DaskRows(X, y, sample_weight=sample_weight, groups=groups)
    return None


def is_row_source(X: Any) -> bool:
    """Return whether an object is a row source: its class has the method ``blocks`` and a length."""
    return callable(getattr(type(X), "blocks", None)) and hasattr(type(X), "__len__")


def _is_a(X: Any, module: str, name: str) -> bool:
    """Return whether ``X`` is of a class of a library; which has been imported, if there is such an object."""
    return module in sys.modules and isinstance(X, getattr(sys.modules[module], name))


def _check_none(kind: str, given: dict[str, Any]) -> None:
    named = [name for name, value in given.items() if value is not None]
    if named:
        raise InvalidParameterError(
            f"a row source has its own targets, weights and groups; got {' and '.join(named)} beside it: give them to "
            f"{kind}(...), and then fit(source)"
        )


def _check_names(kind: str, given: dict[str, Any]) -> None:
    """Raise unless targets, weights and groups are names of columns; there must be targets."""
    for name, value in given.items():
        wrong = value is None if name == "y" else False
        if wrong or not (value is None or isinstance(value, str | int)):
            what = "the name of its column of targets" if name == "y" else "the name of one of its columns"
            raise InvalidParameterError(f"with {kind}, {name} must be {what}; got {shown(value)}: fit(X, 'price')")
