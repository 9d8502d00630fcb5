"""How uncertain weights leave a row: whitening by a triangular factor, and the predictive's centre and scale."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bdkn.kernels.compiled import compiled
from bdkn.kernels.conjugate import dot
from bdkn.typing import FloatArray

_NOISE = 4.0 * float(np.finfo(np.float64).eps)
_SIDE_BY_SIDE = 128
"""Rows that go through a loop together: a few numbers of each stay in the first-level cache."""


@compiled
def location_scale(
    root: FloatArray, μ: FloatArray, Phi: FloatArray, noise: FloatArray, unit: float
) -> tuple[FloatArray, FloatArray]:
    """Return φᵀμ and √(unit (v + φᵀ(RᵀR)⁻¹φ)) for each row φ of ``Phi``, with R as in ``whitened``, v the ``noise``."""
    loc, scale = np.empty(len(Phi)), leverage(root, Phi)
    for i in range(len(Phi)):
        loc[i] = dot(Phi[i], μ)
        scale[i] = math.sqrt(unit) * math.sqrt(noise[i] + scale[i])
    return loc, scale


@compiled
def leverage(root: FloatArray, Phi: FloatArray) -> FloatArray:
    """Return φᵀ(RᵀR)⁻¹φ for each row φ of ``Phi``, R as in ``whitened``."""
    total = np.zeros(len(Phi))
    for row in whitened(root, Phi):
        for i in range(len(total)):
            total[i] += row[i] * row[i]
    return total


@compiled
def whitened(root: FloatArray, Phi: FloatArray) -> FloatArray:
    """Return R⁻ᵀΦᵀ (H, n) for R upper-triangular up to the order of its columns.

    Entry k is what is left of a row's φ after the entries before it, divided by the pivot. If what is left is rounding,
    it means zero: a small pivot would make much of it. Rows are taken some at a time, side by side.
    """
    n, H = Phi.shape
    x, order = np.empty((H, n)), _triangular_order(root)
    size = np.empty(_SIDE_BY_SIDE)
    for start in range(0, n, _SIDE_BY_SIDE):
        stop = min(n, start + _SIDE_BY_SIDE)
        for k in range(H):
            j, entry = order[k], x[k]
            for i in range(start, stop):
                entry[i] = Phi[i, j]
                size[i - start] = 0.0
            for before in range(k):
                r, known = root[before, j], x[before]
                for i in range(start, stop):
                    part = r * known[i]
                    entry[i] -= part
                    size[i - start] += abs(part)
            for i in range(start, stop):
                left = entry[i]
                is_noise = abs(left) <= H * _NOISE * (size[i - start] + abs(left))
                entry[i] = 0.0 if is_noise else left / root[k, j]
    return x


@compiled
def _triangular_order(root: FloatArray) -> NDArray[np.intp]:
    """Return the order of the columns that makes ``root``, invertible, triangular: that of their last entries."""
    order = np.zeros(len(root), np.intp)
    for j in range(len(root)):
        last = len(root) - 1
        while last > 0 and root[last, j] == 0.0:
            last -= 1
        order[last] = j
    return order
