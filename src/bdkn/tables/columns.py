"""Encoders of single columns: each turns the values of a column into numbers that networks can use.

An encoder works in two steps. ``code`` turns values into finite numbers without knowledge of the target; ``expand``
turns these into inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from bdkn.errors import InvalidParameterError
from bdkn.persistence.fields import Choice, Either, Items, Plain, floats, must, stored
from bdkn.tables.reading import RawColumn
from bdkn.tables.target_statistics import FOLDS, TargetStatistics
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
