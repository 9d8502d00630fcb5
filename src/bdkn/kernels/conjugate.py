"""Compiled twins of closed forms in ``bdkn.inference``, which reaches them through ``bdkn.inference.rowwise`` only.

The first functions compute numbers per row: leverage, and the location and scale of the predictive. The others compute
the posterior of a conjugate model with few rows and few members in one compiled step: after training, which empties the
caches, the interpreted code around a few thousand multiplications takes eight times as long. In these, the rows are
stored as the columns of [Φ, y]ᵀ, (H + 1, n).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bdkn.kernels.adam import adam_step
from bdkn.kernels.code_cache import compiled, inlined
from bdkn.typing import FloatArray

Found = tuple[bool, float, FloatArray, FloatArray, float, float]

_LARGEST = 1e150  # its square almost overflows
_PERFECT = 1e-3  # a residual smaller than this, relative to the targets, has lost digits
_COLLINEAR = 1e-6  # a singular value smaller than this, relative to the largest, has lost digits
_UNREACHED = 1e-6  # with fewer degrees of freedom determined by the rows, the slope has lost digits

_NOISE = 4.0 * float(np.finfo(np.float64).eps)  # a difference this small, relative to its parts, is rounding error
_SIDE_BY_SIDE = 128  # rows per block: a few numbers of each stay in the first-level cache

_adam_step = inlined(adam_step)


@inlined
def dot(a: FloatArray, b: FloatArray) -> float:
    """Return Σ aᵢbᵢ, added up in four partial sums that a processor computes at the same time."""
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

    Entry k is the part of φ that the entries before it do not explain, divided by the pivot. If that is rounding error,
    it is set to zero: a small pivot would make it large. Rows are processed in blocks.
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
    """Return the order of the columns, by their last non-zero entry, that makes the invertible ``root`` triangular."""
    order = np.zeros(len(root), np.intp)
    for j in range(len(root)):
        last = len(root) - 1
        while last > 0 and root[last, j] == 0.0:
            last -= 1
        order[last] = j
    return order


@compiled
def conjugate(means: FloatArray, y: FloatArray) -> Found:
    """Return whether it succeeded, σ_β², the root of Λₙ, μₙ, bₙ and the log evidence, under Jeffreys' prior.

    ``means`` is Φᵀ, σ_β² the paper's choice. It fails if the members are nearly collinear, not finite, or reproduce the
    targets up to rounding: such rows need the more careful computation in ``bdkn.inference``.
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
    log_t, fine = _five_adam_steps(root, n / 2.0) if _is_well_posed(root) else (0.0, False)
    t = math.exp(log_t)
    posterior, μ = _given(root, t)
    b = float(posterior[H, H]) ** 2 / 2.0
    volume = H / 2.0 * math.log(t)
    for h in range(H):
        volume += math.log(abs(posterior[h, h]))
    evidence = math.lgamma(n / 2.0) - n / 2.0 * (math.log(b) + math.log(2.0 * math.pi)) - volume
    return fine, t, posterior[:H, :H].copy(), μ, b, evidence


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
    """Return whether [R z; 0 ρ] is finite, R far from singular and ρ not lost in rounding."""
    H = len(root) - 1
    size, targets, residual = math.sqrt(_squares(root[:H, :H])), math.sqrt(_squares(root[:H, H:])), abs(root[H, H])
    # ‖R‖ ‖R⁻¹‖ is at least the ratio of the singular values. Comparisons with NaN are False.
    condition = size * math.sqrt(_inverse_squares(root))
    return condition * _COLLINEAR < 1.0 and size < _LARGEST and _PERFECT * targets < residual < _LARGEST


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
    """Return log σ_β² after the five steps of the paper, and whether the slope was accurate at each.

    With t = σ_β² the derivative of the log evidence by log t is a ‖μₙ‖²/(2 t bₙ) - ½ (H - tr Λₙ⁻¹/t).
    """
    u = m = v = 0.0
    for k in range(1, 6):
        t = math.exp(u)
        posterior, μ = _given(root, t)
        reached = len(μ) - _inverse_squares(posterior) / t
        if not reached > _UNREACHED:
            return 0.0, False
        slope = a * dot(μ, μ) / (t * posterior[-1, -1] ** 2) - reached / 2.0
        u, m, v = _adam_step(k, u, m, v, slope)
    return u, True
