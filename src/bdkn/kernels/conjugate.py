"""Compiled versions of closed forms in ``bdkn.inference``, called only by ``bdkn.inference.rowwise``.

The first functions compute numbers per row: leverage, and the location and scale of the predictive distribution. The
others compute the posterior of a conjugate model with few rows and few members, which takes an eighth of the time of
interpreted code. They store the rows as the columns of [Φ, y]ᵀ, (H + 1, n).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bdkn.kernels.code_cache import compiled, inlined
from bdkn.typing import FloatArray

Posterior = tuple[bool, float, FloatArray, FloatArray, float, float]

_MAX_NORM = 1e150
"""Maximum norm of the root, whose square must not overflow."""

_MIN_RESIDUAL = 1e-3
"""Minimum residual, relative to the targets; smaller ones are inaccurate."""

_MIN_SINGULAR_VALUE = 1e-6
"""Minimum singular value, relative to the largest; smaller ones are inaccurate."""

_MIN_DEGREES = 1e-6
"""Minimum number of degrees of freedom that the rows determine; with fewer, the slope is inaccurate."""

_ROUNDING = 4.0 * float(np.finfo(np.float64).eps)
"""Maximum difference, relative to its parts, that is taken for rounding error."""

_BLOCK_ROWS = 128
"""Rows per block, so that a few numbers of each stay in the first-level cache."""


@inlined
def dot(a: FloatArray, b: FloatArray) -> float:
    """Return Σ aᵢbᵢ as four partial sums, which a processor computes at the same time."""
    s0 = s1 = s2 = s3 = 0.0
    whole = len(a) // 4 * 4
    for i in range(0, whole, 4):
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
    for i in range(whole, len(a)):
        s0 += a[i] * b[i]
    return (s0 + s1) + (s2 + s3)


@compiled
def location_scale(
    root: FloatArray, μ: FloatArray, Phi: FloatArray, noise: FloatArray, unit: float
) -> tuple[FloatArray, FloatArray]:
    """Return location φᵀμ and scale √(unit (v + φᵀ(RᵀR)⁻¹φ)) for each row φ of ``Phi``; R is ``root``, v ``noise``."""
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
    """Return R⁻ᵀΦᵀ (H, n) for R that is upper triangular after a permutation of columns.

    Entry k is the remainder of φ after the entries before it, divided by the pivot. A remainder that is only rounding
    error is set to zero, since a small pivot would make it large.
    """
    n, H = Phi.shape
    x, order = np.empty((H, n)), _triangular_order(root)
    size = np.empty(_BLOCK_ROWS)
    for start in range(0, n, _BLOCK_ROWS):
        stop = min(n, start + _BLOCK_ROWS)
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
                is_noise = abs(left) <= H * _ROUNDING * (size[i - start] + abs(left))
                entry[i] = 0.0 if is_noise else left / root[k, j]
    return x


@compiled
def _triangular_order(root: FloatArray) -> NDArray[np.intp]:
    """Return the column order that makes the invertible ``root`` triangular: by the last nonzero entry."""
    order = np.zeros(len(root), np.intp)
    for j in range(len(root)):
        last = len(root) - 1
        while last > 0 and root[last, j] == 0.0:
            last -= 1
        order[last] = j
    return order


@compiled
def conjugate(means: FloatArray, y: FloatArray) -> Posterior:
    """Return a success flag, σ_β², the root of Λₙ, μₙ, bₙ and the log evidence, under Jeffreys' prior.

    ``means`` is Φᵀ, σ_β² the paper's choice. The computation fails if the members are nearly collinear, not finite, or
    reproduce the targets up to rounding: such rows need the more accurate computation in ``bdkn.inference``.
    """
    H, n = means.shape
    columns = np.empty((H + 1, n))
    for i in range(n):
        columns[H, i] = y[i]
    for h in range(H):
        for i in range(n):
            columns[h, i] = means[h, i]
    root = np.zeros((H + 1, H + 1))
    _append(root, columns)
    log_t, succeeded = _five_adam_steps(root, n / 2.0) if _is_well_posed(root) else (0.0, False)
    t = math.exp(log_t)
    posterior, μ = _given(root, t)
    b = float(posterior[H, H]) ** 2 / 2.0
    volume = H / 2.0 * math.log(t)
    for h in range(H):
        volume += math.log(abs(posterior[h, h]))
    evidence = math.lgamma(n / 2.0) - n / 2.0 * (math.log(b) + math.log(2.0 * math.pi)) - volume
    return succeeded, t, posterior[:H, :H].copy(), μ, b, evidence


@compiled
def _append(root: FloatArray, columns: FloatArray) -> None:
    """Make ``root`` the upper-triangular factor of [root; columnsᵀ] by Householder reflections, in place."""
    for k in range(len(root)):
        a, r = columns[k], root[k, k]
        below = dot(a, a)
        if below == 0.0:
            continue
        pivot = -math.copysign(math.sqrt(r * r + below), r)
        first = r - pivot  # the reflection is along [first, a]
        root[k, k] = pivot
        for j in range(k + 1, len(root)):
            b = columns[j]
            step = (first * root[k, j] + dot(a, b)) / (-pivot * first)
            root[k, j] -= step * first
            for i in range(len(a)):
                b[i] -= step * a[i]


@compiled
def _squares(matrix: FloatArray) -> float:
    """Return the sum of the squares of the entries."""
    total = 0.0
    for row in matrix:
        for entry in row:
            total += entry * entry
    return total


@compiled
def _is_well_posed(root: FloatArray) -> bool:
    """Return whether [R z; 0 ρ] is finite, R not nearly singular, and ρ larger than rounding errors."""
    H = len(root) - 1
    size, targets, residual = math.sqrt(_squares(root[:H, :H])), math.sqrt(_squares(root[:H, H:])), abs(root[H, H])
    # ‖R‖ ‖R⁻¹‖ is at least the ratio of the singular values. Comparisons with NaN are False.
    condition = size * math.sqrt(_inverse_squares(root))
    return condition * _MIN_SINGULAR_VALUE < 1.0 and size < _MAX_NORM and _MIN_RESIDUAL * targets < residual < _MAX_NORM


@compiled
def _given(root: FloatArray, t: float) -> tuple[FloatArray, FloatArray]:
    """Return [Rₙ zₙ; 0 ρₙ], which is ``root`` with the prior's rows I/√t, and μₙ = Rₙ⁻¹zₙ."""
    H = len(root) - 1
    prior = np.zeros((H + 1, H))
    for h in range(H):
        prior[h, h] = 1.0 / math.sqrt(t)
    posterior = root.copy()
    _append(posterior, prior)
    μ = np.empty(H)
    for i in range(H - 1, -1, -1):
        left = posterior[i, H]
        for j in range(i + 1, H):
            left -= posterior[i, j] * μ[j]
        μ[i] = left / posterior[i, i]
    return posterior, μ


@compiled
def _inverse_squares(root: FloatArray) -> float:
    """Return ‖R⁻¹‖² = tr (RᵀR)⁻¹, computed column by column."""
    H, total = len(root) - 1, 0.0
    column = np.empty(H)
    for j in range(H):
        for i in range(j, -1, -1):
            left = 1.0 if i == j else 0.0
            for k in range(i + 1, j + 1):
                left -= root[i, k] * column[k]
            column[i] = left / root[i, i]
            total += column[i] * column[i]
    return total


@compiled
def _five_adam_steps(root: FloatArray, a: float) -> tuple[float, bool]:
    """Return log σ_β² after the five Adam steps of the paper, at rate 0.1, and whether all slopes were accurate.

    With t = σ_β² the derivative of the log evidence by log t is a ‖μₙ‖²/(2 t bₙ) - ½ (H - tr Λₙ⁻¹/t).
    """
    u = m = v = 0.0
    for k in range(1, 6):
        t = math.exp(u)
        posterior, μ = _given(root, t)
        reached = len(μ) - _inverse_squares(posterior) / t
        if not reached > _MIN_DEGREES:
            return 0.0, False
        slope = a * dot(μ, μ) / (t * posterior[-1, -1] ** 2) - reached / 2.0
        m, v = 0.9 * m + (1 - 0.9) * slope, 0.999 * v + (1 - 0.999) * slope * slope
        u += 0.1 * (m / (1 - 0.9**k)) / (math.sqrt(v / (1 - 0.999**k)) + 1e-8)
    return u, True
