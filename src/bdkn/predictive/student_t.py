"""The Student-t, the predictive distribution of the conjugate posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, betaln, stdtr, stdtrit

from bdkn.errors import InvalidParameterError
from bdkn.predictive.location_scale import LocationScale
from bdkn.typing import FloatArray

# Beyond these degrees of freedom the Student-t is the Gaussian to floating-point precision (the gap is of order 1/df),
# while (1 + z²/df)^df starts to lose digits.
_GAUSSIAN_DF = 1e8

_FAR_DOWN = 1e-100  # a level below which quantiles are computed in another way


@dataclass(frozen=True, eq=False, init=False)
class StudentT(LocationScale):
    """``St(df, loc, scale²)`` for each of n rows; ``df`` and ``scale`` may be one number for all.

    ``mean()`` is always ``loc``, the centre, also for ``df <= 1`` where the first moment does not exist;
    ``var()`` is infinite for ``df <= 2`` and ``crps``, the integral of ``(F - 1{x >= y})²``, for ``df <= 1/2``.
    """

    df: FloatArray
    loc: FloatArray
    scale: FloatArray

    def __init__(self, df: ArrayLike, loc: ArrayLike, scale: ArrayLike) -> None:
        self._store(df=df, loc=loc, scale=scale)
        if not (self.df > 0).all():
            raise InvalidParameterError(f"df must be > 0; got {self.df[~(self.df > 0)][0]}")

    def var(self) -> FloatArray:
        """Return ``scale² df / (df - 2)``, infinite for ``df <= 2``; a point mass has none at any ``df``."""
        heavy = self.df <= 2
        inflation = 1 / (1 - 2 / np.where(heavy, np.inf, self.df))
        return self.scale**2 * inflation + np.where(heavy & (self.scale > 0), np.inf, 0.0)

    def _standard_logpdf(self, z: FloatArray) -> FloatArray:
        ν = np.minimum(self.df, 1e15)[:, None]  # keeps df = inf, the Gaussian, out of inf * 0
        with np.errstate(over="ignore"):
            tail: FloatArray = (ν + 1) / 2 * np.log1p(z**2 / ν)
        # log B(1/2, ν/2) keeps its digits at large ν, where log Γ((ν+1)/2) - log Γ(ν/2) cancels.
        normaliser: FloatArray = np.log(ν) / 2 + betaln(0.5, ν / 2)
        return -tail - normaliser

    def _standard_cdf(self, z: FloatArray) -> FloatArray:
        cumulative: FloatArray = stdtr(self.df[:, None], z)
        return cumulative

    def _standard_ppf(self, q: FloatArray) -> FloatArray:
        ν = self.df[:, None]
        inner: FloatArray = stdtrit(ν, q)
        # Far down, stdtrit gives up; there F(-t) = ½ I_x(ν/2, ½) with x = ν/(ν + t²) is inverted instead.
        x = betaincinv(np.minimum(ν, 1e8) / 2, 0.5, 2 * np.minimum(q, _FAR_DOWN))
        with np.errstate(divide="ignore", over="ignore"):
            far = -np.sqrt(ν) * np.sqrt(1 / x - 1)
        return np.where(q == 1, np.inf, np.where((q < _FAR_DOWN) & (ν < 1e8), far, np.where(q == 0, -np.inf, inner)))

    def _standard_rvs(self, shape: tuple[int, int], generator: np.random.Generator) -> FloatArray:
        return generator.standard_t(np.minimum(self.df, 1e15)[:, None], size=shape)

    def _positive_crps(self, y: FloatArray, loc: FloatArray, scale: FloatArray) -> FloatArray:
        from scoringrules import crps_normal, crps_t

        df = self.df[:, None]
        cauchy, gaussian = np.abs(df - 1) < 1e-8, df > _GAUSSIAN_DF
        regular = (df > 0.5) & ~cauchy & ~gaussian
        score = np.where(regular, crps_t(y, np.where(regular, df, 2.0), loc, scale), np.inf)
        score = np.where(gaussian, crps_normal(y, loc, scale), score)
        return np.where(cauchy, _cauchy_crps(y, loc, scale), score)


def _cauchy_crps(y: FloatArray, loc: FloatArray, scale: FloatArray) -> FloatArray:
    """Return the score at one degree of freedom, where the general formula reads infinity minus infinity.

    From ``crps'(z) = 2 F(z) - 1`` and ``crps(0) = 2 log(2) / π``.
    """
    z = (y - loc) / scale
    return np.asarray(scale * (2 * np.log(2.0) + 2 * z * np.arctan(z) - np.log1p(z**2)) / np.pi)
