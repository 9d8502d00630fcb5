"""The Bayesian linear model as a Gaussian process given σ², and as a Student-t process with σ² integrated out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from bdkn.errors import ImproperPosteriorError, check_number
from bdkn.inference.posterior import Posterior, Prior
from bdkn.predictive import MultivariateT, StudentT
from bdkn.typing import FloatArray


def prior_mean(Phi: ArrayLike, prior: Prior) -> FloatArray:
    """Return the prior mean function m(x) = φ(x)ᵀμ₀ at each row.

    Parameters
    ----------
    Phi : array-like (n, H)
        Means of the members.
    prior : Prior
        Prior of the weights.

    Returns
    -------
    array (n,)
        The prior mean.

    Examples
    --------
    >>> from bdkn.inference import Prior, prior_mean
    >>> prior_mean([[1.0, 3.0]], Prior(0.5, [1.0, 1.0]))
    array([2.])
    """
    return np.asarray(Phi, dtype=np.float64) @ prior.mean


def transformed_features(Phi: ArrayLike, prior: Prior) -> FloatArray:
    """Return features Φ̃ whose inner products are the prior kernel: Φ̃Φ̃ᵀ = ΦΛ₀⁻¹Φᵀ, with the prior precision Λ₀.

    Parameters
    ----------
    Phi : array-like (n, H)
        Means of the members.
    prior : Prior
        Prior of the weights, with a positive definite precision.

    Returns
    -------
    array (n, H)
        The transformed features.

    Examples
    --------
    >>> from bdkn.inference import Prior, transformed_features
    >>> transformed_features([[1.0, 3.0]], Prior(0.0, [4.0, 1.0]))
    array([[0.5, 3. ]])
    """
    if not prior.is_definite:
        raise ImproperPosteriorError("the kernel ΦΛ₀⁻¹Φᵀ needs a positive definite prior precision; it is singular")
    phi = np.asarray(Phi, dtype=np.float64)
    return np.asarray(solve_triangular(prior.root, phi.T, trans="T")).T


def induced_kernel(
    Phi: ArrayLike, Phi2: ArrayLike | None = None, *, prior: Prior, noise_variance: float = 1.0
) -> FloatArray:
    """Return the prior covariance of the predicted function between rows, the kernel k(φ, φ' | σ²) = σ² φᵀΛ₀⁻¹φ'.

    With Λ₀ = I/σ_β² this is σ² σ_β² Σ_h φ_h φ'_h.

    Parameters
    ----------
    Phi : array-like (n, H)
        Means of the members.
    Phi2 : array-like (m, H), optional
        Means of the members for other rows; ``Phi`` by default.
    prior : Prior
        Prior of the weights, with a positive definite precision.
    noise_variance : float, default=1.0
        Noise variance σ².

    Returns
    -------
    array (n, m)
        Prior covariance of the function between the rows.

    Examples
    --------
    >>> from bdkn.inference import Prior, induced_kernel
    >>> induced_kernel([[1.0, 3.0]], [[1.0, 0.0], [0.0, 1.0]], prior=Prior.isotropic(2, 0.5))
    array([[0.5, 1.5]])
    """
    check_number("noise_variance", noise_variance, low=0.0)
    left = transformed_features(Phi, prior)
    right = left if Phi2 is None else transformed_features(Phi2, prior)
    return noise_variance * (left @ right.T)


@dataclass(frozen=True, eq=False)
class StudentTProcess:
    """The process f = φᵀβ with β and σ² integrated out: any finite set of its values is multivariate Student-t.

    It is the posterior of the predicted function; all its paths are linear combinations of the H members. The process
    before any data is ``StudentTProcess(posterior(Statistics.empty(H), prior))``, for a proper prior.

    Parameters
    ----------
    posterior : Posterior
        Posterior of the weights and the noise.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import Prior, Statistics, StudentTProcess, posterior
    >>> Phi, y = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([1.0, 2.0, 4.0])
    >>> process = StudentTProcess(posterior(Statistics.from_rows(Phi, y), Prior.isotropic(2, 1.0)))
    >>> print(process.mean(Phi).round(3), process.paths(Phi, size=5, random_state=0).shape)
    [0.8   2.067 3.333] (3, 5)
    """

    posterior: Posterior

    @property
    def df(self) -> float:
        """The degrees of freedom of every marginal distribution."""
        return self.posterior.df

    def mean(self, Phi: ArrayLike) -> FloatArray:
        """Return the mean function φᵀμₙ at each row."""
        return np.asarray(Phi, dtype=np.float64) @ self.posterior.mean

    def shape(self, Phi: ArrayLike, Phi2: ArrayLike | None = None) -> FloatArray:
        """Return the kernel (b/a) φᵀΛₙ⁻¹φ' of the process, its scale matrix between rows, of rank at most H."""
        return self.posterior.kernel(Phi, Phi2)

    def covariance(self, Phi: ArrayLike, Phi2: ArrayLike | None = None) -> FloatArray:
        """Return the covariance b/(a-1) φᵀΛₙ⁻¹φ' of the function between rows, which exists for ``df`` above 2."""
        check_number("df", self.df, low=2.0, strict=True)
        return self.shape(Phi, Phi2) / (1.0 - 2.0 / self.df)

    def marginal(self, Phi: ArrayLike) -> StudentT:
        """Return the marginal Student-t distribution of the function at each row."""
        return self.posterior.predictive(Phi, noise=0.0)

    def joint(self, Phi: ArrayLike) -> MultivariateT:
        """Return the joint Student-t distribution of the function at all rows."""
        return self.posterior.joint(Phi, noise=0.0)

    def paths(self, Phi: ArrayLike, size: int = 1, random_state: int | np.random.Generator | None = None) -> FloatArray:
        """Return the values (rows, size) of random functions at the rows, each a linear combination of members."""
        β, _ = self.posterior.draw(size, random_state)
        return np.asarray(Phi, dtype=np.float64) @ β.T
