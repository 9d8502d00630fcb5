"""Mean targets of the values of a category, computed for each training row from other rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from bdkn.typing import FloatArray, IndexArray

FOLDS = 5
"""Number of parts of the training rows; what a row receives is computed from the other parts."""

_LARGEST_RATIO = 1000.0
"""The variance within values over that between values, if the latter cannot be told from zero."""


@dataclass(frozen=True, eq=False)
class TargetStatistics:
    """For each of k values, the mean score (k,) of its rows, shrunk towards that of all rows, and the rows (k,).

    ``differ`` says whether means of values differ by more than chance explains.
    """

    mean: FloatArray
    count: FloatArray
    overall: float
    differ: bool = True

    @classmethod
    def of(cls, codes: IndexArray, scores: FloatArray, counts: FloatArray, n_values: int) -> TargetStatistics:
        """Return the statistics of rows with values ``codes`` and ``scores``, each counted ``counts`` times.

        The mean of a value with n rows is shrunk by n / (n + s), where s is the variance within values over that
        between values: the posterior mean under a Gaussian prior whose variance is estimated.
        """
        size: FloatArray = np.bincount(codes, counts, n_values).astype(np.float64)
        total: FloatArray = np.bincount(codes, counts * scores, n_values).astype(np.float64)
        overall = float(total.sum() / max(size.sum(), 1e-300))
        raw = np.divide(total, size, out=np.full(n_values, overall), where=size > 0)
        within = float(counts @ (scores - raw[codes]) ** 2)
        free = max(float(size.sum() - (size > 0).sum()), 1.0)
        s = _ratio(size, raw, overall, within / free)
        return cls(overall + size / (size + s) * (raw - overall), size, overall, s < _LARGEST_RATIO)


def _ratio(size: FloatArray, raw: FloatArray, overall: float, within: float) -> float:
    """Return the variance within values over that between values, at least 1 and at most ``_LARGEST_RATIO``."""
    total = size.sum()
    spread = float(size @ (raw - overall) ** 2)
    seen = int((size > 0).sum())
    room = total - float(size @ size) / total if total > 0 else 0.0
    between = (spread - (seen - 1) * within) / room if room > 0 else 0.0
    return float(np.clip(within / between, 1.0, _LARGEST_RATIO)) if between > 0 else _LARGEST_RATIO


def normal_scores(y: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the targets as quantiles of a standard normal by their rank, so that no target dominates a mean."""
    values, inverse = np.unique(y, return_inverse=True)
    size = np.bincount(inverse, counts, len(values))
    middle = np.cumsum(size) - size / 2
    return np.asarray(ndtri(middle / size.sum()))[inverse]


def parts_of_rows(n: int, sets: IndexArray | None) -> IndexArray:
    """Return the part (n,) of each row, from 0 to FOLDS - 1; rows of one set are in the same part.

    The parts depend on the number of rows alone, so that a second call gives the same.
    """
    labels = np.arange(n) if sets is None else np.unique(sets, return_inverse=True)[1]
    order = np.random.default_rng(labels.max(initial=0)).permutation(labels.max(initial=0) + 1)
    return np.asarray(order[labels] % FOLDS)
