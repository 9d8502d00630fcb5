"""Encoders of single columns of a data frame, by the kind of their values.

An encoder works in two steps. ``code`` turns values into finite numbers without knowledge of the target; ``expand``
turns these into inputs.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import ndtri

from bdkn.data.reading import RawColumn
from bdkn.errors import InvalidParameterError
from bdkn.storage.fields import Choice, Either, Items, Plain, floats, must, stored
from bdkn.typing import FloatArray, IndexArray

ONE_HOT = 12
"""A category with more values than this has an input for its most frequent values only."""

_FREQUENT = 20
"""Rows that a value must have to be one of these."""

_YEAR, _WEEK = 365.2425, 7.0

CYCLES = {_YEAR: "time of year", _WEEK: "weekday", 1.0: "time of day"}
"""By length in days: the cycles in which a date has a place."""

ColumnName = Annotated[Any, Either(tuple, Items(Plain(single=True)), Plain(single=True))]
"""The name of a column: text, a number or, with several headers, a tuple of them."""


class ColumnEncoder(Protocol):
    """Encoder of one column."""

    @property
    def name(self) -> Any:
        """The name of the column."""

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the inputs that it becomes."""

    @property
    def n_codes(self) -> int:
        """The number of codes per value."""

    def code(self, column: RawColumn) -> FloatArray:
        """Return the codes (n, n_codes) of the values, all finite."""

    def expand(self, codes: FloatArray) -> FloatArray:
        """Return the inputs (n, n_features) of codes."""


@stored
@dataclass(frozen=True, eq=False)
class NumberColumn:
    """A column of numbers: itself, with ``fill`` in place of missing ones, and whether it is missing, if some were."""

    name: ColumnName
    fill: float
    some_missing: bool = False
    kind: Annotated[str, Choice(("number", "boolean", "duration"))] = "number"
    form: str = ""

    @classmethod
    def fit(cls, column: RawColumn) -> NumberColumn:
        """Return the encoder of training values."""
        missing = column.missing
        fill = 0.0 if missing.all() else float(np.median(column.values[~missing]))
        return cls(column.name, fill, bool(missing.any()), column.kind, column.form)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return (str(self.name), f"{self.name} is missing")[: self.n_codes]

    @property
    def n_codes(self) -> int:
        """The number of codes per value."""
        return 2 if self.some_missing else 1

    def code(self, column: RawColumn) -> FloatArray:
        """Return the numbers and, if some were missing in training, which are."""
        missing = np.isnan(column.values)
        filled = np.where(missing, self.fill, column.values) if missing.any() else column.values
        return np.column_stack([filled, missing]) if self.some_missing else filled[:, None]

    def expand(self, codes: FloatArray) -> FloatArray:
        """Return the codes themselves."""
        return codes


@stored
@dataclass(frozen=True, eq=False)
class DateColumn:
    """A column of moments: the day as a number and, where training rows vary in them, season, weekday and hour."""

    name: ColumnName
    fill: float
    some_missing: bool
    cycles: tuple[float, ...]
    form: str = ""

    def check(self) -> None:
        """Raise unless the cycles are known."""
        must(set(self.cycles) <= set(CYCLES), f"cycles must be among {tuple(CYCLES)}")

    @classmethod
    def fit(cls, column: RawColumn) -> DateColumn:
        """Return the encoder of training values."""
        plain = NumberColumn.fit(column)
        days = column.values[~column.missing]
        span = float(np.ptp(days)) if len(days) else 0.0
        weekdays = len(np.unique(np.floor(days) % _WEEK)) > 1 and span >= 2 * _WEEK
        moment = np.exp(2j * np.pi * days)  # the time of day on its circle, where those around midnight are close
        hours = bool((np.abs(moment - moment[:1]) > 1e-6).any()) and span >= 2.0
        varied = ((_YEAR, span >= 1.5 * _YEAR), (_WEEK, weekdays), (1.0, hours))
        cycles = tuple(length for length, varies in varied if varies)
        return cls(column.name, plain.fill, plain.some_missing, cycles, column.form)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the inputs."""
        pairs = [f"{self.name}: {CYCLES[length]} ({part})" for length in self.cycles for part in ("sine", "cosine")]
        return (*NumberColumn(self.name, self.fill, self.some_missing).features, *pairs)

    @property
    def n_codes(self) -> int:
        """The number of codes per value."""
        return 2 if self.some_missing else 1

    def code(self, column: RawColumn) -> FloatArray:
        """Return the days and, if some were missing in training, which are."""
        return NumberColumn(self.name, self.fill, self.some_missing).code(column)

    def expand(self, codes: FloatArray) -> FloatArray:
        """Return the days and their place in each cycle."""
        turns = codes[:, :1] * (2 * np.pi / np.array(self.cycles)) if self.cycles else np.empty((len(codes), 0))
        pairs = np.stack([np.sin(turns), np.cos(turns)], axis=2).reshape(len(codes), -1)
        return np.hstack([codes, pairs])


@stored
@dataclass(frozen=True, eq=False)
class CategoryColumn:
    """A column of categories: ``inputs`` (k + 2, q) has a row for each of k values, missing ones and unseen ones.

    A code is the number of a value, k if it is missing, k + 1 if it was not seen in training. The inputs are one for
    each frequent value, 1 where a row has it; in an ordered category the number of the value; and, with ``n_target``,
    the mean normal score of the targets of rows with this value and the logarithm of their number, as the last ones.
    """

    name: ColumnName
    values: tuple[str, ...]
    some_missing: bool
    inputs: Annotated[FloatArray, floats("*", "*")]
    features: tuple[str, ...]
    n_target: int = 0
    ordered: bool = False

    def check(self) -> None:
        """Raise unless values are distinct, and have the inputs of all features."""
        k, q = len(self.values), len(self.features)
        must(len(set(self.values)) == k, "no value must be there twice")
        must(self.inputs.shape == (k + 2, q), f"inputs must have shape {(k + 2, q)}; got {self.inputs.shape}")
        must(self.n_target in (0, 2) and self.n_target <= q, "n_target must be 0 or 2")

    @classmethod
    def fit(cls, column: RawColumn, *, one_hot: int = ONE_HOT, targets: bool | None = None) -> CategoryColumn:
        """Return the encoder of training values, whose target statistics are still to be learned."""
        known = column.values[~column.missing]
        values, size = (
            np.unique(known.astype(str), return_counts=True) if len(known) else (np.empty(0, str), np.empty(0))
        )
        if column.levels:
            values = np.array([level for level in column.levels if level in set(values)])
            size = np.array([(known == value).sum() for value in values])
        n_missing = int(column.missing.sum())
        use_targets = len(values) > one_hot if targets is None else targets
        hot = _frequent(size, one_hot)
        blocks, features = [_one_hot(len(values), hot, n_missing)], [f"{column.name} = {values[j]}" for j in hot]
        if len(values) == 2 and not n_missing:  # one input tells two values apart
            blocks, features = [blocks[0][:, 1:]], features[1:]
            blocks[0][2:] = size[1] / size.sum()  # a value that is neither is between them
        if n_missing:
            features.append(f"{column.name} is missing")
        if column.levels and len(values) > 2:
            place = np.arange(len(values), dtype=np.float64)
            middle = float(np.average(place, weights=size))
            blocks.append(np.r_[place, middle, middle][:, None])
            features.append(f"{column.name}: number of the level")
        if use_targets:
            blocks.append(np.zeros((len(values) + 2, 2)))
            features += [f"{column.name}: mean target", f"{column.name}: logarithm of the number of rows"]
        names = tuple(map(str, values.tolist()))
        inputs = np.hstack(blocks)
        return cls(column.name, names, n_missing > 0, inputs, tuple(features), 2 * use_targets, bool(column.levels))

    @property
    def n_codes(self) -> int:
        """The number of codes per value."""
        return 1

    def code(self, column: RawColumn) -> FloatArray:
        """Return the number of each value."""
        unseen = len(self.values) + 1
        number: dict[str | None, int] = {value: j for j, value in enumerate(self.values)}
        number[None] = unseen - 1
        found = (number.get(value, unseen) for value in column.values)
        return np.fromiter(found, np.float64, len(column.values))[:, None]

    def expand(self, codes: FloatArray) -> FloatArray:
        """Return the inputs of each value."""
        return self.inputs[codes[:, 0].astype(np.intp)]

    def learn(
        self, codes: FloatArray, scores: FloatArray, counts: FloatArray, parts: IndexArray
    ) -> tuple[CategoryColumn, FloatArray]:
        """Return the encoder with target statistics of all rows, and the inputs of these rows.

        The statistics in the inputs of a row are those of the rows of other parts, so that its own target is not among
        them.
        """
        number, k = codes[:, 0].astype(np.intp), len(self.values) + 1
        inputs = self.expand(codes)
        if not self.n_target:
            return self, inputs
        for part in range(FOLDS):
            at, others = parts == part, parts != part
            if at.any() and others.any():
                known = TargetStatistics.of(number[others], scores[others], counts[others], k)
                share = counts.sum() / counts[others].sum()
                inputs[at, -2:] = _statistics(known, share)[number[at]]
        learned = self.inputs.copy()
        whole = TargetStatistics.of(number, scores, counts, k)
        learned[:, -2:] = _statistics(whole, 1.0)
        # Without a difference between values, statistics are noise, which inputs of equal scale would magnify. And if
        # rows of one value are in one part, no training row has seen its value.
        if not whole.differ or not inputs[:, -1].any():
            learned[:, -2:] = learned[-1, -2:]
            inputs[:, -2:] = learned[-1, -2:]
        return replace(self, inputs=learned), inputs


@stored
@dataclass(frozen=True, eq=False)
class UnusedColumn:
    """A column that is not used, for the reason told."""

    name: ColumnName
    kind: str
    why: str
    n_codes: Literal[0] = 0
    features: tuple[()] = ()

    def code(self, column: RawColumn) -> FloatArray:
        """Return no codes."""
        return np.empty((len(column.values), 0))

    def expand(self, codes: FloatArray) -> FloatArray:
        """Return no inputs."""
        return codes


def check_finite(column: RawColumn) -> None:
    """Raise if a column holds infinite numbers."""
    if column.kind != "text" and np.isinf(column.values).any():
        row = int(np.flatnonzero(np.isinf(column.values))[0])
        raise InvalidParameterError(
            f"column {column.name!r} must hold finite or missing numbers; row {row} is {column.values[row]}: "
            "correct it, or leave it missing"
        )


def _frequent(size: NDArray[Any], most: int) -> list[int]:
    """Return the numbers of the values that have an input: all if they are few, else the most frequent ones."""
    if len(size) <= most:
        return list(range(len(size)))
    order = np.argsort(-size, kind="stable")[:most]
    return sorted(int(j) for j in order if size[j] >= _FREQUENT)


def _one_hot(n_values: int, hot: Sequence[int], n_missing: int) -> FloatArray:
    """Return the inputs (n_values + 2, ..) of all values, missing and unseen ones."""
    inputs = np.zeros((n_values + 2, len(hot) + (n_missing > 0)))
    inputs[list(hot), range(len(hot))] = 1.0
    if n_missing:
        inputs[n_values, -1] = 1.0
    return inputs


def _statistics(known: TargetStatistics, share: float) -> FloatArray:
    """Return mean score and logarithm of the number of rows of each value and, last, of a value that was not seen."""
    table = np.column_stack([known.mean, np.log1p(share * known.count)])
    return np.vstack([table, [known.overall, 0.0]])


BUCKETS = 2048
"""Numbers that runs of letters are hashed to."""

_DIRECTIONS = 8
_LENGTH = 4


@stored
@dataclass(frozen=True, eq=False)
class TextColumn:
    """A column of free text: its coordinates along the directions (buckets, k) in which training texts differ most.

    A text is the set of all runs of four letters in it, each hashed to one of the buckets and weighted by how rare the
    bucket is (``rarity``).
    """

    name: ColumnName
    rarity: Annotated[FloatArray, floats(BUCKETS)]
    directions: Annotated[FloatArray, floats(BUCKETS, "k")]

    @classmethod
    def fit(cls, column: RawColumn) -> TextColumn:
        """Return the encoder of training texts."""
        from scipy.sparse.linalg import svds

        table = _buckets(column)
        rows = np.asarray((table > 0).sum(axis=0)).ravel()
        rarity = np.log((1 + table.shape[0]) / (1 + rows))
        weighted = _normalized(table, rarity)
        k = max(1, min(_DIRECTIONS, min(weighted.shape) - 1))
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
        """Return the coordinates of each text; a missing one is at the origin."""
        return np.asarray(_normalized(_buckets(column), self.rarity) @ self.directions)

    def expand(self, codes: FloatArray) -> FloatArray:
        """Return the codes themselves."""
        return codes


def _buckets(column: RawColumn) -> Any:
    """Return which buckets (n, buckets) the runs of letters of each text fall into."""
    rows, columns = [], []
    for row, text in enumerate(column.values):
        padded = f" {(text or '').lower()} "
        runs = {padded[j : j + _LENGTH] for j in range(max(1, len(padded) - _LENGTH + 1))} if text else set()
        found = {zlib.crc32(run.encode()) % BUCKETS for run in runs}
        rows += [row] * len(found)
        columns += sorted(found)
    return csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(column.values), BUCKETS))


def _normalized(table: Any, rarity: FloatArray) -> Any:
    """Return the weighted table with rows of length one."""
    weighted = table.multiply(rarity).tocsr()
    length = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    return weighted.multiply(1.0 / np.where(length > 0, length, 1.0)[:, None]).tocsr()


FOLDS = 5
"""Number of parts of the training rows; what a row receives is computed from the other parts."""

_LARGEST_RATIO = 1000.0
"""The variance within values over that between values, if the latter cannot be told from zero."""


@dataclass(frozen=True, eq=False)
class TargetStatistics:
    """For each of k values, the mean score (k,) of its rows, shrunk towards that of all rows, and the rows (k,).

    ``differ`` says whether means of values differ by more than chance explains.
    """

    mean: FloatArray
    count: FloatArray
    overall: float
    differ: bool = True

    @classmethod
    def of(cls, codes: IndexArray, scores: FloatArray, counts: FloatArray, n_values: int) -> TargetStatistics:
        """Return the statistics of rows with values ``codes`` and ``scores``, each counted ``counts`` times.

        The mean of a value with n rows is shrunk by n / (n + s), where s is the variance within values over that
        between values: the posterior mean under a Gaussian prior whose variance is estimated.
        """
        size: FloatArray = np.bincount(codes, counts, n_values).astype(np.float64)
        total: FloatArray = np.bincount(codes, counts * scores, n_values).astype(np.float64)
        overall = float(total.sum() / max(size.sum(), 1e-300))
        raw = np.divide(total, size, out=np.full(n_values, overall), where=size > 0)
        within = float(counts @ (scores - raw[codes]) ** 2)
        free = max(float(size.sum() - (size > 0).sum()), 1.0)
        s = _ratio(size, raw, overall, within / free)
        return cls(overall + size / (size + s) * (raw - overall), size, overall, s < _LARGEST_RATIO)


def _ratio(size: FloatArray, raw: FloatArray, overall: float, within: float) -> float:
    """Return the variance within values over that between values, at least 1 and at most ``_LARGEST_RATIO``."""
    total = size.sum()
    spread = float(size @ (raw - overall) ** 2)
    seen = int((size > 0).sum())
    room = total - float(size @ size) / total if total > 0 else 0.0
    between = (spread - (seen - 1) * within) / room if room > 0 else 0.0
    return float(np.clip(within / between, 1.0, _LARGEST_RATIO)) if between > 0 else _LARGEST_RATIO


def normal_scores(y: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the targets as quantiles of a standard normal by their rank, so that no target dominates a mean."""
    values, inverse = np.unique(y, return_inverse=True)
    size = np.bincount(inverse, counts, len(values))
    middle = np.cumsum(size) - size / 2
    return np.asarray(ndtri(middle / size.sum()))[inverse]


def parts_of_rows(n: int, sets: IndexArray | None) -> IndexArray:
    """Return the part (n,) of each row, from 0 to FOLDS - 1; rows of one set are in the same part.

    The parts depend on the number of rows alone, so that a second call gives the same.
    """
    labels = np.arange(n) if sets is None else np.unique(sets, return_inverse=True)[1]
    order = np.random.default_rng(labels.max(initial=0)).permutation(labels.max(initial=0) + 1)
    return np.asarray(order[labels] % FOLDS)
