"""The mixture of Gaussians, what a deep ensemble predicts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from bdkn.errors import InvalidParameterError, check_number
from bdkn.predictive.base import Predictive, check_location_scale, log_density, standardise
from bdkn.predictive.gaussian import Gaussian, normal_cdf, normal_logpdf
from bdkn.predictive.root import increasing_root
from bdkn.typing import FloatArray

_NARROW = 1e-150  # a point mass is scored as a very narrow Gaussian, whose variance does not yet underflow
_PAIRS_AT_ONCE = 2**20  # the score sums over pairs of components; this bounds its memory to some tens of MB


@dataclass(frozen=True, eq=False, init=False)
class GaussianMixture(Predictive):
    """``Σ_h weights_h N(loc_h, scale_h²)`` for each of n rows: arrays (n, H).

    ``weights`` (H,) or (n, H) are not negative and sum to one along the components; without them all count the same.
    """

    loc: FloatArray
    scale: FloatArray
    weights: FloatArray

    def __init__(self, loc: ArrayLike, scale: ArrayLike, weights: ArrayLike | None = None) -> None:
        loc, scale = np.asarray(loc, dtype=np.float64), np.asarray(scale, dtype=np.float64)
        components = loc.shape[-1] if loc.ndim == 2 else 0
        weights = np.asarray(1 / max(1, components) if weights is None else weights, dtype=np.float64)
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
        return self._mix(self.loc)

    def var(self) -> FloatArray:
        """Return ``Σ_h w_h (scale_h² + (loc_h - mean)²)``, the variance within the components plus that between."""
        between = self.loc - self.mean()[:, None]
        return self._mix(self.scale**2 + between**2)

    def moment_matched(self) -> Gaussian:
        """Return the Gaussian with the mean and the variance of the mixture."""
        return Gaussian(self.mean(), self.std())

    def affine(self, scale: float, shift: float) -> Self:
        """Return the distribution of ``scale * Y + shift``, for ``scale > 0``."""
        check_number("scale", scale, low=0.0, strict=True)
        return replace(self, loc=scale * self.loc + shift, scale=scale * self.scale)

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
        return increasing_root(lambda x: self._log_excess(x, q), lower, upper, 1e-14 * self.scale.min(axis=1))

    def _bracket(self, q: float) -> tuple[FloatArray, FloatArray]:
        """Return the least and the greatest q-quantile among the components that count; the mixture's lies between."""
        components = Gaussian(self.loc.ravel(), self.scale.ravel()).ppf(q).reshape(self.loc.shape)
        counts = self.weights > 0
        return np.where(counts, components, np.inf).min(axis=1), np.where(counts, components, -np.inf).max(axis=1)

    def _log_excess(self, x: FloatArray, q: float) -> tuple[FloatArray, FloatArray]:
        """Return ``log F(x) - log q`` and its slope ``f(x) / F(x)``; in the tail, log F is far straighter than F."""
        F, f = self.cdf(x), self.pdf(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(F / q), f / F

    def _rvs(self, size: int, generator: np.random.Generator) -> FloatArray:
        steps, level = np.cumsum(self.weights, axis=1), generator.random((len(self), size))
        # The last step is one but for rounding; leaving it out keeps every choice in range.
        chosen = np.sum(level[:, :, None] >= steps[:, None, :-1], axis=2)
        loc: FloatArray = np.take_along_axis(self.loc, chosen, axis=1)
        scale: FloatArray = np.take_along_axis(self.scale, chosen, axis=1)
        return np.asarray(loc + scale * generator.standard_normal(chosen.shape))

    def _crps(self, y: FloatArray) -> FloatArray:
        rows = max(1, _PAIRS_AT_ONCE // max(1, y.shape[1] * self.loc.shape[1] ** 2))
        starts = range(0, len(self), rows)
        return np.concatenate([y[:0], *(self[i : i + rows]._crps_at_once(y[i : i + rows]) for i in starts)])

    def _crps_at_once(self, y: FloatArray) -> FloatArray:
        from scoringrules import crps_mixnorm

        scale = np.maximum(self.scale, _NARROW)
        with np.errstate(over="ignore"):
            score: FloatArray = crps_mixnorm(y, self.loc[:, None, :], scale[:, None, :], self.weights[:, None, :])
        return score


def _check_weights(weights: FloatArray) -> None:
    if np.all(weights >= 0) and np.allclose(weights.sum(axis=1), 1.0, rtol=0.0, atol=1e-8):
        return
    raise InvalidParameterError(
        f"weights must be >= 0 and sum to 1 in each row; got a least weight of {weights.min()} "
        f"and sums from {weights.sum(axis=1).min()} to {weights.sum(axis=1).max()}"
    )
