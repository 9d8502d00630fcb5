"""The mixture of Gaussians, which a deep ensemble predicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from bdkn.arrays import read_numbers
from bdkn.errors import InvalidParameterError
from bdkn.predictive.base import Predictive, check_affine, check_location_scale
from bdkn.predictive.location_scale import (
    Gaussian,
    log_density,
    normal_absolute_mean,
    normal_cdf,
    normal_logpdf,
    standardise,
)
from bdkn.typing import FloatArray

_LARGE = 1e300
_NARROW = 1e-150  # a point mass is scored as a very narrow Gaussian, whose variance does not yet underflow
_PAIRS_AT_ONCE = 2**20  # the score sums over pairs of components; this bounds its memory to some tens of MB
_EPS = np.finfo(np.float64).eps
_MOST = np.finfo(np.float64).max
_ROUNDING = 3e-14  # logarithms of probabilities are known to about this, far out in the tail
_MOST_STEPS = 200  # bisection alone would halve a bracket this often; smooth equations need about eight


@dataclass(frozen=True, eq=False, init=False)
class GaussianMixture(Predictive):
    """Mixture of Gaussians: ``Σ_h weights_h N(loc_h, scale_h²)`` for each of n rows.

    Parameters
    ----------
    loc : array-like (n, H)
        Means of the H components.
    scale : float or array-like (n, H)
        Standard deviations of the components, not negative. Zero is a point mass.
    weights : array-like (H,) or (n, H), optional
        Weights of the components, not negative, with the sum one in each row. By default all are equal.

    Examples
    --------
    >>> from bdkn.predictive import GaussianMixture
    >>> dist = GaussianMixture([[0.0, 2.0]], [[1.0, 1.0]])
    >>> print(dist.mean(), dist.std().round(3), dist.ppf(0.95).round(3))
    [1.] [1.414] [3.284]
    """

    loc: FloatArray
    scale: FloatArray
    weights: FloatArray

    def __init__(self, loc: ArrayLike, scale: ArrayLike, weights: ArrayLike | None = None) -> None:
        loc, scale = read_numbers("loc", loc), read_numbers("scale", scale)
        components = loc.shape[-1] if loc.ndim == 2 else 0
        weights = read_numbers("weights", 1 / max(1, components) if weights is None else weights)
        if not components or scale.shape not in ((), loc.shape) or weights.shape not in ((), (components,), loc.shape):
            raise InvalidParameterError(
                f"loc and scale must be (rows, components) with a component at least, and weights of that shape or "
                f"(components,); got loc {loc.shape}, scale {scale.shape}, weights {weights.shape}"
            )
        for name, array in (("loc", loc), ("scale", scale), ("weights", weights)):
            object.__setattr__(self, name, np.broadcast_to(array, loc.shape))
        check_location_scale(self.loc, self.scale)
        _check_weights(self.weights)

    def __len__(self) -> int:
        return len(self.loc)

    def mean(self) -> FloatArray:
        """Return ``Σ_h w_h loc_h``."""
        unit = float(np.abs(self.loc).max(initial=0.0))
        return self._mix(self.loc) if unit < _LARGE else unit * self._mix(self.loc / unit)  # their sum may overflow

    def var(self) -> FloatArray:
        """Return ``Σ_h w_h (scale_h² + (loc_h - mean)²)``, the variance within the components plus that between."""
        with np.errstate(over="ignore"):
            between = self.loc - self.mean()[:, None]
            return self._mix(self.scale**2 + between**2)

    def moment_matched(self) -> Gaussian:
        """Return the Gaussian with the mean and the variance of the mixture."""
        return Gaussian(self.mean(), self.std())

    def affine(self, scale: float, shift: float) -> Self:
        """Return the distribution of ``scale * Y + shift``, for ``scale > 0``."""
        scale, shift = check_affine(scale, shift)
        with np.errstate(over="ignore"):  # what overflows is refused
            loc, width = scale * self.loc + shift, scale * self.scale
        return replace(self, loc=loc, scale=width)

    def _mix(self, values: FloatArray) -> FloatArray:
        mixed: FloatArray = np.einsum("nh,n...h->n...", self.weights, values)
        return mixed

    def _logpdf(self, y: FloatArray) -> FloatArray:
        y, loc, scale = y[:, :, None], self.loc[:, None, :], self.scale[:, None, :]
        components = log_density(normal_logpdf(standardise(y, loc, scale)), y, loc, scale)
        w = self.weights[:, None, :]
        with np.errstate(divide="ignore", invalid="ignore"):
            # A component without weight does not count even where its density is infinite.
            weighted = np.where(w > 0, components + np.log(w), -np.inf)
        density: FloatArray = logsumexp(weighted, axis=2)
        return density

    def _cdf(self, y: FloatArray) -> FloatArray:
        z = standardise(y[:, :, None], self.loc[:, None, :], self.scale[:, None, :])
        return np.minimum(self._mix(normal_cdf(z)), 1.0)

    def _ppf(self, q: FloatArray) -> FloatArray:
        return np.stack([self._quantile(level) for level in q], axis=1)

    def _quantile(self, q: float) -> FloatArray:
        if q > 0.5:  # the upper tail of the mixture is the lower tail of its mirror image, where F keeps its digits
            return -replace(self, loc=-self.loc)._quantile(1.0 - q)
        lower, upper = self._bracket(q)
        if q == 0.0:
            return lower
        lower, upper = np.clip(lower, -_MOST, _MOST), np.clip(upper, -_MOST, _MOST)  # they may overflow
        return increasing_root(lambda x: self._log_excess(x, q), lower, upper, 1e-14 * self.scale.min(axis=1))

    def _bracket(self, q: float) -> tuple[FloatArray, FloatArray]:
        """Return the least and the greatest q-quantile among the components that count; the mixture's lies between."""
        components = Gaussian(self.loc.ravel(), self.scale.ravel()).ppf(q).reshape(self.loc.shape)
        counts = self.weights > 0
        return np.where(counts, components, np.inf).min(axis=1), np.where(counts, components, -np.inf).max(axis=1)

    def _log_excess(self, x: FloatArray, q: float) -> tuple[FloatArray, FloatArray]:
        """Return ``log F(x) - log q`` and its slope ``f(x) / F(x)``; in the tail, log F is far straighter than F."""
        F, f = self.cdf(x), self.pdf(x)
        with np.errstate(all="ignore"):
            return np.log(F / q), f / F

    def _rvs(self, size: int, generator: np.random.Generator) -> FloatArray:
        steps, level = np.cumsum(self.weights, axis=1), generator.random((len(self), size))
        # The last step is one but for rounding; leaving it out keeps every choice in range.
        chosen = np.sum(level[:, :, None] >= steps[:, None, :-1], axis=2)
        loc: FloatArray = np.take_along_axis(self.loc, chosen, axis=1)
        scale: FloatArray = np.take_along_axis(self.scale, chosen, axis=1)
        with np.errstate(over="ignore"):
            return np.asarray(loc + scale * generator.standard_normal(chosen.shape))

    def _crps(self, y: FloatArray) -> FloatArray:
        unit = max(float(np.abs(self.loc).max(initial=0.0)), float(self.scale.max(initial=0.0)))
        if unit > _LARGE:  # in units of the widest component, sums do not overflow
            moved = {"loc": self.loc / unit, "scale": self.scale / unit}
            with np.errstate(over="ignore"):
                return np.asarray(unit * replace(self, **moved)._crps(y / unit))
        rows = max(1, _PAIRS_AT_ONCE // max(1, y.shape[1] * self.loc.shape[1] ** 2))
        starts = range(0, len(self), rows)
        return np.concatenate([y[:0], *(self[i : i + rows]._crps_at_once(y[i : i + rows]) for i in starts)])

    def _crps_at_once(self, y: FloatArray) -> FloatArray:
        """Return E|Y - y| - E|Y - Y'|/2, sums over components and over pairs of them."""
        loc, scale, weights = self.loc, np.maximum(self.scale, _NARROW), self.weights
        errors = _absolute_mean(y[:, :, None] - loc[:, None, :], scale[:, None, :])
        apart = _absolute_mean(loc[:, :, None] - loc[:, None, :], np.hypot(scale[:, :, None], scale[:, None, :]))
        own = np.einsum("nij,ni,nj->n", apart, weights, weights)
        return np.asarray(np.einsum("nmi,ni->nm", errors, weights) - own[:, None] / 2)


def _absolute_mean(loc: FloatArray, scale: FloatArray) -> FloatArray:
    """Return E|Z| of Gaussians Z."""
    with np.errstate(over="ignore"):
        return np.asarray(scale * normal_absolute_mean(loc / scale))


def _check_weights(weights: FloatArray) -> None:
    if np.all(weights >= 0) and np.allclose(weights.sum(axis=1), 1.0, rtol=0.0, atol=1e-8):
        return
    raise InvalidParameterError(
        f"weights must be >= 0 and sum to 1 in each row; got a least weight of {weights.min()} "
        f"and sums from {weights.sum(axis=1).min()} to {weights.sum(axis=1).max()}"
    )


def increasing_root(
    function: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    lower: FloatArray,
    upper: FloatArray,
    tolerance: FloatArray,
) -> FloatArray:
    """Return the root within [lower, upper] of each of many increasing functions, by Newton's method in brackets.

    ``function`` returns the values and the slopes at x; it may jump and may be infinite. A Newton step counts only if
    it stays inside the bracket and is at most half as long as the step before; otherwise the bracket is halved. A row
    rests once its value is zero up to rounding or it moves by no more than ``tolerance`` or the last digit of x.
    """
    with np.errstate(over="ignore"):
        x, last = lower / 2 + upper / 2, upper - lower
    resting = np.zeros(x.shape, dtype=bool)
    for _ in range(_MOST_STEPS):
        value, slope = function(x)
        lower, upper = np.where(value < 0, x, lower), np.where(value < 0, upper, x)
        with np.errstate(all="ignore"):
            newton = x - value / np.where(np.isinf(slope), np.nan, slope)
        trusted = (lower <= newton) & (newton <= upper) & (np.abs(newton - x) <= last / 2)
        target = np.where(trusted, newton, lower + (upper - lower) / 2)
        resting |= np.abs(value) <= _ROUNDING
        x, last = np.where(resting, x, target), np.abs(target - x)
        resting |= last <= np.maximum(tolerance, 2 * _EPS * np.abs(x))
        if resting.all():
            break
    return x
