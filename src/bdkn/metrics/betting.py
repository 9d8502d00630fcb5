"""Bets against calibration: a wealth that is unlikely ever to grow large while predictions are calibrated.

With the probability integral transform p of each row, uniform given the past if predictions are calibrated, three
functions of it have mean zero: 2p - 1 (predictions too high or too low), 6p² - 6p + 1 (too narrow or too wide) and
1{p outside of (0.05, 0.95)} - 0.1 (rows outside of their 90 % interval). Calibrated up to a tolerance ε means that the
mean of each, given the past, is between -ε and ε. A bet against that multiplies its stake by

    1 + θ (g(p) - ε)   or   1 - θ (g(p) + ε),

which is never negative and whose mean, given the past, is at most one. Stakes are divided among the functions, both
directions and five sizes of θ, and among the rows at which a change may begin: 1/(t (t + 1)) of the wealth starts at
row t. So the wealth M begins with 1, is a supermartingale, and by Ville's inequality P(M ≥ 1/α at any time) ≤ α.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from scipy.special import logsumexp

from bdkn.typing import FloatArray

TAIL = 0.05
"""Probability beyond each end of the interval of the third bet."""

_SIZES = (0.05, 0.15, 0.35, 0.6, 0.9)
"""Bets as shares of the largest with which no stake can turn negative."""

_RANGES = ((-1.0, 1.0), (-0.5, 1.0), (-2.0 * TAIL, 1.0 - 2.0 * TAIL))
"""Smallest and largest value of each function."""

N_BETS = 2 * len(_RANGES) * len(_SIZES)

_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Wealth:
    """What bets against calibration have won after ``n`` rows.

    ``log_stakes`` (B,) are the logarithms of what each bet holds. ``tolerance`` is ε.
    """

    tolerance: float
    n: int = 0
    log_stakes: FloatArray = field(default_factory=lambda: np.full(N_BETS, -np.inf))

    @property
    def log(self) -> float:
        """The logarithm of all wealth, that which is not at stake yet included."""
        return float(_total(self.log_stakes[None], np.array([float(self.n)]))[0])

    def after(self, pit: FloatArray) -> tuple[FloatArray, Self]:
        """Return the logarithm of the wealth after each row, and the state after all of them."""
        state, logs = self, []
        for start in range(0, len(pit), _AT_ONCE):
            part, state = state._after_block(pit[start : start + _AT_ONCE])
            logs.append(part)
        return np.concatenate([np.empty(0), *logs]), state

    def _after_block(self, pit: FloatArray) -> tuple[FloatArray, Self]:
        """Return the same for a block: with products E of factors, stakes are E (before + Σ new stakes / E before)."""
        rows = np.arange(1.0, len(pit) + 1.0, dtype=np.float64) + self.n
        factors = np.cumsum(log_factors(pit, self.tolerance), axis=0)
        before = np.vstack([np.zeros(N_BETS), factors[:-1]])
        new = -np.log(rows)[:, None] - np.log(rows + 1.0)[:, None] - np.log(N_BETS) - before
        gathered = np.logaddexp.accumulate(np.vstack([self.log_stakes, new]), axis=0)[1:]
        stakes = factors + gathered
        return _total(stakes, rows), replace(self, n=self.n + len(pit), log_stakes=stakes[-1])


def log_factors(pit: FloatArray, tolerance: float) -> FloatArray:
    """Return the logarithm (n, B) of the factor by which each row multiplies each stake."""
    outside = np.abs(pit - 0.5) >= 0.5 - TAIL
    functions = (2.0 * pit - 1.0, 6.0 * pit**2 - 6.0 * pit + 1.0, outside - 2.0 * TAIL)
    found = []
    for g, (low, high) in zip(functions, _RANGES, strict=True):
        for up, worst in ((g - tolerance, tolerance - low), (-g - tolerance, tolerance + high)):
            found += [np.log1p(size / worst * up) for size in _SIZES]
    return np.stack(found, axis=1)


def _total(log_stakes: FloatArray, rows: FloatArray) -> FloatArray:
    """Return the logarithm of all wealth after so many rows; 1/(t + 1) of it is not at stake after row t."""
    return np.asarray(np.logaddexp(logsumexp(log_stakes, axis=1), -np.log(rows + 1.0)))
