"""The range of chance: how far observed shares may be from their probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bdkn.errors import check_number
from bdkn.typing import FloatArray


def binomial_envelope(rows: int, probability: ArrayLike, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Return the central range of the share of successes in ``rows`` trials, of probability ``confidence``."""
    from scipy.stats import binom

    check_number("confidence", confidence, low=0.0, high=1.0)
    tail = (1 - float(confidence)) / 2
    p = np.asarray(probability, dtype=np.float64)
    return np.asarray(binom.ppf(tail, rows, p) / rows), np.asarray(binom.ppf(1 - tail, rows, p) / rows)
