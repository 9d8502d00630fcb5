"""Paired comparison of two methods on the same splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import copysign, inf, sqrt

import numpy as np
from scipy.special import stdtr

from bdkn_paper.store import Record

LEVEL = 0.05
"""Two-sided level of significance."""

TEST = (
    "Significance is that of the corrected resampled t-test of Nadeau and Bengio (2003), two-sided at 5 %, for the "
    "differences between two methods split by split. Because splits share rows, the variance of the mean is taken to "
    "be (1/n + test rows / training rows) times the variance of the differences. There is no correction for the number "
    "of tests."
)


@dataclass(frozen=True)
class Paired:
    """Differences between the scores of two methods: mean over ``splits``, standard error, and p-value of the test.

    ``error`` is the ordinary standard error, without the correction of the test.
    """

    mean: float
    error: float
    p_value: float
    splits: int

    @property
    def better(self) -> bool:
        """Whether the scores of the first method are significantly lower."""
        return self.mean < 0 and self.p_value < LEVEL

    @property
    def worse(self) -> bool:
        """Whether they are significantly higher."""
        return self.mean > 0 and self.p_value < LEVEL


def compare_pairs(differences: Sequence[float], ratio: float) -> Paired | None:
    """Return the test for differences between two methods, None if there are fewer than two or some are not finite.

    With the mean m and the variance s² (divided by n − 1) of n differences, t = m / √((1/n + ratio) s²) has n − 1
    degrees of freedom; ``ratio`` is the number of test rows divided by that of training rows.
    """
    n = len(differences)
    if n < 2 or not np.all(np.isfinite(differences)):
        return None
    m, s = float(np.mean(differences)), float(np.std(differences, ddof=1))
    scale = s * sqrt(1 / n + ratio)
    t = m / scale if scale else (copysign(inf, m) if m else 0.0)
    return Paired(m, s / sqrt(n), float(2 * stdtr(n - 1, -abs(t))), n)


def compare_records(mine: Sequence[Record], theirs: Sequence[Record], metric: str) -> Paired | None:
    """Return the test for the scores of a method minus those of another, on the splits that both have."""
    one, other = scores_by_split(mine, metric), scores_by_split(theirs, metric)
    sizes = [record["rows"] for record in mine]
    ratio = sum(size["test"] / size["train"] for size in sizes) / max(1, len(sizes))
    return compare_pairs([one[split] - other[split] for split in one if split in other], ratio)


def scores_by_split(records: Sequence[Record], metric: str) -> dict[int, float]:
    """Return a metric of each split that has it."""
    return {
        record["cell"]["split"]: float(record["metrics"][metric])
        for record in records
        if record["metrics"].get(metric) is not None
    }
