"""Predictions of the members for new rows, pooled, with their variance for extrapolation.

y(x) = φ(x)ᵀβ + α + √u(x) δ(x) + ε,    δ ~ GP(0, k),   k(x, x) = 1,

where u(x) ≥ 0 is zero on the training rows. So the data do not depend on δ: the posterior of β, α and σ² is that of the
model without δ, and δ keeps its prior. A predictive keeps its centre and its degrees of freedom, and its squared scale
grows by u(x), jointly too: the covariance of two rows grows by √(u(x) u(x′)) k(x, x′).

Yao et al. (2018) choose the weights of a mixture of predictive distributions by the highest mean log density of
held-out rows, which is a concave problem. Here the weights of a row may depend on a number g of the row: they are
interpolated between weights at a few knots, w(g) = Σ_j u_j(g) w_j with u_j ≥ 0 and Σ_j u_j = 1, which keeps the problem
concave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from bdkn.typing import FloatArray

_PAIRS = 64
"""Half of the number of directions that a random function is made of."""

_STEPS = 300
"""Steps of expectation and maximisation for the weights of a mixture."""


@dataclass(frozen=True, eq=False)
class Outside:
    """Additional variance of rows outside of the training rows.

    Parameters
    ----------
    variance : array (n,)
        The variance u that is added to the squared scale of a row, in scaled units; zero near training rows.
    directions : array (n, R) or None, default=None
        A unit vector for each row. The correlation k of the additional errors of two rows is the product of their
        vectors. None if rows are predicted one by one.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import Outside
    >>> outside = Outside(np.array([0.0, 4.0]), np.eye(2))
    >>> print(outside.std)
    [0. 2.]
    """

    variance: FloatArray
    directions: FloatArray | None = None

    @property
    def std(self) -> FloatArray:
        """The square root of the variance."""
        return np.sqrt(self.variance)

    @property
    def root(self) -> FloatArray:
        """The matrix (n, R) whose product with its transpose is the covariance that is added."""
        assert self.directions is not None, "rows of a joint prediction have directions"
        return self.std[:, None] * self.directions

    def draw(self, size: int, generator: np.random.Generator) -> FloatArray:
        """Return draws (n, size) of √u δ, each column one function."""
        return np.asarray(self.root @ generator.standard_normal((self.root.shape[1], size)))


def directions(Z: FloatArray) -> FloatArray:
    """Return one unit vector (n, R) for each standardized row.

    k(z, z′) is a finite sum for the arc-cosine kernel of order one (Cho and Saul, 2009) of (z, 1), normalized: it
    depends on the angle only. Far away, rows on the same ray from the origin have a correlation near 1, so that a
    function drawn there continues in a straight line, and rows on opposite rays are independent.
    """
    drawn = np.random.default_rng(0).standard_normal((Z.shape[1] + 1, _PAIRS))
    along = Z @ drawn[:-1] + drawn[-1]
    found = np.maximum(np.hstack([along, -along]), 0.0)
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Forecast:
    """Predictions of the members for n rows, pooled.

    Parameters
    ----------
    means : array (n, H)
        Mean of each member.
    noise : array (n,)
        Noise variance, averaged over the members.
    disagreement : array (n,)
        Variance among the members' means.
    fold_variance : array (n, H), optional
        Variance, over folds, of the means that each member's fits predict; None if each member is a single fit.
    outside : Outside, optional
        Additional variance of rows outside of the training rows; None adds nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import Forecast
    >>> forecast = Forecast.of(np.array([[1.0, 3.0], [2.0, 2.0]]), np.array([[0.1, 0.3], [0.2, 0.2]]))
    >>> print(forecast.noise, forecast.disagreement, forecast.variance)
    [0.2 0.2] [1. 0.] [1.2 0.2]
    """

    means: FloatArray
    noise: FloatArray
    disagreement: FloatArray
    fold_variance: FloatArray | None = None
    outside: Outside | None = None

    @classmethod
    def of(cls, means: FloatArray, variances: FloatArray) -> Self:
        """Return the forecast of H members with means (.., n, H); leading axes are averaged over.

        ``variances`` (.., n, any) are those of the members that have any.
        """
        lead = tuple(range(means.ndim - 2))
        disagreement, by_fold = means.var(axis=-1).mean(axis=lead), means.var(axis=lead) if lead else None
        return cls(means.mean(axis=lead), variances.mean(axis=(*lead, -1)), disagreement, by_fold)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Return the forecast of the rows of all parts."""
        if len(parts) == 1:
            return parts[0]
        means, noise, disagreement = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("means", "noise", "disagreement")
        )
        by_fold = [part.fold_variance for part in parts if part.fold_variance is not None]
        return cls(means, noise, disagreement, np.concatenate(by_fold) if by_fold else None)

    @property
    def variance(self) -> FloatArray:
        """The predictive variance v of the equally weighted ensemble."""
        return self.noise + self.disagreement

    def __len__(self) -> int:
        return len(self.means)


def interpolation(g: FloatArray, knots: FloatArray) -> FloatArray:
    """Return u (n, J), the share of each knot in the weights of rows; beyond the last knot its share is one."""
    unit = np.eye(len(knots))
    return np.column_stack([np.interp(g, knots, unit[j]) for j in range(len(knots))])


def stack_densities(
    log_density: FloatArray, shares: FloatArray, prior: FloatArray, counts: FloatArray | None = None
) -> FloatArray:
    """Return the weights (J, K) of maximal posterior density, by expectation and maximisation.

    Parameters
    ----------
    log_density : array (n, K)
        Log densities of the targets under each of K components that were made without them.
    shares : array (n, J)
        Share of each knot in the weights of a row, as from ``interpolation``.
    prior : array (J, K)
        Rows that each component is given in advance, at each knot: a Dirichlet prior with these numbers plus one.
    counts : array (n,), optional
        How often each row is counted.

    Returns
    -------
    array (J, K)
        Weights, not negative, with the sum one at each knot.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference.forecast import stack_densities
    >>> log_density = np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])
    >>> print(stack_densities(log_density, np.ones((3, 1)), np.zeros((1, 2))).round(2))
    [[0.71 0.29]]
    """
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    total = np.ones(len(density)) if counts is None else counts
    J, K = shares.shape[1], density.shape[1]
    weights = np.full((J, K), 1.0 / K)
    for _ in range(_STEPS):
        mixed = _mixed(shares, weights, density)
        weights = weights * ((shares * (total / mixed)[:, None]).T @ density) + prior
        weights /= weights.sum(axis=1, keepdims=True)
    return weights


def _mixed(shares: FloatArray, weights: FloatArray, density: FloatArray) -> FloatArray:
    """Return the density of the mixture of each row, Σ_jk u_j w_jk p_k: the shorter of j and k is summed over last."""
    J, K = weights.shape
    if K > J:
        return np.asarray(np.vecdot(density @ weights.T, shares))
    return np.asarray(np.vecdot((weights.T @ shares.T).T, density))
