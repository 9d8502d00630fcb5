"""The residual y - Φβ in twice the working precision: what lets a nearly perfect fit keep its digits."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bdkn.typing import FloatArray

# Veltkamp's constant 2^27 + 1: times x, it splits the 53 bits of x into two halves whose products are exact.
_SPLITTER = 134217729.0


def residual(phi: ArrayLike, y: FloatArray, beta: FloatArray) -> FloatArray:
    """Return y - Φβ, summed as an unevaluated pair of doubles and rounded once at the end.

    Every product is split exactly into its rounded value and its rounding error (Veltkamp and Dekker), every sum
    likewise (Knuth), so the relative error is about 1e-16 as long as the terms exceed the residual by less than 1e16.
    Plain NumPy, hence the same on every platform. The splitting overflows for magnitudes above about 1e300.
    """
    high, low = np.array(y, dtype=np.float64), np.zeros(len(y))
    columns = np.asarray(phi).T
    for h in beta.nonzero()[0]:
        product, product_error = _two_product(columns[h].astype(np.float64), beta[h])
        high, sum_error = _two_sum(high, -product)
        low += sum_error - product_error
    return high + low


def _two_sum(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return fl(a + b) and what rounding took from it."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: FloatArray, b: float) -> tuple[FloatArray, FloatArray]:
    """Return fl(a b) and what rounding took from it."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(np.asarray(b))
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, error


def _split(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the upper and the lower half of the bits of ``a``."""
    shifted = _SPLITTER * a
    high = shifted - (shifted - a)
    return high, a - high
