"""The conjugate posterior of several targets: matrix-normal inverse-Wishart, and the matrix-t predictive.

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
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bdkn.errors import ImproperPosteriorError, InvalidParameterError, check_number
from bdkn.inference.conjugate import Prior, condition
from bdkn.inference.evidence import log_determinant
from bdkn.inference.posteriors import Posterior, checked_features, solve
from bdkn.inference.rowwise import leave_out_of_block, leverage, whitened
from bdkn.inference.statistics import Statistics
from bdkn.predictive import MatrixT, VectorT
from bdkn.predictive.multivariate_t import inverse_wishart_roots
from bdkn.typing import FloatArray


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
