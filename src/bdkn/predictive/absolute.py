"""The mean absolute distance E|Y - y| of a prediction from a number, of which linear costs consist."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import stdtr

from bdkn.predictive.base import Predictive
from bdkn.predictive.joined import JoinedPredictive
from bdkn.predictive.location_scale import Gaussian, StudentT, normal_absolute_mean, student_t_logpdf
from bdkn.predictive.mixture import GaussianMixture
from bdkn.predictive.student_mixture import StudentTMixture
from bdkn.predictive.transformed import Transformed
from bdkn.typing import FloatArray

_NARROW = 1e-100
"""A scale this small beside the distance is a point mass."""

_GAUSSIAN_DF = 1e8


def absolute_mean(dist: Predictive, y: FloatArray) -> FloatArray | None:
    """Return E|Y - y| (n, k) at ``y`` (n, k), infinite where there is no mean; None for a kind that is not known.

    It is exact for Gaussians, Student-t distributions and their mixtures, and an integral for transformed ones.
    """
    if isinstance(dist, JoinedPredictive):
        return _joined(dist, y)
    if isinstance(dist, StudentT):
        return _by_scale(y, dist.loc, dist.scale, lambda z: _student_t(z, dist.df[:, None]))
    if isinstance(dist, Gaussian):
        return _by_scale(y, dist.loc, dist.scale, normal_absolute_mean)
    if isinstance(dist, GaussianMixture):
        parts = (Gaussian(dist.loc[:, h], dist.scale[:, h]) for h in range(dist.loc.shape[1]))
        means = [_by_scale(y, part.loc, part.scale, normal_absolute_mean) for part in parts]
        return np.asarray(np.einsum("hnk,nh->nk", np.stack(means), dist.weights))
    if isinstance(dist, StudentTMixture):
        return dist.absolute_mean(y)
    return _transformed(dist, y) if isinstance(dist, Transformed) else None


def excess_and_shortfall(dist: Predictive, y: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Return E max(Y - y, 0) and E max(y - Y, 0), each (n, k), at ``y`` (n, k); None for a kind that is not known."""
    distance = absolute_mean(dist, y)
    if distance is None:
        return None
    error = _mean(dist)[:, None] - y
    half, away = distance / 2.0, error / 2.0  # their sum may overflow
    return np.maximum(half + away, 0.0), np.maximum(half - away, 0.0)


def _mean(dist: Predictive) -> FloatArray:
    """Return the mean, of transformed distributions by the integrals that ``absolute_mean`` has."""
    if not isinstance(dist, Transformed):
        return dist._of_rows(_mean) if isinstance(dist, JoinedPredictive) else dist.mean()
    upper, lower = dist._halves
    with np.errstate(invalid="ignore"):
        mean = dist.median() + upper.first - lower.first
    return np.where((dist.scale > 0.0) & np.isfinite(mean), mean, dist.median())


def _by_scale(
    y: FloatArray, loc: FloatArray, scale: FloatArray, standard: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Return the distances from those of the standard distribution; a scale of zero is a point mass."""
    with np.errstate(over="ignore"):
        error = y - loc[:, None]
        wide = scale[:, None] > _NARROW * np.abs(error)
    unit = np.where(wide, scale[:, None], 1.0)
    return np.where(wide, unit * standard(np.where(wide, error, 0.0) / unit), np.abs(error))


def _student_t(z: FloatArray, df: FloatArray) -> FloatArray:
    """Return z(2F(z) - 1) + 2 f(z)(ν + z²)/(ν - 1), infinite for ν <= 1."""
    heavy, gaussian = df <= 1.0, df > _GAUSSIAN_DF
    ν = np.where(heavy | gaussian, 3.0, df)
    zero = np.zeros_like(z)
    density = np.exp(student_t_logpdf(z, ν, zero, zero + 1.0) + 2.0 * np.log(np.hypot(np.sqrt(ν), z)))
    mean = z * (2.0 * stdtr(ν, z) - 1.0) + 2.0 * density / (ν - 1.0)
    return np.where(gaussian, normal_absolute_mean(z), np.where(heavy, np.inf, mean))


def _transformed(dist: Transformed, y: FloatArray) -> FloatArray:
    """Return E|Y - m| about the median m plus ∫ (2F - 1) from there to y."""
    upper, lower = dist._halves
    spread = np.where(dist.scale > 0.0, upper.first + lower.first, 0.0)
    return np.where(dist.scale[:, None] > 0.0, spread[:, None] + dist._rise(y), np.abs(y - dist.median()[:, None]))


def _joined(dist: JoinedPredictive, y: FloatArray) -> FloatArray | None:
    found = np.empty(y.shape)
    for k, part in enumerate(dist.parts):
        rows = np.flatnonzero(dist.part == k)
        means = absolute_mean(part[dist.row[rows]], y[rows]) if len(rows) else y[rows]
        if means is None:
            return None
        found[rows] = means
    return found
