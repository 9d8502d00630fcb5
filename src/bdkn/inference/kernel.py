"""The view from function space: the kernel the members induce, of rank at most H, and its Student-t process."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from bdkn.errors import ImproperPosteriorError, check_number
from bdkn.inference.conjugate import Prior
from bdkn.inference.posteriors import Posterior
from bdkn.predictive import MultivariateT, StudentT
from bdkn.typing import FloatArray


def prior_mean(Phi: ArrayLike, prior: Prior) -> FloatArray:
    """Return m(x) = φ(x)ᵀμ₀ for each row of ``Phi``."""
    return np.asarray(Phi, dtype=np.float64) @ prior.mean


def transformed_features(Phi: ArrayLike, prior: Prior) -> FloatArray:
    """Return Φ̃ with Φ̃Φ̃ᵀ = ΦΛ₀⁻¹Φᵀ: the finite-rank form of the kernel, with a triangular root of Λ₀⁻¹."""
    if not prior.is_definite:
        raise ImproperPosteriorError("the kernel ΦΛ₀⁻¹Φᵀ needs a positive definite prior precision; it is singular")
    phi = np.asarray(Phi, dtype=np.float64)
    return np.asarray(solve_triangular(prior.root, phi.T, trans="T")).T


def induced_kernel(
    Phi: ArrayLike, Phi2: ArrayLike | None = None, *, prior: Prior, noise_variance: float = 1.0
) -> FloatArray:
    """Return k(φ, φ' | σ²) = σ² φᵀΛ₀⁻¹φ' between the rows of ``Phi`` and of ``Phi2`` (``Phi`` if not given).

    With Λ₀ = I/σ_β² this is σ² σ_β² Σ_h φ_h φ'_h.
    """
    check_number("noise_variance", noise_variance, low=0.0)
    left = transformed_features(Phi, prior)
    right = left if Phi2 is None else transformed_features(Phi2, prior)
    return noise_variance * (left @ right.T)


@dataclass(frozen=True, eq=False)
class StudentTProcess:
    """The process f = φᵀβ with β and σ² integrated out: any finite set of its values is multivariate Student-t.

    It is what a posterior says about functions, so all its paths lie in the span of the H members. The process before
    any data is ``StudentTProcess(posterior(Statistics.empty(H), prior))``, for a proper prior.
    """

    posterior: Posterior

    @property
    def df(self) -> float:
        """The degrees of freedom of every marginal."""
        return self.posterior.df

    def mean(self, Phi: ArrayLike) -> FloatArray:
        """Return the mean function φᵀμₙ."""
        return np.asarray(Phi, dtype=np.float64) @ self.posterior.mean

    def shape(self, Phi: ArrayLike, Phi2: ArrayLike | None = None) -> FloatArray:
        """Return the shape (b/a) φᵀΛₙ⁻¹φ' between rows, the kernel of the process, of rank at most H."""
        return self.posterior.kernel(Phi, Phi2)

    def covariance(self, Phi: ArrayLike, Phi2: ArrayLike | None = None) -> FloatArray:
        """Return the covariance b/(a-1) φᵀΛₙ⁻¹φ' between rows, which exists for ``df`` above 2."""
        check_number("df", self.df, low=2.0, strict=True)
        return self.shape(Phi, Phi2) / (1.0 - 2.0 / self.df)

    def marginal(self, Phi: ArrayLike) -> StudentT:
        """Return the distribution of f at each row on its own."""
        return self.posterior.predictive(Phi, noise=0.0)

    def joint(self, Phi: ArrayLike) -> MultivariateT:
        """Return the distribution of f at all rows together."""
        return self.posterior.joint(Phi, noise=0.0)

    def paths(self, Phi: ArrayLike, size: int = 1, random_state: int | np.random.Generator | None = None) -> FloatArray:
        """Return ``size`` random functions seen at the rows, ``(rows, size)``; each is a combination of the members."""
        β, _ = self.posterior.draw(size, random_state)
        return np.asarray(Phi, dtype=np.float64) @ β.T
