"""Random sample, chunks and folds of rows that are read in blocks, all computed from row numbers by a hash function."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bdkn.data.repeated_rows import mixed_bits
from bdkn.data.rows import Rows, RowSource
from bdkn.errors import InvalidParameterError
from bdkn.typing import BoolArray, FloatArray, IndexArray

_Part = TypeVar("_Part")

Numbers = NDArray[np.uint64]
"""Type of an array with a row number, or a hash of the group label, for each row."""

CHUNK_ROWS = 2**17
"""Number of rows of a chunk of a large table, and of its random sample; smaller tables are fitted in memory."""

_SAMPLE, _CHUNK, _FOLD = 0x5A, 0xC4, 0xF0
"""Salts of the hash function, so that sample, chunks and folds get independent random numbers."""


def merged_in_tree(parts: Sequence[_Part], merge: Callable[[_Part, _Part], _Part]) -> _Part:
    """Merge parts in pairs, then the results in pairs, and so on: the order is fixed, and so are rounding errors."""
    level = list(parts)
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        level = [*(merge(one, other) for one, other in pairs), *level[len(level) // 2 * 2 :]]
    return level[0]


def hash_numbers(numbers: Numbers, *salts: int) -> Numbers:
    """Return a pseudorandom integer for each number, by the hash function SplitMix64; ``salts`` act as its seed."""
    step, z = np.uint64(0x9E3779B97F4A7C15), np.asarray(numbers, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for salt in salts:
            z = mixed_bits((z ^ mixed_bits(np.asarray(salt % 2**64, dtype=np.uint64) + step)) + step)
    return z


def chunk_of(numbers: Numbers, n_chunks: int) -> NDArray[np.intp]:
    """Return the number of the chunk of each row, drawn at random by a hash of the row number."""
    return (hash_numbers(numbers, _CHUNK) % np.uint64(n_chunks)).astype(np.intp)


def fold_of(numbers: Numbers, n_folds: int, seed: int) -> IndexArray:
    """Return the number of the fold in which each row (or group) is held out, drawn with equal probabilities."""
    return (hash_numbers(numbers, _FOLD, seed) % np.uint64(n_folds)).astype(np.intp)


def is_held_out(numbers: Numbers, fraction: float, seed: int) -> BoolArray:
    """Return a boolean array, True for the rows (or groups) of a random fraction that is held out."""
    return np.asarray(hash_numbers(numbers, _FOLD, seed).astype(np.float64) < fraction * 2.0**64)


def group_numbers(groups: NDArray[Any]) -> Numbers:
    """Return a hash of each group label; equal labels have equal hashes in all blocks of rows."""
    labels, place = np.unique(groups, return_inverse=True)
    digests = [hashlib.blake2b(repr(label).encode(), digest_size=8).digest() for label in labels.tolist()]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)[place.ravel()]


@dataclass(frozen=True)
class MemberFolds:
    """Random folds of each member, computed from row numbers; ``seeds`` has one seed per member.

    With ``fraction``, there is a single fold, which holds out that fraction of the rows.
    """

    n_folds: int
    seeds: tuple[int, ...]
    fraction: float | None = None

    def of(self, numbers: Numbers) -> NDArray[np.int16]:
        """Return an array (n, H): the fold that holds out each of n rows, for each of H members (-1: no fold)."""
        found = np.empty((len(numbers), len(self.seeds)), dtype=np.int16)
        for h, seed in enumerate(self.seeds):
            if self.fraction is None:
                found[:, h] = fold_of(numbers, self.n_folds, seed)
            else:
                found[:, h] = np.where(is_held_out(numbers, self.fraction, seed), 0, -1)
        return found


@dataclass(frozen=True, eq=False)
class Sample:
    """Random sample of the rows of a row source, in their original order, and totals over all rows.

    ``numbers`` are the row numbers. Folds are computed from ``units``: the row numbers or, with groups, hashes of the
    group labels. ``n`` is the number of rows with a positive sample weight, ``n_read`` of all rows, ``total`` the sum
    of the sample weights, and ``targets_between`` the smallest and the largest target.
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
        """True if the sample contains every row whose sample weight is positive."""
        return len(self.numbers) == self.n


def exact_sum(values: FloatArray) -> Fraction:
    """Return the exact sum as a fraction. It is not rounded, so that the order of the values has no effect."""
    mantissas, exponents = np.frexp(values)
    whole, total = np.ldexp(mantissas, 53).astype(np.int64), Fraction(0)
    for exponent in np.unique(exponents).tolist():
        high, low = np.divmod(whole[exponents == exponent], 2**26)
        total += (int(high.sum()) * 2**26 + int(low.sum())) * Fraction(2) ** (exponent - 53)
    return total


@dataclass(frozen=True, eq=False)
class SampleCandidates:
    """Rows of one part of a table that may enter the random sample, and totals over this part as in ``Sample``.

    Each row has a random key. ``rows`` are those with the smallest keys, in their original order (None: no rows).
    """

    rows: Rows | None = None
    numbers: Numbers = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    keys: Numbers = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    n: int = 0
    n_read: int = 0
    total: Fraction = Fraction(0)
    low: float = inf
    high: float = -inf

    @classmethod
    def of(cls, numbers: Numbers, rows: Rows, size: int, bound: int = 2**64) -> SampleCandidates:
        """Return candidates: at most ``size`` rows, with the smallest random keys; keys must be below ``bound``."""
        if not len(rows):
            return cls()
        keys = hash_numbers(numbers, _SAMPLE)
        total = Fraction(len(rows)) if rows.counts is None else exact_sum(rows.counts)
        low, high = float(rows.y.min()), float(rows.y.max())
        drawn = cls(rows, numbers, keys, len(rows), int(numbers[-1]) + 1, total, low, high)
        if bound < 2**64:
            drawn = drawn._take(np.flatnonzero(keys < np.uint64(bound)))
        return drawn._smallest(size)

    @classmethod
    def join(cls, parts: Sequence[SampleCandidates], size: int) -> SampleCandidates:
        """Merge the candidates of consecutive parts; keep at most ``size`` rows, with the smallest random keys."""
        rows = [part.rows for part in parts if part.rows is not None]
        return cls(
            Rows.join(rows) if rows else None,
            np.concatenate([part.numbers for part in parts]),
            np.concatenate([part.keys for part in parts]),
            sum(part.n for part in parts),
            max(part.n_read for part in parts),
            sum((part.total for part in parts), Fraction(0)),
            min(part.low for part in parts),
            max(part.high for part in parts),
        )._smallest(size)

    def _smallest(self, size: int) -> SampleCandidates:
        return self if len(self.keys) <= size else self._take(np.sort(np.argpartition(self.keys, size)[:size]))

    def _take(self, places: IndexArray) -> SampleCandidates:
        rows = self.rows[places] if self.rows is not None and len(places) else None
        return replace(self, rows=rows, numbers=self.numbers[places], keys=self.keys[places])

    def sample(self) -> Sample:
        """Return the final sample, if these are the candidates from all rows."""
        if self.rows is None:
            raise InvalidParameterError("a row source must have at least one row that counts; got none")
        groups = self.rows.groups
        return Sample(
            rows=replace(self.rows, groups=None),
            numbers=self.numbers,
            units=self.numbers if groups is None else group_numbers(groups),
            n=self.n,
            n_read=self.n_read,
            total=float(self.total),
            targets_between=(self.low, self.high),
        )

    def __sizeof__(self) -> int:  # used by Dask to decide what to move
        from dask.sizeof import sizeof

        return 200 if self.rows is None else int(sizeof(self.rows.X)) + 40 * len(self.keys)


def draw_sample(source: RowSource, size: int = CHUNK_ROWS) -> Sample:
    """Draw a random sample of at most ``size`` rows with positive sample weight, in one pass over a row source."""
    parts: list[SampleCandidates] = []
    n_kept = 0
    for numbers, rows in counted_blocks(source):
        # Once there are ``size`` candidates, only smaller keys than their largest one can enter the sample
        bound = int(parts[0].keys.max()) if parts and len(parts[0].keys) == size else 2**64
        parts.append(SampleCandidates.of(numbers, rows, size, bound))
        n_kept += len(parts[-1].keys)
        if n_kept > 2 * size:
            parts = [SampleCandidates.join(parts, size)]
            n_kept = len(parts[0].keys)
    return SampleCandidates.join(parts or [SampleCandidates()], size).sample()


def counted_blocks(source: RowSource) -> Iterator[tuple[Numbers, Rows]]:
    """Yield, for each block of a row source, the rows with a positive sample weight, preceded by their numbers."""
    start = 0
    for rows in source.blocks():
        numbers, counted = counted_rows(start, rows)
        start += len(rows)
        if len(counted):
            yield numbers, counted


def counted_rows(first: int, rows: Rows) -> tuple[Numbers, Rows]:
    """Select the rows with a positive sample weight; return their numbers, counted from ``first``, and the rows."""
    numbers = np.arange(first, first + len(rows), dtype=np.uint64)
    if rows.counts is None or rows.counts.all():
        return numbers, rows
    used = np.flatnonzero(rows.counts)
    return numbers[used], rows[used]
