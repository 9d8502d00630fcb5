"""The conjugate posterior: normal-inverse-gamma on (β, σ²), and the Student-t predictive it implies in closed form.

    β | σ² ~ N(μ₀, σ² Λ₀⁻¹),  σ² ~ Inv-Gamma(a₀, b₀),  y | β, σ² ~ N(Φβ, σ² W⁻¹).

The prior is read as H more rows Λ₀^½ with targets Λ₀^½ μ₀, so that the posterior is one more QR factorisation and 2bₙ a
sum of squares. The textbook formula yᵀy + μ₀ᵀΛ₀μ₀ - μₙᵀΛₙμₙ subtracts large numbers to get a small one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cholesky
from scipy.linalg.lapack import dtrtrs

from bdkn.errors import ImproperPosteriorError, InvalidParameterError, check_number
from bdkn.inference.statistics import Rows, Statistics, check_width, fold
from bdkn.inference.triangular import solve
from bdkn.predictive import MultivariateT, StudentT
from bdkn.typing import FloatArray

_EPS, _LARGEST = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).max)


@dataclass(frozen=True, eq=False, init=False)
class Prior:
    """β | σ² ~ N(mean, σ² precision⁻¹) and σ² ~ Inv-Gamma(a0, b0); a0 = b0 = 0 is Jeffreys' 1/σ².

    ``mean`` is a number or (H,); ``precision`` a number, a diagonal (H,) or a matrix (H, H), positive semi-definite.
    Zero precision is a flat prior. A negative ``a0`` is allowed: -½ gives up the degree of freedom of an intercept
    that was projected out of the rows beforehand. ``root`` is a square root, rootᵀ root = precision.
    """

    mean: FloatArray
    precision: FloatArray
    a0: float
    b0: float
    root: FloatArray = field(repr=False)
    is_definite: bool = field(repr=False)

    def __init__(self, mean: ArrayLike, precision: ArrayLike, a0: float = 0.0, b0: float = 0.0) -> None:
        μ0, Λ0 = _broadcast(mean, precision)
        check_number("a0", a0, low=-_LARGEST, high=_LARGEST)
        check_number("b0", b0, low=0.0, high=_LARGEST)
        root, is_definite = _square_root(Λ0)
        self.__dict__.update(mean=μ0, precision=Λ0, a0=float(a0), b0=float(b0), root=root, is_definite=is_definite)

    @classmethod
    def isotropic(
        cls, n_weights: int, variance: float, mean: ArrayLike = 0.0, a0: float = 0.0, b0: float = 0.0
    ) -> Self:
        """Return the prior with Λ₀ = I/σ_β², σ_β² = ``variance``: every member has the same say beforehand."""
        check_number("n_weights", n_weights, low=1, whole=True)
        check_number("variance", variance, low=0.0, strict=True)
        return cls(mean, np.full(n_weights, 1.0 / variance), a0, b0)

    @classmethod
    def shrinking(cls, mean: FloatArray, variance: float) -> Self:
        """Return ``isotropic`` about a mean (H,) without checks, for callers whose numbers are known to be sound."""
        prior, H = cls.__new__(cls), len(mean)
        precision, root = _identity(H) * (1.0 / variance), _identity(H) * math.sqrt(1.0 / variance)
        prior.__dict__.update(mean=mean, precision=precision, a0=0.0, b0=0.0, root=root, is_definite=True)
        return prior

    @property
    def n_weights(self) -> int:
        """The number H of weights."""
        return len(self.mean)

    @property
    def is_proper(self) -> bool:
        """Whether the prior integrates to one: a0 > 0, b0 > 0 and a positive definite precision."""
        return self.a0 > 0 and self.b0 > 0 and self.is_definite


@dataclass(frozen=True, eq=False)
class Posterior:
    """β | σ², y ~ N(mean, σ² (rootᵀ root)⁻¹) and σ² | y ~ Inv-Gamma(a, b).

    ``root`` is upper-triangular up to the order of its columns, which is that of the members.
    """

    mean: FloatArray
    root: FloatArray
    a: float
    b: float
    prior: Prior

    @property
    def df(self) -> float:
        """The degrees of freedom ν = 2a of everything predicted."""
        return 2.0 * self.a

    @property
    def precision(self) -> FloatArray:
        """The matrix Λₙ = Λ₀ + ΦᵀWΦ."""
        return self.root.T @ self.root

    @property
    def scale_matrix(self) -> FloatArray:
        """The matrix (b/a) Λₙ⁻¹, the shape of the Student-t distribution of β."""
        return self.kernel(np.eye(len(self.mean)))

    @property
    def covariance(self) -> FloatArray:
        """The covariance b/(a-1) Λₙ⁻¹ of β, which exists for more than two degrees of freedom."""
        return MultivariateT(self.df, self.mean, self.scale_matrix).cov()

    def predictive(self, Phi: ArrayLike, noise: ArrayLike = 1.0) -> StudentT:
        """Return St(2a, φᵀμₙ, (b/a)(v + φᵀΛₙ⁻¹φ)) for each row φ of ``Phi``.

        ``noise`` is v, the variance of a row relative to σ²: 1 in the paper, a number a row in the heteroscedastic
        form, 0 for the noise-free function.
        """
        return StudentT(self.df, *self.location_scale(Phi, noise))

    def location_scale(self, Phi: ArrayLike, noise: ArrayLike = 1.0) -> tuple[FloatArray, FloatArray]:
        """Return centre and scale of ``predictive``."""
        from bdkn.kernels.leverage import location_scale

        phi, v = self._features(Phi), np.asarray(noise, dtype=np.float64)
        if v.shape not in ((), phi.shape[:1]):
            raise InvalidParameterError(f"noise must be a number, or one a row of {len(phi)}; got shape {v.shape}")
        v = v if v.ndim else np.full(len(phi), v)
        return location_scale(self.root, self.mean, phi, v, self.b / self.a)

    def leverage(self, Phi: ArrayLike) -> FloatArray:
        """Return φᵀΛₙ⁻¹φ for each row φ of ``Phi``: how uncertain the weights leave it, relative to σ²."""
        from bdkn.kernels.leverage import leverage

        return leverage(self.root, self._features(Phi))

    def joint(self, Phi: ArrayLike, noise: ArrayLike = 1.0) -> MultivariateT:
        """Return the distribution of all rows together, which share β and σ²; its marginals are ``predictive``."""
        phi = self._features(Phi)
        v = np.broadcast_to(np.asarray(noise, dtype=np.float64), len(phi))
        return MultivariateT(self.df, phi @ self.mean, self.kernel(phi) + self.b / self.a * np.diag(v))

    def kernel(self, Phi: ArrayLike, Phi2: ArrayLike | None = None) -> FloatArray:
        """Return (b/a) Φ Λₙ⁻¹ Φ₂ᵀ, the Student-t shape of the noise-free function; Φ₂ = Φ if not given."""
        left = self._whitened(self._features(Phi))
        right = left if Phi2 is None else self._whitened(self._features(Phi2))
        return self.b / self.a * (left.T @ right)

    def weights(self) -> StudentT:
        """Return the marginal distribution of each weight."""
        return StudentT(self.df, self.mean, np.sqrt(np.diag(self.scale_matrix)))

    def weight_interval(self, coverage: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the central interval of each weight."""
        return self.weights().interval(coverage)

    def noise(self) -> Any:
        """Return the distribution Inv-Gamma(a, b) of σ², as a frozen ``scipy.stats`` distribution."""
        from scipy.stats import invgamma

        if self.b == 0.0:
            raise ImproperPosteriorError(
                "σ² must have been seen to exceed zero; here y = Φμ₀ exactly, so it is zero for certain: give a b0 > 0"
            )
        return invgamma(self.a, scale=self.b)

    def draw(
        self, size: int = 1, random_state: int | np.random.Generator | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``size`` joint draws: the weights (size, H) and the noise variances (size,)."""
        check_number("size", size, low=0, whole=True)
        generator = np.random.default_rng(random_state)
        σ2 = self.b / generator.standard_gamma(self.a, size)
        steps = solve(self.root, generator.standard_normal((len(self.mean), size)))
        return self.mean + np.sqrt(σ2)[:, None] * steps.T, σ2

    def _features(self, Phi: ArrayLike) -> FloatArray:
        phi = np.ascontiguousarray(Phi, dtype=np.float64)
        if phi.ndim != 2 or phi.shape[1] != len(self.mean):
            raise InvalidParameterError(f"Phi must be (rows, {len(self.mean)}); got shape {phi.shape}")
        return phi

    def _whitened(self, phi: FloatArray) -> FloatArray:
        """Return Rₙ⁻ᵀΦᵀ, whose columns have the inner products φᵀΛₙ⁻¹φ'."""
        from bdkn.kernels.leverage import whitened

        return whitened(self.root, phi)


def posterior(stats: Statistics, prior: Prior) -> Posterior:
    """Return the posterior given the rows behind ``stats``.

    One QR factorisation of [[R_Φ, z], [0, ρ], [Λ₀^½, Λ₀^½ (μ₀ - ref)]] = Q [[Rₙ, zₙ], [0, ρₙ]] gives
    Λₙ = RₙᵀRₙ, μₙ = ref + Rₙ⁻¹zₙ, bₙ = b₀ + ρₙ²/2, and aₙ = a₀ + n/2. Large columns go first: a row of the prior,
    however small, then keeps its digits where the members are equal and it alone decides.
    """
    H = len(stats.ref)
    check_width("prior", len(prior.mean), H)
    factor, order, *_ = stats.denoised
    prior_rows = Rows(prior.root[:, order], np.zeros(H), prior.mean[order])
    factor, ref = fold(factor, stats.ref[order], prior_rows)
    R, a = factor[:H, :H], prior.a0 + stats.n / 2.0
    _check_proper(R, a, prior)
    root, μ = np.empty((H, H)), np.empty(H)
    root[:, order], μ[order] = R, ref + dtrtrs(R, factor[:H, H])[0]
    return Posterior(μ, root, a, prior.b0 + float(factor[H, H]) ** 2 / 2.0, prior)


def _check_proper(R: FloatArray, a: float, prior: Prior) -> None:
    """Raise unless prior and data together determine the noise level and every weight."""
    if a <= 0:
        raise ImproperPosteriorError(
            f"a0 + n/2 must exceed zero, or the noise level is undetermined; got {a:g}: add rows, or give a0 > 0"
        )
    if prior.is_definite:  # only underflow can leave a pivot of zero
        is_singular = 0.0 in R.diagonal().tolist()
    else:
        is_singular = bool((np.abs(R.diagonal()) <= len(R) * _EPS * np.linalg.norm(R, axis=0)).any())
    if is_singular:
        raise ImproperPosteriorError(
            "Λ₀ + ΦᵀΦ must be invertible; the members are linearly dependent on these rows, and the prior precision "
            "does not separate them: give a positive definite prior, such as Prior.isotropic"
        )


def _broadcast(mean: ArrayLike, precision: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the mean as (H,) and the precision as (H, H)."""
    μ0, Λ0 = np.asarray(mean, dtype=np.float64), np.asarray(precision, dtype=np.float64)
    H = max(μ0.size, len(Λ0) if Λ0.ndim else 1)
    given = f"got shapes {μ0.shape} and {Λ0.shape}"
    if μ0.ndim == Λ0.ndim == 0 or μ0.shape not in ((), (H,)) or Λ0.shape not in ((), (H,), (H, H)):
        raise InvalidParameterError(f"mean must be a number or (H,), precision a number, (H,) or (H, H); {given}")
    if not (np.isfinite(μ0).all() and np.isfinite(Λ0).all()):
        raise InvalidParameterError("mean and precision must be finite; one of them is not")
    return np.full(H, μ0), Λ0.copy() if Λ0.ndim == 2 else np.diag(np.full(H, Λ0))


@lru_cache(64)
def _identity(H: int) -> FloatArray:
    return np.eye(H)


def _square_root(Λ0: FloatArray) -> tuple[FloatArray, bool]:
    """Return a square root of Λ₀ and whether Λ₀ is positive definite: by Cholesky if it is, by eigenvectors if not."""
    if (Λ0.diagonal() > 0.0).all() and np.count_nonzero(Λ0) == len(Λ0):  # nothing beside the diagonal
        return np.sqrt(Λ0), True
    if (np.abs(Λ0 - Λ0.T) > 1e-12 * np.abs(Λ0)).any():
        raise InvalidParameterError("precision must be symmetric; it is not: use (precision + precision.T) / 2")
    try:
        return np.asarray(cholesky(Λ0, check_finite=False)), True
    except LinAlgError:
        λ, V = np.linalg.eigh(Λ0)
    if λ[0] < -len(λ) * _EPS * abs(λ[-1]) * 10:
        raise InvalidParameterError(f"precision must be positive semi-definite; its smallest eigenvalue is {λ[0]:g}")
    return np.sqrt(np.maximum(λ, 0.0))[:, None] * V.T, False
