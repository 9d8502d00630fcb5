"""The conjugate model: prior, posterior, evidence and leave-one-out predictions of one target or a block of targets.

    β | σ² ~ N(μ₀, σ² Λ₀⁻¹),  σ² ~ Inv-Gamma(a₀, b₀),  y | β, σ² ~ N(Φβ, σ² W⁻¹).

The prior is treated as H more rows Λ₀^½ with targets Λ₀^½ μ₀, so that the posterior is one more QR factorisation and
2bₙ a sum of squares. The textbook formula yᵀy + μ₀ᵀΛ₀μ₀ - μₙᵀΛₙμₙ subtracts large numbers to get a small number.

**Leave-one-out** predictions need no second fit. To take an observation of row i, of relative precision w, out of the
posterior (Λₙ, μₙ, aₙ, bₙ) is a rank-one downdate. With the residual e = yᵢ - φᵢᵀμₙ and the leverage h = w φᵢᵀΛₙ⁻¹φᵢ,
Sherman and Morrison give

    φᵢᵀμ₋ᵢ = yᵢ - e/(1 - h),   a₋ᵢ = aₙ - ½,   b₋ᵢ = bₙ - ½ w e²/(1 - h),   φᵢᵀΛ₋ᵢ⁻¹φᵢ = φᵢᵀΛₙ⁻¹φᵢ/(1 - h).

From a row that counts c < 1 times, only c can be taken out: w becomes cw in h and b₋ᵢ, and ½ becomes c/2. For a
block of targets, e is a row of q residuals and e² becomes eeᵀ.

**A block** of targets Y (n, q), with weights β (H, q) and the covariance Σ (q, q) of the noise of a row, has

    β | Σ ~ MN(μ₀, Λ₀⁻¹, Σ),   Σ ~ Inv-Wishart(2a₀ + q - 1, 2b₀),   Y | β, Σ ~ MN(Φβ, W⁻¹, Σ),

the model above for q = 1. With q - 1 in the degrees of freedom, each target by itself is exactly the model of one
target with the same a and its own bⱼⱼ: members have the same weights for it as in a fit of its own, and its predictions
the same 2aₙ degrees of freedom. The block adds the correlation between the targets. With a₀ = b₀ = 0 the prior of Σ is
|Σ|⁻q; Jeffreys' |Σ|^(-(q+1)/2) is a₀ = (1 - q)/2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, blas, cholesky
from scipy.linalg.lapack import dtrtrs

from bdkn.errors import ImproperPosteriorError, InvalidParameterError, check_number
from bdkn.inference.evidence import constant_part, log_determinant
from bdkn.inference.rowwise import leverage, location_scale, triangular_order, whitened
from bdkn.inference.statistics import EPS, Observations, Statistics
from bdkn.predictive import MatrixT, MultivariateT, StudentT, VectorT
from bdkn.predictive.multivariate_t import inverse_wishart_roots
from bdkn.storage.fields import NonNegative, Number, Positive, floats, must, sizes, stored
from bdkn.typing import FloatArray

_MAX_FLOAT = float(np.finfo(np.float64).max)
"""Maximum number in double precision."""

ROUNDING = float((16.0 * EPS) ** 2)
"""Ratio of squared errors to squared targets below which a fit counts as exact: only rounding errors are left."""


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
        the number times the identity matrix.

    Attributes
    ----------
    root : array (H, H)
        A matrix root of the precision, rootᵀ root = precision.
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
        μ0, Λ0 = np.asarray(mean, dtype=np.float64), np.asarray(precision, dtype=np.float64)
        H = max(len(μ0) if μ0.ndim else 1, len(Λ0) if Λ0.ndim else 1)
        fits = μ0.shape[:1] in ((), (H,)) and μ0.ndim <= 2 and Λ0.shape in ((), (H,), (H, H))
        if μ0.ndim == Λ0.ndim == 0 or not fits:
            raise InvalidParameterError(
                "mean must be a number or (H,), precision a number, (H,) or (H, H); "
                f"got shapes {μ0.shape} and {Λ0.shape}"
            )
        if not (np.isfinite(μ0).all() and np.isfinite(Λ0).all()):
            raise InvalidParameterError("mean and precision must be finite; one of them is not")
        μ0, Λ0 = np.full((H, *μ0.shape[1:]), μ0), Λ0.copy() if Λ0.ndim == 2 else np.diag(np.full(H, Λ0))
        check_number("a0", a0, low=-_MAX_FLOAT, high=_MAX_FLOAT)
        scale: float | FloatArray
        if np.ndim(b0) == 0:
            check_number("b0", b0, low=0.0, high=_MAX_FLOAT)
            scale = float(b0)  # type: ignore[arg-type]
        else:
            scale = np.array(b0, dtype=np.float64)
            if scale.shape != (len(scale), len(scale)) or not np.isfinite(scale).all():
                raise InvalidParameterError(f"b0 must be a number or a finite matrix (q, q); got shape {scale.shape}")
            _square_root("b0", scale)
        root, is_definite = _square_root("precision", Λ0)
        self.__dict__.update(mean=μ0, precision=Λ0, a0=float(a0), b0=scale, root=root, is_definite=is_definite)

    @classmethod
    def isotropic(
        cls, n_weights: int, variance: float, mean: ArrayLike = 0.0, a0: float = 0.0, b0: ArrayLike = 0.0
    ) -> Self:
        """Return a prior with the same ``variance`` σ_β² for all weights, in units of the noise: Λ₀ = I/σ_β²."""
        check_number("n_weights", n_weights, low=1, whole=True)
        check_number("variance", variance, low=0.0, strict=True)
        return cls(mean, np.full(n_weights, 1.0 / variance), a0, b0)

    @classmethod
    def shrinking(cls, mean: FloatArray, variance: float) -> Self:
        """Return the prior β ~ N(mean, σ² variance I), with a₀ = b₀ = 0. To save time, arguments are not checked."""
        prior, identity = cls.__new__(cls), np.eye(len(mean))
        precision, root = identity * (1.0 / variance), identity * math.sqrt(1.0 / variance)
        prior.__dict__.update(mean=mean, precision=precision, a0=0.0, b0=0.0, root=root, is_definite=True)
        return prior

    @property
    def n_weights(self) -> int:
        """The number H of weights."""
        return len(self.mean)

    @property
    def is_proper(self) -> bool:
        """True if the prior integrates to one: a0 > 0, b0 and the precision positive definite."""
        return self.a0 > 0 and log_determinant(self.b0) > -math.inf and self.is_definite


def condition(stats: Statistics, prior: Prior) -> tuple[FloatArray, FloatArray, float, Any]:
    """Return the posterior: μₙ, Rₙ with RₙᵀRₙ = Λₙ, aₙ and bₙ (a number for one target, a matrix for a block).

    The triangle of ``stats`` and the prior are factored together, [[R, z], [0, ρ], [Λ₀^½, Λ₀^½ (μ₀ - ref)]] =
    Q [[Rₙ, zₙ], [0, ρₙ]]. So μₙ = ref + Rₙ⁻¹zₙ, Λₙ = RₙᵀRₙ, aₙ = a₀ + n/2 and bₙ = b₀ + ½ρₙᵀρₙ,
    equations (6) to (9) of the paper. Large columns go first, so that a small row of the prior keeps its digits where
    the members are equal and the prior alone decides.
    """
    rows, order, _, _ = stats.factor.denoised
    shape, μ0 = rows.ref.shape, prior.mean  # (H,), or (H, q) for a block
    H, is_block = shape[0], len(shape) > 1
    if len(μ0) != H:
        raise InvalidParameterError(f"prior must have {H} weights; got {len(μ0)}")
    if μ0.shape != shape:
        if μ0.ndim > 1:
            raise InvalidParameterError(f"the prior mean must be (H,) or, for these targets, {shape}; got {μ0.shape}")
        μ0 = np.broadcast_to(μ0[:, None], shape)
    factor = rows.add(Observations(prior.root[:, order], np.zeros(shape), μ0[order]))
    R, a = factor.root[:H, :H], prior.a0 + stats.n / 2.0
    if a <= 0:
        raise ImproperPosteriorError(
            f"a0 + n/2 must exceed zero, or the noise level is undetermined; got {a:g}: add rows, or give a0 > 0"
        )
    pivots = np.abs(R.diagonal())  # under a definite prior only underflow can leave a pivot of zero
    if (pivots <= (0.0 if prior.is_definite else H * EPS * np.linalg.norm(R, axis=0))).any():
        raise ImproperPosteriorError(
            "Λ₀ + ΦᵀΦ must be invertible; the members are linearly dependent on these rows, and the prior precision "
            "does not separate them: give a positive definite prior, such as Prior.isotropic"
        )
    root, μ = np.empty((H, H)), np.empty(shape)
    z = factor.root[:H, H:] if is_block else factor.root[:H, H]
    root[:, order], μ[order] = R, factor.ref + dtrtrs(R, z)[0]
    ρ, b0 = factor.root[H:, H:], prior.b0
    if not is_block:
        return μ, root, a, b0 + float(ρ[0, 0]) ** 2 / 2.0
    return μ, root, a, (b0 if isinstance(b0, np.ndarray) else b0 * np.eye(len(ρ))) + ρ.T @ ρ / 2.0


def log_evidence(stats: Statistics, given: Prior | Posterior | BlockPosterior) -> float:
    """Return the log evidence log p(y | Φ), with the weights and the noise integrated out: equation (10).

    It is log Γ(aₙ) - aₙ log bₙ + ½ log|Λ₀| - ½ log|Λₙ| - (n/2) log 2π + ½ Σ log w + a₀ log b₀ - log Γ(a₀). The last two
    terms normalise a proper Inv-Gamma(a₀, b₀). If it is improper they are dropped: the density is taken to be exactly
    σ^(-2(a₀+1)) exp(-b₀/σ²), for Jeffreys 1/σ², so that the value is still a definite integral.

    For a block of q targets, Γ is the multivariate gamma function Γ_q at aₙ + (q - 1)/2, the exponent of |bₙ| is
    aₙ + (q - 1)/2, and the terms in Λ, n and w count q times.

    Parameters
    ----------
    stats : Statistics
        Statistics of the rows.
    given : Prior or Posterior or BlockPosterior
        The prior, with a positive definite precision; or the posterior of the rows, if it is already computed.

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
    constant = constant_part(stats.n, stats.sum_log_w, q, prior.a0, prior.b0)
    return constant + log_ratio - (a + (q - 1) / 2.0) * log_determinant(b)


@stored
@dataclass(frozen=True, eq=False)
class Posterior:
    """Normal-inverse-gamma posterior: β | σ², y ~ N(mean, σ² (rootᵀ root)⁻¹) and σ² | y ~ Inv-Gamma(a, b).

    Made by ``posterior``.

    Parameters
    ----------
    mean : array (H,)
        Posterior mean μₙ of the weights.
    root : array (H, H)
        A square root of the precision Λₙ, upper triangular after a permutation of its columns.
    a, b : float
        Shape and scale of the distribution of σ².
    prior : Prior
        The prior it comes from.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import Prior, Statistics, posterior
    >>> Phi, y = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([1.0, 2.0, 4.0])
    >>> post = posterior(Statistics.from_rows(Phi, y), Prior.isotropic(2, 1.0))
    >>> print(post.mean.round(3), post.df)
    [0.8   1.267] 3.0
    >>> print(post.predictive([[1.0, 3.0]]).mean().round(3))
    [4.6]
    """

    mean: Annotated[FloatArray, floats("W")]
    root: Annotated[FloatArray, floats("W", "W")]
    a: Positive
    b: NonNegative
    prior: Annotated[Prior, sizes(W="n_weights")]

    def check(self) -> None:
        """Raise unless the root is invertible and upper triangular after a permutation of its columns."""
        H, filled = len(self.mean), self.root != 0.0
        last = H - 1 - filled[::-1].argmax(axis=0)
        must(filled.any(axis=0).all(), "root must be invertible; it has a column of zeros")
        must(np.array_equal(np.sort(last), np.arange(H)), "root must be triangular up to the order of its columns")

    @property
    def df(self) -> float:
        """The degrees of freedom ν = 2a of all predictions."""
        return 2.0 * self.a

    @property
    def precision(self) -> FloatArray:
        """The posterior precision Λₙ = Λ₀ + ΦᵀWΦ of the weights."""
        return self.root.T @ self.root

    @property
    def scale_matrix(self) -> FloatArray:
        """The scale matrix (b/a) Λₙ⁻¹ of the Student-t distribution of the weights β."""
        return self.kernel(np.eye(len(self.mean)))

    @property
    def covariance(self) -> FloatArray:
        """The covariance b/(a-1) Λₙ⁻¹ of the weights β, which exists for more than two degrees of freedom."""
        return MultivariateT(self.df, self.mean, self.scale_matrix).cov()

    def predictive(self, Phi: ArrayLike, noise: ArrayLike = 1.0) -> StudentT:
        """Return the prediction St(2a, φᵀμₙ, (b/a)(v + φᵀΛₙ⁻¹φ)) of each row φ of ``Phi``: equation (5) of the paper.

        ``noise`` is v, the variance of a row relative to σ²: 1 in the paper, one number per row in the heteroscedastic
        form, 0 for the noise-free function.
        """
        return StudentT(self.df, *self.location_scale(Phi, noise))

    def location_scale(self, Phi: ArrayLike, noise: ArrayLike = 1.0) -> tuple[FloatArray, FloatArray]:
        """Return the locations (n,) and the scales (n,) of the Student-t predictions of ``predictive``."""
        phi, v = checked_features(Phi, len(self.mean)), np.asarray(noise, dtype=np.float64)
        if v.shape not in ((), phi.shape[:1]):
            raise InvalidParameterError(f"noise must be a number, or one per row of {len(phi)}; got shape {v.shape}")
        v = v if v.ndim else np.full(len(phi), v)
        return location_scale(self.root, self.mean, phi, v, self.b / self.a)

    def leverage(self, Phi: ArrayLike) -> FloatArray:
        """Return φᵀΛₙ⁻¹φ for each row φ of ``Phi``: the variance due to the weights, relative to σ²."""
        return leverage(self.root, checked_features(Phi, len(self.mean)))

    def joint(self, Phi: ArrayLike, noise: ArrayLike = 1.0) -> MultivariateT:
        """Return the joint prediction of all rows, which share β and σ²; its marginals are ``predictive``."""
        phi = checked_features(Phi, len(self.mean))
        v = np.broadcast_to(np.asarray(noise, dtype=np.float64), len(phi))
        return MultivariateT(self.df, phi @ self.mean, self.kernel(phi) + self.b / self.a * np.diag(v))

    def kernel(self, Phi: ArrayLike, Phi2: ArrayLike | None = None) -> FloatArray:
        """Return (b/a) Φ Λₙ⁻¹ Φ₂ᵀ, the scale matrix of the noise-free function at two sets of rows; default Φ₂ = Φ."""
        H = len(self.mean)
        left = whitened(self.root, checked_features(Phi, H))
        right = left if Phi2 is None else whitened(self.root, checked_features(Phi2, H))
        return self.b / self.a * (left.T @ right)

    def leave_one_out(
        self, Phi: ArrayLike, y: ArrayLike, precision: ArrayLike = 1.0, counts: ArrayLike | None = None
    ) -> StudentT:
        """Return the prediction of each row of the fit from all other rows, in closed form.

        The prior mean and variance are kept as they are. If a row counts several times, only one observation is left
        out.
        """
        phi, targets = checked_features(Phi, len(self.mean)), np.asarray(y, dtype=np.float64)
        w = np.broadcast_to(np.asarray(precision, dtype=np.float64), targets.shape)
        return StudentT(*leave_out(self, phi, targets, w, None if counts is None else np.asarray(counts, np.float64)))

    def weights(self) -> StudentT:
        """Return the marginal Student-t distribution of each weight."""
        return StudentT(self.df, self.mean, np.sqrt(np.diag(self.scale_matrix)))

    def noise(self) -> Any:
        """Return the distribution Inv-Gamma(a, b) of σ², as a frozen ``scipy.stats`` distribution."""
        from scipy.stats import invgamma

        if self.b == 0.0:
            raise ImproperPosteriorError(
                "σ² must exceed zero; here y = Φμ₀ exactly, so it is zero for certain: give a b0 > 0"
            )
        return invgamma(self.a, scale=self.b)

    def draw(
        self, size: int = 1, random_state: int | np.random.Generator | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``size`` joint draws from the posterior: weights (size, H) and noise variances (size,)."""
        check_number("size", size, low=0, whole=True)
        generator = np.random.default_rng(random_state)
        σ2 = self.b / generator.standard_gamma(self.a, size)
        steps = solve(self.root, generator.standard_normal((len(self.mean), size)))
        return self.mean + np.sqrt(σ2)[:, None] * steps.T, σ2


def posterior(stats: Statistics, prior: Prior) -> Posterior:
    """Return the posterior of the weights and the noise of one target.

    Parameters
    ----------
    stats : Statistics
        Statistics of the rows.
    prior : Prior
        Prior of β and σ².

    Returns
    -------
    Posterior
        With Λₙ = Λ₀ + ΦᵀWΦ, μₙ = Λₙ⁻¹(Λ₀μ₀ + ΦᵀWy), aₙ = a₀ + n/2 and bₙ = b₀ + ½(yᵀWy + μ₀ᵀΛ₀μ₀ - μₙᵀΛₙμₙ).

    See Also
    --------
    block_posterior : The posterior for several targets.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import Prior, Statistics, posterior
    >>> Phi, y = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([1.0, 2.0, 4.0])
    >>> post = posterior(Statistics.from_rows(Phi, y), Prior.isotropic(2, 1.0))
    >>> print(post.mean.round(3), post.a, round(post.b, 3))
    [0.8   1.267] 1.5 1.367
    """
    if stats.factor.ref.ndim > 1:
        raise InvalidParameterError(
            f"posterior takes one target per row, y of shape (rows,); these statistics are of a block of "
            f"{stats.n_targets}: use block_posterior"
        )
    if isinstance(prior.b0, np.ndarray):
        raise InvalidParameterError(f"b0 must be a number for one target; got a matrix {prior.b0.shape}")
    return Posterior(*condition(stats, prior), prior)


def leave_out(
    post: Posterior, phi: FloatArray, y: FloatArray, w: FloatArray, counts: FloatArray | None
) -> tuple[float | FloatArray, FloatArray, FloatArray]:
    """Return degrees of freedom, location and scale of each row's leave-one-out prediction, for one target."""
    c, a, e, h, left = _without_each_row(post, phi, y, w, counts)
    b = np.maximum(post.b - c * w * e**2 / left / 2.0, EPS * post.b)
    df: float | FloatArray = 2.0 * post.a - 1.0 if counts is None else 2.0 * a
    return df, y - e / left, np.sqrt(b / a * (1.0 / w + h / left))


def without_rounding(post: Posterior, stats: Statistics) -> Posterior:
    """Return the posterior with b, the scale of σ², set to 0 if members reproduce the targets up to rounding errors."""
    root, ref = stats.factor.root, stats.factor.ref
    with np.errstate(over="ignore", invalid="ignore"):
        squares = float(np.sum(np.square(root[:, -1] + root[:, :-1] @ ref)))  # Σ w c y²
    return replace(post, b=0.0) if np.isfinite(squares) and 0.0 < post.b <= ROUNDING * squares else post


@dataclass(frozen=True, eq=False)
class BlockPosterior:
    """Posterior of q targets: β | Σ, Y ~ MN(mean, (rootᵀ root)⁻¹, Σ) and Σ | Y ~ Inv-Wishart(2a + q - 1, 2b).

    Made by ``block_posterior``.

    Parameters
    ----------
    mean : array (H, q)
        Posterior mean μₙ of the weights.
    root : array (H, H)
        A square root of the precision Λₙ, upper triangular after a permutation of its columns.
    a : float
        Half of the degrees of freedom of predictions.
    b : array (q, q)
        Scale of the distribution of Σ.
    prior : Prior
        The prior it comes from.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import Prior, Statistics, block_posterior
    >>> Phi = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> Y = np.array([[1.0, 0.0], [2.0, 1.0], [4.0, -1.0]])
    >>> post = block_posterior(Statistics.from_rows(Phi, Y), Prior.isotropic(2, 1.0))
    >>> print(post.mean.round(3))
    [[ 0.8    0.2  ]
     [ 1.267 -0.267]]
    >>> print(post.predictive([[1.0, 3.0]]).mean().round(3))
    [[ 4.6 -0.6]]
    """

    mean: FloatArray
    root: FloatArray
    a: float
    b: FloatArray
    prior: Prior

    @property
    def n_targets(self) -> int:
        """The number q of targets."""
        return int(self.mean.shape[1])

    @property
    def df(self) -> float:
        """The degrees of freedom ν = 2a of all predictions."""
        return 2.0 * self.a

    @property
    def precision(self) -> FloatArray:
        """The posterior precision Λₙ = Λ₀ + ΦᵀWΦ of the weights, the same for all targets."""
        return self.root.T @ self.root

    def target(self, number: int) -> Posterior:
        """Return the posterior of one target, by number; a fit to this target alone gives the same."""
        prior, b0 = self.prior, self.prior.b0
        mean = prior.mean if prior.mean.ndim == 1 else prior.mean[:, number]
        own = Prior(mean, prior.precision, prior.a0, float(b0[number, number]) if isinstance(b0, np.ndarray) else b0)
        return Posterior(self.mean[:, number], self.root, self.a, float(self.b[number, number]), own)

    def predictive(self, Phi: ArrayLike, noise: ArrayLike = 1.0) -> VectorT:
        """Return the prediction St_q(2a, φᵀμₙ, (v + φᵀΛₙ⁻¹φ) b/a) of each row φ of ``Phi``.

        ``noise`` is v, the covariance of a row in units of Σ: a number, or one per row; 0 for the noise-free function.
        """
        phi = checked_features(Phi, len(self.mean))
        v = np.broadcast_to(np.asarray(noise, dtype=np.float64), len(phi))
        return VectorT(self.df, phi @ self.mean, (v + leverage(self.root, phi))[:, None, None] * (self.b / self.a))

    def joint(self, Phi: ArrayLike, noise: ArrayLike = 1.0) -> MatrixT:
        """Return the joint prediction of all rows, which share β and Σ; its marginals are ``predictive``."""
        phi = checked_features(Phi, len(self.mean))
        v = np.broadcast_to(np.asarray(noise, dtype=np.float64), len(phi))
        x = whitened(self.root, phi)
        return MatrixT(self.df, phi @ self.mean, x.T @ x + np.diag(v), self.b / self.a)

    def leave_one_out(
        self, Phi: ArrayLike, Y: ArrayLike, precision: ArrayLike = 1.0, counts: ArrayLike | None = None
    ) -> VectorT:
        """Return the prediction of each row of the fit from all other rows, in closed form."""
        phi, targets = checked_features(Phi, len(self.mean)), np.asarray(Y, dtype=np.float64)
        if targets.shape != (len(phi), self.n_targets):
            raise InvalidParameterError(f"Y must be ({len(phi)}, {self.n_targets}); got shape {targets.shape}")
        w = np.broadcast_to(np.asarray(precision, dtype=np.float64), len(phi))
        c, a, e, h, left = _without_each_row(
            self, phi, targets, w, None if counts is None else np.asarray(counts, dtype=np.float64)
        )
        u = e * np.sqrt(c * w / left / 2.0)[:, None]  # b₋ᵢ = b - uuᵀ
        size = np.sqrt(self.b.diagonal())
        size = np.where(size > 0.0, size, 1.0)  # so that the units of the targets do not matter
        inverse = np.linalg.pinv(self.b / np.outer(size, size), hermitian=True)
        share = np.einsum("np,pq,nq->n", u / size, inverse, u / size)
        u *= np.sqrt(np.minimum(1.0, (1.0 - EPS) / np.maximum(share, EPS)))[:, None]  # at most all of b is taken out
        b = self.b - u[:, :, None] * u[:, None, :]
        shape = b * (1.0 / a * (1.0 / w + h / left))[:, None, None]
        return VectorT(2.0 * a, targets - e / left[:, None], shape)

    def weights(self) -> VectorT:
        """Return the distribution of each member's weights for the q targets."""
        return self.predictive(np.eye(len(self.mean)), noise=0.0)

    def noise(self) -> Any:
        """Return the distribution Inv-Wishart(2a + q - 1, 2b) of Σ, as a frozen ``scipy.stats`` distribution."""
        from scipy.stats import invwishart

        self._check_regular()
        return invwishart(self.df + self.n_targets - 1, 2.0 * self.b)

    def draw(
        self, size: int = 1, random_state: int | np.random.Generator | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``size`` joint draws from the posterior: weights (size, H, q) and noise covariances (size, q, q)."""
        check_number("size", size, low=0, whole=True)
        self._check_regular()
        generator, (H, q) = np.random.default_rng(random_state), self.mean.shape
        root = np.asarray(np.linalg.cholesky(2.0 * self.b), dtype=np.float64)
        S = inverse_wishart_roots(self.df + q - 1, root, size, generator)
        steps = solve(self.root, generator.standard_normal((H, size * q))).reshape(H, size, q)
        return self.mean + np.einsum("hsp,sqp->shq", steps, S), S @ S.swapaxes(1, 2)

    def _check_regular(self) -> None:
        if log_determinant(self.b) == -np.inf:
            raise ImproperPosteriorError(
                "b must be positive definite; here a combination of the targets is fitted exactly, so that its noise "
                "is zero for certain: add rows, drop targets that others determine, or give a b0 > 0"
            )


def block_posterior(stats: Statistics, prior: Prior) -> BlockPosterior:
    """Return the posterior of the weights and the noise covariance of a block of targets.

    Parameters
    ----------
    stats : Statistics
        Statistics of the rows, with targets Y (n, q).
    prior : Prior
        Prior of β and Σ. A mean (H,) holds for every target; a number ``b0`` means b0 times the identity.

    Returns
    -------
    BlockPosterior
        With Λₙ = Λ₀ + ΦᵀWΦ, μₙ = Λₙ⁻¹(Λ₀μ₀ + ΦᵀWY), aₙ = a₀ + n/2 and bₙ = b₀ + ½(YᵀWY + μ₀ᵀΛ₀μ₀ - μₙᵀΛₙμₙ).

    See Also
    --------
    posterior : The posterior for one target.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import Prior, Statistics, block_posterior, posterior
    >>> Phi = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> Y = np.array([[1.0, 0.0], [2.0, 1.0], [4.0, -1.0]])
    >>> prior = Prior.isotropic(2, 1.0)
    >>> post = block_posterior(Statistics.from_rows(Phi, Y), prior)
    >>> print(post.b.round(3))
    [[ 1.367 -0.367]
     [-0.367  0.867]]
    >>> alone = posterior(Statistics.from_rows(Phi, Y[:, 0]), prior)
    >>> print(round(alone.b, 3), alone.mean.round(3))
    1.367 [0.8   1.267]
    """
    if stats.ref.ndim == 1:
        raise InvalidParameterError(
            "block_posterior takes a block of targets, y of shape (rows, targets); these statistics are of one target, "
            "y of shape (rows,): use posterior"
        )
    return BlockPosterior(*condition(stats, prior), prior)


def _without_each_row(
    post: Posterior | BlockPosterior, phi: FloatArray, y: FloatArray, w: FloatArray, counts: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return terms of leave-one-out predictions: count c, a₋ᵢ, residual e, leverage h = φᵢᵀΛₙ⁻¹φᵢ, and 1 - c w h."""
    c = np.ones(len(y)) if counts is None else np.minimum(counts, 1.0)
    a = post.a - c / 2.0
    if np.any(a <= 0.0):
        raise ImproperPosteriorError(
            f"a₋ᵢ = aₙ - ½ must exceed zero for a row to be predicted by the others; aₙ is {post.a:g}: add rows"
        )
    e, h = y - phi @ post.mean, leverage(post.root, phi)
    left = np.maximum(1.0 - c * w * h, EPS)  # a row that alone decides a direction rounds to 0
    return c, a, e, h, left


def _square_root(name: str, Λ0: FloatArray) -> tuple[FloatArray, bool]:
    """Return a square root of the prior precision Λ₀, and whether Λ₀ is positive definite; errors call it ``name``."""
    if (Λ0.diagonal() > 0.0).all() and np.count_nonzero(Λ0) == len(Λ0):  # a diagonal matrix
        return np.sqrt(Λ0), True
    if (np.abs(Λ0 - Λ0.T) > 1e-12 * np.abs(Λ0)).any():
        raise InvalidParameterError(f"{name} must be symmetric; it is not: use ({name} + {name}.T) / 2")
    try:
        return np.asarray(cholesky(Λ0, check_finite=False)), True
    except LinAlgError:
        λ, V = np.linalg.eigh(Λ0)
    if λ[0] < -len(λ) * EPS * abs(λ[-1]) * 10:
        raise InvalidParameterError(f"{name} must be positive semi-definite; its smallest eigenvalue is {λ[0]:g}")
    return np.sqrt(np.maximum(λ, 0.0))[:, None] * V.T, False


def _log_volume(root: FloatArray) -> float:
    """Return log|det R|, where R is ``root``: upper triangular after a permutation of its columns."""
    pivots = root.diagonal().tolist()
    if 0.0 in pivots:  # the columns are permuted: only in triangular order has the diagonal no zero
        pivots = root[:, triangular_order(root)].diagonal().tolist()
    return sum(map(math.log, map(abs, pivots)))


def solve(root: FloatArray, b: FloatArray) -> FloatArray:
    """Return R⁻¹b (H, n), where R is ``root``: upper triangular after a permutation of its columns."""
    x = np.empty_like(b)
    order = triangular_order(root)
    x[order] = blas.dtrsm(1.0, root[:, order], b)
    return x


def checked_features(Phi: ArrayLike, H: int) -> FloatArray:
    """Return the design matrix Φ (rows, H) as C-contiguous floats; raise if its shape is wrong."""
    phi = np.ascontiguousarray(Phi, dtype=np.float64)
    if phi.ndim != 2 or phi.shape[1] != H:
        raise InvalidParameterError(f"Phi must be (rows, {H}); got shape {phi.shape}")
    return phi
