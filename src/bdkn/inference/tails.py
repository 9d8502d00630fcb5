"""How heavy the tails are: degrees of freedom and scale of a Student-t by its log score on rows it has not seen.

The posterior's own degrees of freedom, aₙ, say how well σ² is known. Residuals of real data have heavier tails than
that, so both numbers are chosen anew, and the predictive stays a Student-t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from bdkn.predictive import StudentT
from bdkn.typing import FloatArray

_HEAVIEST = 2.1
"""Degrees of freedom are kept above two, or predictions would have no variance."""

_STEPS = 50


@dataclass(frozen=True)
class Tails:
    """Degrees of freedom ν in place of the posterior's own, and a factor on the scale."""

    df: float
    scale: float

    def __call__(self, dist: StudentT) -> StudentT:
        """Return the distribution with these tails."""
        return StudentT(self.df, dist.loc, self.scale * dist.scale)


def fit_tails(predicted: StudentT, y: ArrayLike, counts: ArrayLike | None = None) -> Tails | None:
    """Return the tails under which ``y`` scores best; row i stands for ``counts``ᵢ observations.

    ``predicted`` must not have seen the rows, as with ``leave_one_out``. Its degrees of freedom are the most that is
    considered. None where nothing can be learned: from two degrees of freedom, or if half of the observations are
    predicted exactly.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 where the posterior is certain
        z2 = ((np.asarray(y, dtype=np.float64) - predicted.loc) / predicted.scale) ** 2
    share = np.ones_like(z2) if counts is None else np.asarray(counts, dtype=np.float64)
    share, most = share / share.sum(), float(np.max(predicted.df))
    if most <= _HEAVIEST or not np.isfinite(z2).all() or share @ (z2 > 0.0) <= 0.5:
        return None
    middle = float(np.median(z2[z2 > 0.0]))
    bounds = np.log(_HEAVIEST), np.log(most)
    best = minimize_scalar(lambda log_ν: _loss(np.exp(log_ν), middle, z2, share)[0], bounds=bounds, method="bounded")
    ν = min((most, float(np.exp(best.x))), key=lambda ν: _loss(ν, middle, z2, share)[0])
    return Tails(ν, _loss(ν, middle, z2, share)[1])


def _loss(ν: float, start: float, z2: FloatArray, share: FloatArray) -> tuple[float, float]:
    """Return the mean negative log density of residuals z = √z2 under the best scale for ν, and that scale.

    The scale κ solves Σ share (ν + 1) z²/(νκ² + z²) = 1, whose left side falls with κ: Newton's method on log κ, kept
    to steps of a factor of three.
    """
    log_κ = np.log(start) / 2.0
    for _ in range(_STEPS):
        pulled = (x := z2 * np.exp(-2.0 * log_κ)) / (ν + x)
        surplus, slope = (ν + 1.0) * (share @ pulled) - 1.0, 2.0 * (ν + 1.0) * (share @ (pulled * (1.0 - pulled)))
        step = float(np.clip(surplus / slope, -1.0, 1.0))
        log_κ += step
        if abs(step) < 1e-10:
            break
    tail = share @ np.log1p(z2 * np.exp(-2.0 * log_κ) / ν)
    constant = gammaln((ν + 1.0) / 2.0) - gammaln(ν / 2.0) - np.log(ν * np.pi) / 2.0
    return float(log_κ + (ν + 1.0) / 2.0 * tail - constant), float(np.exp(log_κ))
