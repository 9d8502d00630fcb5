"""Where training rows lie: prototypes of them, and how far other rows are from these."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from bdkn.lazy import lazy
from bdkn.members.columns import Columns, block_slices, row_blocks, take
from bdkn.persistence.fields import Positive, floats, sizes, stored
from bdkn.typing import BoolArray, FloatArray, IndexArray

_MOST = 1024
"""The largest number of prototypes."""

_FAR = 256
"""Of many rows, how many of the prototypes are those that are farthest from the others."""

_FOR_SCALES = 4000
"""Rows from which the scales of the columns are computed."""

_TYPICAL = 0.9
"""Level of the quantile of the distances between training rows that is the typical distance."""

_SAME = 1e-4
"""Rows that differ by less than this in standardized columns are repetitions of one row."""

_JUMP = 2.0
"""What a changed value in a column that was constant counts at least, in typical distances."""

_AT_ONCE = 128
"""Rows that are compared with all prototypes at once."""

_SOME = (64, 256)
"""About how many of the prototypes are compared first; one of them that is near enough says that a row is inside."""

_BOUNDED = 512
"""Rows that are compared with some prototypes at once."""


@dataclass(frozen=True, eq=False)
class Nearest:
    """Rows and the prototype nearest to each.

    ``table`` (n, p) are the rows as numbers, ``Z`` (n, p) the same standardized, ``step`` (n, p) what leads from the
    nearest prototype to a row, and ``ratio`` (n,) its length in typical distances.
    """

    table: FloatArray
    Z: FloatArray
    step: FloatArray
    ratio: FloatArray


@stored
@dataclass(frozen=True, eq=False)
class Support:
    """Prototypes (m, p) of training rows in standardized columns, and the typical distance between training rows.

    Up to 1024 different rows are all prototypes, and the typical distance is the 90 % quantile of the distances of rows
    to the nearest other one. Of more rows some are chosen at random, and then those that are farthest from them; the
    typical distance is then at least the largest distance of a training row to the nearest prototype. So the ``ratio``
    of a training row is at most 1 in every case, and 0 if it is a prototype.
    """

    columns: Annotated[Columns, sizes(p="low.size")]
    prototypes: Annotated[FloatArray, floats("m", "p")]
    typical: Positive

    @classmethod
    def fit(cls, X: Any) -> Support:
        """Return the support of the rows of a table of any kind."""
        n, generator = X.shape[0], np.random.default_rng(0)
        some = np.sort(generator.permutation(n)[:_FOR_SCALES])
        bare = cls(Columns.fit(X, some), np.empty((0, X.shape[1])), 0.0)
        different = np.unique(bare.standardize(take(X, some)), axis=0)
        if n <= _FOR_SCALES and len(different) <= _MOST:
            return replace(bare, prototypes=different, typical=_typical(different))
        chosen = different[generator.permutation(len(different))[: _MOST - _FAR]]
        return replace(bare, prototypes=chosen)._with_far_rows(X)

    def nearest(self, X: Any) -> Nearest:
        """Return how far rows are from the nearest prototype."""
        table, Z = self.place(X)
        step = self._step(Z)
        return Nearest(table, Z, step, self._ratio(step))

    def place(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Return rows to predict as numbers, in units of the columns and standardized."""
        table = self.columns.numbers(X)
        return table, self.columns.standardize(table, _JUMP * self.typical)

    def ratio(self, Z: FloatArray, exact: BoolArray) -> FloatArray:
        """Return the ratio of standardized rows (n, p), or a bound on it that is at most 1 where ``exact`` (n,) is not.

        Most rows lie inside, and the distance to one of a few prototypes is enough to say so.
        """
        bounds = np.full(len(Z), np.inf)
        for closeness in self._some_closeness:
            unsure = np.flatnonzero(~(exact | (bounds <= 1.0)))
            bounds[unsure] = self._bounds(Z[unsure], closeness)
        unsure = np.flatnonzero(exact | ~(bounds <= 1.0))
        bounds[unsure] = self._ratio(self._step(Z[unsure]))
        return bounds

    def _bounds(self, Z: FloatArray, closeness: FloatArray) -> FloatArray:
        """Return upper bounds of the ratios, by some prototypes."""
        return farthest_distances(Z, closeness) / self.typical

    def _step(self, Z: FloatArray) -> FloatArray:
        """Return what leads from the nearest prototype to each standardized row."""
        return np.asarray(Z - self.prototypes[nearest_number(Z, self._closeness)])

    def _ratio(self, step: FloatArray) -> FloatArray:
        return np.asarray(np.linalg.norm(step, axis=1) / self.typical)

    @lazy
    def _some_closeness(self) -> list[FloatArray]:
        steps = [len(self.prototypes) // some for some in _SOME]
        return [closeness_of(self.prototypes[::step]) for step in steps if step > 1]

    @lazy
    def _closeness(self) -> FloatArray:
        return closeness_of(self.prototypes)

    def standardize(self, X: Any) -> FloatArray:
        """Return training rows in standardized columns."""
        return self.columns.standardize(self.columns.numbers(X), 0.0)

    def _distances(self, X: Any, rows: IndexArray) -> FloatArray:
        """Return the distance of some rows to the nearest prototype."""
        steps = [self._step(self.standardize(take(X, some))) for some in _portions(rows, X.shape[1])]
        return np.concatenate([np.linalg.norm(step, axis=1) for step in steps])

    def _reach(self, X: Any, rows: IndexArray, closeness: FloatArray) -> FloatArray:
        """Return upper bounds of the distances of some rows, by some prototypes."""
        parts = (self.standardize(take(X, some)) for some in _portions(rows, X.shape[1]))
        return np.concatenate([farthest_distances(part, closeness) for part in parts])

    def _farthest(self, X: Any, count: int) -> tuple[IndexArray, FloatArray]:
        """Return the numbers of the rows farthest from the prototypes, and their distances, the largest first.

        Bounds by a few prototypes leave few rows that can be among them. They are compared with all prototypes.
        """
        if not self._some_closeness:
            rows = np.arange(X.shape[0])
            return _largest(rows, self._distances(X, rows), count)
        few, *more = self._some_closeness
        bounds = np.concatenate([farthest_distances(self.standardize(block), few) for block in row_blocks(X)])
        first = np.sort(np.argpartition(-bounds, 2 * count)[: 2 * count])
        distances = self._distances(X, first)
        least = np.partition(distances, -count)[-count]
        bounds[first] = -1.0
        rest = np.flatnonzero(bounds >= least)
        for closeness in more:
            rest = rest[self._reach(X, rest, closeness) >= least]
        both = np.concatenate([distances, self._distances(X, rest)])
        return _largest(np.concatenate([first, rest]), both, count)

    def _with_far_rows(self, X: Any) -> Support:
        """Return the support with the rows that are farthest from its prototypes as prototypes, too."""
        rows, distances = self._farthest(X, _FAR + 1)
        far = self.standardize(take(X, np.sort(rows[:_FAR])))
        prototypes = np.unique(np.vstack([self.prototypes, far]), axis=0)
        return replace(self, prototypes=prototypes, typical=max(float(distances[_FAR]), _typical(prototypes)))


def _largest(rows: IndexArray, distances: FloatArray, count: int) -> tuple[IndexArray, FloatArray]:
    """Return the rows of the largest distances, of equal ones the first row first."""
    order = np.lexsort((rows, -distances))[:count]
    return rows[order], distances[order]


def _portions(rows: IndexArray, n_columns: int) -> list[IndexArray]:
    """Return the numbers of rows, so many at a time as a block has; at least one portion, which may be empty."""
    return [rows[some] for some in block_slices(len(rows), n_columns)]


def farthest_distances(Z: FloatArray, closeness: FloatArray) -> FloatArray:
    """Return upper bounds of distances, by some prototypes c: d² ≤ |z|² - 2(zᵀc - |c|²/2), plus rounding."""
    squares = np.einsum("ij,ij->i", Z, Z)
    size = squares - 2.0 * closeness[-1].min()
    best = np.concatenate([best_score(Z[at : at + _BOUNDED], closeness) for at in range(0, max(1, len(Z)), _BOUNDED)])
    rounding = 8.0 * (Z.shape[1] + 4) * np.finfo(np.float64).eps * size
    return np.asarray(np.sqrt(np.maximum(squares - 2.0 * best, 0.0) + rounding))


def nearest_number(Z: FloatArray, closeness: FloatArray) -> IndexArray:
    """Return the number of the prototype nearest to each row, by the matrix that ``closeness_of`` returns."""
    if len(Z) <= _AT_ONCE:
        return np.asarray(np.argmax(Z @ closeness[:-1] + closeness[-1], axis=1))
    numbers, scores = np.empty(len(Z), dtype=np.intp), np.empty((_AT_ONCE, closeness.shape[1]))
    for start in range(0, len(Z), _AT_ONCE):
        part = Z[start : start + _AT_ONCE]
        some = np.matmul(part, closeness[:-1], out=scores[: len(part)])  # new memory each time would take longer
        some += closeness[-1]
        np.argmax(some, axis=1, out=numbers[start : start + _AT_ONCE])
    return numbers


def best_score(Z: FloatArray, closeness: FloatArray) -> FloatArray:
    """Return the largest entry of (z, 1)C for each row."""
    scores = Z @ closeness[:-1]
    scores += closeness[-1]
    return np.asarray(scores.max(axis=1))


def closeness_of(prototypes: FloatArray) -> FloatArray:
    """Return the matrix C (p + 1, m) for which (z, 1)C is largest for the prototype c nearest to z: zᵀc - |c|²/2."""
    return np.ascontiguousarray(np.vstack([prototypes.T, -0.5 * np.sum(prototypes**2, axis=1)]))


def _typical(rows: FloatArray) -> float:
    """Return the typical distance of different rows to the nearest other one; 1 of a single row.

    Rows that differ by less than _SAME in every column count as one.
    """
    rows = np.unique(np.round(rows / _SAME), axis=0) * _SAME
    if len(rows) < 2:
        return 1.0
    closeness = closeness_of(rows)
    scores = rows @ closeness[:-1] + closeness[-1]
    np.fill_diagonal(scores, -np.inf)
    steps = rows - rows[np.argmax(scores, axis=1)]
    return float(np.quantile(np.linalg.norm(steps, axis=1), _TYPICAL))
