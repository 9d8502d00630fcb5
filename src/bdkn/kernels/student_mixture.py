"""Compiled density, distribution function, quantiles and CRPS of mixtures of a Student-t and Gaussians, row by row.

All arguments are standardized: relative to the location of the row's Student-t, in units of its scale. The mixture of a
row has a Student-t with ``df`` degrees of freedom and weight ``kept``, and Gaussians with mean ``position``, standard
deviation ``width`` and weight ``mass``.
"""

from __future__ import annotations

import math

import numpy as np

from bdkn.kernels.code_cache import compiled, inlined
from bdkn.typing import Float32Array, FloatArray

Rows = tuple[FloatArray, FloatArray, Float32Array, Float32Array, Float32Array]
"""Mixtures of n rows: ``df``, ``kept`` (n,) of a Student-t; ``position``, ``width``, ``mass`` (n, A) of A Gaussians."""

_ROOT_2PI = 2.5066282746310002
_ROOT_2 = 1.4142135623730951
_FAR = 38.5
"""Number of standard deviations beyond which the density of a Gaussian is zero in double precision."""

_GAUSSIAN_DF = 1e8
"""Degrees of freedom above which the Student-t is replaced by a Gaussian."""

_STEPS = 200
"""Maximum number of steps of the root search for a quantile."""


@inlined
def _fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function Iₓ(a, b), by the method of Lentz."""
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    h = d
    for m in range(1, 20000):
        step = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        d, c = 1.0 + step * d, 1.0 + step / c
        d, c = 1.0 / (d if abs(d) > tiny else tiny), c if abs(c) > tiny else tiny
        h *= d * c
        step = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        d, c = 1.0 + step * d, 1.0 + step / c
        d, c = 1.0 / (d if abs(d) > tiny else tiny), c if abs(c) > tiny else tiny
        h *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return h


@compiled
def lower_tail(z: float, df: float, log_norm: float) -> float:
    """Return the distribution function of a standard Student-t at z ≤ 0; ``log_norm`` is ``log_norm_of(df)``."""
    if df > _GAUSSIAN_DF:
        return 0.5 * math.erfc(-z / _ROOT_2)
    if z * z > 1e300:
        return 0.0
    x, rest = df / (df + z * z), z * z / (df + z * z)
    if z == 0.0:
        return 0.5
    front = math.exp(0.5 * df * -math.log1p(z * z / df) + 0.5 * math.log(rest) - log_norm)
    if x < (0.5 * df + 1.0) / (0.5 * df + 2.5):
        return 0.5 * front * _fraction(0.5 * df, 0.5, x) / (0.5 * df)
    return 0.5 * (1.0 - front * _fraction(0.5, 0.5 * df, rest) / 0.5)


@compiled
def log_norm_of(df: float) -> float:
    """Return log B(df/2, ½), the log beta function in the normalising constant of a Student-t density."""
    if df > 1e5:  # the difference of the large logarithms would be inaccurate
        return 0.5 * math.log(2.0 * math.pi / df) + 0.25 / df
    return math.lgamma(0.5 * df) + 0.5723649429247001 - math.lgamma(0.5 * df + 0.5)


@inlined
def _t_density(z: float, df: float, log_norm: float) -> float:
    if df > _GAUSSIAN_DF:
        return math.exp(-0.5 * z * z) / _ROOT_2PI
    return math.exp(-0.5 * (df + 1.0) * math.log1p(z * z / df) - 0.5 * math.log(df) - log_norm)


@compiled
def _values(rows: Rows, i: int, u: float, side: float, log_norm: float) -> tuple[float, float]:
    """Return for the mixture of row i the probability below u (above u if ``side`` is -1) and the density at u."""
    df, kept, position, width, mass = rows
    F = f = 0.0
    if kept[i] > 0.0:
        tail = lower_tail(-abs(u), df[i], log_norm)
        F = kept[i] * (tail if side * u <= 0.0 else 1.0 - tail)
        f = kept[i] * _t_density(u, df[i], log_norm)
    for c in range(position.shape[1]):
        if mass[i, c] > 0.0:
            z = (u - position[i, c]) / width[i, c]
            if side * z > 8.3:
                F += mass[i, c]
            elif side * z > -_FAR:
                F += mass[i, c] * 0.5 * math.erfc(-side * z / _ROOT_2)
            if abs(z) < _FAR:
                f += mass[i, c] * math.exp(-0.5 * z * z) / (_ROOT_2PI * width[i, c])
    return min(F, 1.0), f


@compiled
def log_density(rows: Rows, u: FloatArray) -> FloatArray:
    """Return the log density of each row's mixture at its k points u (n, k)."""
    df, kept, position, width, mass = rows
    found = np.empty(u.shape)
    for i in range(len(u)):
        log_norm = log_norm_of(df[i])
        for j in range(u.shape[1]):
            top, total = -np.inf, 0.0
            if kept[i] > 0.0 and df[i] <= _GAUSSIAN_DF:
                top = math.log(kept[i]) - 0.5 * (df[i] + 1.0) * math.log1p(u[i, j] ** 2 / df[i])
                top -= 0.5 * math.log(df[i]) + log_norm
            elif kept[i] > 0.0:
                top = math.log(kept[i]) - 0.5 * u[i, j] ** 2 - math.log(_ROOT_2PI)
            total = 1.0 if top > -np.inf else 0.0
            for c in range(position.shape[1]):
                if mass[i, c] > 0.0:
                    z = (u[i, j] - position[i, c]) / width[i, c]
                    part = math.log(mass[i, c] / (_ROOT_2PI * width[i, c])) - 0.5 * z * z
                    if part > top:
                        total, top = total * math.exp(top - part) + 1.0, part
                    elif part > top - 40.0:
                        total += math.exp(part - top)
            found[i, j] = top + math.log(total) if total > 0.0 else -np.inf
    return found


@compiled
def distribution(rows: Rows, u: FloatArray) -> FloatArray:
    """Return the distribution function of each row's mixture at its k points u (n, k)."""
    found = np.empty(u.shape)
    for i in range(len(u)):
        log_norm = log_norm_of(rows[0][i])
        for j in range(u.shape[1]):
            found[i, j] = _values(rows, i, u[i, j], 1.0, log_norm)[0]
    return found


@compiled
def quantiles(rows: Rows, q: FloatArray, q_t: FloatArray, q_normal: FloatArray) -> FloatArray:
    """Return quantiles (n, k) of mixtures at levels q; ``q_t``, ``q_normal`` are Student-t and normal quantiles at q.

    A quantile is between the lowest and the highest quantile of the components. It is computed by Newton's method on
    log F, which is nearly linear in the tail. A step that leaves the interval, or is more than half of the step before,
    is replaced by a bisection. Levels above one half use the upper tail.
    """
    kept, position, width, mass = rows[1:]
    found = np.empty(q.shape)
    for i in range(len(q)):
        log_norm = log_norm_of(rows[0][i])
        for j in range(q.shape[1]):
            low, high = (q_t[i, j], q_t[i, j]) if kept[i] > 0.0 else (np.inf, -np.inf)
            for c in range(position.shape[1]):
                if mass[i, c] > 0.0:
                    at = position[i, c] + width[i, c] * q_normal[i, j]
                    low, high = min(low, at), max(high, at)
            if q[i, j] <= 0.0 or q[i, j] >= 1.0 or low == high:
                found[i, j] = low if q[i, j] <= 0.5 else high
                continue
            side = 1.0 if q[i, j] <= 0.5 else -1.0
            level = q[i, j] if side > 0.0 else 1.0 - q[i, j]
            x, step = 0.5 * (low + high), high - low
            for _ in range(_STEPS):
                F, f = _values(rows, i, x, side, log_norm)
                excess = side * math.log(F / level) if F > 0.0 else -side * np.inf
                if excess < 0.0:
                    low = x
                else:
                    high = x
                move = -excess * F / f if f > 0.0 and F > 0.0 else np.inf
                if not (low <= x + move <= high and abs(move) <= 0.5 * step):
                    move = 0.5 * (low + high) - x
                x, step = x + move, abs(move)
                if abs(excess) < 3e-14 or step <= 4e-16 * max(abs(x), 1.0):
                    break
            found[i, j] = x
    return found


@inlined
def _mean_distance(μ: float, σ: float) -> float:
    """Return the mean absolute value E|X| of a Gaussian X ~ N(μ, σ²)."""
    z = μ / σ
    return μ * math.erf(z / _ROOT_2) + 2.0 * σ * math.exp(-0.5 * z * z) / _ROOT_2PI


@compiled
def half_distances(rows: Rows, precision: FloatArray, share: FloatArray) -> FloatArray:
    """Return E|U - U'|/2 (n,) of independent draws U, U' of each mixture, without the pairs of two Student-t draws.

    It is a part of the CRPS; the caller adds the omitted pairs in closed form. A standard Student-t is N(0, 1/λ) with
    random λ; ``precision`` and ``share`` (n, m) are the nodes and the weights of a quadrature over λ.
    """
    df, kept, position, width, mass = rows
    found = np.zeros(len(df))
    for i in range(len(df)):
        same = apart = across = 0.0
        for m in range(precision.shape[1] if kept[i] > 0.0 else 0):
            for c in range(position.shape[1]):
                if mass[i, c] > 0.0:
                    σ = math.sqrt(1.0 / precision[i, m] + width[i, c] ** 2)
                    across += share[i, m] * mass[i, c] * _mean_distance(position[i, c], σ)
        for c in range(position.shape[1]):
            if mass[i, c] > 0.0:
                same += mass[i, c] ** 2 * 2.0 * width[i, c] * _ROOT_2 / _ROOT_2PI
                for b in range(c):
                    if mass[i, b] > 0.0:
                        σ = math.sqrt(width[i, b] ** 2 + width[i, c] ** 2)
                        apart += mass[i, b] * mass[i, c] * _mean_distance(position[i, b] - position[i, c], σ)
        found[i] = 0.5 * same + apart + kept[i] * across
    return found


@compiled
def distances(rows: Rows, u: FloatArray) -> FloatArray:
    """Return E|U - u| (n, k), a term of the CRPS, for draws U from each row's mixture and its k points u (n, k)."""
    df, kept, position, width, mass = rows
    found = np.zeros(u.shape)
    for i in range(len(u)):
        log_norm = log_norm_of(df[i])
        for j in range(u.shape[1]):
            y = abs(u[i, j])
            if kept[i] > 0.0:
                if df[i] > _GAUSSIAN_DF:
                    found[i, j] = kept[i] * _mean_distance(y, 1.0)
                elif y > 1e50:  # its square may overflow
                    found[i, j] = kept[i] * y
                else:
                    tail = lower_tail(-y, df[i], log_norm)
                    slope = _t_density(y, df[i], log_norm) * (df[i] + y * y) / (df[i] - 1.0)
                    found[i, j] = kept[i] * (y * (1.0 - 2.0 * tail) + 2.0 * slope)
            for c in range(position.shape[1]):
                if mass[i, c] > 0.0:
                    found[i, j] += mass[i, c] * _mean_distance(u[i, j] - position[i, c], width[i, c])
    return found
