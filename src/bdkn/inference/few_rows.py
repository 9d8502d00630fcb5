"""The linear model with more weights than rows, in the space that the rows span.

With Φᵀ = QLᵀ, L (n, n), the rows tell of Qᵀβ only, whose prior under β ~ N(μ₀, σ² t I) is N(Qᵀμ₀, σ² t I) again. So
W^½ Φ has the singular values of W^½ L, for any precisions W: one factorisation of Φ, then matrices of the size of the
rows for each W. A posterior is the triangle of the prior with the rows added to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, qr
from scipy.linalg.lapack import dtrtrs

from bdkn.inference.conjugate import Prior
from bdkn.inference.evidence import Spectrum, constant_part
from bdkn.inference.factor import NOISE, WELL_CONDITIONED, Factor, Observations, checked_root, residual
from bdkn.inference.statistics import Statistics, read_chunk
from bdkn.typing import FloatArray

_MANY = 128
"""Weights from which this pays."""


@dataclass(frozen=True, eq=False)
class FewRows:
    """Rows ``Phi`` (n, H) with n < H and targets y; ``lower`` (n, n) is L, ``apart`` is y - Φμ₀, ``mean`` μ₀ (H,)."""

    Phi: FloatArray
    y: FloatArray
    mean: FloatArray
    lower: FloatArray
    apart: FloatArray

    @classmethod
    def of(cls, Phi: FloatArray, y: FloatArray, mean: FloatArray) -> FewRows | None:
        """Return the rows in the space that they span; None unless weights are many, and more than the rows."""
        n, H = Phi.shape
        if H < _MANY or n >= H:
            return None
        (upper,) = qr(Phi.T, mode="r", check_finite=False)
        return cls(Phi, y, mean, checked_root(upper[:n]).T, residual(Phi, y, mean))

    def spectrum(self, precision: FloatArray, counts: FloatArray | None) -> Spectrum | None:
        """Return the spectrum of the rows about μ₀; None if it could not be computed."""
        rows, n, sum_log_w = read_chunk((self.lower, self.apart, precision, counts))
        columns = rows.columns_from(np.zeros(len(self.lower)))
        U, s, _, failed = lapack.dgesdd(columns[:, :-1])
        if failed:
            return None
        c = U.T @ columns[:, -1]
        known = s > len(self.mean) * NOISE * s[0]
        rest = float(c[~known] @ c[~known])
        nothing = Statistics(Factor.empty(self.mean), n, sum_log_w)
        return Spectrum(s[known], c[known], rest, n / 2.0, 0.0, constant_part(nothing, 1, 0.0, 0.0))

    def condition(
        self, precision: FloatArray, counts: FloatArray | None, prior: Prior
    ) -> tuple[FloatArray, FloatArray, float, float]:
        """Return μₙ, Rₙ, aₙ and bₙ as ``conjugate.condition`` does; the prior must be strong enough, see ``allows``."""
        rows, n, _ = read_chunk((self.Phi, self.y, precision, counts))
        H = len(self.mean)
        start = Factor.empty(self.mean)
        start.root[:H, :H] = prior.root
        factor = start.add(Observations(rows.phi, rows.r, rows.ref, rows.scale))
        R, z = factor.root[:H, :H], factor.root[:H, H]
        return factor.ref + dtrtrs(R, z)[0], R, n / 2.0, float(factor.root[H, H]) ** 2 / 2.0


def allows(spectrum: Spectrum, t: float) -> bool:
    """Return whether the prior variance t leaves enough digits where members are equal and the prior alone decides."""
    return bool(spectrum.s[0] * np.sqrt(t) * WELL_CONDITIONED < 1.0)
