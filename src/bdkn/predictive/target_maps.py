"""Transformations of targets made outside of a regressor, and distributions carried back through them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from bdkn.predictive.base import Predictive
from bdkn.predictive.links import Link, Support
from bdkn.predictive.location_scale import normal_logpdf
from bdkn.predictive.transformed import Transformed
from bdkn.typing import FloatArray

_MOST_BREAKS = 15
"""Kinks of a piecewise-linear link at which integrals are divided; between them there may be others."""

_OUTERMOST = 1e-7
"""The level of the outermost normal quantiles, as in scikit-learn's QuantileTransformer."""


@dataclass(frozen=True)
class BoxCoxLink(Link):
    """(y^power - 1) / power for targets above zero; the logarithm for the power zero."""

    power: float

    @property
    def support(self) -> Support:
        """The bounds of the target."""
        return 0.0, np.inf

    def forward(self, y: FloatArray) -> FloatArray:
        """Return g(y)."""
        with np.errstate(divide="ignore", over="ignore"):
            logs = np.log(y)
            return logs if self.power == 0.0 else np.asarray(np.expm1(self.power * logs) / self.power)

    def inverse(self, z: FloatArray) -> FloatArray:
        """Return the y with g(y) = z."""
        with np.errstate(divide="ignore", over="ignore"):
            if self.power == 0.0:
                return np.exp(z)
            return np.asarray(np.exp(np.log1p(np.maximum(self.power * z, -1.0)) / self.power))

    def log_derivative(self, y: FloatArray) -> FloatArray:
        """Return log g'(y)."""
        with np.errstate(divide="ignore"):
            return np.asarray((self.power - 1.0) * np.log(y))


@dataclass(frozen=True)
class AsinhLink(Link):
    """The inverse hyperbolic sine of the target."""

    @property
    def support(self) -> Support:
        """The bounds of the target."""
        return -np.inf, np.inf

    def forward(self, y: FloatArray) -> FloatArray:
        """Return g(y)."""
        return np.arcsinh(y)

    def inverse(self, z: FloatArray) -> FloatArray:
        """Return the y with g(y) = z."""
        with np.errstate(over="ignore"):
            return np.sinh(z)

    def log_derivative(self, y: FloatArray) -> FloatArray:
        """Return log g'(y)."""
        return np.asarray(-np.log(np.hypot(1.0, y)))


@dataclass(frozen=True, eq=False)
class QuantileLink(Link):
    """The level of the target among training targets, linear between quantiles; if ``normal``, its normal quantile.

    ``quantiles`` (m,) and their levels ``references`` (m,) increase.
    """

    quantiles: FloatArray
    references: FloatArray
    normal: bool

    @property
    def support(self) -> Support:
        """The bounds of the target: the smallest and the largest training target."""
        return float(self.quantiles[0]), float(self.quantiles[-1])

    @property
    def breaks(self) -> tuple[float, ...]:
        """Some of the targets at which g has no second derivative."""
        some = np.linspace(0, len(self.quantiles) - 1, _MOST_BREAKS + 2).round().astype(np.intp)[1:-1]
        return tuple(float(self.quantiles[k]) for k in np.unique(some))

    def forward(self, y: FloatArray) -> FloatArray:
        """Return g(y)."""
        level = np.interp(y, self.quantiles, self.references)
        return np.asarray(ndtri(np.clip(level, _OUTERMOST, 1.0 - _OUTERMOST)) if self.normal else level)

    def inverse(self, z: FloatArray) -> FloatArray:
        """Return the y with g(y) = z."""
        return np.asarray(np.interp(ndtr(z) if self.normal else z, self.references, self.quantiles))

    def log_derivative(self, y: FloatArray) -> FloatArray:
        """Return log g'(y)."""
        slopes = np.log(np.diff(self.references) / np.diff(self.quantiles))
        cell = np.clip(np.searchsorted(self.quantiles, y, side="right") - 1, 0, len(slopes) - 1)
        return np.asarray(slopes[cell] - (normal_logpdf(self.forward(y)) if self.normal else 0.0))


@dataclass(frozen=True, eq=False)
class TargetMap:
    """The transformation z = (g(y) - shift) / unit of the target y, with a link g (None: y itself) and unit > 0."""

    link: Link | None = None
    unit: float = 1.0
    shift: float = 0.0

    def restore(self, dist: Predictive) -> Predictive:
        """Return the distribution of y for that of z; a bounded image truncates it."""
        linked = dist if self.unit == 1.0 and self.shift == 0.0 else dist.affine(self.unit, self.shift)
        return linked if self.link is None else Transformed(linked, self.link)

    def inverse(self, z: FloatArray) -> FloatArray:
        """Return the targets y of numbers z."""
        linked = self.shift + self.unit * z
        if self.link is None:
            return np.asarray(linked)
        ends = self.link.forward(np.array(self.link.support, dtype=np.float64))
        return np.clip(self.link.inverse(np.clip(linked, *ends)), *self.link.support)
