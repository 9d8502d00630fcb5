"""Distributions of a target that was transformed by a link, and numerical integration of their moments and scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from bdkn.blocks import CACHED_CELLS, row_slices, rows_within
from bdkn.lazy import lazy
from bdkn.predictive.base import Index, Predictive
from bdkn.predictive.links import IDENTITY, Link
from bdkn.predictive.location_scale import LocationScale, StudentT
from bdkn.predictive.mixture import StudentTMixture, increasing_root
from bdkn.typing import BoolArray, FloatArray

END = 2.0**-36
"""Probability beyond the outermost quantile of numerical integration; there, the tail is assumed to be a power law."""

Rule = tuple[FloatArray, FloatArray]
"""Nodes and weights of a quadrature rule on [0, 1]."""


def _panels(panels: int, order: int) -> Rule:
    """Return the Gauss-Legendre quadrature rule with ``order`` nodes in each of ``panels`` equal parts of [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    x = (np.arange(panels)[:, None] + (1.0 + nodes) / 2.0) / panels
    return x.ravel(), np.tile(weights / (2.0 * panels), panels)


SMOOTH, SHORT = _panels(4, 12), _panels(1, 6)
"""Quadrature rules on [0, 1]: for a wide interval, and for each of many narrow intervals."""

_REACH = 6.5
"""Number of standard deviations beyond which the probability of a Gaussian is neglected."""

_GAUSSIAN = _panels(1, 32)
"""Quadrature rule for the moments of a Gaussian component."""

_LEVELS = np.arange(1, 64) / 64
"""Probabilities at whose quantiles integrals of a mixture are divided, since its components may be narrow."""

_INSIDE = 1e-9
"""Minimum distance of a median from the smallest and largest value of a link, as a fraction of 1 + |value|."""


class Half(NamedTuple):
    """Integrals ∫ P dy, 2 ∫ d P dy and ∫ P² dy over all y on one side of the median, for moments and the CRPS.

    P is the probability of a value farther from the median than y, and d the distance of y from the median. The first
    two integrals are the moments of d on this side.
    """

    first: FloatArray
    second: FloatArray
    score: FloatArray


def integrals_beyond(last: FloatArray, rise: FloatArray, reach: FloatArray) -> Half:
    """Return the integrals of ``Half`` over the tail beyond the outermost quantile, which is taken as a power law.

    P = ε w^(-1/κ), where w is the distance of z = g(y) from its median over the distance of the quantile of level ε,
    the outermost one. The inverse of g is linear there: y has the distance ``last`` + ``rise`` (w - 1) from its median.
    ``reach`` (n, 2) are the distances of z from its median at the levels ε and 2ε, from which κ follows.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        κ = np.nan_to_num(np.log2(reach[:, 0] / reach[:, 1]), nan=0.0)
        one, two = (np.where(κ < limit, κ / (1.0 - κ / limit), np.inf) for limit in (1.0, 0.5))
        first, second = rise * one, 2.0 * rise * ((last - rise) * one + rise * two)
    score, flat = rise * κ / np.maximum(2.0 - κ, 1e-9), rise == 0.0
    first = np.where(flat, 0.0, first)
    second = np.where(flat, 0.0, np.nan_to_num(second, nan=np.inf, posinf=np.inf))
    return Half(END * first, END * second, END**2 * score)


def path(
    start: FloatArray, stop: FloatArray, width: FloatArray, breaks: FloatArray, rule: Rule = SMOOTH
) -> tuple[FloatArray, FloatArray]:
    """Return quadrature nodes (n, k) from ``start`` to ``stop``, and their weights; nodes are denser near the start.

    The range is divided at the ``breaks``, where the integrand is not smooth. Each part is integrated by ``rule``.
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
    """Return E[1], E[f(Z)], E[f(Z)²] (3, n, A) of A Gaussians Z per row, only from values between the two ``ends``.

    ``function`` is f: given values of Z (m, k) and the slice of their m rows, it returns an array (m, k).
    """
    (at, share), found = _GAUSSIAN, np.empty((3, *loc.shape))
    for rows in row_slices(len(loc), rows_within(CACHED_CELLS, loc.shape[1] * len(at))):
        centre, unit = loc[rows, :, None], scale[rows, :, None]
        low, high = (np.clip((end - centre) / unit, -_REACH, _REACH) for end in ends)
        t = low + (high - low) * at
        mass = (high - low) * share * np.exp(-0.5 * t**2) / np.sqrt(2.0 * np.pi)
        y = function((centre + unit * t).reshape(len(t), -1), rows).reshape(t.shape)
        found[:, rows] = mass.sum(axis=2), (mass * y).sum(axis=2), (mass * y * y).sum(axis=2)
    return found


@dataclass(frozen=True, eq=False, init=False)
class Transformed(Predictive):
    """Distribution of Y = shift + unit g⁻¹(Z), where Z has the distribution ``base`` and g is a link.

    If the target has bounds, Z is truncated at g of the bounds, so that no probability lies beyond a bound. If the
    median of a row is not a possible value of g, the row is shifted before. Density, distribution function, quantiles,
    intervals and draws are exact; mean, variance and CRPS are integrals, computed to about six digits, and to three
    or four if the base is a mixture.

    Parameters
    ----------
    base : Predictive
        Distribution of g(y) of each row.
    link : Link
        The link g.
    unit, shift : float
        Unit of the target, and number that is added to it.

    Examples
    --------
    >>> from bdkn.predictive import Gaussian, LogLink, Transformed
    >>> dist = Transformed(Gaussian([0.0, 1.0], [0.5, 0.5]), LogLink())
    >>> print(dist.mean().round(3), dist.ppf(0.05).round(3))
    [1.133 3.08 ] [0.439 1.194]
    >>> dist.cdf(0.0)
    array([0., 0.])
    """

    base: Predictive
    link: Link
    unit: float
    shift: float

    def __init__(self, base: Predictive, link: Link, unit: float = 1.0, shift: float = 0.0) -> None:
        self.__dict__.update(base=base, link=link, unit=unit, shift=shift)

    def __len__(self) -> int:
        return len(self.base)

    def __getitem__(self, rows: Index) -> Self:
        return type(self)(self.base[rows], self.link, self.unit, self.shift)

    def _affine(self, scale: float, shift: float) -> Self:
        return type(self)(self.base, self.link, scale * self.unit, scale * self.shift + shift)

    @lazy
    def scale(self) -> FloatArray:
        """Scale of each row in units of the target: the scale of ``base`` times the slope of g⁻¹ at the median."""
        width = self.base.scale if self.base.scale.ndim == 1 else self.base.scale.max(axis=1)
        if not width.all():
            width = np.where(self.base.std() == 0.0, 0.0, width)
        return np.asarray(width * self._slope(self._centre))

    def mean(self) -> FloatArray:
        """Return the mean of each row; the median where there is no mean."""
        with np.errstate(invalid="ignore"):
            mean = self._median + self._moments[0]
        return np.where((self.scale > 0.0) & np.isfinite(mean), mean, self.median())

    def var(self) -> FloatArray:
        first, second = self._moments
        with np.errstate(invalid="ignore"):
            spread = second - first**2
        return np.where(self.scale > 0.0, np.where(np.isnan(spread), np.inf, np.maximum(spread, 0.0)), 0.0)

    def median(self) -> FloatArray:
        return np.where(self.scale > 0.0, self._median, self._point)

    def interval(self, coverage: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper limits of an interval of each row, with at least the probability ``coverage``.

        It is the central interval. A limit between a bound and the target nearest to the bound (``link.near``) is
        replaced by the bound: targets may be equal to the bound, which a density cannot describe.
        """
        return self.to_bounds(*super().interval(coverage))

    def to_bounds(self, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return interval limits; a limit between a bound and the target nearest to it is replaced by the bound."""
        ends, near = (self.shift + self.unit * np.array(pair) for pair in (self.link.support, self.link.near))
        return np.where(lower <= near[0], ends[0], lower), np.where(upper >= near[1], ends[1], upper)

    def carry(self, z: FloatArray) -> FloatArray:
        """Return the targets (n, size) with the same probabilities (levels of quantiles) as draws ``z`` of ``base``."""
        if self._is_whole:
            return self._target(z)
        return self._target(self._truncated(self.base.cdf(z)))

    def row_quantiles(self, levels: FloatArray) -> FloatArray:
        """Return the quantiles at levels (n, k) that differ between rows."""
        z = row_quantiles(self.base, levels) if self._is_whole else self._truncated(levels)
        return self._or_point(self._target(z))

    @lazy
    def _ends(self) -> FloatArray:
        """Smallest and largest value of the link g: its values at the bounds of the target."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.link.forward(np.array(self.link.support, dtype=np.float64)), dtype=np.float64)

    @lazy
    def _breaks(self) -> FloatArray:
        """Points at which integrals are divided: kinks of g⁻¹ and, for a mixture with narrow components, quantiles."""
        breaks = np.asarray(self.link.forward(np.array(self.link.breaks, dtype=np.float64)))[None, :]
        if not isinstance(self.base, StudentTMixture):
            return breaks
        return np.hstack([np.broadcast_to(breaks, (len(self), breaks.shape[1])), self._image(_LEVELS)])

    @property
    def _is_whole(self) -> bool:
        """True if the values of the link g are all real numbers, so that nothing is truncated."""
        return not np.isfinite(self._ends).any()

    @lazy
    def _moved(self) -> FloatArray:
        """Shift of each row of ``base`` that makes its median a possible value of the link g; mostly 0."""
        if self._is_whole:
            return np.zeros(len(self))
        centre = self.base.median()
        margin = _INSIDE * np.where(np.isfinite(self._ends), 1.0 + np.abs(self._ends), 0.0)
        lower, upper = self._ends + [1.0, -1.0] * margin
        return np.asarray(np.clip(centre, lower, upper) - centre)

    @lazy
    def _limits(self) -> FloatArray:
        """Probabilities (n, 2) of ``base``, shifted by ``_moved``, below the lower and upper point of truncation."""
        if self._is_whole:
            return np.broadcast_to([0.0, 1.0], (len(self), 2))
        return np.where(np.isfinite(self._ends), self.base.cdf(self._ends - self._moved[:, None]), [0.0, 1.0])

    @lazy
    def _centre(self) -> FloatArray:
        """Median of the transformed target g(y) of each row, where g is the link."""
        return self.base.median() if self._is_whole else self._truncated(np.full((len(self), 1), 0.5))[:, 0]

    @lazy
    def _median(self) -> FloatArray:
        return self._target(self._centre)

    @lazy
    def _point(self) -> FloatArray:
        """Target of each row that is a point mass; not used for other rows."""
        return self._target(self.base.median() + self._moved)

    @lazy
    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """Expectations of y - m and (y - m)², where m is the median of a row."""
        base = self.base
        if not isinstance(base, StudentTMixture):
            upper, lower = self._halves
            with np.errstate(invalid="ignore"):
                return upper.first - lower.first, upper.second + lower.second
        # Components are integrated one by one: a quadrature of the whole mixture would miss narrow Gaussians.
        loc, scale = base.loc + self._moved, base.scale
        student = type(self)(StudentT.unchecked(base.df, loc, scale), self.link, self.unit, self.shift)
        student.__dict__["_moved"] = np.zeros(len(self))  # ``loc`` contains the shift of the mixture
        first = student.mean() - self._median
        share = base.kept * np.ptp(student._limits, axis=1)
        own = share * np.stack([np.ones(len(self)), first, student.var() + first**2])
        width = scale[:, None] * np.where(base.mass > 0.0, base.width, 1.0)
        moments = gaussian_moments(
            lambda z, rows: self._target(z) - self._median[rows, None],
            loc[:, None] + scale[:, None] * base.position,
            np.where(width > 0.0, width, 1.0),
            self._ends,
        )
        total = np.where(base.kept > 0.0, own, 0.0) + np.einsum("kna,na->kn", moments, base.mass)
        with np.errstate(invalid="ignore", divide="ignore"):
            return total[1] / total[0], total[2] / total[0]

    @lazy
    def _halves(self) -> tuple[Half, Half]:
        """Integrals over the targets above the median, and over the targets below it."""
        return self._half(1.0 - np.array([END, 2.0 * END, 0.25]), 1.0), self._half(np.array([END, 2 * END, 0.25]), -1.0)

    def _half(self, levels: FloatArray, sign: float) -> Half:
        centre = self._centre[:, None]
        z = self._image(levels)
        reach = np.abs(z - centre)
        nodes, weights = path(centre, z[:, :1], reach[:, 2:], self._breaks, self._rule)
        cdf = self._image_cdf(nodes)
        tail = 1.0 - cdf if sign > 0.0 else cdf
        mass = np.abs(weights) * tail * self._slope(nodes)
        distance = sign * (self._target(nodes) - self._median[:, None])
        last, rise = sign * (self._target(z[:, 0]) - self._median), self._slope(z[:, 0]) * reach[:, 0]
        beyond = integrals_beyond(last, np.where(reach[:, 0] == 0.0, 0.0, rise), reach)
        second = 2.0 * np.einsum("nk,nk->n", mass, distance)
        return Half(mass.sum(axis=1) + beyond.first, second + beyond.second, (mass * tail).sum(axis=1) + beyond.score)

    @property
    def _rule(self) -> Rule:
        return SHORT if isinstance(self.base, StudentTMixture) else SMOOTH

    def _target(self, z: FloatArray) -> FloatArray:
        """Return the targets y with g(y) = z; a bound if z is not a possible value of g."""
        (lower, upper), ends = self.link.support, self._ends
        y = np.select([z <= ends[0], z >= ends[1]], [lower, upper], np.clip(self.link.inverse(z), lower, upper))
        return np.asarray(self.shift + self.unit * y)

    def _slope(self, z: FloatArray) -> FloatArray:
        """Return dy/dz, the derivative of the target y by z = g(y)."""
        return np.asarray(self.unit * np.exp(-self.link.log_derivative(self.link.inverse(z))))

    def _image(self, q: FloatArray) -> FloatArray:
        """Return the quantiles (n, k) of g(y) at the levels ``q`` (k,)."""
        if self._is_whole:
            return np.broadcast_to(self.base._ppf(q), (len(self), len(q)))
        return self._truncated(np.broadcast_to(q, (len(self), len(q))))

    def _truncated(self, levels: FloatArray) -> FloatArray:
        """Return the quantiles (n, k) of the truncated distribution of g(y), at ``levels`` (n, k)."""
        low, high = self._limits[:, :1], self._limits[:, 1:]
        z = np.clip(row_quantiles(self.base, low + levels * (high - low)) + self._moved[:, None], *self._ends)
        return np.select([levels <= 0.0, levels >= 1.0], list(self._ends), z)

    def _or_point(self, values: FloatArray) -> FloatArray:
        """Return ``values`` (n, k); in rows whose distribution is a single point, return the point."""
        return np.where(self.scale[:, None] > 0.0, values, self._point[:, None])

    def _by_point(self, y: FloatArray, function: FloatArray, steps: tuple[float, float, float]) -> FloatArray:
        """Return ``function`` (n, k), values at y; for a point mass, ``steps``: values below, at, above the point."""
        if self.scale.all():
            return function
        point = self._point[:, None]
        return np.where(self.scale[:, None] > 0.0, function, np.select([y < point, y == point], steps[:2], steps[2]))

    def _inside(self, y: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Return the targets in the units of the link, clipped to the bounds, and whether each lies within them."""
        x, (lower, upper) = (y - self.shift) / self.unit, self.link.support
        inside = np.clip(x, lower, upper)
        return inside, inside == x

    def _logpdf(self, y: FloatArray) -> FloatArray:
        x, inside = self._inside(y)
        share = self._limits[:, 1:] - self._limits[:, :1]
        with np.errstate(divide="ignore", invalid="ignore"):
            density = self.base.logpdf(self.link.forward(x) - self._moved[:, None])
            density = density + self.link.log_derivative(x) - np.log(share) - np.log(self.unit)
        return self._by_point(y, np.where(inside, density, -np.inf), (-np.inf, np.inf, -np.inf))

    def _cdf(self, y: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            cdf = self._image_cdf(self.link.forward(self._inside(y)[0]))
        return self._by_point(y, cdf, (0.0, 1.0, 1.0))

    def _image_cdf(self, z: FloatArray) -> FloatArray:
        low, high = self._limits[:, :1], self._limits[:, 1:]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.clip((self.base.cdf(z - self._moved[:, None]) - low) / (high - low), 0.0, 1.0)

    def _ppf(self, q: FloatArray) -> FloatArray:
        return self._or_point(self._target(self._image(q)))

    def _crps(self, y: FloatArray) -> FloatArray:
        upper, lower = self._halves
        score = (upper.score + lower.score)[:, None] + self._rise(y)
        return np.where(self.scale[:, None] > 0.0, score, np.abs(y - self._point[:, None]))

    def _absolute_mean(self, y: FloatArray) -> FloatArray:
        """Return E|Y - y|: E|Y - m| for the median m, plus the integral of 2F - 1 from m to y."""
        upper, lower = self._halves
        spread = np.where(self.scale > 0.0, upper.first + lower.first, 0.0)
        error = np.abs(y - self.median()[:, None])
        return np.where(self.scale[:, None] > 0.0, spread[:, None] + self._rise(y), error)

    def _mean_by_halves(self) -> FloatArray:
        """Return the mean from the integrals above and below the median; the median if there is no mean."""
        upper, lower = self._halves
        with np.errstate(invalid="ignore"):
            mean = self.median() + upper.first - lower.first
        return np.where((self.scale > 0.0) & np.isfinite(mean), mean, self.median())

    def _rise(self, y: FloatArray) -> FloatArray:
        """Return ∫ (2 F - 1) dy from the median to y, with the distribution function F; beyond bounds F is 0 or 1."""
        x, start = self._inside(y)[0], self._centre
        beyond = np.abs(y - self.shift - self.unit * x)
        width = np.abs(self._image(np.array([0.25, 0.75])) - start[:, None]).max(axis=1)
        with np.errstate(divide="ignore"):
            stop = self.link.forward(x)
        if not np.isfinite(stop).all():  # the link is infinite at a bound: F is 0 or 1 beyond the last quantile
            last = np.clip(stop, *np.hsplit(self._image(np.array([END, 1.0 - END])), 2))
            beyond = np.where(np.isfinite(stop), beyond, np.abs(y - self._target(last)))
            stop = np.where(np.isfinite(stop), stop, last)
        rise = beyond.copy()
        for k in range(y.shape[1]):
            end = np.where(np.isfinite(stop[:, k]), stop[:, k], start)[:, None]
            nodes, weights = path(start[:, None], end, width[:, None], self._breaks, self._rule)
            rise[:, k] += np.sum(weights * (2.0 * self._image_cdf(nodes) - 1.0) * self._slope(nodes), axis=1)
        return rise

    def _rvs(self, size: int, generator: np.random.Generator) -> FloatArray:
        if self._is_whole:
            return self._target(self.base._rvs(size, generator))
        return self._or_point(self._target(self._truncated(generator.random((len(self), size)))))


def restore(linked: Predictive, link: Link) -> Predictive:
    """Return the distribution of the target y, given the distribution of g(y) with the link g."""
    return linked if link == IDENTITY else Transformed(linked, link)


def row_quantiles(dist: Predictive, levels: FloatArray) -> FloatArray:
    """Return the quantiles (n, k) at ``levels`` (n, k), which may differ between rows."""
    if not levels.size:
        return levels
    if isinstance(dist, LocationScale):
        return dist._ppf(levels)
    if isinstance(dist, Transformed):
        return dist.row_quantiles(levels)
    if isinstance(dist, StudentTMixture):
        return dist.carry(levels)
    ends = np.clip([levels.min(), levels.max()], 1e-300, 1.0 - 2.0**-53)  # finite quantiles, or nearly so
    lowest, highest = (np.repeat(dist.ppf(end)[:, None], levels.shape[1], axis=1) for end in ends)

    def excess(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return dist.cdf(x) - levels, dist.pdf(x)

    return increasing_root(excess, lowest, highest, 1e-14 * (highest - lowest))


@dataclass(frozen=True, eq=False)
class TargetMap:
    """The transformation z = (g(y) - shift) / unit of the target y, with a link g (None: y itself) and unit > 0."""

    link: Link | None = None
    unit: float = 1.0
    shift: float = 0.0

    def restore(self, dist: Predictive) -> Predictive:
        """Return the distribution of y, given the distribution of z; it is truncated at bounds of the target."""
        linked = dist if self.unit == 1.0 and self.shift == 0.0 else dist.affine(self.unit, self.shift)
        return linked if self.link is None else Transformed(linked, self.link)

    def inverse(self, z: FloatArray) -> FloatArray:
        """Return the targets y, given their transformed values z."""
        linked = self.shift + self.unit * z
        if self.link is None:
            return np.asarray(linked)
        ends = self.link.forward(np.array(self.link.support, dtype=np.float64))
        return np.clip(self.link.inverse(np.clip(linked, *ends)), *self.link.support)
