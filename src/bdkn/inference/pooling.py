"""Stacking of densities: weights of a mixture by the log densities of rows that its components have not seen.

Yao et al. (2018) choose the weights of a mixture of predictive distributions by maximal mean log density of rows left
out, which is a concave problem. Here the weights of a row may depend on a number g of it: they are interpolated
between weights at a few knots, w(g) = Σ_j u_j(g) w_j with u_j ≥ 0 and Σ_j u_j = 1, which keeps the problem concave.
"""

from __future__ import annotations

import numpy as np

from bdkn.typing import FloatArray

_STEPS = 300


def interpolation(g: FloatArray, knots: FloatArray) -> FloatArray:
    """Return u (n, J), the share of each knot in the weights of rows; beyond the last knot its weights are kept."""
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
    >>> from bdkn.inference.pooling import stack_densities
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
