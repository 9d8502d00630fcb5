"""How much predictions widen where members have no say: in gaps between training rows, and beyond them.

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

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from bdkn.errors import OutsideDataWarning, warn_user
from bdkn.inference import Combination, Forecast, Outside
from bdkn.inference.outside import directions
from bdkn.members.columns import row_blocks, take
from bdkn.members.held_out import HeldOut
from bdkn.members.support import Support
from bdkn.persistence.fields import NonNegative, floats, sizes, stored
from bdkn.typing import BoolArray, FloatArray, IndexArray

_EXCESS = 2.0
"""λ: disagreement in excess of that on held-out rows counts once near training rows and 1 + λ times far from them."""

_EXTREME = 10.0
"""γ: disagreement above γ times that on held-out rows says that members know nothing of a row; it counts γ times."""

_SUDDEN = 4.0
"""The inverse of the ratio from which the excess counts in full; it is zero on prototypes."""

_TYPICAL, _USUAL = 0.5, 0.9
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

_predicts_for_another: ContextVar[bool] = ContextVar("_predicts_for_another", default=False)


@contextmanager
def as_a_member() -> Iterator[None]:
    """Predict without warnings about rows far away: the regressor that combines the members issues one."""
    token = _predicts_for_another.set(True)
    try:
        yield
    finally:
        _predicts_for_another.reset(token)


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
        typical, usual = (_quantile(spread, held_out.counts, level) for level in (_TYPICAL, _USUAL))
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
        for block in row_blocks(X):
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
    if far >= _MANY_ROWS and far > _MANY_SHARE * len(ratio) and not _predicts_for_another.get():
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
    Z, first = np.unique(support.standardize(take(X, numbers[some])), axis=0, return_index=True)
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
