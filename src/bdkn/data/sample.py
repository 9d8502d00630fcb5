"""The sample of a fit in blocks, and the numbers of its rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bdkn.data.rows import Rows, RowSource
from bdkn.errors import InvalidParameterError
from bdkn.typing import FloatArray, IndexArray

_Part = TypeVar("_Part")


def merged_in_tree(parts: Sequence[_Part], merge: Callable[[_Part, _Part], _Part]) -> _Part:
    """Return all parts merged: neighbours in pairs, then the pairs, and so on; the last of an odd number waits."""
    level = list(parts)
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        level = [*(merge(one, other) for one, other in pairs), *level[len(level) // 2 * 2 :]]
    return level[0]


Numbers = NDArray[np.uint64]
"""Numbers of rows, or of the groups that they belong to."""

CHUNK_ROWS = 2**17
"""Rows of a chunk, and the most rows of the sample: tables of so many rows are fitted as if they were in memory."""

_SAMPLE, _CHUNK, _FOLD = 0x5A, 0xC4, 0xF0
"""Kinds of random numbers, which are independent of one another."""


def mixed(numbers: Numbers, *salts: int) -> Numbers:
    """Return a random number for each number, always the same for the same salts (SplitMix64)."""
    z = np.asarray(numbers, dtype=np.uint64)
    for salt in salts:
        z = _scrambled(z ^ _scrambled(np.asarray(salt % 2**64, dtype=np.uint64)))
    return z


def _scrambled(z: Numbers) -> Numbers:
    with np.errstate(over="ignore"):
        z = z + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def sample_keys(numbers: Numbers) -> Numbers:
    """Return the key of each row: those with the smallest keys are the sample."""
    return mixed(numbers, _SAMPLE)


def chunk_of(numbers: Numbers, n_chunks: int) -> NDArray[np.intp]:
    """Return the chunk that each row belongs to."""
    return (mixed(numbers, _CHUNK) % np.uint64(n_chunks)).astype(np.intp)


def fold_of(numbers: Numbers, n_folds: int, seed: int) -> IndexArray:
    """Return the fold that leaves out each row, or the group of that number; all folds are equally probable."""
    return (mixed(numbers, _FOLD, seed) % np.uint64(n_folds)).astype(np.intp)


def is_left_out(numbers: Numbers, fraction: float, seed: int) -> NDArray[np.bool_]:
    """Return whether each row, or the group of that number, is among a fraction of them that is left out."""
    return np.asarray(mixed(numbers, _FOLD, seed).astype(np.float64) < fraction * 2.0**64)


def group_numbers(groups: NDArray[Any]) -> Numbers:
    """Return a number for each label of a group, the same for equal labels in any block."""
    labels, place = np.unique(groups, return_inverse=True)
    digests = [hashlib.blake2b(repr(label).encode(), digest_size=8).digest() for label in labels.tolist()]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)[place.ravel()]


@dataclass(frozen=True)
class MemberFolds:
    """The folds of each member: ``seeds`` has one number per member, by which its folds differ from those of others.

    With ``fraction``, all members leave out the same rows in one fold, that fraction of them.
    """

    n_folds: int
    seeds: tuple[int, ...]
    fraction: float | None = None

    def of(self, numbers: Numbers) -> NDArray[np.int16]:
        """Return the fold (n, H) that leaves each row out, for each member; -1 if none does."""
        found = np.empty((len(numbers), len(self.seeds)), dtype=np.int16)
        for h, seed in enumerate(self.seeds):
            if self.fraction is None:
                found[:, h] = fold_of(numbers, self.n_folds, seed)
            else:
                found[:, h] = np.where(is_left_out(numbers, self.fraction, seed), 0, -1)
        return found


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
