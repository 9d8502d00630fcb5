"""The posterior of the weights, averaged over their prior variance t = σ_β².

The highest evidence is often at t → 0: equal weights explain the targets as well as any others. At that t the posterior
of the weights is as narrow as the prior, whatever the data. So t is integrated out when the weights are reported. The
prior standard deviation s = σ√t of a weight has itself a prior, of density (1 + (sH)²)⁻², a half-t with three degrees
of freedom: without data, weights differ by about their size. On a grid of log t,

    p(t | y) ∝ p(y | t) p(t),   E[(β - β̂)(β - β̂)ᵀ | y] ≈ Σ p(t | y) [(bₜ/a) Λₜ⁻¹ + (μₜ - β̂)(μₜ - β̂)ᵀ],

where β̂ are the weights that predictions use. The mean of p(y | t) under p(t), relative to its limit for t → 0, is the
Bayes factor of unequal against equal weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bdkn.inference.combination import MAX_WEIGHT_VARIANCE, Combination, equal_weights
from bdkn.inference.evidence import Spectrum
from bdkn.inference.posterior import Prior, posterior
from bdkn.inference.statistics import Statistics
from bdkn.predictive import StudentT
from bdkn.typing import FloatArray

_POINTS = 80
"""Number of grid points of log t, the log prior variance of the weights; eight points per decade."""

_MIN_DEVIATION = 1e-4
"""Smallest prior standard deviation of a weight on the grid, in units of 1/H, an equal weight; the largest is 1."""

_MIN_LOG_BAYES_FACTOR = np.log(3.0)
"""Log Bayes factor of unequal against equal weights above which the data identify the weights."""


@dataclass(frozen=True, eq=False)
class WeightPosterior:
    """Posterior of the weights, with their prior variance integrated out. Made by ``average_weights``.

    Parameters
    ----------
    df : float
        Degrees of freedom.
    mean : array (H,)
        The weights that predictions use.
    scale_matrix : array (H, H)
        Scale matrix of the Student-t distribution of the weights about ``mean``.
    log_bayes_factor : float
        Logarithm of the Bayes factor of unequal against equal weights.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import Forecast, average_weights, combine
    >>> rng = np.random.default_rng(0)
    >>> means = rng.normal(size=(200, 1)) + 1e-4 * rng.normal(size=(200, 3))
    >>> y = means.mean(axis=1) + 0.3 * rng.normal(size=200)
    >>> forecast = Forecast.of(means, np.full((200, 3), 0.1))
    >>> combination = combine(forecast, y)
    >>> weights = average_weights(combination, combination.statistics(forecast, y))
    >>> weights.weights_identified
    False
    >>> bool(np.all(weights.marginals().scale > 0.05))
    True
    """

    df: float
    mean: FloatArray
    scale_matrix: FloatArray
    log_bayes_factor: float

    @property
    def weights_identified(self) -> bool:
        """True if the data identify the weights: unequal weights have a Bayes factor above three against equal ones."""
        return bool(self.log_bayes_factor > _MIN_LOG_BAYES_FACTOR)

    def marginals(self) -> StudentT:
        """Return the marginal Student-t distribution of each weight."""
        return StudentT(self.df, self.mean, np.sqrt(np.diag(self.scale_matrix)))


def average_weights(combination: Combination, stats: Statistics) -> WeightPosterior:
    """Return the posterior of the members' weights, with their prior variance integrated out.

    Parameters
    ----------
    combination : Combination
        The fitted combination.
    stats : Statistics
        Statistics of the rows that the combination was fitted to.

    Returns
    -------
    WeightPosterior
        The distribution of the weights, and the Bayes factor of unequal against equal weights.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import Forecast, average_weights, combine
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=200)
    >>> forecast = Forecast.of(y[:, None] + [0.1, 3.0] * rng.normal(size=(200, 2)), np.full((200, 2), 0.1))
    >>> combination = combine(forecast, y)
    >>> weights = average_weights(combination, combination.statistics(forecast, y))
    >>> weights.weights_identified, weights.mean.round(1)
    (True, array([1., 0.]))
    """
    H, post = stats.n_weights - 1, combination.posterior
    μ0 = equal_weights(H)
    spectrum = Spectrum.of(stats, μ0)
    if post.b == 0.0 or spectrum.is_exact:
        return WeightPosterior(post.df, combination.weights, post.scale_matrix[:H, :H], 0.0)
    deviation = np.geomspace(_MIN_DEVIATION / H, np.sqrt(MAX_WEIGHT_VARIANCE), _POINTS)
    density = deviation / (1.0 + (deviation * H) ** 2) ** 2
    t, prior_share = deviation**2 / (post.b / post.a), density / density.sum()
    evidence = spectrum.log_evidence(t)
    highest = float(evidence.max())
    share = prior_share * np.exp(evidence - highest)
    total = float(share.sum())
    factor = np.log(total) + highest - float(spectrum.log_evidence(0.0))
    matrix = np.zeros((H, H))
    for p, variance in zip(share / total, t, strict=True):
        prior = Prior.shrinking(μ0, variance)
        given = posterior(stats, prior)
        step = given.mean - post.mean
        matrix = matrix + p * (given.scale_matrix + np.outer(step, step))[:H, :H]
    return WeightPosterior(post.df, combination.weights, matrix, float(factor))
