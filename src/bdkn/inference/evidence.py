"""The marginal likelihood, closed form in σ_β², and the choice of σ_β² by it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import xlogy

from bdkn.errors import ImproperPosteriorError, check_choice, check_number
from bdkn.inference.conjugate import Posterior, Prior, posterior
from bdkn.inference.statistics import Statistics, as_rows
from bdkn.inference.triangular import log_determinant
from bdkn.kernels.adam import adam_step
from bdkn.typing import FloatArray

_EPS = float(np.finfo(np.float64).eps)
_LOG_2PI = math.log(2.0 * math.pi)


def log_evidence(stats: Statistics, given: Prior | Posterior) -> float:
    """Return log p(y | Φ), with β and σ² integrated out:

    ``log Γ(aₙ) - aₙ log bₙ + ½ log|Λ₀| - ½ log|Λₙ| - (n/2) log 2π + ½ Σ log w + a₀ log b₀ - log Γ(a₀)``.

    The last two terms normalise a proper Inv-Gamma(a₀, b₀). If it is improper they are left out: the density is taken
    to be exactly σ^(-2(a₀+1)) exp(-b₀/σ²), for Jeffreys 1/σ², so that the value is still a definite integral. It is
    +inf in the limit of a perfect fit, y = Φμ₀ with b₀ = 0. Where the posterior is known already, it may be given in
    place of the prior.
    """
    prior = given.prior if isinstance(given, Posterior) else given
    if not prior.is_definite:
        raise ImproperPosteriorError(
            "the marginal likelihood needs a positive definite prior precision; under a flat prior it has no scale"
        )
    post = given if isinstance(given, Posterior) else posterior(stats, given)
    log_ratio = log_determinant(prior.root) - log_determinant(post.root)
    noise_part = post.a * math.log(post.b) if post.b else -math.inf
    return _constant(stats, prior.a0, prior.b0) + log_ratio - noise_part


class Spectrum(NamedTuple):
    """The statistics in the singular directions of Φ, where the isotropic prior decouples.

    With singular values s, z = R(β̂ - μ₀) in the left singular basis called c, and t = σ_β²:
    bₙ(t) = b₀ + ½ [ρ² + Σ c²/(1 + t s²)] and log|Λₙ|/|Λ₀| = Σ log(1 + t s²). One factorisation, then any t for O(H).
    ``rest`` is ρ² and the squares of c in directions Φ does not reach.
    """

    s: FloatArray
    c: FloatArray
    rest: float
    a: float
    b0: float
    constant: float

    @classmethod
    def of(cls, stats: Statistics, mean: ArrayLike = 0.0, a0: float = 0.0, b0: float = 0.0) -> Self:
        """Return the spectrum of ``stats`` about the prior mean."""
        μ0 = np.empty_like(stats.ref)
        μ0[:] = mean
        factor, order, U, s = stats.denoised
        z = as_rows(factor, stats.ref[order]).targets_from(μ0[order])
        return cls(s, U.T.dot(z[: len(s)]), float(z[-1]) ** 2, a0 + stats.n / 2.0, b0, _constant(stats, a0, b0))

    def b(self, t: ArrayLike) -> FloatArray:
        """Return bₙ(t) for prior variances ``t`` of any shape."""
        return np.asarray(self.b0 + (self.rest + 1.0 / (1.0 + self._x(t)) @ self.c**2) / 2.0)

    def log_evidence(self, t: ArrayLike) -> FloatArray:
        """Return the log marginal likelihood for prior variances ``t`` of any shape."""
        spread = np.sum(np.log1p(self._x(t)), axis=-1) / 2.0
        return np.asarray(self.constant - xlogy(self.a, self.b(t)) - spread)

    def slope(self, log_t: ArrayLike) -> FloatArray:
        """Return the derivative of the log marginal likelihood by log t."""
        x, c2 = self._x(np.exp(log_t)), self.c**2
        left = 1.0 / (1.0 + x)
        reached = x * left
        twice_b = 2.0 * self.b0 + self.rest + left @ c2
        spread = reached @ np.ones_like(c2)  # NumPy's sum is slow over short rows
        return np.asarray(self.a * ((reached * left) @ c2) / twice_b - spread / 2.0)

    @property
    def slope_at(self) -> Callable[[float], float]:
        """``slope`` of one number, in plain floats: searches ask often, and for few weights arrays are slow."""
        squares = [(s * s, c * c) for s, c in zip(self.s.tolist(), self.c.tolist(), strict=True)]
        a, twice_rest = self.a, 2.0 * self.b0 + self.rest

        def slope(log_t: float) -> float:
            t, twice_b, gain, spread = math.exp(log_t), twice_rest, 0.0, 0.0
            for s2, c2 in squares:
                x = t * s2
                left = 1.0 / (1.0 + x)
                reached = x * left
                weight = left * c2
                twice_b += weight
                gain += reached * weight
                spread += reached
            return a * gain / twice_b - spread / 2.0

        return slope

    def _x(self, t: ArrayLike) -> FloatArray:
        return np.asarray(t, dtype=np.float64)[..., None] * self.s**2


def choose_prior_variance(
    stats: Statistics,
    method: str | float = "exact",
    *,
    mean: ArrayLike = 0.0,
    a0: float = 0.0,
    b0: float = 0.0,
    widest: float = np.inf,
) -> float:
    """Return σ_β²: the best by marginal likelihood (``"exact"``), the paper's choice (``"paper"``), or a given number.

    ``"exact"`` searches t s_max² >= 1e-8 to t s_min² <= 1e20, with the largest and the smallest singular value of Φ.
    An optimum outside (below: the members explain nothing beyond the prior mean; above: a perfect fit) is clipped
    there. ``"paper"`` takes five Adam steps of rate 0.1 from σ_β² = 1 on log σ_β², and so ends near e^±0.5 unless the
    slope changes its sign. Where every σ_β² is as good (no rows, or y = Φμ₀ exactly), the answer is 1.

    ``widest``, for ``"exact"`` only, is the most that (bₙ/aₙ) σ_β², the prior variance of a weight, may become.
    """
    if not isinstance(method, str):
        check_number("prior variance", method, low=0.0, strict=True)
        check_number("1 / prior variance", 1.0 / method, low=0.0)
        return float(method)
    check_choice("method", method, ["exact", "paper"])
    spectrum = Spectrum.of(stats, mean, a0, b0)
    if len(spectrum.s) == 0 or (spectrum.b0 == spectrum.rest == 0.0 and spectrum.b(1.0) == 0.0):
        return 1.0
    return math.exp(_best(spectrum, widest) if method == "exact" else _five_adam_steps(spectrum))


def _best(spectrum: Spectrum, widest: float) -> float:
    """Return the log t of the highest marginal likelihood: the best of its peaks, at an end if it rises towards it."""
    low, high = np.log(1e-8) - 2.0 * np.log(spectrum.s[0]), np.log(1e20) - 2.0 * np.log(spectrum.s[-1])
    high = _narrowed(spectrum, low, high, widest)
    grid = np.linspace(low, high, 1 + int(np.ceil((high - low) * 4.0)))  # about nine points a decade
    rises = spectrum.slope(grid) > 0.0
    turns = (rises[:-1] & ~rises[1:]).nonzero()[0]
    peaks = [_peak(spectrum, grid[i], grid[i + 1]) for i in turns]
    candidates = [*([] if rises[0] else [low]), *peaks, *([high] if rises[-1] else [])]
    if len(candidates) == 1:
        return float(candidates[0])
    return float(candidates[spectrum.log_evidence(np.exp(candidates)).argmax()])


def _narrowed(spectrum: Spectrum, low: float, high: float, widest: float) -> float:
    """Return the log t, of those between low and high, up to which t bₙ(t)/aₙ, which rises with t, is within bounds."""

    def excess(log_t: float) -> float:
        return float(log_t + np.log(spectrum.b(np.exp(log_t)) / spectrum.a / widest))

    if widest == np.inf or excess(high) <= 0.0:
        return high
    return low if excess(low) >= 0.0 else float(brentq(excess, low, high))


def _peak(spectrum: Spectrum, low: float, high: float) -> float:
    """Return where the slope turns from above to below zero; at an end that is a root itself, rounding has the sign."""
    slope = spectrum.slope_at
    if slope(low) <= 0.0:
        return low
    if slope(high) >= 0.0:
        return high
    return float(brentq(slope, low, high, xtol=1e-13, rtol=4 * _EPS))


def _five_adam_steps(spectrum: Spectrum) -> float:
    """Return log t after five Adam steps up the slope from log t = 0, with Adam's usual constants."""
    slope = spectrum.slope_at
    u = m = v = 0.0
    for k in range(1, 6):
        u, m, v = adam_step(k, u, m, v, slope(u))
    return u


def _constant(stats: Statistics, a0: float, b0: float) -> float:
    """Return the terms that depend on neither the targets nor Λ₀."""
    normaliser = a0 * math.log(b0) - math.lgamma(a0) if a0 > 0 and b0 > 0 else 0.0
    a = a0 + stats.n / 2.0
    log_gamma = math.lgamma(a) if a > 0 else math.inf
    return log_gamma + normaliser - stats.n / 2.0 * _LOG_2PI + stats.sum_log_w / 2.0
