"""Links: increasing functions of the target, whose distribution is closer to symmetric after the transformation.

A positive target is predicted by its logarithm, a share by its logit, a skewed target by the power of Yeo and Johnson
(2000). ``support`` are the bounds of the target, where the predicted distribution is truncated; see
``bdkn.predictive.Transformed``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy.special import ndtr, ndtri

from bdkn.predictive.location_scale import normal_logpdf
from bdkn.storage.fields import Number, Positive, must, stored
from bdkn.typing import FloatArray

_MAX_BREAKS = 15
"""Maximum number of kinks of a piecewise-linear link at which the range of numerical integration is divided."""

_OUTERMOST_LEVEL = 1e-7
"""Lowest probability that ``QuantileLink`` maps to a normal quantile, as in scikit-learn's QuantileTransformer."""

Bound = Annotated[float, Number(infinite=True)]
Support = tuple[Bound, Bound]


class Link(ABC):
    """Base class of links: increasing, invertible functions g of the target y.

    By default, the target lies between ``lower`` and ``upper``, it never equals these bounds, and g is smooth.
    """

    lower: float = -np.inf
    upper: float = np.inf

    @property
    def support(self) -> Support:
        """The lower and the upper bound of the target."""
        return self.lower, self.upper

    @property
    def near(self) -> Support:
        """The targets nearest to the lower and the upper bound, but not equal to them; infinite if not known."""
        return self.support

    @property
    def breaks(self) -> tuple[float, ...]:
        """Targets at which g has no second derivative; numerical integration is divided there."""
        return ()

    def check(self) -> None:
        """Raise an error unless the bounds are in order, and the targets nearest to them lie between them."""
        (lower, upper), (low, high) = self.support, self.near
        must(lower < upper, "the lower bound must be below the upper one")
        must(low <= high and low < math.inf and high > -math.inf, "near must be in order")
        bounded = (math.isinf(low) or math.isfinite(lower)) and (math.isinf(high) or math.isfinite(upper))
        must(bounded, "near needs bounds")
        inside = (math.isinf(low) or low >= lower) and (math.isinf(high) or high <= upper)
        must(inside, "near must be within the bounds")

    @abstractmethod
    def forward(self, y: FloatArray) -> FloatArray:
        """Return g(y), the transformed targets."""

    @abstractmethod
    def inverse(self, z: FloatArray) -> FloatArray:
        """Return the targets y for which g(y) = z."""

    @abstractmethod
    def log_derivative(self, y: FloatArray) -> FloatArray:
        """Return log g'(y), the logarithm of the derivative of g at the targets."""


@stored
@dataclass(frozen=True)
class IdentityLink(Link):
    """Link g(y) = y: the target is not transformed, but it may have bounds.

    Parameters
    ----------
    lower, upper : float
        Bounds of the target.
    near : (float, float)
        The targets nearest to the lower and the upper bound, but not equal to them; infinite if not known.

    Examples
    --------
    >>> from bdkn.predictive import Gaussian, IdentityLink, Transformed
    >>> dist = Transformed(Gaussian([0.0], [1.0]), IdentityLink(lower=0.0))
    >>> print(dist.ppf(0.5).round(3))
    [0.674]
    """

    lower: Bound = -np.inf
    upper: Bound = np.inf
    near: Support = (-np.inf, np.inf)

    def forward(self, y: FloatArray) -> FloatArray:
        return y

    def inverse(self, z: FloatArray) -> FloatArray:
        return z

    def log_derivative(self, y: FloatArray) -> FloatArray:
        return np.zeros_like(y)


IDENTITY = IdentityLink()
"""Link g(y) = y of a target without bounds, which is not transformed."""


@stored
@dataclass(frozen=True)
class LogLink(Link):
    """Logarithmic link g(y) = log(y - lower), for targets above ``lower``.

    Parameters
    ----------
    lower : float
        Lower bound of the target.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.predictive import LogLink
    >>> print(LogLink(1.0).forward(np.array([2.0, 3.0])).round(3))
    [0.    0.693]
    """

    lower: float = 0.0

    def forward(self, y: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.log(y - self.lower)

    def inverse(self, z: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return self.lower + np.exp(z)

    def log_derivative(self, y: FloatArray) -> FloatArray:
        return -self.forward(y)


@stored
@dataclass(frozen=True)
class LogitLink(Link):
    """Logit link g(y) = log(y - lower) - log(upper - y), for targets between two bounds.

    Parameters
    ----------
    lower, upper : float
        Bounds of the target.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.predictive import LogitLink
    >>> print(LogitLink().forward(np.array([0.5, 0.9])).round(3))
    [0.    2.197]
    """

    lower: float = 0.0
    upper: float = 1.0

    def forward(self, y: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.log(y - self.lower) - np.log(self.upper - y)

    def inverse(self, z: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return self.lower + (self.upper - self.lower) / (1.0 + np.exp(-z))

    def log_derivative(self, y: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.upper - self.lower) - np.log(y - self.lower) - np.log(self.upper - y))


@stored
@dataclass(frozen=True)
class YeoJohnsonLink(Link):
    """Link by the power transformation of Yeo and Johnson (2000), applied to (y - centre) / unit for a target y.

    ``power`` lies between 0 and 2: below 1 it shortens the upper tail, above 1 the lower tail, and 1 is linear.

    Parameters
    ----------
    power : float
        The power, from 0 to 2.
    centre, unit : float
        Number that is subtracted from the target, and number by which the difference is divided.
    lower, upper : float
        Bounds of the target.
    near : (float, float)
        The targets nearest to the lower and the upper bound, but not equal to them; infinite if not known.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.predictive import YeoJohnsonLink
    >>> print(YeoJohnsonLink(0.5).forward(np.array([-3.0, 0.0, 3.0])).round(3))
    [-4.667  0.     2.   ]
    """

    power: Annotated[float, Number(low=0.0, high=2.0)]
    centre: float = 0.0
    unit: Positive = 1.0
    lower: Bound = -np.inf
    upper: Bound = np.inf
    near: Support = (-np.inf, np.inf)

    @property
    def breaks(self) -> tuple[float, ...]:
        return (self.centre,)

    def forward(self, y: FloatArray) -> FloatArray:
        x = (y - self.centre) / self.unit
        right, left = np.log1p(np.maximum(x, 0.0)), np.log1p(np.maximum(-x, 0.0))
        return _power(right, self.power) - _power(left, 2.0 - self.power)

    def inverse(self, z: FloatArray) -> FloatArray:
        right, left = _log(np.maximum(z, 0.0), self.power), _log(np.maximum(-z, 0.0), 2.0 - self.power)
        with np.errstate(over="ignore"):
            return np.asarray(self.centre + self.unit * (np.expm1(right) - np.expm1(left)))

    def log_derivative(self, y: FloatArray) -> FloatArray:
        x = (y - self.centre) / self.unit
        return np.asarray((self.power - 1.0) * np.sign(x) * np.log1p(np.abs(x)) - np.log(self.unit))


def _power(logs: FloatArray, power: float) -> FloatArray:
    """Return (x^power - 1) / power, given the logarithms of x; for the power zero, the logarithms themselves."""
    with np.errstate(over="ignore"):
        return logs if power == 0.0 else np.asarray(np.expm1(power * logs) / power)


def _log(z: FloatArray, power: float) -> FloatArray:
    """Return log x for numbers x with (x^power - 1) / power = z: the inverse of ``_power``."""
    with np.errstate(divide="ignore"):
        # With a power below zero, z is at most -1 / power, its limit for infinite targets.
        return z if power == 0.0 else np.asarray(np.log1p(np.maximum(power * z, -1.0)) / power)


@stored
@dataclass(frozen=True)
class MirroredLink(Link):
    """Link -g(-y) for another link g: a link for a lower bound becomes a link for an upper bound.

    Parameters
    ----------
    link : LogLink
        The link g.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.predictive import LogLink, MirroredLink
    >>> MirroredLink(LogLink(-5.0)).support
    (-inf, 5.0)
    """

    link: LogLink

    @property
    def support(self) -> Support:
        lower, upper = self.link.support
        return -upper, -lower

    def forward(self, y: FloatArray) -> FloatArray:
        return -self.link.forward(-y)

    def inverse(self, z: FloatArray) -> FloatArray:
        return -self.link.inverse(-z)

    def log_derivative(self, y: FloatArray) -> FloatArray:
        return self.link.log_derivative(-y)


@stored
@dataclass(frozen=True)
class ContinuedLink(Link):
    """Another link between the targets ``low`` and ``high``, continued linearly below and above, along its tangents.

    The exponential of a Student-t has no mean; if the link is continued linearly, the target has every moment that the
    Student-t has. A logarithm that is continued linearly is also finite at its bound, so targets may equal the bound.

    Parameters
    ----------
    link : LogLink, LogitLink, MirroredLink or YeoJohnsonLink
        The link that is continued.
    low, high : float
        Targets between which ``link`` is used without change.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.predictive import ContinuedLink, LogLink
    >>> print(ContinuedLink(LogLink(), 1.0, 100.0).forward(np.array([0.0, 1.0, 2.0])).round(3))
    [-1.     0.     0.693]
    """

    link: LogLink | LogitLink | MirroredLink | YeoJohnsonLink
    low: float
    high: float

    def check(self) -> None:
        """Raise an error unless ``low`` and ``high`` are in order, and the link has finite values and slopes there."""
        super().check()
        (lower, upper), ends = self.support, np.array([self.low, self.high])
        must(lower <= self.low < self.high <= upper, "low and high must be in order, and within the bounds")
        with np.errstate(all="ignore"):
            numbers = (*self.link.forward(ends), *np.exp(self.link.log_derivative(ends)))
            must(np.isfinite(numbers).all() and numbers[0] < numbers[1], "the link must be finite at low and high")

    @property
    def support(self) -> Support:
        return self.link.support

    @property
    def near(self) -> Support:
        if isinstance(self.link, YeoJohnsonLink):
            return self.link.near
        lower, upper = self.support
        return self.low if lower > -math.inf else lower, self.high if upper < math.inf else upper

    @property
    def breaks(self) -> tuple[float, ...]:
        return (*self.link.breaks, self.low, self.high)

    def forward(self, y: FloatArray) -> FloatArray:
        inside = np.clip(y, self.low, self.high)
        return np.asarray(self.link.forward(inside) + np.exp(self.link.log_derivative(inside)) * (y - inside))

    def inverse(self, z: FloatArray) -> FloatArray:
        ends = np.array([self.low, self.high])
        inside = np.clip(z, *self.link.forward(ends))
        y = np.clip(self.link.inverse(inside), *ends)
        return np.asarray(y + np.exp(-self.link.log_derivative(y)) * (z - inside))

    def log_derivative(self, y: FloatArray) -> FloatArray:
        return self.link.log_derivative(np.clip(y, self.low, self.high))


@dataclass(frozen=True)
class BoxCoxLink(Link):
    """Box-Cox link g(y) = (y^power - 1) / power for targets above zero; the logarithm for the power zero."""

    power: float
    lower = 0.0

    def forward(self, y: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return _power(np.log(y), self.power)

    def inverse(self, z: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.exp(_log(z, self.power))

    def log_derivative(self, y: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray((self.power - 1.0) * np.log(y))


@dataclass(frozen=True)
class AsinhLink(Link):
    """Link g(y) = asinh(y), the inverse hyperbolic sine of the target."""

    def forward(self, y: FloatArray) -> FloatArray:
        return np.arcsinh(y)

    def inverse(self, z: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.sinh(z)

    def log_derivative(self, y: FloatArray) -> FloatArray:
        return np.asarray(-np.log(np.hypot(1.0, y)))


@dataclass(frozen=True, eq=False)
class QuantileLink(Link):
    """Link to the empirical distribution function of the training targets; if ``normal``, to its normal quantile.

    It is linear between the ``quantiles`` (m,) of the targets. Their levels are ``references`` (m,); both increase.
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
        """Targets at which g has a kink: at most ``_MAX_BREAKS`` of them, evenly chosen."""
        some = np.linspace(0, len(self.quantiles) - 1, _MAX_BREAKS + 2).round().astype(np.intp)[1:-1]
        return tuple(float(self.quantiles[k]) for k in np.unique(some))

    def forward(self, y: FloatArray) -> FloatArray:
        level = np.interp(y, self.quantiles, self.references)
        return np.asarray(ndtri(np.clip(level, _OUTERMOST_LEVEL, 1.0 - _OUTERMOST_LEVEL)) if self.normal else level)

    def inverse(self, z: FloatArray) -> FloatArray:
        return np.asarray(np.interp(ndtr(z) if self.normal else z, self.references, self.quantiles))

    def log_derivative(self, y: FloatArray) -> FloatArray:
        slopes = np.log(np.diff(self.references) / np.diff(self.quantiles))
        cell = np.clip(np.searchsorted(self.quantiles, y, side="right") - 1, 0, len(slopes) - 1)
        return np.asarray(slopes[cell] - (normal_logpdf(self.forward(y)) if self.normal else 0.0))
