"""Rows that repeat another row: which rows of a table are copies, so that each is counted once.

A copy in another fold than its original would let a member predict a row that it was trained on. Rows are compared by a
hash of their cells in linear time; a table is never copied whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.blocks import CACHED_CELLS, row_slices, rows_within
from bdkn.data.sample import mixed_bits
from bdkn.lazy import lazy
from bdkn.typing import BoolArray, FloatArray, IndexArray

NEAR = 1e-3
"""Numbers are nearly equal if they lie in the same cell of a grid of this width, in standard deviations."""

COARSE = 4
"""Factor to the width of a coarser grid, where rows that are near by chance make many more pairs, and copies do not."""

BEYOND_CHANCE = 1000
"""Copies make so many times more pairs of equal rows than columns independent of one another would."""

FEWEST = 10
"""With fewer distinct rows or settings than this, rows are taken as they are."""

FEWEST_NEAR = 0.01
"""With a smaller share of rows that are nearly but not quite equal to another, they are near by chance."""

MOST_ROWS = 10
"""With more rows than this per setting of the inputs, a new row is likely to have a setting that was seen."""

_SAMPLE = 4096
_SHIFT = 0.381966  # a column's median is not at the edge of a cell

Keys = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class RepeatedRows:
    """Which rows of a table repeat others.

    ``copies`` is True for a row that repeats an earlier one, inputs and target. ``settings`` is a number for each row,
    the same for rows with equal inputs, which need not have equal targets; None if they are to be taken as any others.
    """

    copies: BoolArray
    settings: IndexArray | None


def find_repeated_rows(X: Any, y: FloatArray) -> RepeatedRows | None:
    """Return which rows repeat others, None if none do.

    Numbers repeat if they are equal, or equal up to ``NEAR``. Equal rows that can be expected, as columns have few
    values, do not count: there must be ``BEYOND_CHANCE`` as many. Copies are rows of which, where inputs are equal,
    targets agree far more often than those of all rows. Rows with equal inputs are to be kept together if there are
    at most ``MOST_ROWS`` of them per setting on average.
    """
    if len(y) < FEWEST or not X.shape[1]:
        return None
    keys = _TableKeys.of(X, y, NEAR)
    if len(np.unique(keys.inputs)) == len(y):
        return None
    coarse, exact = _TableKeys.of(X, y, COARSE * NEAR), _TableKeys.of(X, y, None)
    few = len(np.unique(exact.inputs)) - len(np.unique(keys.inputs)) < max(FEWEST, FEWEST_NEAR * len(y))
    if few or _pairs(coarse.inputs) >= 2 * _pairs(keys.inputs):  # near by chance
        keys = exact
    copies = _copies(X, y, keys)
    settings = _settings(X, keys.inputs, copies)
    return RepeatedRows(copies, settings) if copies.any() or settings is not None else None


def _copies(X: Any, y: FloatArray, keys: _TableKeys) -> BoolArray:
    """Return for each row whether it repeats an earlier one, beyond chance."""
    copies = np.ones(len(y), dtype=bool)
    copies[np.unique(keys.rows, return_index=True)[1]] = False
    chance = _chance([*_parts(X), y[:, None]], np.flatnonzero(~copies)) * len(y) ** 2 / 2
    is_copied = (
        FEWEST <= (~copies).sum() < len(y) and keys.targets_agree and _pairs(keys.rows) >= BEYOND_CHANCE * chance
    )
    return copies if is_copied else np.zeros(len(y), dtype=bool)


def _settings(X: Any, inputs: Keys, copies: BoolArray) -> IndexArray | None:
    """Return a number for each row, the same for rows with equal inputs; None if inputs repeat by chance or not."""
    own = inputs[~copies]
    found, first = np.unique(own, return_index=True)
    if len(found) == len(own) or len(found) < max(FEWEST, len(own) / MOST_ROWS):
        return None
    chance = _chance(_parts(X), np.flatnonzero(~copies)[first]) * len(own) ** 2 / 2
    return np.searchsorted(found, inputs) if _pairs(own) >= BEYOND_CHANCE * chance else None


@dataclass(frozen=True, eq=False)
class _TableKeys:
    """One number for the inputs of each row and one for its target, the same where they are equal."""

    inputs: Keys
    targets: Keys

    @classmethod
    def of(cls, X: Any, y: FloatArray, width: float | None) -> _TableKeys:
        return cls(_keys(_parts(X), len(y), width), _keys([y[:, None]], len(y), width))

    @lazy
    def rows(self) -> Keys:
        """One number for inputs and target together."""
        return mixed_bits(self.inputs) + self.targets

    @property
    def targets_agree(self) -> bool:
        """Whether targets of rows with equal inputs agree far more often than those of all rows."""
        n = len(self.targets)
        chance, agreeing = _pairs(self.targets) / (n * (n - 1) / 2), _pairs(self.rows) / max(1.0, _pairs(self.inputs))
        return agreeing >= min(0.95, 0.05 + 2.0 * chance)


def _pairs(keys: Keys) -> float:
    """Return the number of pairs of equal keys."""
    counts = np.unique(keys, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1) / 2).sum())


def _chance(parts: Iterable[NDArray[Any]], distinct: IndexArray) -> float:
    """Return how probable equal rows would be with independent columns, by some of the ``distinct`` rows."""
    some = distinct[:: max(1, len(distinct) // _SAMPLE)]
    pairs, chance = max(1.0, len(some) * (len(some) - 1) / 2), 1.0
    for part in parts:
        for column in part[some].T:
            chance *= _pairs(_bits(column)) / pairs
    return chance


def _keys(parts: Iterable[NDArray[Any]], n: int, width: float | None) -> Keys:
    """Return one number per row, the same for rows with equal cells; ``width`` is that of cells (None: exactly)."""
    keys: Keys = np.zeros(n, dtype=np.uint64)
    place = 0
    for part in parts:
        grid = None if width is None else _Grid.of(part, width)
        columns = mixed_bits(np.arange(place, place := place + part.shape[1], dtype=np.uint64))
        for block in row_slices(n, rows_within(CACHED_CELLS // 4, part.shape[1])):  # with three temporary arrays
            cells = _bits(part[block] if grid is None else grid.cells(part[block]))
            keys[block] += mixed_bits(cells + columns).sum(axis=1, dtype=np.uint64)
    return keys


@dataclass(frozen=True)
class _Grid:
    """A grid of cells of equal width in each column, in which numbers of a column are rounded."""

    centre: FloatArray
    width: FloatArray

    @classmethod
    def of(cls, part: NDArray[Any], width: float) -> _Grid:
        sample = np.asarray(part[:: max(1, len(part) // _SAMPLE)], dtype=np.float64)
        with np.errstate(all="ignore"):
            if np.isnan(sample).any():
                known = np.maximum(np.sum(~np.isnan(sample), axis=0), 1)
                sample = np.where(np.isnan(sample), np.nansum(sample, axis=0) / known, sample)
            low, centre, high = np.nan_to_num(np.quantile(sample, [0.01, 0.5, 0.99], axis=0))
            spread = np.clip(sample, low, high).std(axis=0)
        return cls(centre, width * np.where((spread > 0) & np.isfinite(spread), spread, 1.0))

    def cells(self, part: NDArray[Any]) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.floor((part - self.centre) / self.width + _SHIFT))


def _parts(X: Any) -> Iterator[NDArray[Any]]:
    """Yield the numbers of a table as arrays (n, columns); other columns as the numbers of their values."""
    if hasattr(X, "indptr"):
        yield _sparse_keys(X)[:, None]
    elif hasattr(X, "columns"):
        for name in X.columns:
            yield _numbers(np.asarray(X[name]))[:, None]
    elif np.asarray(X).dtype.kind in "biuf":
        yield np.asarray(X)
    else:
        for column in np.asarray(X).T:
            yield _numbers(column)[:, None]


def _numbers(column: NDArray[Any]) -> NDArray[Any]:
    """Return a column of numbers as it is, any other as the numbers of its values as text."""
    if column.dtype.kind in "biuf":
        return column
    return np.asarray(np.unique(column.astype(str), return_inverse=True)[1])


def _sparse_keys(X: Any) -> NDArray[np.int64]:
    """Return one whole number per row of a sparse table, from its entries that are not zero."""
    entries = mixed_bits(_bits(X.data) + mixed_bits(X.indices.astype(np.uint64)))
    total = np.concatenate([[np.uint64(0)], np.cumsum(np.where(X.data != 0, entries, np.uint64(0)), dtype=np.uint64)])
    return np.asarray(total[X.indptr[1:]] - total[X.indptr[:-1]]).view(np.int64) >> 12


def _bits(numbers: NDArray[Any]) -> Keys:
    """Return the bits of numbers in double precision, one pattern for zero and one for nan."""
    plain = np.asarray(numbers, dtype=np.float64) + 0.0
    plain[np.isnan(plain)] = np.nan
    return plain.view(np.uint64)
