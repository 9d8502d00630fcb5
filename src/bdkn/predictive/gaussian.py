"""The Gaussian, what a single network or a Gaussian process predicts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from bdkn.predictive.location_scale import LocationScale
from bdkn.typing import FloatArray


@dataclass(frozen=True, eq=False, init=False)
class Gaussian(LocationScale):
    """``N(loc, scale²)`` for each of n rows; ``scale`` may be one number for all."""

    loc: FloatArray
    scale: FloatArray

    def __init__(self, loc: ArrayLike, scale: ArrayLike) -> None:
        self._store(loc=loc, scale=scale)

    def var(self) -> FloatArray:
        """Return ``scale²``."""
        return self.scale**2

    def _standard_logpdf(self, z: FloatArray) -> FloatArray:
        return normal_logpdf(z)

    def _standard_cdf(self, z: FloatArray) -> FloatArray:
        return normal_cdf(z)

    def _standard_ppf(self, q: FloatArray) -> FloatArray:
        quantiles: FloatArray = ndtri(q)
        return quantiles

    def _standard_rvs(self, shape: tuple[int, int], generator: np.random.Generator) -> FloatArray:
        return generator.standard_normal(shape)

    def _positive_crps(self, y: FloatArray, loc: FloatArray, scale: FloatArray) -> FloatArray:
        from scoringrules import crps_normal

        score: FloatArray = crps_normal(y, loc, scale)
        return score


def normal_logpdf(z: FloatArray) -> FloatArray:
    """Return the log density of the standard normal."""
    with np.errstate(over="ignore"):
        density: FloatArray = -(z**2) / 2 - np.log(2 * np.pi) / 2
    return density


def normal_cdf(z: FloatArray) -> FloatArray:
    """Return the distribution function of the standard normal."""
    cumulative: FloatArray = ndtr(z)
    return cumulative
