"""Variance far from the training rows: a random function that is zero on every row learned from.

    y(x) = φ(x)ᵀβ + α + √u(x) δ(x) + ε,    δ ~ GP(0, k),   k(x, x) = 1,

where u(x) ≥ 0 is zero on the training rows. Whatever the data, they tell nothing about δ: the posterior of β, α and σ²
is that of the model without δ, and δ keeps its prior. So a predictive keeps its centre and its degrees of freedom, and
its squared scale grows by u(x), jointly too: the covariance of two rows grows by √(u(x) u(x′)) k(x, x′).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bdkn.typing import FloatArray

_PAIRS = 64
"""Half of the number of directions that a random function is made of."""


@dataclass(frozen=True, eq=False)
class Outside:
    """What rows far from the training rows have in addition to the forecast.

    Parameters
    ----------
    variance : array (n,)
        The variance u that is added to the squared scale of a row, in scaled units; zero near training rows.
    directions : array (n, R) or None, default=None
        A unit vector for each row. The correlation k of what is added to two rows is the product of their vectors.
        None if rows are predicted one by one.

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
    depends on the angle only. Far away, rows on the same ray from the middle have correlation near 1, so that a
    function drawn there continues in a straight line, and rows on opposite rays are independent.
    """
    drawn = np.random.default_rng(0).standard_normal((Z.shape[1] + 1, _PAIRS))
    along = Z @ drawn[:-1] + drawn[-1]
    found = np.maximum(np.hstack([along, -along]), 0.0)
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True))
