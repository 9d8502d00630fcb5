"""Compiled formulas of the Bayesian linear model, called only by ``bdkn.inference.rowwise``.

The first functions compute numbers per row: leverage, and the location and scale of the predictive distribution. The
others compute the posterior for few rows and few members, in an eighth of the time of interpreted code. They store
the design matrix Φ (n, H) and the targets y transposed: a row of the table is a column of [Φ, y]ᵀ (H + 1, n).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bdkn.kernels.code_cache import compiled, inlined
from bdkn.typing import FloatArray

Posterior = tuple[bool, float, FloatArray, FloatArray, float, float]

_MAX_NORM = 1e150
"""Maximum norm of the QR factor of the design matrix and the targets; the square of a larger norm could overflow."""

_MIN_RESIDUAL = 1e-3
"""Minimum norm of the residuals, relative to the targets; with smaller ones the fit fails, as it is inaccurate."""

_MIN_SINGULAR_VALUE = 1e-6
"""Minimum singular value of the design matrix, relative to the largest; with a smaller one, the fit fails."""

_MIN_DEGREES = 1e-6
"""Minimum effective number of weights determined by the data; below it, the gradient of the evidence is inaccurate."""

_ROUNDING = 4.0 * float(np.finfo(np.float64).eps)
"""Relative difference of two numbers, per member, up to which it is taken as a rounding error."""

_BLOCK_ROWS = 128
"""Number of rows that are processed together, so that their numbers stay in the processor's first-level cache."""


@inlined
def dot(a: FloatArray, b: FloatArray) -> float:
    """Return the dot product Σ aᵢbᵢ, as four partial sums that a processor computes at the same time."""
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
    """Return locations φᵀμ and scales √(unit (noise + φᵀ(RᵀR)⁻¹φ)) of predictions for rows φ of Phi; R is ``root``."""
    loc, scale = np.empty(len(Phi)), leverage(root, Phi)
    for i in range(len(Phi)):
        loc[i] = dot(Phi[i], μ)
        scale[i] = math.sqrt(unit) * math.sqrt(noise[i] + scale[i])
    return loc, scale


@compiled
def leverage(root: FloatArray, Phi: FloatArray) -> FloatArray:
    """Return the leverage φᵀ(RᵀR)⁻¹φ of each row φ of ``Phi``; ``root`` is R, with the posterior precision RᵀR."""
    total = np.zeros(len(Phi))
    for row in whitened(root, Phi):
        for i in range(len(total)):
            total[i] += row[i] * row[i]
    return total


@compiled
def whitened(root: FloatArray, Phi: FloatArray) -> FloatArray:
    """Whiten the rows of ``Phi``: return R⁻ᵀΦᵀ (H, n), where ``root`` is R, with the posterior precision RᵀR.

    R is upper triangular after a permutation of its columns. A remainder of the forward substitution that is only
    rounding error is set to zero, since the division by a small pivot would make it large.
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
    """Return the order of columns that makes ``root`` upper triangular: sorted by place of the last nonzero entry."""
    order = np.zeros(len(root), np.intp)
    for j in range(len(root)):
        last = len(root) - 1
        while last > 0 and root[last, j] == 0.0:
            last -= 1
        order[last] = j
    return order


@compiled
def conjugate(means: FloatArray, y: FloatArray) -> Posterior:
    """Fit the Bayesian linear model of the paper to few rows, with Jeffreys' prior of the noise variance.

    Return a success flag, the prior variance σ_β² of the weights, a root of the posterior precision Λₙ, the posterior
    mean μₙ, the scale bₙ of the noise variance, and the log evidence. ``means`` is Φᵀ (H, n). The fit fails if members
    are nearly collinear, not finite, or reproduce the targets up to rounding: these need more accurate code.
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
    """Update the QR factor ``root`` in place for more rows, given as ``columns``ᵀ, by Householder reflections."""
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
    """Return the sum of the squared entries of a matrix."""
    total = 0.0
    for row in matrix:
        for entry in row:
            total += entry * entry
    return total


@compiled
def _is_well_posed(root: FloatArray) -> bool:
    """Return whether the QR factor ``root`` of [Φ, y] is finite and far from singular, and its residual accurate."""
    H = len(root) - 1
    size, targets, residual = math.sqrt(_squares(root[:H, :H])), math.sqrt(_squares(root[:H, H:])), abs(root[H, H])
    # ‖R‖ ‖R⁻¹‖ is at least the ratio of largest to smallest singular value. Comparisons with NaN are False.
    condition = size * math.sqrt(_inverse_squares(root))
    return condition * _MIN_SINGULAR_VALUE < 1.0 and size < _MAX_NORM and _MIN_RESIDUAL * targets < residual < _MAX_NORM


@compiled
def _given(root: FloatArray, t: float) -> tuple[FloatArray, FloatArray]:
    """Add the prior of the weights, with variance t, to the QR factor ``root``; return the factor and mean weights."""
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
    """Return the squared Frobenius norm ‖R⁻¹‖² = tr (RᵀR)⁻¹, where R is ``root`` without its last row and column."""
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
    """Ascend the log evidence by the paper's five Adam steps; return log σ_β², and whether all gradients are accurate.

    With t = σ_β², the prior variance of the weights, the gradient by log t is a ‖μₙ‖²/(2 t bₙ) - ½ (H - tr Λₙ⁻¹/t).
    ``a`` is half the number of rows; the learning rate is 0.1.
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
