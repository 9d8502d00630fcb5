"""One step of Adam for a single number, in plain Python, so that it can be used compiled and not compiled."""

from __future__ import annotations

import math

_RATE, _B1, _B2, _TINY = 0.1, 0.9, 0.999, 1e-8


def adam_step(k: int, u: float, m: float, v: float, slope: float) -> tuple[float, float, float]:
    """Return u after step k = 1, 2, ... in the direction of the slope, at rate 0.1, and the moments m and v."""
    m, v = _B1 * m + (1 - _B1) * slope, _B2 * v + (1 - _B2) * slope * slope
    return u + _RATE * (m / (1 - _B1**k)) / (math.sqrt(v / (1 - _B2**k)) + _TINY), m, v
