"""Detection of repeated rows: copies, which are used once, and rows with equal inputs, which share a fold.

If a copy was in another fold than its original, a member would predict a row that it was trained on. Rows are compared
by hashes of their values, in linear time; the table is not copied in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.blocks import CACHED_CELLS, row_slices, rows_within
from bdkn.data.rows import SAMPLED_ROWS
from bdkn.typing import BoolArray, FloatArray, IndexArray

_NEAR = 1e-3
"""Tolerance of near equality: numbers are rounded to a grid with cells of this width, in standard deviations."""

_COARSE = 4 * _NEAR
"""Coarser tolerance, in standard deviations: if it finds many more equal rows, near equality is due to chance."""

_BEYOND_CHANCE = 1000
"""Pairs of equal rows must be this many times more frequent than by chance if columns were independent."""

_MIN_DISTINCT = 10
"""Minimum number of distinct rows of a table; if there are fewer, repeated rows are normal and are ignored."""

_MIN_NEAR = 0.01
"""Minimum fraction of rows nearly (not exactly) equal to another row; below it, near equality is due to chance."""

_MAX_ROWS = 10
"""Maximum average number of rows with the same inputs; above it, rows with equal inputs may be in different folds."""

_SHIFT = 0.381966
"""Offset of the rounding grid, in cells, so that a column's median is not at the edge of a cell."""

Keys = NDArray[np.uint64]
"""Type of an array with the hash of each row; equal rows have equal hashes."""


def mixed_bits(numbers: Keys) -> Keys:
    """Return a hash of each 64-bit integer, by the last step of the random number generator SplitMix64."""
    z = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


@dataclass(frozen=True, eq=False)
class RepeatedRows:
    """Rows of a table that repeat other rows.

    ``copies`` is True for a row whose inputs and target are equal to those of an earlier row. Rows with equal inputs
    form a set, even if their targets differ: ``sets`` has the set number of each row; None if there are no sets.
    """

    copies: BoolArray
    sets: IndexArray | None


def find_repeated_rows(X: Any, y: FloatArray) -> RepeatedRows | None:
    """Find the rows that repeat other rows of a table, inputs ``X`` and targets ``y``; return None if there are none.

    Numbers count as equal if they are nearly equal or, if near equality is due to chance, exactly equal. Equal rows
    that are expected because columns have few distinct values are ignored. Equal rows are copies only if rows with
    equal inputs have equal targets far more often than other rows.
    """
    n = len(y)
    if n < _MIN_DISTINCT or not X.shape[1]:
        return None
    width: float | None = _NEAR
    inputs = _keys(_parts(X), n, width)
    n_near = len(np.unique(inputs))
    if n_near == n:
        return None
    exact = _keys(_parts(X), n, None)
    are_few = len(np.unique(exact)) - n_near < max(_MIN_DISTINCT, _MIN_NEAR * n)
    if are_few or _pairs(_keys(_parts(X), n, _COARSE)) >= 2 * _pairs(inputs):  # nearly equal by chance
        inputs, width = exact, None

    targets = _keys([y[:, None]], n, width)
    rows = mixed_bits(inputs) + targets
    copies = np.ones(n, dtype=bool)
    copies[np.unique(rows, return_index=True)[1]] = False
    distinct = np.flatnonzero(~copies)
    by_chance = _pairs(targets) / (n * (n - 1) / 2)
    targets_agree = _pairs(rows) / max(1.0, _pairs(inputs)) >= min(0.95, 0.05 + 2.0 * by_chance)
    if not (
        _MIN_DISTINCT <= len(distinct) < n
        and targets_agree
        and _pairs(rows) >= _BEYOND_CHANCE * _chance([*_parts(X), y[:, None]], distinct) * n**2 / 2
    ):
        copies = np.zeros(n, dtype=bool)
        distinct = np.arange(n)

    sets, n_distinct = None, len(distinct)
    found, first = np.unique(inputs[distinct], return_index=True)
    if max(_MIN_DISTINCT, n_distinct / _MAX_ROWS) <= len(found) < n_distinct:
        expected = _chance(_parts(X), distinct[first]) * n_distinct**2 / 2
        if _pairs(inputs[distinct]) >= _BEYOND_CHANCE * expected:
            sets = np.searchsorted(found, inputs)
    return RepeatedRows(copies, sets) if copies.any() or sets is not None else None


def _pairs(keys: Keys) -> float:
    """Return the number of pairs of rows with equal hashes."""
    counts = np.unique(keys, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1) / 2).sum())


def _chance(parts: Iterable[NDArray[Any]], distinct: IndexArray) -> float:
    """Estimate the probability that two rows are equal by chance, with independent columns, from ``distinct`` rows."""
    some = distinct[:: max(1, len(distinct) // SAMPLED_ROWS)]
    pairs, chance = max(1.0, len(some) * (len(some) - 1) / 2), 1.0
    for part in parts:
        for column in part[some].T:
            chance *= _pairs(bits_of(column)) / pairs
    return chance


def _keys(parts: Iterable[NDArray[Any]], n: int, width: float | None) -> Keys:
    """Return a hash of each row, after rounding numbers to a grid of cells of ``width`` (None: without rounding)."""
    keys: Keys = np.zeros(n, dtype=np.uint64)
    place = 0
    for part in parts:
        centre, scale = (0.0, 1.0) if width is None else _centre_and_scale(part)
        columns = mixed_bits(np.arange(place, place := place + part.shape[1], dtype=np.uint64))
        for block in row_slices(n, rows_within(CACHED_CELLS // 4, part.shape[1])):  # for it and three temporary arrays
            cells = part[block]
            if width is not None:
                with np.errstate(over="ignore", invalid="ignore"):
                    cells = np.floor((cells - centre) / (width * scale) + _SHIFT)
            keys[block] += mixed_bits(bits_of(cells) + columns).sum(axis=1, dtype=np.uint64)
    return keys


def _centre_and_scale(part: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    """Return the median of each column and its standard deviation after clipping to the inner 98 % (1 if zero)."""
    sample = np.asarray(part[:: max(1, len(part) // SAMPLED_ROWS)], dtype=np.float64)
    with np.errstate(all="ignore"):
        if np.isnan(sample).any():
            known = np.maximum(np.sum(~np.isnan(sample), axis=0), 1)
            sample = np.where(np.isnan(sample), np.nansum(sample, axis=0) / known, sample)
        low, centre, high = np.nan_to_num(np.quantile(sample, [0.01, 0.5, 0.99], axis=0))
        spread = np.clip(sample, low, high).std(axis=0)
    return centre, np.where((spread > 0) & np.isfinite(spread), spread, 1.0)


def _parts(X: Any) -> Iterator[NDArray[Any]]:
    """Yield the columns of any table as numeric arrays with n rows; for a sparse table, yield one hash per row."""
    if hasattr(X, "indptr"):
        yield _sparse_keys(X)[:, None]
    elif hasattr(X, "columns"):
        for name in X.columns:
            yield column_numbers(np.asarray(X[name]))[:, None]
    elif np.asarray(X).dtype.kind in "biuf":
        yield np.asarray(X)
    else:
        for column in np.asarray(X).T:
            yield column_numbers(column)[:, None]


def column_numbers(column: NDArray[Any]) -> NDArray[Any]:
    """Return a numeric column unchanged, and any other column as integer codes of its distinct values."""
    if column.dtype.kind in "biuf":
        return column
    return np.asarray(np.unique(column.astype(str), return_inverse=True)[1])


def _sparse_keys(X: Any) -> NDArray[np.int64]:
    """Return a hash of each row of a sparse table, computed from its nonzero entries."""
    entries = mixed_bits(bits_of(X.data) + mixed_bits(X.indices.astype(np.uint64)))
    total = np.concatenate([[np.uint64(0)], np.cumsum(np.where(X.data != 0, entries, np.uint64(0)), dtype=np.uint64)])
    return np.asarray(total[X.indptr[1:]] - total[X.indptr[:-1]]).view(np.int64) >> 12


def bits_of(numbers: NDArray[Any]) -> Keys:
    """Return the bits of double-precision numbers as integers, to hash them; 0 and -0 are equal, and so are all nan."""
    plain = np.asarray(numbers, dtype=np.float64) + 0.0
    plain[np.isnan(plain)] = np.nan
    return plain.view(np.uint64)
