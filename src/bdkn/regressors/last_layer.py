"""What is known of a last layer: its weights, and the noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bdkn.typing import FloatArray

CERTAIN = 1e15
"""Half the degrees of freedom with which a posterior counts its noise as known, and its Student-t as a Gaussian."""


@dataclass(frozen=True, eq=False)
class VariationalLastLayer:
    """w ~ N(mean, covariance) and y = φᵀw + N(0, noise)."""

    mean: FloatArray
    covariance: FloatArray
    noise: float

    def moments(self, Φ: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return φᵀmean and the variance φᵀ covariance φ + noise of each row."""
        return Φ @ self.mean, np.einsum("nd,de,ne->n", Φ, self.covariance, Φ, optimize=True) + self.noise

    def joint(self, Φ: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the covariance of all rows together."""
        return Φ @ self.mean, Φ @ self.covariance @ Φ.T + self.noise * np.eye(len(Φ))
