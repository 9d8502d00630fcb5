"""Extra variance for extrapolation, by the distance from the training rows.

With d the distance to the nearest prototype in typical distances, the gate w = clip(d - 1, 0, 1) is closed on rows that
are no farther than training rows are from each other. The variance that is added is

    u(x) = max{min(4d(x), 1) E(x),  w(x) (D(x) - q₅₀)₊,  c w(x) Σⱼ aⱼ² Bⱼ(x)²}
    E(x) = (1 + λ w(x)) (D(x) - q₉₀)₊ + γ (D(x) - γ q₉₀)₊

with D the variance among all fits of the members, q₅₀ and q₉₀ its quantiles on held-out rows, Bⱼ how far x lies beyond
the range of column j, and aⱼ the slopes of the prediction, none of which is zero unless all predictions are equal. So u
is zero on prototypes and where neither distance nor disagreement is larger than inside, and √u grows at least linearly
along every ray.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from bdkn.blocks import CACHED_CELLS, row_slices, rows_within
from bdkn.data.rows import table_blocks, take_rows
from bdkn.data.scaling import Columns
from bdkn.ensemble.held_out import HeldOut
from bdkn.errors import OutsideDataWarning, warn_user, warns_of_extrapolation
from bdkn.inference import Combination, Forecast, Outside
from bdkn.inference.forecast import directions
from bdkn.lazy import lazy
from bdkn.storage.fields import NonNegative, Positive, floats, sizes, stored
from bdkn.typing import BoolArray, FloatArray, IndexArray

_MOST = 1024
"""The largest number of prototypes."""

_FAR = 256
"""Of many rows, how many of the prototypes are those that are farthest from the others."""

_FOR_SCALES = 4000
"""Rows from which the scales of the columns are computed."""

_TYPICAL_DISTANCE = 0.9
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
        different = np.unique(bare.standardize(take_rows(X, some)), axis=0)
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
        steps = [self._step(self.standardize(take_rows(X, some))) for some in _portions(rows, X.shape[1])]
        return np.concatenate([np.linalg.norm(step, axis=1) for step in steps])

    def _reach(self, X: Any, rows: IndexArray, closeness: FloatArray) -> FloatArray:
        """Return upper bounds of the distances of some rows, by some prototypes."""
        parts = (self.standardize(take_rows(X, some)) for some in _portions(rows, X.shape[1]))
        return np.concatenate([farthest_distances(part, closeness) for part in parts])

    def _farthest(self, X: Any, count: int) -> tuple[IndexArray, FloatArray]:
        """Return the numbers of the rows farthest from the prototypes, and their distances, the largest first.

        Bounds by a few prototypes leave few rows that can be among them. They are compared with all prototypes.
        """
        if not self._some_closeness:
            rows = np.arange(X.shape[0])
            return _largest(rows, self._distances(X, rows), count)
        few, *more = self._some_closeness
        bounds = np.concatenate([farthest_distances(self.standardize(block), few) for block in table_blocks(X)])
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
        far = self.standardize(take_rows(X, np.sort(rows[:_FAR])))
        prototypes = np.unique(np.vstack([self.prototypes, far]), axis=0)
        return replace(self, prototypes=prototypes, typical=max(float(distances[_FAR]), _typical(prototypes)))


def _largest(rows: IndexArray, distances: FloatArray, count: int) -> tuple[IndexArray, FloatArray]:
    """Return the rows of the largest distances, of equal ones the first row first."""
    order = np.lexsort((rows, -distances))[:count]
    return rows[order], distances[order]


def _portions(rows: IndexArray, n_columns: int) -> list[IndexArray]:
    """Return the numbers of rows in blocks that fit into the cache; at least one, which may be empty."""
    return [rows[some] for some in row_slices(len(rows), rows_within(CACHED_CELLS, n_columns))]


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
    return float(np.quantile(np.linalg.norm(steps, axis=1), _TYPICAL_DISTANCE))


_EXCESS = 2.0
"""λ: disagreement in excess of that on held-out rows counts once near training rows and 1 + λ times far from them."""

_EXTREME = 10.0
"""γ: disagreement above γ times that on held-out rows says that members know nothing of a row; it counts γ times."""

_SUDDEN = 4.0
"""The inverse of the ratio from which the excess counts in full; it is zero on prototypes."""

_TYPICAL_DISAGREEMENT, _USUAL = 0.5, 0.9
"""Levels of the quantiles of the disagreement on held-out rows."""

_BEYOND = 0.1
"""c, the factor of the squared change that slopes as inside would give beyond the range of the columns."""

_LEAST_SLOPE = 0.15
"""The smallest slope, as a share of the largest."""

_ROW_PAIRS = 4000
"""Pairs of rows from which slopes are learned."""

_UPDATES = 200
"""Updates of the squared slopes."""

_FEW_PROTOTYPES = 10
"""With fewer training rows than this, nearly all rows are far from them, and no warning says so."""

_MANY_ROWS, _MANY_SHARE = 20, 0.25
"""Rows, and share of the rows, that must lie outside for a warning."""


@stored
@dataclass(frozen=True, eq=False)
class Widening:
    """The variance that rows far from the training rows have in addition.

    ``slopes`` (p,) are changes of the prediction, in scaled units of the target, per unit of each standardized column.
    ``typical`` and ``usual`` are the variances among fits that half and nine tenths of the held-out rows do not exceed.
    """

    support: Annotated[Support, sizes(p="columns.low.size")]
    slopes: Annotated[FloatArray, floats("p", low=0.0)]
    typical: NonNegative
    usual: NonNegative

    @classmethod
    def fit(cls, X: Any, numbers: IndexArray | None, held_out: HeldOut, combination: Combination) -> Widening:
        """Return the widening for members whose held-out predictions are of the rows ``numbers`` of X (None: all)."""
        support = Support.fit(X)
        targets = combination.predictive(held_out.forecast()).loc
        slopes = _slopes(support, X, np.arange(X.shape[0]) if numbers is None else numbers, targets)
        return cls(support, slopes, 0.0, 0.0).for_members(held_out, combination)

    def for_members(self, held_out: HeldOut, combination: Combination) -> Widening:
        """Return the same for other members, by their held-out predictions."""
        spread = combination.spread(replace(held_out.forecast(), fold_variance=held_out.fold_variance))
        typical, usual = (_quantile(spread, held_out.counts, level) for level in (_TYPICAL_DISAGREEMENT, _USUAL))
        return replace(self, typical=typical, usual=usual)

    def widen(self, X: Any, forecast: Forecast, combination: Combination, *, joint: bool = False) -> Forecast:
        """Return the forecast of rows with the variance outside of the training rows; warn if many are far away."""
        D = combination.spread(forecast)
        excessive = np.greater(D, self.usual)
        ratio, change, paths = self._far(X, excessive, joint=joint)
        if len(self.support.prototypes) >= _FEW_PROTOTYPES:
            _warn_if_many(ratio)
        w = gate(ratio)
        excess = (1.0 + _EXCESS * w) * (D - self.usual) + _EXTREME * np.maximum(D - _EXTREME * self.usual, 0.0)
        excess *= np.minimum(_SUDDEN * ratio, 1.0)
        variance = np.maximum(np.maximum(excess, w * (D - self.typical)), _BEYOND * w * change)
        return replace(forecast, outside=Outside(variance, paths if joint else None))

    def _far(self, X: Any, excess: BoolArray, *, joint: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the ratio of rows, Σⱼ aⱼ²Bⱼ² and, for joint predictions, directions.

        Ratios up to 1 matter for rows with an ``excess`` of disagreement only; of the others they are bounds.
        """
        parts, start = [], 0
        for block in table_blocks(X):
            table, Z = self.support.place(block)
            ratio = self.support.ratio(Z, excess[start : start + len(Z)])
            parts.append((ratio, self._change(table, ratio), directions(Z) if joint else np.empty((0, 0))))
            start += len(Z)
        ratio, change, paths = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        return ratio, change, paths

    def _change(self, table: FloatArray, ratio: FloatArray) -> FloatArray:
        """Return Σⱼ aⱼ²Bⱼ² of rows; it is not needed of those inside, and 0."""
        change, far = np.zeros(len(ratio)), np.flatnonzero(ratio > 1.0)
        change[far] = np.square(self.support.columns.beyond(table[far]) * self.slopes).sum(axis=1)
        return change


def gate(ratio: FloatArray) -> FloatArray:
    """Return w(x): 0 for rows no farther from the nearest prototype than is typical, 1 beyond twice that distance."""
    return np.clip(ratio - 1.0, 0.0, 1.0)


def _warn_if_many(ratio: FloatArray) -> None:
    far = int(np.count_nonzero(ratio > 1.0))
    if far >= _MANY_ROWS and far > _MANY_SHARE * len(ratio) and warns_of_extrapolation():
        warn_user(
            f"{far} of {len(ratio)} rows are farther from all training rows than those are from each other, so their "
            "predictions are extrapolations with wide intervals; support(X) tells which rows and why",
            OutsideDataWarning,
        )


def _slopes(support: Support, X: Any, numbers: IndexArray, targets: FloatArray) -> FloatArray:
    """Return the rms slope of the targets along each standardized column, none below a share of the largest.

    They solve (fᵢ - fₖ)² ≈ b + Σⱼ aⱼ² (zᵢⱼ - zₖⱼ)² by least squares with a², b ≥ 0, over pairs of rows. Rows that are
    equal count once; pairs with a row of wild values, which are far apart, are left out.
    """
    generator = np.random.default_rng(0)
    some = np.sort(generator.permutation(len(numbers))[:_ROW_PAIRS])
    Z, first = np.unique(support.standardize(take_rows(X, numbers[some])), axis=0, return_index=True)
    i, k = generator.integers(0, len(Z), (2, _ROW_PAIRS))
    steps, changes = (Z[i] - Z[k]) ** 2, (targets[some[first[i]]] - targets[some[first[k]]]) ** 2
    length = steps.sum(axis=1)
    near = length <= np.quantile(length, 0.95)
    slopes = np.sqrt(_positive_solution(np.column_stack([steps[near], np.ones(np.count_nonzero(near))]), changes[near]))
    slopes = slopes[:-1]
    return np.asarray(np.maximum(slopes, _LEAST_SLOPE * slopes.max()))


def _quantile(numbers: FloatArray, counts: FloatArray | None, level: float) -> float:
    """Return the smallest number that a share ``level`` of all, each counted so many times, does not exceed."""
    order = np.argsort(numbers)
    total = np.cumsum(np.ones(len(order)) if counts is None else counts[order])
    return float(numbers[order[np.searchsorted(total, level * total[-1] * (1 - 1e-12))]])


def _positive_solution(A: FloatArray, b: FloatArray) -> FloatArray:
    """Return x > 0 with Ax near b in least squares, by multiplicative updates; A and b are not negative.

    Each update lowers the squared error (Lee and Seung, 2001). Columns of zeros have the solution 0.
    """
    unit = np.maximum(A.mean(axis=0), np.finfo(np.float64).tiny)
    products, aims = (A / unit).T @ (A / unit), (A / unit).T @ b
    x = np.where(aims > 0.0, 1.0, 0.0)
    for _ in range(_UPDATES):
        x = x * aims / np.maximum(products @ x, np.finfo(np.float64).tiny)
    return np.asarray(x / unit)
