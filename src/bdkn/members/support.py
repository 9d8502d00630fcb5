"""Where training rows lie: prototypes of them, and how far other rows are from these."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bdkn.members.columns import Columns, row_blocks, take
from bdkn.typing import FloatArray, IndexArray

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


@dataclass(frozen=True, eq=False)
class Support:
    """Prototypes (m, p) of training rows in standardized columns, and the typical distance between training rows.

    Up to 1024 different rows are all prototypes, and the typical distance is the 90 % quantile of the distances of rows
    to the nearest other one. Of more rows some are chosen at random, and then those that are farthest from them; the
    typical distance is then at least the largest distance of a training row to the nearest prototype. So the ``ratio``
    of a training row is at most 1 in every case, and 0 if it is a prototype.
    """

    columns: Columns
    prototypes: FloatArray
    typical: float

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
        table = self.columns.numbers(X)
        Z = self.columns.standardize(table, _JUMP * self.typical)
        step = Z - self.prototypes[nearest_number(Z, self._closeness)]
        return Nearest(table, Z, step, np.linalg.norm(step, axis=1) / self.typical)

    @cached_property
    def _closeness(self) -> FloatArray:
        return closeness_of(self.prototypes)

    def standardize(self, X: Any) -> FloatArray:
        """Return training rows in standardized columns."""
        return self.columns.standardize(self.columns.numbers(X), 0.0)

    def _distances(self, X: Any) -> FloatArray:
        """Return the distance of each row to the nearest prototype."""
        parts = (self.standardize(block) for block in row_blocks(X))
        steps = (Z - self.prototypes[nearest_number(Z, self._closeness)] for Z in parts)
        return np.concatenate([np.linalg.norm(step, axis=1) for step in steps])

    def _with_far_rows(self, X: Any) -> Support:
        """Return the support with the rows that are farthest from its prototypes as prototypes, too."""
        distances = self._distances(X)
        order = np.argsort(-distances, kind="stable")
        far = self.standardize(take(X, np.sort(order[:_FAR])))
        prototypes = np.unique(np.vstack([self.prototypes, far]), axis=0)
        rest = float(distances[order[_FAR:]].max(initial=0.0))
        return replace(self, prototypes=prototypes, typical=max(rest, _typical(prototypes)))


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
