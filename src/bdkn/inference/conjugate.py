"""The conjugate model: a normal-inverse-gamma prior of (β, σ²), conditioned on rows, and the evidence.

    β | σ² ~ N(μ₀, σ² Λ₀⁻¹),  σ² ~ Inv-Gamma(a₀, b₀),  y | β, σ² ~ N(Φβ, σ² W⁻¹).

The prior is read as H more rows Λ₀^½ with targets Λ₀^½ μ₀, so that the posterior is one more QR factorisation and 2bₙ a
sum of squares. The textbook formula yᵀy + μ₀ᵀΛ₀μ₀ - μₙᵀΛₙμₙ subtracts large numbers to get a small one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cholesky
from scipy.linalg.lapack import dtrtrs

from bdkn.errors import ImproperPosteriorError, InvalidParameterError, check_number
from bdkn.inference.evidence import constant_part, log_determinant
from bdkn.inference.factor import Observations
from bdkn.inference.rowwise import AnyPosterior, triangular_order
from bdkn.inference.statistics import Statistics
from bdkn.storage.fields import Number, floats, stored
from bdkn.typing import FloatArray

_EPS, _LARGEST = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).max)


@stored
@dataclass(frozen=True, eq=False, init=False)
class Prior:
    """Normal-inverse-gamma prior: β | σ² ~ N(mean, σ² precision⁻¹) and σ² ~ Inv-Gamma(a0, b0).

    For a block of q targets with noise covariance Σ it is matrix-normal inverse-Wishart, β | Σ ~ MN(mean, precision⁻¹,
    Σ) and Σ ~ Inv-Wishart(2 a0 + q - 1, 2 b0), such that each target by itself has the prior of one target.

    Parameters
    ----------
    mean : float or array-like (H,)
        Prior mean μ₀ of the weights. For a block of targets it may be (H, q).
    precision : float or array-like (H,) or (H, H)
        Prior precision Λ₀ in units of the noise: a number, a diagonal or a positive semi-definite matrix. Zero is a
        flat prior.
    a0 : float, default=0.0
        Shape of the prior of σ². It may be negative: -½ gives up the degree of freedom of an intercept that was
        projected out of the rows beforehand.
    b0 : float or array-like (q, q), default=0.0
        Scale of the prior of σ². ``a0 = b0 = 0`` is Jeffreys' prior 1/σ². For a block of targets a number stands for
        that times the identity.

    Attributes
    ----------
    root : array (H, H)
        A square root of the precision, rootᵀ root = precision.
    is_definite : bool
        Whether the precision is positive definite.

    Examples
    --------
    >>> from bdkn.inference import Prior
    >>> Prior(mean=0.5, precision=[1.0, 4.0]).root
    array([[1., 0.],
           [0., 2.]])
    >>> Prior.isotropic(2, variance=0.1, a0=1.0, b0=1.0).is_proper
    True
    """

    mean: Annotated[FloatArray, floats("W")]
    precision: Annotated[FloatArray, floats("W", "W")]
    a0: float
    b0: Annotated[float | FloatArray, Number(low=0.0)]
    root: FloatArray = field(repr=False)
    is_definite: bool = field(repr=False)

    def __init__(self, mean: ArrayLike, precision: ArrayLike, a0: float = 0.0, b0: ArrayLike = 0.0) -> None:
        μ0, Λ0 = _broadcast(mean, precision)
        check_number("a0", a0, low=-_LARGEST, high=_LARGEST)
        scale = _checked_scale(b0)
        root, is_definite = _square_root("precision", Λ0)
        self.__dict__.update(mean=μ0, precision=Λ0, a0=float(a0), b0=scale, root=root, is_definite=is_definite)

    @classmethod
    def isotropic(
        cls, n_weights: int, variance: float, mean: ArrayLike = 0.0, a0: float = 0.0, b0: ArrayLike = 0.0
    ) -> Self:
        """Return the prior with Λ₀ = I/σ_β², σ_β² = ``variance``: all members have the same prior."""
        check_number("n_weights", n_weights, low=1, whole=True)
        check_number("variance", variance, low=0.0, strict=True)
        return cls(mean, np.full(n_weights, 1.0 / variance), a0, b0)

    @classmethod
    def shrinking(cls, mean: FloatArray, variance: float) -> Self:
        """Return ``isotropic`` about a mean (H,) without checks, for callers whose numbers are known to be valid."""
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
        """Whether the prior integrates to one: a0 > 0, b0 and the precision positive definite."""
        return self.a0 > 0 and log_determinant(self.b0) > -math.inf and self.is_definite


def condition(stats: Statistics, prior: Prior) -> tuple[FloatArray, FloatArray, float, Any]:
    """Return μₙ, Rₙ with RₙᵀRₙ = Λₙ, aₙ and bₙ, which is a number for one target and a matrix for a block.

    One QR factorisation of [[R_Φ, z], [0, ρ], [Λ₀^½, Λ₀^½ (μ₀ - ref)]] = Q [[Rₙ, zₙ], [0, ρₙ]] gives
    Λₙ = RₙᵀRₙ, μₙ = ref + Rₙ⁻¹zₙ and bₙ = b₀ + ½ρₙᵀρₙ; aₙ = a₀ + n/2. Large columns go first: a row of the prior,
    however small, then keeps its digits where the members are equal and it alone decides.
    """
    before, order, _, _ = stats.factor.denoised
    μ0, shape = prior.mean, before.ref.shape
    if μ0.shape != shape:
        μ0 = _mean_of_block(μ0, shape)
    H, block = shape[0], len(shape) > 1
    factor = before.add(Observations(prior.root[:, order], np.zeros(shape), μ0[order]))
    R, a = factor.root[:H, :H], prior.a0 + stats.n / 2.0
    _check_proper(R, a, prior)
    root, μ = np.empty((H, H)), np.empty(shape)
    z = factor.root[:H, H:] if block else factor.root[:H, H]
    root[:, order], μ[order] = R, factor.ref + dtrtrs(R, z)[0]
    b = _block_scale(prior.b0, factor.root[H:, H:]) if block else prior.b0 + float(factor.root[H, H]) ** 2 / 2.0
    return μ, root, a, b


def _block_scale(b0: float | FloatArray, ρ: FloatArray) -> FloatArray:
    """Return b₀ + ½ρᵀρ, where a number b₀ stands for that times the identity."""
    return np.asarray((b0 if isinstance(b0, np.ndarray) else b0 * np.eye(len(ρ))) + ρ.T @ ρ / 2.0)


class Conditioned(AnyPosterior, Protocol):
    """A posterior that knows its prior."""

    @property
    def prior(self) -> Prior:
        """The prior it comes from."""


def log_evidence(stats: Statistics, given: Prior | Conditioned) -> float:
    """Return the log evidence log p(y | Φ), with the weights and the noise integrated out.

    It is log Γ(aₙ) - aₙ log bₙ + ½ log|Λ₀| - ½ log|Λₙ| - (n/2) log 2π + ½ Σ log w + a₀ log b₀ - log Γ(a₀). The last two
    terms normalise a proper Inv-Gamma(a₀, b₀). If it is improper they are left out: the density is taken to be exactly
    σ^(-2(a₀+1)) exp(-b₀/σ²), for Jeffreys 1/σ², so that the value is still a definite integral.

    For a block of q targets, Γ is the multivariate gamma function Γ_q at aₙ + (q - 1)/2, the exponent of |bₙ| is
    aₙ + (q - 1)/2, and the terms in Λ, n and w count q times.

    Parameters
    ----------
    stats : Statistics
        Statistics of the rows.
    given : Prior or Posterior or BlockPosterior
        The prior, with a positive definite precision; or the posterior, where it is known already.

    Returns
    -------
    float
        The log evidence. It is +inf in the limit of a perfect fit, y = Φμ₀ with b₀ = 0.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import Prior, Statistics, log_evidence
    >>> Phi, y = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([1.0, 2.0, 4.0])
    >>> print(round(log_evidence(Statistics.from_rows(Phi, y), Prior.isotropic(2, 1.0)), 3))
    -4.7
    """
    prior = given if isinstance(given, Prior) else given.prior
    if not prior.is_definite:
        raise ImproperPosteriorError(
            "the evidence needs a positive definite prior precision; under a flat prior it has no scale"
        )
    if isinstance(given, Prior):
        _, root, a, b = condition(stats, given)
    else:
        root, a, b = given.root, given.a, given.b
    q = len(b) if isinstance(b, np.ndarray) else 1
    log_ratio = q * (_log_volume(prior.root) - _log_volume(root))
    return constant_part(stats, q, prior.a0, prior.b0) + log_ratio - (a + (q - 1) / 2.0) * log_determinant(b)


def _log_volume(root: FloatArray) -> float:
    """Return log|det R| for R upper-triangular up to the order of its columns."""
    pivots = root.diagonal().tolist()
    if 0.0 in pivots:  # the columns are in another order: in all but one, a zero comes to lie on the diagonal
        pivots = root[:, triangular_order(root)].diagonal().tolist()
    return sum(map(math.log, map(abs, pivots)))


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
    """Return the mean as (H,), or as (H, q) if it is given so, and the precision as (H, H)."""
    μ0, Λ0 = np.asarray(mean, dtype=np.float64), np.asarray(precision, dtype=np.float64)
    H = max(len(μ0) if μ0.ndim else 1, len(Λ0) if Λ0.ndim else 1)
    given = f"got shapes {μ0.shape} and {Λ0.shape}"
    if μ0.ndim == Λ0.ndim == 0 or μ0.shape[:1] not in ((), (H,)) or μ0.ndim > 2 or Λ0.shape not in ((), (H,), (H, H)):
        raise InvalidParameterError(f"mean must be a number or (H,), precision a number, (H,) or (H, H); {given}")
    if not (np.isfinite(μ0).all() and np.isfinite(Λ0).all()):
        raise InvalidParameterError("mean and precision must be finite; one of them is not")
    return np.full((H, *μ0.shape[1:]), μ0), Λ0.copy() if Λ0.ndim == 2 else np.diag(np.full(H, Λ0))


def _mean_of_block(mean: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Return a mean (H,) as that of every target of a block; raise if it is of other weights or targets."""
    if len(mean) != shape[0]:
        raise InvalidParameterError(f"prior must have {shape[0]} weights; got {len(mean)}")
    if mean.ndim > 1:
        raise InvalidParameterError(f"the prior mean must be (H,) or, for these targets, {shape}; got {mean.shape}")
    return np.broadcast_to(mean[:, None], shape)


def _checked_scale(b0: ArrayLike) -> float | FloatArray:
    """Return b₀ as a number or a positive semi-definite matrix."""
    if np.ndim(b0) == 0:
        check_number("b0", b0, low=0.0, high=_LARGEST)
        return float(b0)  # type: ignore[arg-type]
    scale = np.asarray(b0, dtype=np.float64)
    if scale.shape != (len(scale), len(scale)) or not np.isfinite(scale).all():
        raise InvalidParameterError(f"b0 must be a number or a finite matrix (q, q); got shape {scale.shape}")
    _square_root("b0", scale)
    return scale.copy()


@lru_cache(64)
def _identity(H: int) -> FloatArray:
    return np.eye(H)


def _square_root(name: str, Λ0: FloatArray) -> tuple[FloatArray, bool]:
    """Return a square root of Λ₀ and whether Λ₀ is positive definite: by Cholesky if it is, by eigenvectors if not."""
    if (Λ0.diagonal() > 0.0).all() and np.count_nonzero(Λ0) == len(Λ0):  # a diagonal matrix
        return np.sqrt(Λ0), True
    if (np.abs(Λ0 - Λ0.T) > 1e-12 * np.abs(Λ0)).any():
        raise InvalidParameterError(f"{name} must be symmetric; it is not: use ({name} + {name}.T) / 2")
    try:
        return np.asarray(cholesky(Λ0, check_finite=False)), True
    except LinAlgError:
        λ, V = np.linalg.eigh(Λ0)
    if λ[0] < -len(λ) * _EPS * abs(λ[-1]) * 10:
        raise InvalidParameterError(f"{name} must be positive semi-definite; its smallest eigenvalue is {λ[0]:g}")
    return np.sqrt(np.maximum(λ, 0.0))[:, None] * V.T, False
