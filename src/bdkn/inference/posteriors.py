"""The posterior of the weights and the noise, of one block or several, and as a process.

With targets Y (n, q), weights β (H, q) and the covariance Σ (q, q) of the noise of a row,

    β | Σ ~ MN(μ₀, Λ₀⁻¹, Σ),   Σ ~ Inv-Wishart(2a₀ + q - 1, 2b₀),   Y | β, Σ ~ MN(Φβ, W⁻¹, Σ).

For q = 1 it is the model of ``conjugate``: Inv-Wishart(2a, 2b) is then Inv-Gamma(a, b). Written so, with q - 1 in the
degrees of freedom, each target by itself is exactly the model of one target with the same a and its own bⱼⱼ: members
have the same weights for it as in a fit of its own, and its predictions the same 2aₙ degrees of freedom. The block adds
the correlation between the targets. With a₀ = b₀ = 0 the prior of Σ is |Σ|⁻q; Jeffreys' |Σ|^(-(q+1)/2) is
a₀ = (1 - q)/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import blas, solve_triangular

from bdkn.errors import ImproperPosteriorError, InvalidParameterError, check_number
from bdkn.inference.conjugate import Prior, condition
from bdkn.inference.evidence import log_determinant
from bdkn.inference.rowwise import leave_out, leave_out_of_block, leverage, location_scale, triangular_order, whitened
from bdkn.inference.statistics import Statistics
from bdkn.predictive import MatrixT, MultivariateT, StudentT, VectorT
from bdkn.predictive.multivariate_t import inverse_wishart_roots
from bdkn.storage.fields import NonNegative, Positive, floats, must, sizes, stored
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


@dataclass(frozen=True, eq=False)
class BlockPosterior:
    """Posterior of q targets: β | Σ, Y ~ MN(mean, (rootᵀ root)⁻¹, Σ) and Σ | Y ~ Inv-Wishart(2a + q - 1, 2b).

    Made by ``block_posterior``.

    Parameters
    ----------
    mean : array (H, q)
        Posterior mean μₙ of the weights.
    root : array (H, H)
        A square root of the precision Λₙ, upper-triangular up to the order of its columns.
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
        """The matrix Λₙ = Λ₀ + ΦᵀWΦ, which all targets share."""
        return self.root.T @ self.root

    def target(self, number: int) -> Posterior:
        """Return the posterior of one target, as a fit to it alone gives it."""
        prior, b0 = self.prior, self.prior.b0
        mean = prior.mean if prior.mean.ndim == 1 else prior.mean[:, number]
        own = Prior(mean, prior.precision, prior.a0, float(b0[number, number]) if isinstance(b0, np.ndarray) else b0)
        return Posterior(self.mean[:, number], self.root, self.a, float(self.b[number, number]), own)

    def predictive(self, Phi: ArrayLike, noise: ArrayLike = 1.0) -> VectorT:
        """Return St_q(2a, φᵀμₙ, (v + φᵀΛₙ⁻¹φ) b/a) for each row φ of ``Phi``.

        ``noise`` is v, the covariance of a row in units of Σ: a number, or one per row; 0 for the noise-free function.
        """
        phi = checked_features(Phi, len(self.mean))
        v = np.broadcast_to(np.asarray(noise, dtype=np.float64), len(phi))
        return VectorT(self.df, phi @ self.mean, (v + leverage(self.root, phi))[:, None, None] * (self.b / self.a))

    def joint(self, Phi: ArrayLike, noise: ArrayLike = 1.0) -> MatrixT:
        """Return the distribution of all rows together, which share β and Σ; its marginals are ``predictive``."""
        phi = checked_features(Phi, len(self.mean))
        v = np.broadcast_to(np.asarray(noise, dtype=np.float64), len(phi))
        x = whitened(self.root, phi)
        return MatrixT(self.df, phi @ self.mean, x.T @ x + np.diag(v), self.b / self.a)

    def leave_one_out(
        self, Phi: ArrayLike, Y: ArrayLike, precision: ArrayLike = 1.0, counts: ArrayLike | None = None
    ) -> VectorT:
        """Return the predictive of each row given all the others, in closed form; see ``leave_one_out``."""
        phi, targets = checked_features(Phi, len(self.mean)), np.asarray(Y, dtype=np.float64)
        if targets.shape != (len(phi), self.n_targets):
            raise InvalidParameterError(f"Y must be ({len(phi)}, {self.n_targets}); got shape {targets.shape}")
        w = np.broadcast_to(np.asarray(precision, dtype=np.float64), len(phi))
        c = None if counts is None else np.asarray(counts, dtype=np.float64)
        return VectorT(*leave_out_of_block(self, phi, targets, w, c))

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
        """Return ``size`` joint draws: the weights (size, H, q) and the noise covariances (size, q, q)."""
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
                "is zero for certain: add rows, leave out targets that others determine, or give a b0 > 0"
            )


def block_posterior(stats: Statistics, prior: Prior) -> BlockPosterior:
    """Return the posterior of the weights and the noise covariance of a block of targets.

    Parameters
    ----------
    stats : Statistics
        Statistics of the rows, with targets Y (n, q).
    prior : Prior
        Prior of β and Σ. A mean (H,) holds for every target, a number ``b0`` stands for that times the identity.

    Returns
    -------
    BlockPosterior
        With Λₙ = Λ₀ + ΦᵀWΦ, μₙ = Λₙ⁻¹(Λ₀μ₀ + ΦᵀWY), aₙ = a₀ + n/2 and bₙ = b₀ + ½(YᵀWY + μ₀ᵀΛ₀μ₀ - μₙᵀΛₙμₙ).

    See Also
    --------
    posterior : The same for one target.

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
    """Return Φ̃ with Φ̃Φ̃ᵀ = ΦΛ₀⁻¹Φᵀ, the finite-rank form of the kernel, by a triangular root of Λ₀⁻¹.

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
    """Return the kernel k(φ, φ' | σ²) = σ² φᵀΛ₀⁻¹φ' between rows.

    With Λ₀ = I/σ_β² this is σ² σ_β² Σ_h φ_h φ'_h.

    Parameters
    ----------
    Phi : array-like (n, H)
        Means of the members.
    Phi2 : array-like (m, H), optional
        The same for other rows; ``Phi`` by default.
    prior : Prior
        Prior of the weights, with a positive definite precision.
    noise_variance : float, default=1.0
        σ².

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

    It is the posterior of functions, so all its paths lie in the span of the H members. The process before any data is
    ``StudentTProcess(posterior(Statistics.empty(H), prior))``, for a proper prior.

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
        """Return ``size`` random functions at the rows, ``(rows, size)``, each a combination of the members."""
        β, _ = self.posterior.draw(size, random_state)
        return np.asarray(Phi, dtype=np.float64) @ β.T
