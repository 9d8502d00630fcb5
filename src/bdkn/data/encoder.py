"""Encoding of a data frame as numbers, column by column, and a report on the columns.

Each column encoder works in two steps: ``code`` converts values to codes, finite numbers that do not depend on targets,
and ``expand`` converts these codes to the inputs of networks.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import ndtri

from bdkn.arrays import column_names, is_frame
from bdkn.data.reading import RawColumn, as_numbers, as_text, read_column, read_text
from bdkn.data.rows import as_frame
from bdkn.errors import ColumnsWarning, InvalidParameterError, listed, warn_user
from bdkn.storage.fields import Choice, Either, Items, Plain, floats, must, stored
from bdkn.typing import FloatArray, IndexArray

ONE_HOT = 12
"""Maximum number of distinct values of a categorical column that is one-hot encoded with all its values."""

_MIN_ROWS_OF_VALUE = 20
"""Minimum frequency, in rows, of a one-hot encoded value of a column with more than ``ONE_HOT`` values."""

_YEAR, _WEEK = 365.2425, 7.0

CYCLES = {_YEAR: "time of year", _WEEK: "weekday", 1.0: "time of day"}
"""Periods of dates, in days, that are encoded by sine and cosine, and their names, which name the inputs."""

ColumnName = Annotated[Any, Either(tuple, Items(Plain(single=True)), Plain(single=True))]
"""Type of the name of a column: text, a number or, in a table with several header rows, a tuple of these."""


class _Column:
    """Base class of column encoders: ``code`` converts values to numbers, which ``expand`` uses as inputs unchanged."""

    def expand(self, codes: FloatArray) -> FloatArray:
        """Convert the numbers that ``code`` returns to inputs of networks; here they are returned unchanged."""
        return codes


class _NumericColumn(_Column):
    """Base class of encoders for columns of numbers or dates; missing values are replaced by the number ``fill``."""

    name: ColumnName
    fill: float
    some_missing: bool

    @property
    def n_codes(self) -> int:
        """Number of columns that ``code`` returns: two if there were missing values in training, otherwise one."""
        return 2 if self.some_missing else 1

    def code(self, column: RawColumn) -> FloatArray:
        """Return the numbers of a column and, if values were missing in training, an indicator of missing values."""
        missing = np.isnan(column.values)
        filled = np.where(missing, self.fill, column.values) if missing.any() else column.values
        return np.column_stack([filled, missing]) if self.some_missing else filled[:, None]

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the inputs that encode the column."""
        return (str(self.name), f"{self.name} is missing")[: self.n_codes]


def _median(column: RawColumn) -> float:
    """Return the median of a numeric column's values that are not missing, or 0 if all are missing."""
    return 0.0 if column.missing.all() else float(np.median(column.values[~column.missing]))


@stored
@dataclass(frozen=True, eq=False)
class NumberColumn(_NumericColumn):
    """Encoder of a numeric column: its number and, if values were missing in training, whether it is missing."""

    name: ColumnName
    fill: float
    some_missing: bool = False
    kind: Annotated[str, Choice(("number", "boolean", "duration"))] = "number"
    form: str = ""

    @classmethod
    def fit(cls, column: RawColumn) -> NumberColumn:
        """Fit the encoder to the training values of a column."""
        return cls(column.name, _median(column), bool(column.missing.any()), column.kind, column.form)


@stored
@dataclass(frozen=True, eq=False)
class DateColumn(_NumericColumn):
    """Encoder of a column of dates. Inputs: days since 1970, and time of year, weekday and time of day if they vary."""

    name: ColumnName
    fill: float
    some_missing: bool
    cycles: tuple[float, ...]
    form: str = ""
    kind: ClassVar[str] = "date"

    def check(self) -> None:
        """Raise unless each number in ``cycles`` is a key of ``CYCLES``, the periods in days that are supported."""
        must(set(self.cycles) <= set(CYCLES), f"cycles must be among {tuple(CYCLES)}")

    @classmethod
    def fit(cls, column: RawColumn) -> DateColumn:
        """Fit the encoder to the training values of a column."""
        days = column.values[~column.missing]
        span = float(np.ptp(days)) if len(days) else 0.0
        weekdays = len(np.unique(np.floor(days) % _WEEK)) > 1 and span >= 2 * _WEEK
        moment = np.exp(2j * np.pi * days)  # the time of day on a circle, so that times around midnight are close
        hours = bool((np.abs(moment - moment[:1]) > 1e-6).any()) and span >= 2.0
        varied = ((_YEAR, span >= 1.5 * _YEAR), (_WEEK, weekdays), (1.0, hours))
        cycles = tuple(length for length, varies in varied if varies)
        return cls(column.name, _median(column), bool(column.missing.any()), cycles, column.form)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the inputs that encode the column."""
        pairs = [f"{self.name}: {CYCLES[length]} ({part})" for length in self.cycles for part in ("sine", "cosine")]
        return (*super().features, *pairs)

    def expand(self, codes: FloatArray) -> FloatArray:
        """Return the inputs of dates: ``codes`` (days since 1970), and sine and cosine for each period, as the week."""
        turns = codes[:, :1] * (2 * np.pi / np.array(self.cycles)) if self.cycles else np.empty((len(codes), 0))
        pairs = np.stack([np.sin(turns), np.cos(turns)], axis=2).reshape(len(codes), -1)
        return np.hstack([codes, pairs])


@stored
@dataclass(frozen=True, eq=False)
class CategoryColumn:
    """Encoder of a categorical column: the table ``inputs`` (k + 2, q) has the q inputs for each of its k values.

    The code of a value is its row in this table: 0 to k - 1, k for a missing value, k + 1 for a value that was not in
    the training rows. Inputs are an indicator of each frequent value and, for an ordered category, the number of the
    value. If ``n_target`` is 2, the last two inputs are statistics of the training rows with the value: the mean of
    their targets, transformed by rank to a normal distribution, and the logarithm of the number of rows.
    """

    name: ColumnName
    values: tuple[str, ...]
    some_missing: bool
    inputs: Annotated[FloatArray, floats("*", "*")]
    features: tuple[str, ...]
    n_target: int = 0
    ordered: bool = False
    kind: ClassVar[str] = "category"
    n_codes: ClassVar[int] = 1

    def check(self) -> None:
        """Raise unless the values are distinct and the table ``inputs`` has the shape that their number requires."""
        k, q = len(self.values), len(self.features)
        must(len(set(self.values)) == k, "no value must be there twice")
        must(self.inputs.shape == (k + 2, q), f"inputs must have shape {(k + 2, q)}; got {self.inputs.shape}")
        must(self.n_target in (0, 2) and self.n_target <= q, "n_target must be 0 or 2")

    @classmethod
    def fit(cls, column: RawColumn, *, one_hot: int = ONE_HOT, targets: bool | None = None) -> CategoryColumn:
        """Fit the encoder to a training column, except the statistics of targets, which ``learn`` computes later.

        If there are more than ``one_hot`` values, only frequent values have indicators. Statistics of targets (target
        encoding) are inputs if ``targets`` is True or, by default, if there are more than ``one_hot`` values.
        """
        known = column.values[~column.missing]
        values: NDArray[Any] = np.empty(0, str)
        size: NDArray[Any] = np.empty(0)
        if len(known):
            values, size = np.unique(known.astype(str), return_counts=True)
        if column.levels:
            values = np.array([level for level in column.levels if level in set(values)])
            size = np.array([(known == value).sum() for value in values])
        some_missing = bool(column.missing.any())
        use_targets = len(values) > one_hot if targets is None else targets
        frequent = list(range(len(size)))  # values with an indicator: all if there are few, else the frequent ones
        if len(size) > one_hot:
            order = np.argsort(-size, kind="stable")[:one_hot]
            frequent = sorted(int(j) for j in order if size[j] >= _MIN_ROWS_OF_VALUE)
        indicators = np.zeros((len(values) + 2, len(frequent) + some_missing))
        indicators[frequent, range(len(frequent))] = 1.0
        features = [f"{column.name} = {values[j]}" for j in frequent]
        if some_missing:
            indicators[len(values), -1] = 1.0
        if len(values) == 2 and not some_missing:  # one input distinguishes two values
            indicators, features = indicators[:, 1:], features[1:]
            indicators[2:] = size[1] / size.sum()  # missing and unseen values are between 0 and 1
        if some_missing:
            features.append(f"{column.name} is missing")
        tables = [indicators]
        if column.levels and len(values) > 2:
            level = np.arange(len(values), dtype=np.float64)
            middle = float(np.average(level, weights=size))
            tables.append(np.r_[level, middle, middle][:, None])
            features.append(f"{column.name}: number of the level")
        if use_targets:
            tables.append(np.zeros((len(values) + 2, 2)))
            features += [f"{column.name}: mean target", f"{column.name}: logarithm of the number of rows"]
        names = tuple(map(str, values.tolist()))
        inputs = np.hstack(tables)
        return cls(column.name, names, some_missing, inputs, tuple(features), 2 * use_targets, bool(column.levels))

    def code(self, column: RawColumn) -> FloatArray:
        """Return the code (n, 1) of each value: its position in ``values``, or a code for missing or unseen values."""
        k = len(self.values)
        number: dict[str | None, int] = {value: j for j, value in enumerate(self.values)}
        number[None] = k
        return np.array([number.get(value, k + 1) for value in column.values], dtype=np.float64)[:, None]

    def expand(self, codes: FloatArray) -> FloatArray:
        """Return the q inputs of each of n values, given the ``codes`` (n, 1) of the values."""
        return self.inputs[codes[:, 0].astype(np.intp)]

    def learn(
        self, codes: FloatArray, scores: FloatArray, counts: FloatArray, parts: IndexArray
    ) -> tuple[CategoryColumn, FloatArray]:
        """Compute the target encoding of categories; return the completed encoder, and the inputs of the training rows.

        ``parts`` are the folds of the rows. For each row, the mean target of its category is computed from other folds,
        and so without its own target.
        """
        number, k = codes[:, 0].astype(np.intp), len(self.values) + 1
        inputs = self.expand(codes)
        if not self.n_target:
            return self, inputs
        for part in range(FOLDS):
            at, others = parts == part, parts != part
            if at.any() and others.any():
                share = counts.sum() / counts[others].sum()
                statistics, _ = target_statistics(number[others], scores[others], counts[others], k, share)
                inputs[at, -2:] = statistics[number[at]]
        learned = self.inputs.copy()
        learned[:, -2:], differ = target_statistics(number, scores, counts, k)
        # If the means of values do not differ, the statistics are noise, which scaling would amplify. If all rows of
        # each value are in one part, no training row has statistics of its value.
        if not differ or not inputs[:, -1].any():
            learned[:, -2:] = learned[-1, -2:]
            inputs[:, -2:] = learned[-1, -2:]
        return replace(self, inputs=learned), inputs


@stored
@dataclass(frozen=True, eq=False)
class UnusedColumn(_Column):
    """Encoder of a column that is ignored: it gives no inputs. ``why`` is the reason, such as a constant value."""

    name: ColumnName
    kind: str
    why: str
    n_codes: Literal[0] = 0
    features: tuple[()] = ()

    def code(self, column: RawColumn) -> FloatArray:
        """Return an array (n, 0), without columns, since the data column is ignored."""
        return np.empty((len(column.values), 0))


BUCKETS = 2048
"""Number of buckets into which the character sequences of texts are hashed."""

_MAX_DIRECTIONS = 8
"""Maximum number of inputs of a column of free text."""

_SEQUENCE = 4
"""Length of the overlapping sequences into which a text is split, in characters."""


@stored
@dataclass(frozen=True, eq=False)
class TextColumn(_Column):
    """Encoder of a column of free text as k numbers, by a singular value decomposition (latent semantic analysis).

    A text is represented by its set of sequences of four characters. Each sequence is hashed to a bucket. Buckets are
    weighted by their inverse document frequency, ``rarity``. The components are the columns of ``directions``.
    """

    name: ColumnName
    rarity: Annotated[FloatArray, floats(BUCKETS)]
    directions: Annotated[FloatArray, floats(BUCKETS, "k")]
    kind: ClassVar[str] = "text"

    @classmethod
    def fit(cls, column: RawColumn) -> TextColumn:
        """Fit the encoder to the training texts of a column."""
        from scipy.sparse.linalg import svds

        table = _buckets(column)
        rows = np.asarray((table > 0).sum(axis=0)).ravel()
        rarity = np.log((1 + table.shape[0]) / (1 + rows))
        weighted = _weighted(table, rarity)
        k = max(1, min(_MAX_DIRECTIONS, min(weighted.shape) - 1))
        _, size, directions = svds(weighted, k=k, v0=np.ones(min(weighted.shape)))
        order = np.argsort(-size)
        directions = directions[order]
        sign = np.sign(directions[np.arange(k), np.abs(directions).argmax(axis=1)])
        return cls(column.name, rarity, np.ascontiguousarray((sign[:, None] * directions).T))

    @property
    def n_codes(self) -> int:
        """The number of columns that ``code`` returns, which is also the number of inputs of a text."""
        return int(self.directions.shape[1])

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the inputs that encode the column."""
        return tuple(f"{self.name}: text {j + 1}" for j in range(self.n_codes))

    def code(self, column: RawColumn) -> FloatArray:
        """Return k numbers for each text, its components by the singular value decomposition; 0 for missing texts."""
        return np.asarray(_weighted(_buckets(column), self.rarity) @ self.directions)


def _buckets(column: RawColumn) -> Any:
    """Return a sparse table (n, buckets) of 0 and 1: the hash buckets of the character sequences in each text."""
    rows, columns = [], []
    for row, text in enumerate(column.values):
        padded = f" {(text or '').lower()} "
        starts = range(max(1, len(padded) - _SEQUENCE + 1)) if text else ()
        found = {zlib.crc32(padded[j : j + _SEQUENCE].encode()) % BUCKETS for j in starts}
        rows += [row] * len(found)
        columns += sorted(found)
    return csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(column.values), BUCKETS))


def _weighted(table: Any, rarity: FloatArray) -> Any:
    """Multiply the columns of a sparse table of texts by the weights ``rarity``, then scale its rows to unit length."""
    weighted = table.multiply(rarity).tocsr()
    length = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    return weighted.multiply(1.0 / np.where(length > 0, length, 1.0)[:, None]).tocsr()


ColumnEncoder = CategoryColumn | DateColumn | NumberColumn | TextColumn | UnusedColumn
"""Type of a column encoder: one of five classes, chosen by the kind of the column's values."""

FOLDS = 5
"""Number of folds of target encoding: the mean target of a category is, for each row, computed from other folds."""

_MAX_RATIO = 1000.0
"""Maximum ratio of the targets' variance within categories to the variance between them, for target encoding."""


def target_statistics(
    codes: IndexArray, scores: FloatArray, counts: FloatArray, n_values: int, share: float = 1.0
) -> tuple[FloatArray, bool]:
    """Return the target encoding (n_values + 1, 2) of categories, and whether their means differ beyond chance.

    Its columns are the mean of ``scores`` (transformed targets) and log(1 + ``share`` times the number of rows). Its
    last line is for unseen values. ``counts`` are the sample weights. The mean of n rows with the same value is shrunk
    towards the mean of all rows by n / (n + s), where s is the ratio of the variance within values to the variance
    between values: the posterior mean under a Gaussian prior whose variance is estimated.
    """
    size: FloatArray = np.bincount(codes, counts, n_values).astype(np.float64)
    sums: FloatArray = np.bincount(codes, counts * scores, n_values).astype(np.float64)
    total, seen = size.sum(), int((size > 0).sum())
    overall = float(sums.sum() / max(total, 1e-300))
    raw = np.divide(sums, size, out=np.full(n_values, overall), where=size > 0)
    within = float(counts @ (scores - raw[codes]) ** 2) / max(float(total - seen), 1.0)
    # Moment estimator of ``between``: Σ n (mean - overall)² has expectation (seen - 1) · within + spread · between.
    spread = total - float(size @ size) / total if total > 0 else 0.0
    between = (float(size @ (raw - overall) ** 2) - (seen - 1) * within) / spread if spread > 0 else 0.0
    s = float(np.clip(within / between, 1.0, _MAX_RATIO)) if between > 0 else _MAX_RATIO
    table = np.column_stack([overall + size / (size + s) * (raw - overall), np.log1p(share * size)])
    return np.vstack([table, [overall, 0.0]]), s < _MAX_RATIO


def normal_scores(y: FloatArray, counts: FloatArray) -> FloatArray:
    """Transform targets by rank to a normal distribution, so that outliers do not dominate their means."""
    values, inverse = np.unique(y, return_inverse=True)
    size = np.bincount(inverse, counts, len(values))
    middle = np.cumsum(size) - size / 2
    return np.asarray(ndtri(middle / size.sum()))[inverse]


def parts_of_rows(n: int, sets: IndexArray | None) -> IndexArray:
    """Divide n rows at random into folds for target encoding; return the fold (n,) of each row, 0 to FOLDS - 1.

    Rows with the same number in ``sets`` are in the same fold. The same arguments always give the same folds.
    """
    labels = np.arange(n) if sets is None else np.unique(sets, return_inverse=True)[1]
    order = np.random.default_rng(labels.max(initial=0)).permutation(labels.max(initial=0) + 1)
    return np.asarray(order[labels] % FOLDS)


# A whole data frame

_FREE_TEXT = 0.5
"""Ratio of distinct values to rows of a text column above which it is free text or an identifier, no category."""

_MAX_CATEGORIES = 30
"""Number of distinct values up to which a text column is a category, however few rows there are."""

_TOLERANCE = 1e-9
"""Tolerance: a column whose correlation with the target is ±1 up to this number counts as a copy of the target."""


@stored
@dataclass(frozen=True, eq=False)
class TableEncoder:
    """Encoder of a data frame as an array of numbers, the inputs of networks; each column has its own encoder.

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
        """Raise unless all columns have different names and at least one column gives inputs."""
        must(len(self.notes) in (0, len(self.columns)), "must have a note for each column, or none")
        must(len(set(self.names)) == len(self.names), "no column must be there twice")
        must(sum(column.n_codes for column in self.columns) > 0, "must use at least one column")

    @classmethod
    def fit(cls, X: Any) -> TableEncoder:
        """Fit the encoder to a training data frame, except the target encoding, which ``learn`` computes later."""
        names = column_names(X)
        if not names:
            raise InvalidParameterError("X must have at least one column; got a data frame without columns")
        raw = []
        for name in names:
            column = read_column(X, name)
            _check_finite(column)
            raw.append(read_text(column) if column.kind == "text" else column)
        columns = tuple(_fit_column(column) for column in raw)
        if not sum(column.n_codes for column in columns):
            reasons = [f"{column.name!r}: {getattr(column, 'why', 'used')}" for column in columns]
            raise InvalidParameterError(f"at least one column must be usable; got {', '.join(reasons)}")
        return cls(columns, tuple(column.note for column in raw))

    @property
    def names(self) -> tuple[Any, ...]:
        """The names of the columns of the data frame."""
        return tuple(column.name for column in self.columns)

    @property
    def is_plain(self) -> bool:
        """True if all training columns were numbers without missing values; then rows to predict may be an array."""
        return all(isinstance(column, NumberColumn) and not column.some_missing for column in self.columns)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the inputs that encode all columns."""
        return tuple(feature for column in self.columns for feature in column.features)

    @property
    def column_of_feature(self) -> IndexArray:
        """For each input, the number of the data frame's column from which it is computed."""
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
        """Return a text column of ``X`` as numbers if it held numbers or dates in training; None for other columns.

        Dates are in days since 1970. Missing values are nan.
        """
        encoder = self.columns[self.names.index(name)] if name in self.names else None
        if not isinstance(encoder, NumberColumn | DateColumn) or not is_frame(X):
            return None
        column = read_column(X, name)
        return _as_fitted(encoder, column).values if column.kind == "text" else None

    def expand(self, codes: FloatArray) -> FloatArray:
        """Convert codes (n, n_codes), which ``code`` returns, to inputs (n, n_inputs)."""
        if all(isinstance(column, NumberColumn) for column in self.columns):
            return codes
        return np.hstack([column.expand(part) for column, part in zip(self.columns, self._parts(codes), strict=True)])

    def transform(self, X: Any) -> FloatArray:
        """Return the inputs (n, n_inputs) of the rows of a data frame."""
        return self.expand(self.code(X))

    def learn(
        self, codes: FloatArray, y: FloatArray, counts: FloatArray | None = None, sets: IndexArray | None = None
    ) -> tuple[TableEncoder, FloatArray]:
        """Compute the target encoding of all categories; return the completed encoder, and the training rows' inputs.

        ``counts`` are the sample weights. For each row, the mean target of its category is computed from other rows; if
        ``sets`` has a number for each row, from rows with another number.
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


def _fit_column(column: RawColumn) -> ColumnEncoder:
    """Choose an encoder for a column by the column's values, and return the fitted encoder."""
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
        return CategoryColumn.fit(column)
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
    """Convert a column to the kind (such as number or date) that it had in training; raise if that is impossible."""
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
    """Warn if missing values occur that did not occur in training, or if a category has only values that are new."""
    missing = int(column.missing.sum())
    if missing and isinstance(encoder, NumberColumn | DateColumn) and not encoder.some_missing:
        warn_user(
            f"column {column.name!r} is missing in {missing} of {len(column.values)} rows, and was never in training; "
            "these rows are predicted with its median in training, and their intervals are not wider for it",
            ColumnsWarning,
        )
    if not isinstance(encoder, CategoryColumn):
        return
    k = len(encoder.values)
    unseen = list(dict.fromkeys(column.values[codes[:, 0] == k + 1]))
    if unseen and ((codes >= k).all() or k == 2):  # no value is known, or it is neither of two: perhaps a spelling
        warn_user(
            f"column {column.name!r} holds values that it did not have in training: {listed(unseen, 5)} in place of "
            f"{listed(encoder.values, 5)}. If they are other spellings of the same values, correct them",
            ColumnsWarning,
        )


def _check_names(used: Sequence[Any], fitted: Sequence[Any], given: Sequence[Any]) -> None:
    """Raise if a column that is ``used`` is not in ``given``; warn of columns that were not in training."""
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
    """Return the Python code that converts an object to a data frame, for an error message."""
    if hasattr(X, "to_frame"):
        return "X.to_frame().T, for one row,"
    if isinstance(X, dict):
        return "pandas.DataFrame([X]), for one row,"
    if isinstance(X, list) and X and isinstance(X[0], dict):
        return "pandas.DataFrame(X)"
    return "pandas.DataFrame(X, columns=[...])"


@dataclass(frozen=True, eq=False)
class ColumnReport:
    """Report on how each column of a table is encoded, and why: the attribute ``columns_`` of a fitted regressor.

    ``rows`` has a dict for each column: its "name"; its "kind" ("number", "boolean", "category", "text", "date",
    "duration", or, if it is not used, "constant", "identifier" or "empty"); what it "becomes"; and "why".
    """

    rows: list[dict[str, Any]]

    @classmethod
    def of(cls, encoder: TableEncoder) -> ColumnReport:
        """Return the report on the columns of a data frame from the fitted encoder of the data frame."""
        rows = []
        for column, note in zip(encoder.columns, encoder.notes or ("",) * len(encoder.columns), strict=True):
            becomes, why = _becomes_and_why(column)
            why = "; ".join(filter(None, (note, why)))
            rows.append({"name": column.name, "kind": column.kind, "becomes": becomes, "why": why})
        return cls(rows)

    @classmethod
    def of_numbers(cls, names: Iterable[Any]) -> ColumnReport:
        """Return the report on the columns of an array of numbers."""
        return cls([{"name": name, "kind": "number", "becomes": "itself", "why": ""} for name in names])

    def to_frame(self) -> Any:
        """Return the report as a pandas data frame, with one row per column."""
        return as_frame(self.rows)

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
    """Warn of columns of numbers from which the target can be computed by a linear function."""
    if len(y) < 10 or np.ptp(y) == 0:
        return
    first_input = np.searchsorted(encoder.column_of_feature, np.arange(len(encoder.columns)))
    numbers = [
        (column.name, inputs[:, j])
        for column, j in zip(encoder.columns, first_input, strict=True)
        if isinstance(column, NumberColumn)
    ]
    with np.errstate(all="ignore"):  # the target is a linear function of the values, up to rounding
        found = [name for name, x in numbers if np.ptp(x) > 0 and abs(np.corrcoef(x, y)[0, 1]) > 1 - _TOLERANCE]
    if found:
        names, source = ", ".join(map(repr, found)), "one of them" if len(found) > 1 else "it"
        warn_user(
            f"column{'s' if len(found) > 1 else ''} {names} repeat{'' if len(found) > 1 else 's'} the target: it can "
            f"be computed from {source}. If it will not be known when you predict, drop it and fit again",
            ColumnsWarning,
        )


def _becomes_and_why(column: ColumnEncoder) -> tuple[str, str]:
    """Return two texts for the report on a column: the inputs that encode it, and the reason for this encoding."""
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
