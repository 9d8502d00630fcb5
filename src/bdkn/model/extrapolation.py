"""Extra variance for extrapolation, by the distance from the training rows.

With d the distance to the nearest prototype in typical distances, the gate w = clip(d - 1, 0, 1) is zero for rows that
are no farther away than training rows are from each other. The variance that is added is

    u(x) = max{min(4d(x), 1) E(x),  w(x) (D(x) - q₅₀)₊,  c w(x) Σⱼ aⱼ² Bⱼ(x)²}
    E(x) = (1 + λ w(x)) (D(x) - q₉₀)₊ + γ (D(x) - γ q₉₀)₊

with D the variance among all fits of the members, q₅₀ and q₉₀ its quantiles on held-out rows, Bⱼ how far x lies beyond
the range of column j, and aⱼ the slopes of the prediction, which are positive unless all predictions are equal. So u is
zero on prototypes, and where both distance and disagreement are as small as on training rows. Farther and farther away
in any direction, √u grows at least linearly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing

from bdkn.blocks import CACHED_CELLS, row_slices, rows_within
from bdkn.data.rows import as_frame, take_rows
from bdkn.data.scaling import LIMIT, ROUNDINGS
from bdkn.errors import OutsideDataWarning, warn_user, warns_of_extrapolation
from bdkn.inference import Outside
from bdkn.inference.combination import directions
from bdkn.lazy import lazy
from bdkn.storage.fields import NonNegative, Positive, floats, must, sizes, stored
from bdkn.typing import BoolArray, FloatArray, IndexArray

_MAX_PROTOTYPES, _FAR_PROTOTYPES = 1024, 256
"""Maximum number of prototypes (representative training rows); in large tables, 256 of them are the farthest rows."""

_SCALE_ROWS = 4000
"""Maximum number of rows from which the scales of the columns are computed."""

_TYPICAL_LEVEL = 0.9
"""Quantile level: the typical distance is this quantile of training rows' distances to their nearest other row."""

_EQUAL_WITHIN = 1e-4
"""Rows that differ by less than this in each standardized column are treated as equal."""

_JUMP = 2.0
"""Distance, in typical distances, that is added for a new value in a column that was constant in training."""

_BLOCK_ROWS_ALL, _BLOCK_ROWS_FIRST = 128, 512
"""Block sizes, in rows, when distances to all prototypes are computed, and to a few of them."""

_FIRST_PROTOTYPES = (64, 256)
"""Approximate numbers of prototypes to compare a row with first; if one is near enough, the others are skipped."""

_TRIMMED = 0.01
"""Fraction of the values of a column that are clipped on each side before its scale is computed."""

_ROUNDING = 2e-6
"""Relative difference from the value of a constant column up to which it is a rounding error of single precision."""


def table_blocks(X: Any) -> Iterator[tuple[slice, Any]]:
    """Yield slice and rows of consecutive blocks of a table of any type, small enough for the cache."""
    n, step = X.shape[0], rows_within(CACHED_CELLS, X.shape[1])
    for start in range(0, max(1, n), step):
        rows = slice(start, start + step)
        yield rows, X if n <= step else take_rows(X, rows)


@stored
@dataclass(frozen=True, eq=False)
class Columns:
    """Center, scale and range (p,) of the columns of the training table, to standardize rows and measure distances.

    In contrast to a ``Standardizer``, the table may have missing numbers, which are replaced by the center, and columns
    that are not numeric. Their values become 0 if they occur in training, else 1. ``known`` has the training values of
    each such column, and None for each numeric column; it is empty if all columns are numeric.
    """

    center: Annotated[FloatArray, floats("p")]
    scale: Annotated[FloatArray, floats("p", low=0.0)]
    low: Annotated[FloatArray, floats("p")]
    high: Annotated[FloatArray, floats("p")]
    known: tuple[tuple[str, ...] | None, ...] = ()

    def check(self) -> None:
        """Raise an error unless ``low`` ≤ ``high``, and ``known`` is empty or has an entry for each column."""
        must(bool((self.low <= self.high).all()), "low must not exceed high")
        must(len(self.known) in (0, len(self.low)), "known must have an entry for each column, or none")

    @classmethod
    def fit(cls, X: Any, some: IndexArray) -> Columns:
        """Compute ranges from all rows of X, and centers and scales from the rows with the numbers ``some``."""
        known = _known_values(X)
        low, high = np.full((2, X.shape[1]), np.nan)
        for _, block in table_blocks(X):
            table = _numbers(block, known)
            low = np.fmin(low, np.fmin.reduce(table, axis=0))
            high = np.fmax(high, np.fmax.reduce(table, axis=0))
        low, high = (np.where(np.isnan(end), 0.0, end) for end in (low, high))  # nan if all numbers are missing
        is_single = isinstance(X, np.ndarray) and X.dtype == np.float32
        precision = float(np.finfo(np.float32 if is_single else np.float64).eps)
        low = np.where(high - low <= ROUNDINGS * precision * np.maximum(np.abs(low), np.abs(high)), high, low)
        part = np.unique(_numbers(take_rows(X, some), known), axis=0)
        center = np.where(low == high, low, _by_column(np.median, part))
        scale = _by_column(_trimmed_std, part)
        scale = np.where(scale > 0.0, scale, high / 2.0 - low / 2.0)  # if only the rows ``some`` have a single value
        peak = np.maximum(np.abs(low), np.abs(high))
        scale = np.where(low < high, scale, np.where(peak > 0.0, peak, 1.0))
        return cls(center, scale, low, high, known)

    @property
    def constant(self) -> BoolArray:
        """Mask (p,) of the columns that had a single value in training."""
        return np.asarray(self.low == self.high)

    def numbers(self, X: Any) -> FloatArray:
        """Return the table as numbers (n, p), with missing numbers replaced by the centers."""
        table = _numbers(X, self.known)
        missing = np.isnan(table)
        return np.where(missing, self.center, table) if missing.any() else table

    def standardize(self, table: FloatArray, jump: float) -> FloatArray:
        """Return (x - center)/scale; new values in constant columns are moved away from zero by ``jump``."""
        with np.errstate(over="ignore"):
            Z = np.clip((table - self.center) / self.scale, -LIMIT, LIMIT)
        constant = self.constant
        if constant.any():
            changed = constant & (np.abs(Z) > _ROUNDING)
            Z = np.where(changed, Z + np.copysign(jump, Z), np.where(constant, 0.0, Z))
        return Z

    def beyond(self, table: FloatArray) -> FloatArray:
        """Return how far (n, p) each number is beyond the training range of its column, in scales of the column."""
        with np.errstate(over="ignore"):
            beyond = np.clip(np.maximum(self.low - table, table - self.high) / self.scale, 0.0, LIMIT)
        constant = self.constant
        return np.where(constant & (beyond <= _ROUNDING), 0.0, beyond) if constant.any() else beyond


def _known_values(X: Any) -> tuple[tuple[str, ...] | None, ...]:
    """Return the distinct values of each column that is not numeric; an empty tuple if all columns are numeric."""
    if issparse(X) or (isinstance(X, np.ndarray) and X.dtype.kind in "fiub"):
        return ()
    columns = [np.asarray(_safe_indexing(X, j, axis=1)) for j in range(X.shape[1])]
    if all(column.dtype.kind in "fiub" for column in columns):
        return ()
    return tuple(None if _is_numeric(column) else tuple(np.unique(column.astype(str)).tolist()) for column in columns)


def _is_numeric(column: Any) -> bool:
    if column.dtype.kind != "O":
        return column.dtype.kind in "fiubmM"
    try:
        column.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _numbers(X: Any, known: tuple[tuple[str, ...] | None, ...]) -> FloatArray:
    """Return the table as floats (n, p): missing values are nan; a text is 0 if ``known`` has it, else 1."""
    if not known:
        return np.asarray(X.toarray() if issparse(X) else X, dtype=np.float64)
    columns = []
    for j, values in enumerate(known):
        column: Any = np.asarray(_safe_indexing(X, j, axis=1))
        if values is not None:
            columns.append(np.asarray(~np.isin(column.astype(str), values), dtype=np.float64))
        elif column.dtype.kind in "mM":
            columns.append(np.where(np.isnat(column), np.nan, column.astype(np.int64)))
        else:
            columns.append(np.asarray(column, dtype=np.float64))
    return np.column_stack(columns)


def _by_column(function: Callable[[FloatArray], float], table: FloatArray) -> FloatArray:
    """Return ``function`` of the non-missing numbers of each column; 0 for a column without numbers."""
    known = ~np.isnan(table)
    return np.array([function(column[at]) if at.any() else 0.0 for column, at in zip(table.T, known.T, strict=True)])


def _trimmed_std(column: FloatArray) -> float:
    """Return the standard deviation of a column after clipping its tails; without clipping, if that is zero."""
    peak = float(np.abs(column).max()) or 1.0
    unit = column / peak
    ends = np.quantile(unit, (_TRIMMED, 1.0 - _TRIMMED))
    return peak * float(np.clip(unit, *ends).std() or unit.std())


@stored
@dataclass(frozen=True, eq=False)
class Support:
    """Summary of where training rows lie: prototypes (m, p), in standardized columns, and the typical distance.

    Up to 1024 different rows are all prototypes, and the typical distance is the 90 % quantile of the distances of rows
    to the nearest other row. If there are more, prototypes are random rows and the rows farthest from these; the
    typical distance is then at least the largest distance of a training row to the nearest prototype. So the ``ratio``
    of a training row is at most 1 in every case, and 0 if it is a prototype.
    """

    columns: Annotated[Columns, sizes(p="low.size")]
    prototypes: Annotated[FloatArray, floats("m", "p")]
    typical: Positive

    @classmethod
    def fit(cls, X: Any) -> Support:
        """Compute prototypes and typical distance from the training rows X, a table of any type."""
        n, generator = X.shape[0], np.random.default_rng(0)
        sample = np.sort(generator.permutation(n)[:_SCALE_ROWS])
        columns = Columns.fit(X, sample)
        different = np.unique(columns.standardize(columns.numbers(take_rows(X, sample)), 0.0), axis=0)
        if n <= _SCALE_ROWS and len(different) <= _MAX_PROTOTYPES:
            return cls(columns, different, _typical(different))
        chosen = different[generator.permutation(len(different))[: _MAX_PROTOTYPES - _FAR_PROTOTYPES]]
        first = cls(columns, chosen, 0.0)
        rows, distances = first._farthest(X, _FAR_PROTOTYPES + 1)
        far = first.standardize(take_rows(X, np.sort(rows[:-1])))
        prototypes = np.unique(np.vstack([chosen, far]), axis=0)
        return cls(columns, prototypes, max(float(distances[-1]), _typical(prototypes)))

    def place(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Return rows to predict as two arrays (n, p): in the units of the columns, and standardized."""
        table = self.columns.numbers(X)
        return table, self.columns.standardize(table, _JUMP * self.typical)

    def nearest(self, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the differences (n, p) of standardized rows to the nearest prototype, and the ``ratio`` (n,)."""
        step = self._step(Z)
        return step, np.linalg.norm(step, axis=1) / self.typical

    def ratio(self, Z: FloatArray, exact: BoolArray) -> FloatArray:
        """Return the distances of standardized rows (n, p) to the nearest prototype, over the typical distance.

        Where ``exact`` (n,) is False, a faster upper bound is returned if it shows that the result is at most 1.
        """
        bounds = np.full(len(Z), np.inf)
        for similarity in self._some_similarities:
            unsure = np.flatnonzero(~(exact | (bounds <= 1.0)))
            bounds[unsure] = distance_bounds(Z[unsure], similarity) / self.typical
        unsure = np.flatnonzero(exact | ~(bounds <= 1.0))
        bounds[unsure] = np.linalg.norm(self._step(Z[unsure]), axis=1) / self.typical
        return bounds

    def standardize(self, X: Any) -> FloatArray:
        """Return the training rows X as an array of standardized numbers."""
        return self.columns.standardize(self.columns.numbers(X), 0.0)

    def _step(self, Z: FloatArray) -> FloatArray:
        """Return the differences (n, p) between standardized rows and the prototype nearest to each row."""
        return np.asarray(Z - self.prototypes[nearest_number(Z, self._similarity)])

    @lazy
    def _similarity(self) -> FloatArray:
        return similarity_matrix(self.prototypes)

    @lazy
    def _some_similarities(self) -> list[FloatArray]:
        """Similarity matrices of subsets of prototypes, for fast distance bounds; empty if prototypes are few."""
        steps = [len(self.prototypes) // some for some in _FIRST_PROTOTYPES]
        return [similarity_matrix(self.prototypes[::step]) for step in steps if step > 1]

    def _farthest(self, X: Any, count: int) -> tuple[IndexArray, FloatArray]:
        """Return row numbers and distances of the ``count`` rows farthest from the prototypes, the farthest first.

        Bounds by a few prototypes exclude most rows. The others are compared with all prototypes.
        """

        def of_rows(rows: IndexArray, compute: Callable[[FloatArray], FloatArray]) -> FloatArray:
            parts = row_slices(len(rows), rows_within(CACHED_CELLS, X.shape[1]))
            return np.concatenate([compute(self.standardize(take_rows(X, rows[part]))) for part in parts])

        def distances_of(rows: IndexArray) -> FloatArray:
            return of_rows(rows, lambda Z: np.linalg.norm(self._step(Z), axis=1))

        rows = np.arange(X.shape[0])
        if not self._some_similarities:
            distances = distances_of(rows)
        else:
            few, *more = self._some_similarities
            bounds = np.concatenate([distance_bounds(self.standardize(block), few) for _, block in table_blocks(X)])
            first = np.sort(np.argpartition(-bounds, 2 * count)[: 2 * count])
            distances = distances_of(first)
            least = np.partition(distances, -count)[-count]
            bounds[first] = -1.0
            rest = np.flatnonzero(bounds >= least)
            for similarity in more:
                rest = rest[of_rows(rest, lambda Z, of=similarity: distance_bounds(Z, of)) >= least]  # type: ignore[misc]
            rows, distances = np.concatenate([first, rest]), np.concatenate([distances, distances_of(rest)])
        order = np.lexsort((rows, -distances))[:count]  # of equal distances the first row first
        return rows[order], distances[order]


def similarity_matrix(prototypes: FloatArray) -> FloatArray:
    """Return a matrix C (p + 1, m) to find the prototype c nearest to a row z: largest (z, 1)C = zᵀc - |c|²/2."""
    return np.ascontiguousarray(np.vstack([prototypes.T, -0.5 * np.sum(prototypes**2, axis=1)]))


def distance_bounds(Z: FloatArray, similarity: FloatArray) -> FloatArray:
    """Return upper bounds of the rows' distances to the nearest prototype, from the matrix of some prototypes."""
    squares = np.einsum("ij,ij->i", Z, Z)
    best = np.empty(len(Z))
    for start in range(0, len(Z), _BLOCK_ROWS_FIRST):
        scores = Z[start : start + _BLOCK_ROWS_FIRST] @ similarity[:-1]
        scores += similarity[-1]
        best[start : start + _BLOCK_ROWS_FIRST] = scores.max(axis=1)
    rounding = 8.0 * (Z.shape[1] + 4) * np.finfo(np.float64).eps * (squares - 2.0 * similarity[-1].min())
    return np.asarray(np.sqrt(np.maximum(squares - 2.0 * best, 0.0) + rounding))


def nearest_number(Z: FloatArray, similarity: FloatArray) -> IndexArray:
    """Return the index of the prototype nearest to each row of Z, given the matrix from ``similarity_matrix``."""
    numbers, scores = np.empty(len(Z), dtype=np.intp), np.empty((min(len(Z), _BLOCK_ROWS_ALL), similarity.shape[1]))
    for start in range(0, len(Z), _BLOCK_ROWS_ALL):
        part = Z[start : start + _BLOCK_ROWS_ALL]
        some = np.matmul(part, similarity[:-1], out=scores[: len(part)])  # new memory each time would take longer
        some += similarity[-1]
        np.argmax(some, axis=1, out=numbers[start : start + len(part)])
    return numbers


def _typical(rows: FloatArray) -> float:
    """Return the 90 % quantile of the distances of rows to their nearest other row; 1 if there is one row."""
    rows = np.unique(np.round(rows / _EQUAL_WITHIN), axis=0) * _EQUAL_WITHIN
    if len(rows) < 2:
        return 1.0
    similarity = similarity_matrix(rows)
    scores = rows @ similarity[:-1] + similarity[-1]
    np.fill_diagonal(scores, -np.inf)
    steps = rows - rows[np.argmax(scores, axis=1)]
    return float(np.quantile(np.linalg.norm(steps, axis=1), _TYPICAL_LEVEL))


_EXCESS = 2.0
"""λ: far from training rows, disagreement above its usual value enters the extra variance 1 + λ times, else once."""

_EXTREME = 10.0
"""γ: where disagreement of members exceeds γ times its usual value, γ times the excess is added to the variance."""

_EXCESS_RATE = 4.0
"""Extra variance by disagreement is multiplied by min(4d, 1), with d the distance from prototypes."""

_TYPICAL_DISAGREEMENT, _USUAL_DISAGREEMENT = 0.5, 0.9
"""Quantile levels: ``typical`` and ``usual`` are these quantiles of the members' disagreement on held-out rows."""

_RANGE_FACTOR = 0.1
"""c: extra variance outside the range of a column is c times (slope of the prediction × distance from the range)²."""

_MIN_SLOPE = 0.15
"""Lower limit of the slope of predictions along a column, as a fraction of the largest slope."""

_ROW_PAIRS, _UPDATES = 4000, 200
"""Number of pairs of rows to which slopes of predictions are fitted, and number of iterations of the fit."""

_WARNING_PROTOTYPES = 10
"""Minimum number of prototypes for a warning about far rows; with fewer, nearly all rows are far."""

_WARNING_ROWS, _WARNING_SHARE = 20, 0.25
"""Minimum number and fraction of rows far from the training rows for a warning; both are required."""


@stored
@dataclass(frozen=True, eq=False)
class Widening:
    """Extra variance of rows far from the training rows.

    ``slopes`` (p,) are changes of the prediction, in scaled units of the target, per unit of each standardized column.
    ``typical`` and ``usual`` are the 50 % and 90 % quantiles of the variance among fits, over held-out rows.
    """

    support: Annotated[Support, sizes(p="columns.low.size")]
    slopes: Annotated[FloatArray, floats("p", low=0.0)]
    typical: NonNegative
    usual: NonNegative

    @classmethod
    def fit(
        cls,
        X: Any,
        numbers: IndexArray | None,
        predictions: FloatArray,
        spread: FloatArray,
        counts: FloatArray | None,
    ) -> Widening:
        """Fit the widening to the training rows X, a table of any type.

        ``numbers`` are the held-out rows (None: all). ``predictions`` are their predicted means, and ``spread`` is the
        variance among the fits of the members.
        """
        support = Support.fit(X)
        slopes = _slopes(support, X, np.arange(X.shape[0]) if numbers is None else numbers, predictions)
        return cls(support, slopes, 0.0, 0.0).with_spread(spread, counts)

    def with_spread(self, spread: FloatArray, counts: FloatArray | None) -> Widening:
        """Return a copy whose ``typical`` and ``usual`` are quantiles of ``spread``, the variance among fits."""
        order = np.argsort(spread)
        total = np.cumsum(np.ones(len(order)) if counts is None else counts[order])
        levels = np.array([_TYPICAL_DISAGREEMENT, _USUAL_DISAGREEMENT]) * total[-1] * (1 - 1e-12)
        typical, usual = spread[order[np.searchsorted(total, levels)]]
        return replace(self, typical=float(typical), usual=float(usual))

    def outside(self, X: Any, spread: FloatArray, *, joint: bool = False) -> Outside:
        """Return the extra variance of rows to predict; ``spread`` is their variance among fits. Warn of far rows."""
        support, n = self.support, X.shape[0]
        ratio, change, paths = np.empty(n), np.zeros(n), []
        for rows, block in table_blocks(X):
            table, Z = support.place(block)
            ratio[rows] = support.ratio(Z, np.greater(spread[rows], self.usual))
            far = np.flatnonzero(ratio[rows] > 1.0)
            change[rows][far] = np.square(support.columns.beyond(table[far]) * self.slopes).sum(axis=1)
            if joint:
                paths.append(directions(Z))
        n_far = int(np.count_nonzero(ratio > 1.0))
        is_many = n_far >= _WARNING_ROWS and n_far > _WARNING_SHARE * n
        if is_many and len(support.prototypes) >= _WARNING_PROTOTYPES and warns_of_extrapolation():
            warn_user(
                f"{n_far} of {n} rows are farther from all training rows than those are from each other, so their "
                "predictions are extrapolations with wide intervals; support(X) shows which rows and why",
                OutsideDataWarning,
            )
        w, D = gate(ratio), spread
        excess = (1.0 + _EXCESS * w) * (D - self.usual) + _EXTREME * np.maximum(D - _EXTREME * self.usual, 0.0)
        excess *= np.minimum(_EXCESS_RATE * ratio, 1.0)
        variance = np.maximum(np.maximum(excess, w * (D - self.typical)), _RANGE_FACTOR * w * change)
        return Outside(variance, np.concatenate(paths) if joint else None)


def gate(ratio: FloatArray) -> FloatArray:
    """Return the factor of extra variance for distance ratios d: 0 up to d = 1, rising linearly to 1 at d = 2."""
    return np.clip(ratio - 1.0, 0.0, 1.0)


def _slopes(support: Support, X: Any, numbers: IndexArray, predictions: FloatArray) -> FloatArray:
    """Return the root-mean-square slopes (p,) of predictions along the standardized columns, with a minimum.

    Slopes are fitted by least squares over pairs of rows: (fᵢ - fₖ)² ≈ b + Σⱼ aⱼ² (zᵢⱼ - zₖⱼ)², with predictions f,
    standardized rows z, slopes a and a constant b ≥ 0. Equal rows count once; the pairs farthest apart are not used.
    """
    generator = np.random.default_rng(0)
    some = np.sort(generator.permutation(len(numbers))[:_ROW_PAIRS])
    Z, first = np.unique(support.standardize(take_rows(X, numbers[some])), axis=0, return_index=True)
    i, k = generator.integers(0, len(Z), (2, _ROW_PAIRS))
    steps, changes = (Z[i] - Z[k]) ** 2, (predictions[some[first[i]]] - predictions[some[first[k]]]) ** 2
    length = steps.sum(axis=1)
    near = length <= np.quantile(length, 0.95)
    A, b = np.column_stack([steps[near], np.ones(np.count_nonzero(near))]), changes[near]

    # Multiplicative updates, each of which lowers the squared error (Lee and Seung, 2001); columns of zeros stay 0
    tiny = np.finfo(np.float64).tiny
    unit = np.maximum(A.mean(axis=0), tiny)
    products, aims = (A / unit).T @ (A / unit), (A / unit).T @ b
    x = np.where(aims > 0.0, 1.0, 0.0)
    for _ in range(_UPDATES):
        x = x * aims / np.maximum(products @ x, tiny)
    slopes = np.sqrt(x / unit)[:-1]
    return np.asarray(np.maximum(slopes, _MIN_SLOPE * slopes.max()))


@dataclass(frozen=True, eq=False)
class SupportReport:
    """Distance of each row from the training rows. Made by the method ``support`` of a regressor.

    Parameters
    ----------
    ratio : array (n,)
        Distance to the nearest training row, over the distance that is typical between training rows.
    status : array (n,) of str
        "inside": ratio of at most 1; "gap": within the range of every column; "outside": beyond the range of a column.
    column : array (n,) of str or int
        Name, or number from 0, of the column that is responsible: the one farthest beyond its range or, in a gap, the
        one that differs most from the nearest training row. None for rows inside.
    inside : array (n,)
        1 with a ratio of at most 1, falling to 0 with a ratio of 2 and more.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import BayesianStackingRegressor
    >>> X = np.linspace(-1.0, 1.0, 60)[:, None]
    >>> model = BayesianStackingRegressor([("line", lambda X: X[:, 0])], random_state=0).fit(X, X[:, 0] ** 3)
    >>> report = model.support([[0.5], [3.0]])
    >>> report.status.tolist(), report.column.tolist(), report.inside.tolist()
    (['inside', 'outside'], [None, 0], [1.0, 0.0])
    """

    ratio: FloatArray
    status: NDArray[np.str_]
    column: NDArray[np.object_]
    inside: FloatArray

    @classmethod
    def of(cls, support: Support, X: Any, names: Any = None) -> SupportReport:
        """Return the report about rows of a table of any type, with the ``names`` of its columns, if it has any."""
        parts = []
        for _, block in table_blocks(X):
            table, Z = support.place(block)
            step, ratio = support.nearest(Z)
            beyond = support.columns.beyond(table)
            is_beyond = np.asarray(beyond.any(axis=1))
            status = np.where(ratio <= 1.0, "inside", np.where(is_beyond, "outside", "gap"))
            parts.append((ratio, status, np.argmax(np.where(is_beyond[:, None], beyond, np.abs(step)), axis=1)))
        ratio, status, number = (np.concatenate(part) for part in zip(*parts, strict=True))
        column = (number if names is None else np.asarray(names, dtype=object)[number]).astype(object)
        column[status == "inside"] = None
        return cls(ratio, status, column, 1.0 - gate(ratio))

    def to_frame(self) -> Any:
        """Return the report as a pandas data frame with the columns ratio, status, column and inside."""
        return as_frame(vars(self))

    def __len__(self) -> int:
        return len(self.ratio)
