"""Densities of rivals that predict quantiles or samples.

A rival's NLL should not depend on how its output is turned into a density more than it must; these rules are the same
for all. None may gain by spikes where targets lie on a grid or repeat.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from bdkn.typing import FloatArray
from bdkn_paper.peers.mixture import SampledMixture

_LEAST = 0.6
"""Least scale of a component, in units of the median distance between different targets, as in bdkn's mixtures."""


def least_scale(y: FloatArray) -> float:
    """Return the least scale that a component of a density may have, by the training targets."""
    values = np.unique(y)
    return _LEAST * (float(np.median(np.diff(values))) if len(values) > 1 else 1.0)


def density_of_quantiles(quantiles: FloatArray, least: float) -> SampledMixture:
    """Return a Gaussian about each quantile, as wide as the quantiles beside it are apart.

    Levels have equal distances. The outermost components are as wide as the Gaussian whose median and outermost
    quantile are those predicted, so that there are tails beyond.
    """
    loc = np.sort(np.asarray(quantiles, dtype=np.float64), axis=1)
    scale = np.gradient(loc, axis=1)
    median, reach = np.median(loc, axis=1), -ndtri(1 / (loc.shape[1] + 1))
    scale[:, 0], scale[:, -1] = (median - loc[:, 0]) / reach, (loc[:, -1] - median) / reach
    return SampledMixture(loc, np.maximum(scale, least))


def density_of_samples(samples: FloatArray, least: float) -> SampledMixture:
    """Return the kernel density of samples, with Silverman's bandwidth for each row."""
    loc = np.asarray(samples, dtype=np.float64)
    low, high = np.quantile(loc, [0.25, 0.75], axis=1)
    spread = np.minimum(loc.std(axis=1, ddof=1), (high - low) / 1.34)
    width = np.maximum(0.9 * spread * loc.shape[1] ** -0.2, least)
    return SampledMixture(loc, np.broadcast_to(width[:, None], loc.shape))
