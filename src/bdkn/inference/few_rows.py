"""Evidence and posterior of the linear model if there are fewer rows than weights.

With the QR factorisation Φᵀ = QLᵀ, L (n, n), the rows determine Qᵀβ only, n numbers with the prior N(Qᵀμ₀, σ² t I) if β
has N(μ₀, σ² t I). For any precisions W of the rows, W^½ Φ has the singular values of the small matrix W^½ L, so that Φ
is factored only once. The posterior is computed by adding the rows to the triangular root of the prior precision.
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
"""Minimum number of weights for which ``FewRows`` is faster than statistics of all weights."""


@dataclass(frozen=True, eq=False)
class FewRows:
    """Factored rows, fewer than weights: prior ``mean`` μ₀, ``lower`` L (n, n) with Φᵀ = QLᵀ, ``deviation`` y - Φμ₀."""

    Phi: FloatArray
    y: FloatArray
    mean: FloatArray
    lower: FloatArray
    deviation: FloatArray

    @classmethod
    def of(cls, Phi: FloatArray, y: FloatArray, mean: FloatArray) -> FewRows | None:
        """Return the factored rows; None if there are fewer than 128 weights, or not more weights than rows."""
        n, H = Phi.shape
        if H < _MANY or n >= H:
            return None
        (upper,) = qr(Phi.T, mode="r", check_finite=False)
        return cls(Phi, y, mean, checked_root(upper[:n]).T, residual(Phi, y, mean))

    def evidence(
        self, w: FloatArray, counts: FloatArray | None, prior_variance: str | float, widest: float, size: float
    ) -> tuple[float, float] | None:
        """Return the prior variance t of the weights, chosen as in ``choose_prior_variance``, and the log evidence.

        None if this method is not accurate for rows with the precisions ``w``: the singular values could not be
        computed, the members reproduce the targets up to rounding, or t is so large that no digits are left in
        directions where members are equal and only the prior decides.
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
        """Return the statistics from which the evidence is computed; None if the singular values cannot be computed."""
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
        """Return the posterior: mean μₙ, root Rₙ of the precision RₙᵀRₙ, shape aₙ and scale bₙ of σ²."""
        rows, n, _ = read_chunk((self.Phi, self.y, w, counts))
        H = len(self.mean)
        start = Factor.empty(self.mean)
        start.root[:H, :H] = prior.root
        factor = start.add(rows)
        R, z = factor.root[:H, :H], factor.root[:H, H]
        return factor.ref + dtrtrs(R, z)[0], R, n / 2.0, float(factor.root[H, H]) ** 2 / 2.0
