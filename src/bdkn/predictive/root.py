"""Many scalar equations solved at once: Newton's method, kept inside a bracket that only shrinks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bdkn.typing import FloatArray

_EPS = np.finfo(np.float64).eps
_ROUNDING = 3e-14  # values are logarithms of probabilities, known to about this far out in the tail
_MOST_STEPS = 200  # bisection alone would halve a bracket this often; smooth equations need about eight


def increasing_root(
    function: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    lower: FloatArray,
    upper: FloatArray,
    tolerance: FloatArray,
) -> FloatArray:
    """Return the root within [lower, upper] of each increasing function.

    ``function`` returns the values and the slopes at x; it may jump and may be infinite. A Newton step counts only if
    it stays inside the bracket and is at most half as long as the step before; otherwise the bracket is halved. A row
    rests once its value is zero up to rounding or it moves by no more than ``tolerance`` or the last digit of x.
    """
    x, last = (lower + upper) / 2, upper - lower
    resting = np.zeros(x.shape, dtype=bool)
    for _ in range(_MOST_STEPS):
        value, slope = function(x)
        lower, upper = np.where(value < 0, x, lower), np.where(value < 0, upper, x)
        with np.errstate(all="ignore"):
            newton = x - value / np.where(np.isinf(slope), np.nan, slope)
        trusted = (lower <= newton) & (newton <= upper) & (np.abs(newton - x) <= last / 2)
        target = np.where(trusted, newton, lower + (upper - lower) / 2)
        resting |= np.abs(value) <= _ROUNDING
        x, last = np.where(resting, x, target), np.abs(target - x)
        resting |= last <= np.maximum(tolerance, 2 * _EPS * np.abs(x))
        if resting.all():
            break
    return x
