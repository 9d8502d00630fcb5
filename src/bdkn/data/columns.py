"""Encoders of single columns of a data frame.

Each encoder works in two steps: ``code`` converts values to finite numbers that do not depend on targets, and
``expand`` converts these codes to inputs.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import ndtri

from bdkn.data.reading import RawColumn
from bdkn.storage.fields import Choice, Either, Items, Plain, floats, must, stored
from bdkn.typing import FloatArray, IndexArray

ONE_HOT = 12
"""Maximum number of values of a category for each value to get its own indicator."""

_MIN_ROWS_OF_VALUE = 20
"""Minimum rows for a value to get its own indicator, in a category with more values than that."""

_YEAR, _WEEK = 365.2425, 7.0

CYCLES = {_YEAR: "time of year", _WEEK: "weekday", 1.0: "time of day"}
"""Names of the cycles of dates, by their length in days."""

ColumnName = Annotated[Any, Either(tuple, Items(Plain(single=True)), Plain(single=True))]
"""Name of a column: text, a number or, with several headers, a tuple of them."""


class _Column:
    """Base class of encoders whose codes are the inputs."""

    def expand(self, codes: FloatArray) -> FloatArray:
        """Return the inputs of codes."""
        return codes


class _NumericColumn(_Column):
    """Base class of encoders of numbers, with ``fill`` in place of missing ones."""

    name: ColumnName
    fill: float
    some_missing: bool

    @property
    def n_codes(self) -> int:
        """The number of codes per value: two if there were missing values in training."""
        return 2 if self.some_missing else 1

    def code(self, column: RawColumn) -> FloatArray:
        """Return the numbers and, if there were missing values in training, whether each is missing."""
        missing = np.isnan(column.values)
        filled = np.where(missing, self.fill, column.values) if missing.any() else column.values
        return np.column_stack([filled, missing]) if self.some_missing else filled[:, None]

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return (str(self.name), f"{self.name} is missing")[: self.n_codes]


def _median(column: RawColumn) -> float:
    """Return the median of the values that are not missing, 0 if all are."""
    return 0.0 if column.missing.all() else float(np.median(column.values[~column.missing]))


@stored
@dataclass(frozen=True, eq=False)
class NumberColumn(_NumericColumn):
    """Encoder of numbers as themselves, and as an indicator of missing values if there were any in training."""

    name: ColumnName
    fill: float
    some_missing: bool = False
    kind: Annotated[str, Choice(("number", "boolean", "duration"))] = "number"
    form: str = ""

    @classmethod
    def fit(cls, column: RawColumn) -> NumberColumn:
        """Fit the encoder to training values."""
        return cls(column.name, _median(column), bool(column.missing.any()), column.kind, column.form)


@stored
@dataclass(frozen=True, eq=False)
class DateColumn(_NumericColumn):
    """Encoder of dates: the day as a number, and season, weekday and time of day if these vary in training."""

    name: ColumnName
    fill: float
    some_missing: bool
    cycles: tuple[float, ...]
    form: str = ""
    kind: ClassVar[str] = "date"

    def check(self) -> None:
        """Raise unless the cycles are known."""
        must(set(self.cycles) <= set(CYCLES), f"cycles must be among {tuple(CYCLES)}")

    @classmethod
    def fit(cls, column: RawColumn) -> DateColumn:
        """Fit the encoder to training values."""
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
        """The names of the inputs."""
        pairs = [f"{self.name}: {CYCLES[length]} ({part})" for length in self.cycles for part in ("sine", "cosine")]
        return (*super().features, *pairs)

    def expand(self, codes: FloatArray) -> FloatArray:
        """Return the codes, and the sine and cosine of the place in each cycle."""
        turns = codes[:, :1] * (2 * np.pi / np.array(self.cycles)) if self.cycles else np.empty((len(codes), 0))
        pairs = np.stack([np.sin(turns), np.cos(turns)], axis=2).reshape(len(codes), -1)
        return np.hstack([codes, pairs])


@stored
@dataclass(frozen=True, eq=False)
class CategoryColumn:
    """Encoder of categories; ``inputs`` (k + 2, q) has a row for each of k values, missing values and unseen values.

    The code of a value is its number, k if it is missing, and k + 1 if it is unseen, that is, not in the training rows.
    Inputs are an indicator of each frequent value; the number of the value if the category is ordered; and, as the last
    ones, if ``n_target`` is 2, the mean normal score of the targets of rows with the value and the logarithm of the
    number of these rows.
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
        """Raise unless values are distinct and have the inputs of all features."""
        k, q = len(self.values), len(self.features)
        must(len(set(self.values)) == k, "no value must be there twice")
        must(self.inputs.shape == (k + 2, q), f"inputs must have shape {(k + 2, q)}; got {self.inputs.shape}")
        must(self.n_target in (0, 2) and self.n_target <= q, "n_target must be 0 or 2")

    @classmethod
    def fit(cls, column: RawColumn, *, one_hot: int = ONE_HOT, targets: bool | None = None) -> CategoryColumn:
        """Fit the encoder to training values, without the statistics of targets.

        A category with more than ``one_hot`` values has indicators of its frequent values only. ``targets`` is whether
        statistics of targets are inputs; by default, if there are more than ``one_hot`` values.
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
        frequent = list(range(len(size)))  # the values with an indicator: all of few, else the frequent ones
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
            indicators[2:] = size[1] / size.sum()  # other values lie between the two
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
        """Return the number of each value."""
        k = len(self.values)
        number: dict[str | None, int] = {value: j for j, value in enumerate(self.values)}
        number[None] = k
        return np.array([number.get(value, k + 1) for value in column.values], dtype=np.float64)[:, None]

    def expand(self, codes: FloatArray) -> FloatArray:
        """Return the inputs of each value."""
        return self.inputs[codes[:, 0].astype(np.intp)]

    def learn(
        self, codes: FloatArray, scores: FloatArray, counts: FloatArray, parts: IndexArray
    ) -> tuple[CategoryColumn, FloatArray]:
        """Return the encoder with statistics of the targets of all rows, and the inputs of these rows.

        The statistics in the inputs of a row are computed from the rows of other parts, and so without its own target.
        """
        number, k = codes[:, 0].astype(np.intp), len(self.values) + 1
        inputs = self.expand(codes)
        if not self.n_target:
            return self, inputs
        for part in range(FOLDS):
            at, others = parts == part, parts != part
            if at.any() and others.any():
                statistics = TargetStatistics.of(number[others], scores[others], counts[others], k)
                inputs[at, -2:] = statistics.inputs(counts.sum() / counts[others].sum())[number[at]]
        learned = self.inputs.copy()
        statistics = TargetStatistics.of(number, scores, counts, k)
        learned[:, -2:] = statistics.inputs(1.0)
        # If values do not differ, the statistics are noise, which would be magnified when inputs are scaled. If all
        # rows of each value are in one part, no training row has statistics of its value.
        if not statistics.differ or not inputs[:, -1].any():
            learned[:, -2:] = learned[-1, -2:]
            inputs[:, -2:] = learned[-1, -2:]
        return replace(self, inputs=learned), inputs


@stored
@dataclass(frozen=True, eq=False)
class UnusedColumn(_Column):
    """A column that is not used, with the reason ``why``."""

    name: ColumnName
    kind: str
    why: str
    n_codes: Literal[0] = 0
    features: tuple[()] = ()

    def code(self, column: RawColumn) -> FloatArray:
        """Return no codes."""
        return np.empty((len(column.values), 0))


BUCKETS = 2048
"""Number of buckets to which character sequences are hashed."""

_MAX_DIRECTIONS = 8
"""Maximum number of inputs of a column of text."""

_SEQUENCE = 4
"""Length of character sequences."""


@stored
@dataclass(frozen=True, eq=False)
class TextColumn(_Column):
    """Encoder of free text as coordinates along the ``directions`` (buckets, k) in which training texts differ most.

    A text is represented by its set of sequences of four characters. Each is hashed to a bucket, which is weighted by
    the logarithm of its inverse frequency (``rarity``).
    """

    name: ColumnName
    rarity: Annotated[FloatArray, floats(BUCKETS)]
    directions: Annotated[FloatArray, floats(BUCKETS, "k")]
    kind: ClassVar[str] = "text"

    @classmethod
    def fit(cls, column: RawColumn) -> TextColumn:
        """Fit the encoder to training texts."""
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
        """The number of codes per text."""
        return int(self.directions.shape[1])

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(f"{self.name}: text {j + 1}" for j in range(self.n_codes))

    def code(self, column: RawColumn) -> FloatArray:
        """Return the coordinates of each text; those of a missing text are zero."""
        return np.asarray(_weighted(_buckets(column), self.rarity) @ self.directions)


def _buckets(column: RawColumn) -> Any:
    """Return a sparse table (n, buckets) with 1 for each bucket of the character sequences of a text."""
    rows, columns = [], []
    for row, text in enumerate(column.values):
        padded = f" {(text or '').lower()} "
        starts = range(max(1, len(padded) - _SEQUENCE + 1)) if text else ()
        found = {zlib.crc32(padded[j : j + _SEQUENCE].encode()) % BUCKETS for j in starts}
        rows += [row] * len(found)
        columns += sorted(found)
    return csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(column.values), BUCKETS))


def _weighted(table: Any, rarity: FloatArray) -> Any:
    """Return the table with weighted columns and rows of unit length."""
    weighted = table.multiply(rarity).tocsr()
    length = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    return weighted.multiply(1.0 / np.where(length > 0, length, 1.0)[:, None]).tocsr()


ColumnEncoder = CategoryColumn | DateColumn | NumberColumn | TextColumn | UnusedColumn
"""Encoder of one column."""

FOLDS = 5
"""Number of parts of the training rows; statistics of targets for a row are computed from the other parts."""

_MAX_RATIO = 1000.0
"""Maximum ratio of the variance within values to that between values; also used if the latter is at most zero."""


@dataclass(frozen=True, eq=False)
class TargetStatistics:
    """Mean score (k,) of the rows of each of k values, shrunk towards the mean of all rows, and the row counts (k,).

    ``differ`` is whether the means of values differ by more than chance.
    """

    mean: FloatArray
    count: FloatArray
    overall: float
    differ: bool = True

    @classmethod
    def of(cls, codes: IndexArray, scores: FloatArray, counts: FloatArray, n_values: int) -> TargetStatistics:
        """Return the statistics of rows with values ``codes`` and ``scores``, each counted ``counts`` times.

        The mean of a value with n rows is shrunk by n / (n + s), where s is the ratio of the variance within values to
        that between values: the posterior mean under a Gaussian prior whose variance is estimated.
        """
        size: FloatArray = np.bincount(codes, counts, n_values).astype(np.float64)
        sums: FloatArray = np.bincount(codes, counts * scores, n_values).astype(np.float64)
        total, seen = size.sum(), int((size > 0).sum())
        overall = float(sums.sum() / max(total, 1e-300))
        raw = np.divide(sums, size, out=np.full(n_values, overall), where=size > 0)
        within = float(counts @ (scores - raw[codes]) ** 2) / max(float(total - seen), 1.0)
        # The expectation of Σ n (mean - overall)² is (seen - 1) · within + spread · between.
        spread = total - float(size @ size) / total if total > 0 else 0.0
        between = (float(size @ (raw - overall) ** 2) - (seen - 1) * within) / spread if spread > 0 else 0.0
        s = float(np.clip(within / between, 1.0, _MAX_RATIO)) if between > 0 else _MAX_RATIO
        return cls(overall + size / (size + s) * (raw - overall), size, overall, s < _MAX_RATIO)

    def inputs(self, share: float) -> FloatArray:
        """Return mean score and logarithm of the number of rows, ``share`` times, of each value and an unseen one."""
        table = np.column_stack([self.mean, np.log1p(share * self.count)])
        return np.vstack([table, [self.overall, 0.0]])


def normal_scores(y: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the targets as quantiles of a standard normal by their rank, so that no target dominates a mean."""
    values, inverse = np.unique(y, return_inverse=True)
    size = np.bincount(inverse, counts, len(values))
    middle = np.cumsum(size) - size / 2
    return np.asarray(ndtri(middle / size.sum()))[inverse]


def parts_of_rows(n: int, sets: IndexArray | None) -> IndexArray:
    """Return the part (n,) of each row, from 0 to FOLDS - 1; rows of one set are in the same part.

    The parts depend only on the number of rows and their sets, so that repeated calls return the same parts.
    """
    labels = np.arange(n) if sets is None else np.unique(sets, return_inverse=True)[1]
    order = np.random.default_rng(labels.max(initial=0)).permutation(labels.max(initial=0) + 1)
    return np.asarray(order[labels] % FOLDS)
