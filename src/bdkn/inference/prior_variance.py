"""The choice of the prior variance t = σ_β² of the weights by evidence."""

from __future__ import annotations

import math
import warnings

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize_scalar

from bdkn.errors import check_choice, check_number
from bdkn.inference.evidence import BlockSpectrum, Spectrum
from bdkn.inference.statistics import Statistics
from bdkn.kernels.adam import adam_step
from bdkn.typing import FloatArray


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
        largest and the smallest singular value of Φ; an optimum outside (below: the members explain nothing beyond the
        prior mean; above: a perfect fit) is clipped there. "paper" takes five Adam steps of rate 0.1 from t = 1 on
        log t, and so ends near e^±0.5 unless the slope changes its sign. A number is returned as it is.
    mean : array-like, default=0.0
        Prior mean μ₀ of the weights.
    a0, b0 : float, default=0.0
        Shape and scale of the inverse-gamma prior of σ².
    widest : float, default=inf
        The largest value that (bₙ/aₙ) t, the prior variance of a weight, may have; for "evidence" only.
    size : float, default=inf
        Usual size of the prior standard deviation √((bₙ/aₙ) t) of a weight; for "evidence" only. If finite, t is the
        most probable one under a half-t prior with three degrees of freedom of that deviation, of density
        (1 + (bₙ/aₙ) t/size²)⁻².

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
    if not isinstance(method, str):
        check_number("prior variance", method, low=0.0, strict=True)
        check_number("1 / prior variance", 1.0 / method, low=0.0)
        return float(method)
    if method == "exact":
        method = renamed_exact()
    check_choice("method", method, ["evidence", "paper"])
    one = stats.factor.ref.ndim == 1
    spectrum = Spectrum.of(stats, mean, a0, b0) if one else BlockSpectrum.of(stats, mean, a0, b0)
    return best_variance(spectrum, method, widest, size)


def best_variance(spectrum: Spectrum | BlockSpectrum, method: str, widest: float, size: float) -> float:
    """Return ``choose_prior_variance`` of rows with this spectrum, by "evidence" or "paper"."""
    if len(spectrum.s) == 0 or spectrum.is_exact:
        return 1.0
    if method == "paper":
        return math.exp(_five_adam_steps(spectrum))
    best = _best(spectrum, widest)
    return math.exp(best if size == np.inf else _most_probable(spectrum, best, size))


def renamed_exact() -> str:
    """Return the present name of the method that was called "exact", with a warning."""
    text = 'the prior variance "exact" is now called "evidence"; the old name will be removed in bdkn 0.3'
    warnings.warn(text, FutureWarning, stacklevel=3)
    return "evidence"


def _best(spectrum: Spectrum | BlockSpectrum, widest: float) -> float:
    """Return the log t of the highest evidence: the best of its peaks, or an end if it rises towards it."""
    low, high = np.log(1e-8) - 2.0 * np.log(spectrum.s[0]), np.log(1e20) - 2.0 * np.log(spectrum.s[-1])
    high = _narrowed(spectrum, low, high, widest)
    grid = np.linspace(low, high, 1 + int(np.ceil((high - low) * 4.0)))  # about nine points per decade
    rises = spectrum.slope(grid) > 0.0
    turns = (rises[:-1] & ~rises[1:]).nonzero()[0]
    peaks = [_peak(spectrum, grid[i], grid[i + 1]) for i in turns]
    candidates = [*([] if rises[0] else [low]), *peaks, *([high] if rises[-1] else [])]
    if len(candidates) == 1:
        return float(candidates[0])
    return float(candidates[spectrum.log_evidence(np.exp(candidates)).argmax()])


def _most_probable(spectrum: Spectrum | BlockSpectrum, best: float, size: float) -> float:
    """Return the log t of the highest posterior density, which is not above that of the highest evidence.

    The prior falls with t. The evidence can have several peaks, so the highest point of a grid comes first.
    """

    def log_posterior(log_t: FloatArray | float) -> FloatArray:
        t = np.exp(log_t)
        squared = t * spectrum.largest_b(t) / spectrum.a / size**2
        return np.asarray(spectrum.log_evidence(t) - 2.0 * np.log1p(squared))

    low = np.log(1e-8) - 2.0 * np.log(spectrum.s[0])
    grid = np.linspace(low, max(best, low), 1 + int(np.ceil(max(best - low, 0.0) * 2.0)))
    top = int(log_posterior(grid).argmax())
    if top == 0:
        return float(low)
    bounds = grid[top - 1], grid[min(top + 1, len(grid) - 1)]
    found = minimize_scalar(lambda log_t: -float(log_posterior(log_t)), bounds=bounds, method="bounded")
    return max((float(found.x), float(grid[top])), key=log_posterior)


def _narrowed(spectrum: Spectrum | BlockSpectrum, low: float, high: float, widest: float) -> float:
    """Return the log t, of those between low and high, up to which t bₙ(t)/aₙ, which rises with t, is within bounds."""

    def excess(log_t: float) -> float:
        return float(log_t + np.log(spectrum.largest_b(np.exp(log_t)) / spectrum.a / widest))

    if widest == np.inf or excess(high) <= 0.0:
        return high
    return low if excess(low) >= 0.0 else float(brentq(excess, low, high))


def _peak(spectrum: Spectrum | BlockSpectrum, low: float, high: float) -> float:
    """Return where the slope turns from above to below zero; at an end that is a root itself, rounding has the sign."""
    slope = spectrum.slope_at
    if slope(low) <= 0.0:
        return low
    if slope(high) >= 0.0:
        return high
    return float(brentq(slope, low, high, xtol=1e-13))


def _five_adam_steps(spectrum: Spectrum | BlockSpectrum) -> float:
    """Return log t after five Adam steps up the slope from log t = 0, with Adam's usual constants."""
    slope = spectrum.slope_at
    u = m = v = 0.0
    for k in range(1, 6):
        u, m, v = adam_step(k, u, m, v, slope(u))
    return u
