"""The multivariate Student-t: several rows predicted together, with their correlations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from scipy.special import betaln, gammaln

from bdkn.errors import InvalidParameterError, check_number
from bdkn.predictive.location_scale import StudentT
from bdkn.typing import FloatArray


@dataclass(frozen=True, eq=False, init=False)
class MultivariateT:
    """``St_n(df, loc, shape)``: one distribution over n rows at once; ``shape`` (n, n) may be singular."""

    df: float
    loc: FloatArray
    shape: FloatArray

    def __init__(self, df: float, loc: ArrayLike, shape: ArrayLike) -> None:
        check_number("df", df, low=0.0, strict=True, infinite=True)
        object.__setattr__(self, "df", float(df))
        object.__setattr__(self, "loc", np.asarray(loc, dtype=np.float64))
        object.__setattr__(self, "shape", np.asarray(shape, dtype=np.float64))
        n = self.loc.size
        if self.loc.shape != (n,) or self.shape.shape != (n, n):
            raise InvalidParameterError(
                f"loc must be (n,) and shape (n, n); got {self.loc.shape} and {self.shape.shape}"
            )

    def __len__(self) -> int:
        return len(self.loc)

    def mean(self) -> FloatArray:
        """Return ``loc``, the centre, whether or not the first moment exists."""
        return self.loc.copy()

    def cov(self) -> FloatArray:
        """Return the covariance ``shape * df / (df - 2)``; ``df`` must be above 2, or there is none."""
        if not self.df > 2:
            raise InvalidParameterError(
                f"a covariance needs more than 2 degrees of freedom; there are {self.df:g}: fit to more rows, or ask "
                "for quantiles, intervals or draws"
            )
        return self.shape / (1 - 2 / self.df)

    def marginal(self) -> StudentT:
        """Return the distribution of each row on its own."""
        return StudentT(self.df, self.loc, np.sqrt(np.maximum(np.diag(self.shape), 0.0)))

    def affine(self, scale: float, shift: float) -> MultivariateT:
        """Return the distribution of ``scale * Y + shift``, for ``scale > 0``."""
        check_number("scale", scale, low=0.0, strict=True)
        return MultivariateT(self.df, scale * self.loc + shift, scale**2 * self.shape)

    def logpdf(self, y: ArrayLike) -> FloatArray:
        """Return the joint log density at ``y`` (n,), or at each column of ``y`` (n, k); needs a regular ``shape``."""
        λ, U = self._eigen()
        if np.any(λ == 0):
            raise InvalidParameterError(
                f"a joint density needs a shape of full rank; this one has rank {np.sum(λ > 0)} of {len(λ)}: "
                "score each row with marginal(), or predict with the noise included"
            )
        n, ν = len(self), min(self.df, 1e15)  # keeps df = inf, the Gaussian, out of inf * 0
        z = U.T @ (np.asarray(y, dtype=np.float64).T - self.loc).T
        δ: FloatArray = np.sum(z.T**2 / λ, axis=-1)
        # log B(ν/2, n/2) keeps its digits at large ν, where log Γ((ν+n)/2) - log Γ(ν/2) cancels.
        normaliser = gammaln(n / 2) - betaln(ν / 2, n / 2) - (n * np.log(ν * np.pi) + np.sum(np.log(λ))) / 2
        return np.asarray(normaliser - (ν + n) / 2 * np.log1p(δ / ν))

    def rvs(self, size: int = 1, random_state: int | np.random.Generator | None = None) -> FloatArray:
        """Return ``size`` joint draws as the columns of an array ``(n, size)``."""
        check_number("size", size, low=0, whole=True)
        generator = np.random.default_rng(random_state)
        λ, U = self._eigen()
        normal = (U * np.sqrt(λ)) @ generator.standard_normal((len(self), size))
        ν = min(self.df, 1e15)
        mixing = generator.chisquare(ν, size) / ν
        return self.loc[:, None] + normal / np.sqrt(mixing)

    def _eigen(self) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues and eigenvectors of ``shape``; what is zero up to rounding comes back as zero."""
        λ, U = eigh(self.shape)
        noise = len(λ) * np.finfo(np.float64).eps * np.max(np.abs(λ), initial=0.0)
        if np.any(λ < -1e-8 * np.max(np.abs(λ), initial=0.0)):
            raise InvalidParameterError(f"shape must be positive semi-definite; its smallest eigenvalue is {λ[0]:g}")
        return np.where(λ > noise, λ, 0.0), U
