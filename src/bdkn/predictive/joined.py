"""Predictions of several models, joined into one object; their rows can be in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bdkn.errors import InvalidParameterError
from bdkn.lazy import lazy
from bdkn.predictive.base import Index, Predictive
from bdkn.predictive.location_scale import Gaussian, StudentT
from bdkn.typing import FloatArray, IndexArray


@dataclass(frozen=True, eq=False, init=False)
class JoinedPredictive(Predictive):
    """Distributions of any kinds, one per row, taken from several predictives.

    Cross-validation makes it from the predictions of the models of all folds, which may be of different kinds.

    Parameters
    ----------
    parts : sequence of Predictive
        The predictions to be joined.
    part, row : array-like of int (n,)
        For each row, the index of its prediction in ``parts``, and the row in that prediction.

    Examples
    --------
    >>> from bdkn.predictive import Gaussian, JoinedPredictive, StudentT
    >>> dist = JoinedPredictive([Gaussian([0.0, 1.0], 1.0), StudentT(5.0, [2.0], 1.0)], [0, 1, 0], [0, 0, 1])
    >>> print(dist.mean())
    [0. 2. 1.]
    """

    parts: tuple[Predictive, ...]
    part: IndexArray
    row: IndexArray

    def __init__(self, parts: Sequence[Predictive], part: IndexArray, row: IndexArray) -> None:
        numbers = {"part": np.asarray(part, dtype=np.intp), "row": np.asarray(row, dtype=np.intp)}
        self.__dict__.update(parts=tuple(parts), **numbers)

    def __len__(self) -> int:
        return len(self.part)

    def __getitem__(self, rows: Index) -> Self:
        index: Any = [rows] if isinstance(rows, (int, np.integer)) else rows
        return type(self)(self.parts, self.part[index], self.row[index])

    @lazy
    def scale(self) -> FloatArray:
        """Scale of each row; for a mixture, the scale of its widest component."""
        return self._gather(lambda dist, _: dist.scale if dist.scale.ndim == 1 else dist.scale.max(axis=1))

    def mean(self) -> FloatArray:
        return self._gather(lambda dist, _: dist.mean())

    def var(self) -> FloatArray:
        return self._gather(lambda dist, _: dist.var())

    def std(self) -> FloatArray:
        return self._gather(lambda dist, _: dist.std())

    def median(self) -> FloatArray:
        return self._gather(lambda dist, _: dist.median())

    def interval(self, coverage: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper limits of each row's interval, by the method ``interval`` of its distribution."""
        ends = self._gather(lambda dist, _: np.stack(dist.interval(coverage), axis=1), (2,))
        return ends[:, 0], ends[:, 1]

    def _affine(self, scale: float, shift: float) -> Self:
        return type(self)([dist.affine(scale, shift) for dist in self.parts], self.part, self.row)

    def _gather(
        self, function: Callable[[Predictive, IndexArray], FloatArray], shape: tuple[int, ...] = ()
    ) -> FloatArray:
        """Apply a function to the distributions and row numbers of each part; return all values by row, (n, *shape)."""
        found = np.empty((len(self), *shape))
        for k, dist in enumerate(self.parts):
            rows = np.flatnonzero(self.part == k)
            if len(rows):
                found[rows] = function(dist[self.row[rows]], rows)
        return found

    def _logpdf(self, y: FloatArray) -> FloatArray:
        return self._gather(lambda dist, rows: dist._logpdf(y[rows]), y.shape[1:])

    def _cdf(self, y: FloatArray) -> FloatArray:
        return self._gather(lambda dist, rows: dist._cdf(y[rows]), y.shape[1:])

    def _ppf(self, q: FloatArray) -> FloatArray:
        return self._gather(lambda dist, _: np.broadcast_to(dist._ppf(q), (len(dist), len(q))), q.shape)

    def _crps(self, y: FloatArray) -> FloatArray:
        return self._gather(lambda dist, rows: dist._crps(y[rows]), y.shape[1:])

    def _absolute_mean(self, y: FloatArray) -> FloatArray | None:
        found = np.empty(y.shape)
        for k, dist in enumerate(self.parts):
            rows = np.flatnonzero(self.part == k)
            mean = dist[self.row[rows]]._absolute_mean(y[rows]) if len(rows) else y[rows]
            if mean is None:
                return None
            found[rows] = mean
        return found

    def _rvs(self, size: int, generator: np.random.Generator) -> FloatArray:
        return self._gather(lambda dist, _: dist._rvs(size, generator), (size,))


def join(parts: Sequence[Predictive], rows: Sequence[IndexArray]) -> Predictive:
    """Return the predictions in ``parts`` as one prediction of n rows, in the order of the row numbers ``rows``.

    The result is a ``Gaussian`` or a ``StudentT`` if all parts are, otherwise a ``JoinedPredictive``.

    Parameters
    ----------
    parts : sequence of Predictive
        The predictions to be joined.
    rows : sequence of array of int
        The row numbers of each part. Together the parts have each number from 0 to n - 1 once.

    Returns
    -------
    dist : Predictive
        The joined prediction.

    Examples
    --------
    >>> from bdkn.predictive import Gaussian, join
    >>> dist = join([Gaussian([0.0, 2.0], 1.0), Gaussian([1.0], 3.0)], [[0, 2], [1]])
    >>> print(dist.mean(), dist.std())
    [0. 1. 2.] [1. 3. 1.]
    """
    numbers = np.concatenate([np.asarray(part, dtype=np.intp) for part in rows])
    if not np.array_equal(np.sort(numbers), np.arange(sum(len(dist) for dist in parts))):
        raise InvalidParameterError(
            f"each row must be predicted once; got {sum(map(len, parts))} predictions with {len(np.unique(numbers))} "
            f"different row numbers"
        )
    order = np.argsort(numbers)
    kinds = {type(dist) for dist in parts}
    if kinds in ({Gaussian}, {StudentT}):
        kind = kinds.pop()
        names = kind.__match_args__
        return kind.unchecked(*[np.concatenate([getattr(dist, name) for dist in parts])[order] for name in names])
    part = np.repeat(np.arange(len(parts)), [len(dist) for dist in parts])
    row = np.concatenate([np.arange(len(dist)) for dist in parts])
    return JoinedPredictive(parts, part[order], row[order])
