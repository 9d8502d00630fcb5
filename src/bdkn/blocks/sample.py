"""The sample: at most so many rows, drawn at random in one pass, which stay in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np

from bdkn.blocks.numbering import CHUNK_ROWS, Numbers, group_numbers, sample_keys
from bdkn.errors import InvalidParameterError
from bdkn.rows import Rows, RowSource
from bdkn.typing import FloatArray, IndexArray


@dataclass(frozen=True, eq=False)
class Sample:
    """Some rows of a source, in their order, with their ``numbers``, and what one pass tells about all ``n`` rows.

    ``units`` are the numbers that folds are functions of: those of the rows or, if there are groups, of these.
    ``n`` counts the rows that are counted at least once, ``n_read`` all of them, and ``total`` is the number of
    observations, the sum of the counts. ``targets_between`` are the smallest and the largest target.
    """

    rows: Rows
    numbers: Numbers
    units: Numbers
    n: int
    n_read: int
    total: float
    targets_between: tuple[float, float]

    @property
    def is_complete(self) -> bool:
        """Whether the sample consists of all rows that count."""
        return len(self.numbers) == self.n


@dataclass(frozen=True)
class Tally:
    """What rows tell that are counted at least once, as in ``Sample``; tallies of different rows are added."""

    n: int = 0
    n_read: int = 0
    total: Fraction = Fraction(0)
    low: float = inf
    high: float = -inf

    @classmethod
    def of(cls, numbers: Numbers, rows: Rows) -> Tally:
        """Return the tally of rows, of which there is at least one."""
        total = Fraction(len(rows)) if rows.counts is None else exact_sum(rows.counts)
        return cls(len(rows), int(numbers[-1]) + 1, total, float(rows.y.min()), float(rows.y.max()))

    def __add__(self, other: Tally) -> Tally:
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Tally(self.n + other.n, max(self.n_read, other.n_read), self.total + other.total, low, high)


def exact_sum(values: FloatArray) -> Fraction:
    """Return a sum without rounding, so that it does not depend on the order of the values."""
    mantissas, exponents = np.frexp(values)
    whole, total = np.ldexp(mantissas, 53).astype(np.int64), Fraction(0)
    for exponent in np.unique(exponents).tolist():
        high, low = np.divmod(whole[exponents == exponent], 2**26)
        total += (int(high.sum()) * 2**26 + int(low.sum())) * Fraction(2) ** (exponent - 53)
    return total


@dataclass(frozen=True, eq=False)
class Part:
    """Rows that may be in the sample, in their order, and their keys."""

    rows: Rows
    numbers: Numbers
    keys: Numbers

    @classmethod
    def of(cls, numbers: Numbers, rows: Rows) -> Part:
        """Return all of some rows."""
        return cls(rows, numbers, sample_keys(numbers))

    def below(self, bound: int) -> Part:
        """Return the rows whose keys are less than a bound."""
        return self if bound >= 2**64 else self[np.flatnonzero(self.keys < np.uint64(bound))]

    def smallest(self, size: int) -> Part:
        """Return the rows with the smallest keys, in their order."""
        if len(self.keys) <= size:
            return self
        return self[np.sort(np.argpartition(self.keys, size)[:size])]

    def __getitem__(self, places: IndexArray) -> Part:
        return Part(taken(self.rows, places), self.numbers[places], self.keys[places])


def draw_sample(source: RowSource, size: int = CHUNK_ROWS) -> Sample:
    """Return a random sample of the rows that are counted at least once, by one pass over a source."""
    parts: list[Part] = []
    held, tally = 0, Tally()
    for numbers, rows in counted_blocks(source):
        tally, found = tally + Tally.of(numbers, rows), Part.of(numbers, rows)
        if parts and len(parts[0].keys) == size:  # its largest key bounds what can still enter the sample
            found = found.below(int(parts[0].keys.max()))
        parts.append(found.smallest(size))
        held += len(parts[-1].keys)
        if held > 2 * size:
            parts = [joined(parts).smallest(size)]
            held = len(parts[0].keys)
    return sample_of(parts, tally, size)


def sample_of(parts: Sequence[Part], tally: Tally, size: int) -> Sample:
    """Return the sample of all rows, of which the parts hold those with the smallest keys."""
    if not tally.n:
        raise InvalidParameterError("a row source must have at least one row that counts; got none")
    drawn, ends = joined(parts).smallest(size), (tally.low, tally.high)
    groups = drawn.rows.groups
    units = drawn.numbers if groups is None else group_numbers(groups)
    rows = replace(drawn.rows, groups=None)
    return Sample(rows, drawn.numbers, units, tally.n, tally.n_read, float(tally.total), ends)


def counted_blocks(source: RowSource) -> Iterator[tuple[Numbers, Rows]]:
    """Yield the rows that are counted at least once, block by block, with their numbers."""
    start = 0
    for rows in source.blocks():
        numbers, counted = counted_rows(start, rows)
        start += len(rows)
        if len(counted):
            yield numbers, counted


def counted_rows(first: int, rows: Rows) -> tuple[Numbers, Rows]:
    """Return the rows that are counted at least once, with their numbers; that of the first row is ``first``."""
    numbers = np.arange(first, first + len(rows), dtype=np.uint64)
    if rows.counts is None or rows.counts.all():
        return numbers, rows
    used = np.flatnonzero(rows.counts)
    return numbers[used], taken(rows, used)


def taken(rows: Rows, places: IndexArray) -> Rows:
    """Return some rows of a table of any kind."""
    return Rows(
        _rows_of(rows.X, places),
        rows.y[places],
        None if rows.counts is None else rows.counts[places],
        None if rows.groups is None else rows.groups[places],
    )


def joined(parts: Sequence[Part]) -> Part:
    """Return the rows of all parts, which follow one another."""
    if len(parts) == 1:
        return parts[0]
    rows = [part.rows for part in parts]
    return Part(
        Rows(
            joined_tables([one.X for one in rows]),
            np.concatenate([one.y for one in rows]),
            None if rows[0].counts is None else np.concatenate([np.asarray(one.counts) for one in rows]),
            None if rows[0].groups is None else np.concatenate([np.asarray(one.groups) for one in rows]),
        ),
        np.concatenate([part.numbers for part in parts]),
        np.concatenate([part.keys for part in parts]),
    )


def _rows_of(table: Any, places: IndexArray) -> Any:
    if isinstance(table, np.ndarray):
        return table[places]
    import narwhals as nw

    return nw.from_native(table, eager_only=True)[places.tolist()].to_native()


def joined_tables(tables: Sequence[Any]) -> Any:
    """Return tables of one kind, arrays or data frames, one below the other."""
    if isinstance(tables[0], np.ndarray):
        return np.concatenate(tables)
    import narwhals as nw

    return nw.concat([nw.from_native(table, eager_only=True) for table in tables], how="vertical").to_native()
