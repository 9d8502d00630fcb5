"""Posteriors and what they predict: a Student-t per row, in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import blas

from bdkn.errors import ImproperPosteriorError, InvalidParameterError, check_number
from bdkn.inference.conjugate import Prior, condition
from bdkn.inference.rowwise import leave_out, leverage, location_scale, triangular_order, whitened
from bdkn.inference.statistics import Statistics
from bdkn.persistence.fields import NonNegative, Positive, floats, must, sizes, stored
from bdkn.predictive import MultivariateT, StudentT
from bdkn.typing import FloatArray


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
        A square root of the precision Λₙ, upper-triangular up to the order of its columns.
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
        """Raise unless the root is invertible and upper-triangular up to the order of its columns."""
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

        ``noise`` is v, the variance of a row relative to σ²: 1 in the paper, one number per row in the heteroscedastic
        form, 0 for the noise-free function.
        """
        return StudentT(self.df, *self.location_scale(Phi, noise))

    def location_scale(self, Phi: ArrayLike, noise: ArrayLike = 1.0) -> tuple[FloatArray, FloatArray]:
        """Return centre and scale of ``predictive``."""
        phi, v = checked_features(Phi, len(self.mean)), np.asarray(noise, dtype=np.float64)
        if v.shape not in ((), phi.shape[:1]):
            raise InvalidParameterError(f"noise must be a number, or one per row of {len(phi)}; got shape {v.shape}")
        v = v if v.ndim else np.full(len(phi), v)
        return location_scale(self.root, self.mean, phi, v, self.b / self.a)

    def leverage(self, Phi: ArrayLike) -> FloatArray:
        """Return φᵀΛₙ⁻¹φ for each row φ of ``Phi``: the variance due to the weights, relative to σ²."""
        return leverage(self.root, checked_features(Phi, len(self.mean)))

    def joint(self, Phi: ArrayLike, noise: ArrayLike = 1.0) -> MultivariateT:
        """Return the distribution of all rows together, which share β and σ²; its marginals are ``predictive``."""
        phi = checked_features(Phi, len(self.mean))
        v = np.broadcast_to(np.asarray(noise, dtype=np.float64), len(phi))
        return MultivariateT(self.df, phi @ self.mean, self.kernel(phi) + self.b / self.a * np.diag(v))

    def kernel(self, Phi: ArrayLike, Phi2: ArrayLike | None = None) -> FloatArray:
        """Return (b/a) Φ Λₙ⁻¹ Φ₂ᵀ, the Student-t shape of the noise-free function; Φ₂ = Φ if not given."""
        H = len(self.mean)
        left = whitened(self.root, checked_features(Phi, H))
        right = left if Phi2 is None else whitened(self.root, checked_features(Phi2, H))
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
                "σ² must exceed zero; here y = Φμ₀ exactly, so it is zero for certain: give a b0 > 0"
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
    block_posterior : The same for several targets.

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


def leave_one_out(
    post: Posterior, Phi: ArrayLike, y: ArrayLike, precision: ArrayLike = 1.0, counts: ArrayLike | None = None
) -> StudentT:
    """Return the predictive of each row given all the others, in closed form.

    The prior mean and variance are kept as they are.

    Parameters
    ----------
    post : Posterior
        The posterior of these rows, with these precisions and counts.
    Phi : array-like (n, H)
        Means of the members.
    y : array-like (n,)
        Targets.
    precision : float or array-like (n,), default=1.0
        Relative precisions w.
    counts : array-like (n,), optional
        How often each row is counted. Of a row that counts several times, one observation is left out.

    Returns
    -------
    StudentT
        One distribution per row.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import Prior, Statistics, leave_one_out, posterior
    >>> Phi, y = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([1.0, 2.0, 4.0])
    >>> prior = Prior.isotropic(2, 1.0)
    >>> others = leave_one_out(posterior(Statistics.from_rows(Phi, y), prior), Phi, y)
    >>> without_last = posterior(Statistics.from_rows(Phi[:2], y[:2]), prior)
    >>> print(others.loc[2].round(6), without_last.predictive(Phi[2:]).loc.round(6))
    2.0 [2.]
    """
    phi, targets = checked_features(Phi, len(post.mean)), np.asarray(y, dtype=np.float64)
    w = np.broadcast_to(np.asarray(precision, dtype=np.float64), targets.shape)
    c = None if counts is None else np.asarray(counts, dtype=np.float64)
    return StudentT(*leave_out(post, phi, targets, w, c))


def solve(root: FloatArray, b: FloatArray) -> FloatArray:
    """Return R⁻¹b for R upper-triangular up to the order of its columns, and (H, n) ``b``."""
    x = np.empty_like(b)
    order = triangular_order(root)
    x[order] = blas.dtrsm(1.0, root[:, order], b)
    return x


def checked_features(Phi: ArrayLike, H: int) -> FloatArray:
    """Return Φ (rows, H) as floats in row order."""
    phi = np.ascontiguousarray(Phi, dtype=np.float64)
    if phi.ndim != 2 or phi.shape[1] != H:
        raise InvalidParameterError(f"Phi must be (rows, {H}); got shape {phi.shape}")
    return phi
