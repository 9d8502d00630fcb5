"""The linear model of rows that are fewer than the weights.

With Φᵀ = QLᵀ, L (n, n), the rows determine Qᵀβ only, whose prior under β ~ N(μ₀, σ² t I) is N(Qᵀμ₀, σ² t I) again. So
W^½ Φ has the singular values of W^½ L, for any precisions W: one factorisation of Φ, then matrices of the size of the
rows for each W. A posterior is the triangle of the prior with the rows added to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, qr
from scipy.linalg.lapack import dtrtrs

from bdkn.inference.evidence import Spectrum, best_variance, constant_part
from bdkn.inference.posterior import ROUNDING, Prior
from bdkn.inference.statistics import RANK_TOLERANCE, WELL_CONDITIONED, Factor, checked_root, read_chunk, residual
from bdkn.typing import FloatArray

_MANY = 128
"""Minimum number of weights for which this is faster than the statistics of all weights."""


@dataclass(frozen=True, eq=False)
class FewRows:
    """Rows ``Phi`` (n, H) with n < H and targets y; ``mean`` is μ₀ (H,), ``lower`` L (n, n), ``deviation`` y - Φμ₀."""

    Phi: FloatArray
    y: FloatArray
    mean: FloatArray
    lower: FloatArray
    deviation: FloatArray

    @classmethod
    def of(cls, Phi: FloatArray, y: FloatArray, mean: FloatArray) -> FewRows | None:
        """Return the rows in the space that they span; None unless weights are many, and more than the rows."""
        n, H = Phi.shape
        if H < _MANY or n >= H:
            return None
        (upper,) = qr(Phi.T, mode="r", check_finite=False)
        return cls(Phi, y, mean, checked_root(upper[:n]).T, residual(Phi, y, mean))

    def evidence(
        self, w: FloatArray, counts: FloatArray | None, prior_variance: str | float, widest: float, size: float
    ) -> tuple[float, float] | None:
        """Return the prior variance t, chosen as in ``choose_prior_variance``, and the log evidence.

        None if rows with these precisions ``w`` need the statistics of all weights: the singular values could not be
        computed, the members are right up to rounding, or t is too large to leave digits in directions where members
        are equal and the prior alone decides.
        """
        spectrum = self.spectrum(w, counts)
        if spectrum is None:
            return None
        t = best_variance(spectrum, prior_variance, widest, size)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            squares = float(np.sum(np.square(self.y) * w * (1.0 if counts is None else counts)))
        is_exact = spectrum.b(t) <= ROUNDING * (squares if np.isfinite(squares) else 0.0)
        is_strong = spectrum.s[0] * np.sqrt(t) * WELL_CONDITIONED < 1.0
        return (t, float(spectrum.log_evidence(t))) if is_strong and not is_exact else None

    def spectrum(self, w: FloatArray, counts: FloatArray | None) -> Spectrum | None:
        """Return the spectrum of the rows about μ₀; None if it could not be computed."""
        rows, n, sum_log_w = read_chunk((self.lower, self.deviation, w, counts))
        columns = rows.columns_from(np.zeros(len(self.lower)))
        U, s, _, failed = lapack.dgesdd(columns[:, :-1])
        if failed:
            return None
        c = U.T @ columns[:, -1]
        known = s > len(self.mean) * RANK_TOLERANCE * s[0]
        rest = float(c[~known] @ c[~known])
        return Spectrum(s[known], c[known], rest, n / 2.0, 0.0, constant_part(n, sum_log_w, 1, 0.0, 0.0))

    def condition(
        self, w: FloatArray, counts: FloatArray | None, prior: Prior
    ) -> tuple[FloatArray, FloatArray, float, float]:
        """Return μₙ, Rₙ, aₙ and bₙ as ``posterior.condition`` does."""
        rows, n, _ = read_chunk((self.Phi, self.y, w, counts))
        H = len(self.mean)
        start = Factor.empty(self.mean)
        start.root[:H, :H] = prior.root
        factor = start.add(rows)
        R, z = factor.root[:H, :H], factor.root[:H, H]
        return factor.ref + dtrtrs(R, z)[0], R, n / 2.0, float(factor.root[H, H]) ** 2 / 2.0
