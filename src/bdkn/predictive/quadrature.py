"""Quadrature of the moments of a transformed distribution: nodes on paths, and what lies beyond the last quantile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bdkn.typing import FloatArray

END = 2.0**-36
"""The level of the outermost quantiles of the quadrature; beyond, the distribution is taken as a power law."""

Rule = tuple[FloatArray, FloatArray]
"""Nodes and weights of a quadrature on [0, 1]."""


def _panels(panels: int, order: int) -> Rule:
    """Return the rule of Gauss and Legendre in each of so many panels."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    x = (np.arange(panels)[:, None] + (1.0 + nodes) / 2.0) / panels
    return x.ravel(), np.tile(weights / (2.0 * panels), panels)


SMOOTH, SHORT = _panels(4, 12), _panels(1, 6)
"""The rules for a long piece of a path, and for a short one."""

_REACH = 6.5
"""Standard deviations beyond which a Gaussian has no mass."""

_GAUSSIAN = _panels(1, 32)
_VALUES_AT_ONCE = 1 << 18


@dataclass(frozen=True, eq=False)
class Half:
    """Of one half of each distribution: ∫ P dy, 2 ∫ d P dy and ∫ P² dy, with d the distance of y from the median.

    P is the probability of a value farther out than y. The first two are the moments of d in this half.
    """

    first: FloatArray
    second: FloatArray
    score: FloatArray


class Beyond(Half):
    """The same beyond the last quantile, at the level ε.

    There P is ε w^(-1/κ), where w is the distance of z from its median in units of that of the last quantile, and g⁻¹
    is linear: the distance of y is ``last`` + ``rise`` (w - 1).
    """

    @classmethod
    def of(cls, last: FloatArray, rise: FloatArray, reach: FloatArray) -> Beyond:
        """Return the integrals from the distances (n, 2) of z at the levels ε and 2ε."""
        with np.errstate(divide="ignore", invalid="ignore"):
            κ = np.nan_to_num(np.log2(reach[:, 0] / reach[:, 1]), nan=0.0)
            one, two = (np.where(κ < limit, κ / (1.0 - κ / limit), np.inf) for limit in (1.0, 0.5))
            first, second = rise * one, 2.0 * rise * ((last - rise) * one + rise * two)
        score, flat = rise * κ / np.maximum(2.0 - κ, 1e-9), rise == 0.0
        first, second = (
            np.where(flat, 0.0, first),
            np.where(flat, 0.0, np.nan_to_num(second, nan=np.inf, posinf=np.inf)),
        )
        return cls(END * first, END * second, END**2 * score)


def path(
    start: FloatArray, stop: FloatArray, width: FloatArray, breaks: FloatArray, rule: Rule = SMOOTH
) -> tuple[FloatArray, FloatArray]:
    """Return nodes (n, k) from ``start`` to ``stop`` and their weights, denser within ``width`` of the start.

    Quadrature is by pieces that end at the ``breaks`` on the way, where the integrand is not smooth.
    """
    at, share = rule
    unit = np.where(width > 0.0, width, 1.0)
    far = np.arcsinh((stop - start) / unit)
    between = np.clip(np.arcsinh((breaks - start) / unit), np.minimum(far, 0.0), np.maximum(far, 0.0))
    edges = np.sort(np.abs(np.hstack([np.zeros_like(far), between, far])), axis=1) * np.where(far < 0.0, -1.0, 1.0)
    length = np.diff(edges, axis=1)[:, :, None]
    s = (edges[:, :-1, None] + length * at).reshape(len(start), -1)
    return start + unit * np.sinh(s), unit * np.cosh(s) * (length * share).reshape(len(start), -1)


def gaussian_moments(
    function: Callable[[FloatArray, slice], FloatArray], loc: FloatArray, scale: FloatArray, ends: FloatArray
) -> FloatArray:
    """Return E[1], E[f(Z)] and E[f(Z)²] (3, n, A) of Gaussians Z, counting Z between the two ``ends`` only.

    ``function`` returns f of an array (m, k), given that and the slice of m rows that it belongs to.
    """
    (at, share), found = _GAUSSIAN, np.empty((3, *loc.shape))
    size = max(1, _VALUES_AT_ONCE // max(1, loc.shape[1] * len(at)))
    for rows in (slice(start, start + size) for start in range(0, len(loc), size)):
        centre, unit = loc[rows, :, None], scale[rows, :, None]
        low, high = (np.clip((end - centre) / unit, -_REACH, _REACH) for end in ends)
        t = low + (high - low) * at
        mass = (high - low) * share * np.exp(-0.5 * t**2) / np.sqrt(2.0 * np.pi)
        y = function((centre + unit * t).reshape(len(t), -1), rows).reshape(t.shape)
        found[:, rows] = mass.sum(axis=2), (mass * y).sum(axis=2), (mass * y * y).sum(axis=2)
    return found
