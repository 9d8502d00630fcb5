"""The evidence of a prior variance of the weights in closed form, and the choice of this variance.

The evidence is the marginal likelihood p(y | Φ), with the weights and the noise integrated out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize_scalar
from scipy.special import xlogy

from bdkn.errors import check_choice, check_number
from bdkn.inference.statistics import EPS, Directions, Statistics
from bdkn.typing import FloatArray

_SEARCH_LOW, _SEARCH_HIGH = 1e-8, 1e20
"""Limits of the search for the prior variance t: lowest t s_max² and highest t s_min², with singular values s of Φ."""

_POINTS = 4.0
"""Grid points per unit of log t in the search for peaks of the evidence, where t is the prior variance."""

_POINTS_OF_DENSITY = 2.0
"""Grid points per unit of log t in the search for the prior variance t with the highest posterior density."""


class Spectrum(NamedTuple):
    """Statistics of one target from which the evidence of any prior variance of the weights is computed fast.

    With t = σ_β², the prior variance in units of the noise, and the singular values s of Φ,

        bₙ(t) = b₀ + ½ [rest + Σ c²/(1 + t s²)],   log |Λₙ|/|Λ₀| = Σ log(1 + t s²).

    After one singular value decomposition, each t takes O(H) operations.

    Parameters
    ----------
    s : array (r,)
        Singular values of Φ that are not zero, the largest first.
    c : array (r,)
        R(β̂ - μ₀) in the basis of left singular vectors; β̂ are the least-squares weights, RᵀR is ΦᵀWΦ.
    rest : float
        The squared norm of the least-squares residual, the part of y - Φμ₀ that Φ does not explain.
    a : float
        Shape aₙ = a₀ + n/2 of the posterior of σ².
    b0 : float
        Scale b₀ of the prior of σ².
    constant : float
        Terms of the log evidence that depend on neither y nor t.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import Prior, Spectrum, Statistics, log_evidence
    >>> Phi, y = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([1.0, 2.0, 4.0])
    >>> stats = Statistics.from_rows(Phi, y)
    >>> spectrum = Spectrum.of(stats)
    >>> print(spectrum.log_evidence([0.1, 1.0, 10.0]).round(3))
    [-5.915 -4.7   -3.924]
    >>> print(round(log_evidence(stats, Prior.isotropic(2, 0.1)), 3))
    -5.915
    """

    s: FloatArray
    c: FloatArray
    rest: float
    a: float
    b0: float
    constant: float

    @classmethod
    def of(cls, stats: Statistics, mean: ArrayLike = 0.0, a0: float = 0.0, b0: float = 0.0) -> Self:
        """Return the ``Spectrum`` of rows from their sufficient statistics, given the prior ``mean`` of the weights."""
        return cls.of_directions(stats.directions(mean), stats, a0, b0)

    @classmethod
    def of_directions(cls, found: Directions, stats: Statistics, a0: float = 0.0, b0: float = 0.0) -> Self:
        """Return the ``Spectrum`` of rows from ``found``: singular values, targets in their basis, and residuals."""
        s, c, residual = found
        constant = constant_part(stats.n, stats.sum_log_w, 1, a0, b0)
        return cls(s, c, float(residual[-1]) ** 2, a0 + stats.n / 2.0, b0, constant)

    def b(self, t: ArrayLike) -> FloatArray:
        """Return bₙ(t), the scale of the posterior of the noise variance σ², for prior variances ``t`` of any shape."""
        return np.asarray(self.b0 + (self.rest + 1.0 / (1.0 + self._x(t)) @ self.c**2) / 2.0)

    def log_evidence(self, t: ArrayLike) -> FloatArray:
        """Return the log evidence of prior variances ``t``, an array of any shape."""
        log_ratio = np.sum(np.log1p(self._x(t)), axis=-1) / 2.0
        return np.asarray(self.constant - xlogy(self.a, self.b(t)) - log_ratio)

    def slope(self, log_t: ArrayLike) -> FloatArray:
        """Return the derivative of the log evidence with respect to log t, the log prior variance."""
        x, c2 = self._x(np.exp(log_t)), self.c**2
        left = 1.0 / (1.0 + x)
        reached = x * left
        twice_b = 2.0 * self.b0 + self.rest + left @ c2
        total = reached @ np.ones_like(c2)  # NumPy's sum is slow over short rows
        return np.asarray(self.a * ((reached * left) @ c2) / twice_b - total / 2.0)

    @property
    def slope_at(self) -> Callable[[float], float]:
        """A function that returns the derivative of the log evidence by log t for one log t; fast for few weights."""
        squares = [(s * s, c * c) for s, c in zip(self.s.tolist(), self.c.tolist(), strict=True)]
        a, twice_rest = self.a, 2.0 * self.b0 + self.rest

        def slope(log_t: float) -> float:
            t, twice_b, gain, total = math.exp(log_t), twice_rest, 0.0, 0.0
            for s2, c2 in squares:
                x = t * s2
                left = 1.0 / (1.0 + x)
                reached = x * left
                weight = left * c2
                twice_b += weight
                gain += reached * weight
                total += reached
            return a * gain / twice_b - total / 2.0

        return slope

    def largest_b(self, t: ArrayLike) -> FloatArray:
        """Return the largest scale bₙ(t) over all targets: the same as ``b``, since there is only one target."""
        return self.b(t)

    @property
    def is_exact(self) -> bool:
        """True if y = Φμ₀ exactly with b₀ = 0: the evidence is then infinite for every prior variance."""
        return bool(self.b(1.0) == 0.0)

    def _x(self, t: ArrayLike) -> FloatArray:
        return np.asarray(t, dtype=np.float64)[..., None] * self.s**2


class BlockSpectrum(NamedTuple):
    """Statistics of q targets from which the evidence of any prior variance is computed; for one target: ``Spectrum``.

    ``c`` is (r, q) with rows cⱼ, ``rest`` and ``b0`` are (q, q), the constant has the multivariate gamma function Γ_q:

        bₙ(t) = b₀ + ½ [rest + Σⱼ cⱼcⱼᵀ/(1 + t sⱼ²)],
        log p(Y | Φ, t) = constant - (aₙ + (q - 1)/2) log |bₙ(t)| - (q/2) Σⱼ log(1 + t sⱼ²).
    """

    s: FloatArray
    c: FloatArray
    rest: FloatArray
    a: float
    b0: FloatArray
    constant: float

    @classmethod
    def of(cls, stats: Statistics, mean: ArrayLike = 0.0, a0: float = 0.0, b0: ArrayLike = 0.0) -> Self:
        """Decompose statistics of rows once, for the evidence; a number ``b0`` stands for b0 times identity."""
        s, c, residual = stats.directions(mean)
        q, scale = c.shape[1], np.asarray(b0, dtype=np.float64)
        scale = scale if scale.ndim else scale * np.eye(q)
        constant = constant_part(stats.n, stats.sum_log_w, q, a0, scale)
        return cls(s, c, residual.T @ residual, a0 + stats.n / 2.0, scale, constant)

    def b(self, t: ArrayLike) -> FloatArray:
        """Return bₙ(t) (.., q, q), scale matrices of the noise covariance Σ, for prior variances ``t`` of any shape."""
        left = 1.0 / (1.0 + self._x(t))
        return np.asarray(self.b0 + (self.rest + np.einsum("...j,jp,jq->...pq", left, self.c, self.c)) / 2.0)

    def log_evidence(self, t: ArrayLike) -> FloatArray:
        """Return the log evidence of prior variances ``t``, an array of any shape."""
        q = self.c.shape[1]
        log_ratio = q * np.sum(np.log1p(self._x(t)), axis=-1) / 2.0
        return np.asarray(self.constant - (self.a + (q - 1) / 2.0) * np.linalg.slogdet(self.b(t))[1] - log_ratio)

    def slope(self, log_t: ArrayLike) -> FloatArray:
        """Return the derivative of the log evidence with respect to log t, the log prior variance."""
        t, q = np.exp(log_t), self.c.shape[1]
        x = self._x(t)
        left = 1.0 / (1.0 + x)
        inner = np.einsum("jp,...pq,jq->...j", self.c, np.linalg.inv(self.b(t)), self.c)
        gain = np.sum(x * left**2 * inner, axis=-1)
        return np.asarray((self.a + (q - 1) / 2.0) * gain / 2.0 - q * np.sum(x * left, axis=-1) / 2.0)

    @property
    def slope_at(self) -> Callable[[float], float]:
        """A function that returns the derivative of the log evidence by log t for one log t, for root searches."""
        return lambda log_t: float(self.slope(log_t))

    def largest_b(self, t: ArrayLike) -> FloatArray:
        """Return the largest diagonal entry of bₙ(t), over the targets, for prior variances ``t`` of any shape."""
        return np.asarray(self.b(t).diagonal(axis1=-2, axis2=-1).max(axis=-1))

    @property
    def is_exact(self) -> bool:
        """True if a linear combination of targets is fitted exactly with b₀ = 0: the evidence is then infinite."""
        return log_determinant(self.b(1.0)) == -math.inf

    def _x(self, t: ArrayLike) -> FloatArray:
        return np.asarray(t, dtype=np.float64)[..., None] * self.s**2


def constant_part(n: float, sum_log_w: float, q: int, a0: float, b0: float | FloatArray) -> float:
    """Return the terms of the log evidence that depend neither on the values of targets nor on the prior precision."""
    a = a0 + n / 2.0
    log_b0 = log_determinant(b0) * (1 if isinstance(b0, np.ndarray) else q)
    is_proper = a0 > 0 and log_b0 > -math.inf
    normaliser = (a0 + (q - 1) / 2.0) * log_b0 - _log_gamma(a0, q) if is_proper else 0.0
    log_gamma = math.inf if a <= 0 else math.lgamma(a) if q == 1 else _log_gamma(a, q)
    return log_gamma + normaliser - q * (n / 2.0 * math.log(2.0 * math.pi)) + q * (sum_log_w / 2.0)


def log_determinant(b: float | FloatArray) -> float:
    """Return log b of a number, or log |b| of a positive definite matrix; -inf if b is zero or singular."""
    if not isinstance(b, np.ndarray):
        return math.log(b) if b > 0 else -math.inf
    size = np.sqrt(np.abs(b.diagonal()))
    if not size.all():
        return -math.inf
    λ = np.linalg.eigvalsh(b / np.outer(size, size))  # so that the units of the targets do not matter
    return float(np.sum(np.log(λ)) + 2.0 * np.sum(np.log(size))) if λ[0] > len(λ) * EPS * λ[-1] else -math.inf


def _log_gamma(a: float, q: int) -> float:
    """Return the logarithm of the multivariate gamma function Γ_q(a + (q - 1)/2), which is Γ(a) for q = 1."""
    return sum(math.lgamma(a + j / 2.0) for j in range(q)) + q * (q - 1) / 4.0 * math.log(math.pi)


def choose_prior_variance(
    stats: Statistics,
    method: str | float = "evidence",
    *,
    mean: ArrayLike = 0.0,
    a0: float = 0.0,
    b0: float = 0.0,
    widest: float = np.inf,
    size: float = np.inf,
) -> float:
    """Return the prior variance t = σ_β² of the weights, in units of the noise.

    Parameters
    ----------
    stats : Statistics
        Statistics of the rows, of one target or of a block.
    method : {"evidence", "paper"} or float, default="evidence"
        "evidence" is the t of the highest evidence. It is searched from t s_max² = 1e-8 to t s_min² = 1e20, with the
        largest and the smallest singular value of Φ; an optimum below (the members explain nothing beyond the prior
        mean) or above (a perfect fit) is clipped to this range. "paper" takes five Adam steps of rate 0.1 from t = 1 on
        log t, and so ends near e^±0.5 unless the slope changes its sign. A number is returned as it is.
    mean : array-like, default=0.0
        Prior mean μ₀ of the weights.
    a0, b0 : float, default=0.0
        Shape and scale of the inverse-gamma prior of σ².
    widest : float, default=inf
        The largest value that (bₙ/aₙ) t, the prior variance of a weight, may have; for "evidence" only.
    size : float, default=inf
        Usual size of the prior standard deviation √((bₙ/aₙ) t) of a weight; for "evidence" only. If finite, this
        deviation has a half-t prior with three degrees of freedom, of density (1 + (bₙ/aₙ) t/size²)⁻², and the most
        probable t is returned.

    Returns
    -------
    float
        The prior variance. It is 1 where every value is equally good: without rows, or if y = Φμ₀ exactly.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import Statistics, choose_prior_variance
    >>> Phi, y = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([1.0, 2.0, 4.0])
    >>> stats = Statistics.from_rows(Phi, y)
    >>> round(choose_prior_variance(stats), 3)
    9.962
    >>> round(choose_prior_variance(stats, "paper"), 3)
    1.647
    """
    one = stats.factor.ref.ndim == 1
    return best_variance((Spectrum if one else BlockSpectrum).of(stats, mean, a0, b0), method, widest, size)


def best_variance(spectrum: Spectrum | BlockSpectrum, method: str | float, widest: float, size: float) -> float:
    """Return the prior variance t of the weights, chosen by its evidence; arguments as in ``choose_prior_variance``."""
    if not isinstance(method, str):
        check_number("prior variance", method, low=0.0, strict=True)
        check_number("1 / prior variance", 1.0 / method, low=0.0)
        return float(method)
    check_choice("method", method, ["evidence", "paper"])
    if len(spectrum.s) == 0 or spectrum.is_exact:
        return 1.0
    if method == "paper":
        u = m = v = 0.0  # u is log t; Adam with its usual constants
        for k in range(1, 6):
            slope = spectrum.slope_at(u)
            m, v = 0.9 * m + (1 - 0.9) * slope, 0.999 * v + (1 - 0.999) * slope * slope
            u += 0.1 * (m / (1 - 0.9**k)) / (math.sqrt(v / (1 - 0.999**k)) + 1e-8)
        return math.exp(u)

    # The limits of the search: t bₙ(t)/aₙ, which rises with t, must not exceed ``widest``.
    def excess(log_t: float) -> float:
        return float(log_t + np.log(spectrum.largest_b(np.exp(log_t)) / spectrum.a / widest))

    low = np.log(_SEARCH_LOW) - 2.0 * np.log(spectrum.s[0])
    high = np.log(_SEARCH_HIGH) - 2.0 * np.log(spectrum.s[-1])
    if widest < np.inf and excess(high) > 0.0:
        high = low if excess(low) >= 0.0 else float(brentq(excess, low, high))

    # The highest evidence: at the highest peak, or at a limit of the search if the evidence rises towards it.
    grid = np.linspace(low, high, 1 + int(np.ceil((high - low) * _POINTS)))
    rises, slope_at = spectrum.slope(grid) > 0.0, spectrum.slope_at
    turns = (rises[:-1] & ~rises[1:]).nonzero()[0]
    peaks = [_peak(slope_at, grid[i], grid[i + 1]) for i in turns]
    candidates = [*([] if rises[0] else [low]), *peaks, *([high] if rises[-1] else [])]
    best = candidates[0]
    if len(candidates) > 1:
        best = candidates[spectrum.log_evidence(np.exp(candidates)).argmax()]
    if size == np.inf:
        return math.exp(best)

    # The highest posterior density is not above the t of the highest evidence, as the prior density falls with t. The
    # evidence can have several peaks: the search starts at the highest point of a grid.
    def log_posterior(log_t: FloatArray | float) -> FloatArray:
        t = np.exp(log_t)
        squared = t * spectrum.largest_b(t) / spectrum.a / size**2
        return np.asarray(spectrum.log_evidence(t) - 2.0 * np.log1p(squared))

    grid = np.linspace(low, max(best, low), 1 + int(np.ceil(max(best - low, 0.0) * _POINTS_OF_DENSITY)))
    top = int(log_posterior(grid).argmax())
    if top == 0:
        return math.exp(low)
    bounds = grid[top - 1], grid[min(top + 1, len(grid) - 1)]
    found = minimize_scalar(lambda log_t: -float(log_posterior(log_t)), bounds=bounds, method="bounded")
    return math.exp(max((float(found.x), float(grid[top])), key=log_posterior))


def _peak(slope: Callable[[float], float], low: float, high: float) -> float:
    """Return the peak between two limits, the zero of a decreasing slope; a limit if the slope does not change sign."""
    if slope(low) <= 0.0:
        return low
    return high if slope(high) >= 0.0 else float(brentq(slope, low, high, xtol=1e-13))
