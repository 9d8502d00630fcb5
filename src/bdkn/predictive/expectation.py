"""Expectations of functions of a target: closed forms and numerical integration.

The distribution of a row is a mixture of components; a Gaussian or a Student-t is a single component. Components are
integrated one by one, so that narrow ones are not missed. The integration variable is s, where loc + scale sinh(s) is
the target, or the target transformed by a link. Intervals of s are halved until two quadrature rules agree on each, and
intervals are added in both tails until they are negligible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from bdkn.errors import InvalidParameterError
from bdkn.predictive.base import Predictive
from bdkn.predictive.joined import JoinedPredictive
from bdkn.predictive.location_scale import StudentT, standard_t_logpdf
from bdkn.predictive.transformed import Transformed, row_quantiles
from bdkn.typing import BoolArray, FloatArray, IndexArray


def excess_and_shortfall(dist: Predictive, y: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Return the mean excess E max(Y - y, 0) and shortfall E max(y - Y, 0), (n, k) each; None without a formula."""
    distance = dist._absolute_mean(y)
    if distance is None:
        return None
    error = _mean(dist)[:, None] - y
    half, away = distance / 2.0, error / 2.0  # their sum may overflow
    return np.maximum(half + away, 0.0), np.maximum(half - away, 0.0)


def _mean(dist: Predictive) -> FloatArray:
    """Return the mean of each row; if transformed, by the integrals of ``_absolute_mean``, to be consistent with it."""
    if isinstance(dist, JoinedPredictive):
        return dist._gather(lambda part, _: _mean(part))
    return dist._mean_by_halves() if isinstance(dist, Transformed) else dist.mean()


Function = Callable[[FloatArray, IndexArray], FloatArray]
"""Function whose expectation is computed: it takes targets (m, k) and their row numbers (m,), and returns (m, k)."""

_MIN_LEVEL = 2.3e-16
"""Probability of a component below, and above, the first range of integration; tails are added afterwards."""

_GAUSSIAN_END = 9.0
"""Minimum distance of the first integration limits from the centre, in scales: enough for a Gaussian."""

_MAX_DISTANCE = 1e100
"""Maximum distance of the first integration limits from the centre of a component, in units of its scale."""

_LAST_LEVEL = 8.1
"""Limit of integration over a standard normal variable; there, its distribution function is almost exactly 1."""

_PANELS = 6
"""Number of intervals into which the first integration range of each component is divided."""

_SHARES = 16.0
"""Number S in the allowed error of an integration interval: tolerance times weight of its component, divided by S."""

_NEGLIGIBLE = 64.0
"""Number N that ends the integration of a tail: at an interval that adds less than the tolerance divided by N."""

_MAX_BEYOND = 16
"""Maximum number of intervals by which the integration range of a mixture component is extended in each tail."""

_WIDENING = 1.2
"""Ratio of the widths of consecutive integration intervals in a tail."""

_TO_BOUND = 16.0
"""Factor by which the distance to a bound of the target shrinks from one integration limit to the next."""

_MAX_HALVINGS = 40
"""Maximum number of times that an integration interval is halved; then its error is added to the total error."""

_MAX_PIECES = 2**18
"""Maximum number of integration intervals of a row; an error is raised if more are needed."""

_PIECES_AT_ONCE = 2**13
"""Maximum number of integration intervals that are evaluated together, to limit the memory."""

_TERMS_AT_ONCE = 2**14
"""Maximum number of mixture components that are integrated together, to limit the memory."""

_ROUNDING = 16.0 * np.finfo(np.float64).eps
"""Relative rounding error of a numerical integral, which shorter intervals do not reduce."""

_HALF = np.array(
    [
        [0.991455371120812639206854697526329, 0.022935322010529224963732008058970, 0.0],
        [0.949107912342758524526189684047851, 0.063092092629978553290700663189204, 0.129484966168869693270611432679082],
        [0.864864423359769072789712788640926, 0.104790010322250183839876322541518, 0.0],
        [0.741531185599394439863864773280788, 0.140653259715525918745189590510238, 0.279705391489276667901467771423780],
        [0.586087235467691130294144691258380, 0.169004726639267902826583426598550, 0.0],
        [0.405845151377397166906606412076961, 0.190350578064785409913256402421014, 0.381830050505118944950369775488975],
        [0.207784955007898467600689403773245, 0.204432940075298892414161999234649, 0.0],
        [0.0, 0.209482141084727828012999174891714, 0.417959183673469387755102040816327],
    ]
)
NODES, KRONROD, GAUSS = np.vstack([_HALF * [-1.0, 1.0, 1.0], _HALF[-2::-1]]).T
"""Gauss-Kronrod quadrature on [-1, 1]: 15 nodes, their Kronrod weights, and their Gauss weights (0 at 8 of them)."""

_CLOSED = np.concatenate([[-1.0], NODES, [1.0]])
_BARYCENTRIC = 1.0 / np.prod(NODES[:, None] - NODES + np.eye(len(NODES)), axis=1)
_AT_END = _BARYCENTRIC / (1.0 - NODES) / np.sum(_BARYCENTRIC / (1.0 - NODES))
"""Weights that extrapolate a function from its values at the quadrature nodes to the upper limit 1, by a polynomial."""


def expectation(dist: Predictive, function: Function, tolerance: float = 1e-6) -> FloatArray:
    """Return the expectation (n,) of a function of the target of each row.

    The function may have jumps and kinks. The integration error is at most about ``tolerance`` times the mean of
    |function|; if this cannot be reached, an error is raised. If the function is zero at the quantiles of the levels
    2e-16 and 1 - 2e-16, targets beyond them may be ignored. The memory used does not depend on the function.
    """
    return _expectation(dist, function, tolerance, np.arange(len(dist)))


def _expectation(dist: Predictive, function: Function, tolerance: float, numbers: IndexArray) -> FloatArray:
    """Return the expectation (n,) of ``function`` for each row; ``numbers`` (n,) are the row numbers passed to it."""
    found = np.empty(len(dist))
    if isinstance(dist, JoinedPredictive):
        for k, part in enumerate(dist.parts):
            own = np.flatnonzero(dist.part == k)
            found[own] = _expectation(part[dist.row[own]], function, tolerance, numbers[own])
        return found
    parts = (dist.base if isinstance(dist, Transformed) else dist)[:1]._components()
    step = max(1, _TERMS_AT_ONCE // (1 if parts is None else parts[2].shape[1]))
    for start in range(0, len(dist), step):
        rows = slice(start, start + step)
        found[rows] = _Integral(_Terms.of(dist[rows]), function, tolerance, numbers[rows]).value()
    return found


@dataclass(frozen=True, eq=False)
class _Terms:
    """The T weighted Student-t components of the mixtures of n rows, for integration; infinite ``df`` is a Gaussian.

    ``target`` maps values (m, k) of components in the rows (m,) to targets (m, k). ``bounds`` (T, 2) are the limits of
    the integration variable s that follow from bounds of the target. ``ends_by_level`` is True if only quantiles of the
    distributions are known, not the form of their tails.
    """

    n: int
    row: IndexArray
    weight: FloatArray
    df: FloatArray
    loc: FloatArray
    scale: FloatArray
    bounds: FloatArray
    target: Callable[[FloatArray, IndexArray], FloatArray]
    ends_by_level: bool = False

    @classmethod
    def of(cls, dist: Predictive) -> _Terms:
        """Return the components of distributions; for an unknown class, a Gaussian per row, to be transformed."""
        n, transformed = len(dist), dist if isinstance(dist, Transformed) else None
        parts = (dist if transformed is None else transformed.base)._components()
        if parts is None:
            one, ends = np.ones(n), np.arcsinh([-_LAST_LEVEL, _LAST_LEVEL])
            fields = np.arange(n), one, np.full(n, np.inf), np.zeros(n), one, np.broadcast_to(ends, (n, 2))
            return cls(n, *fields, lambda z, row: row_quantiles(dist[row], ndtr(z)), ends_by_level=True)
        weight, df, loc, scale = map(np.ravel, parts)
        row = np.repeat(np.arange(n), parts[2].shape[1])
        bounds = np.broadcast_to([-np.inf, np.inf], (len(row), 2))
        if transformed is not None:
            loc, weight = loc + transformed._moved[row], weight / np.ptp(transformed._limits, axis=1)[row]
            with np.errstate(divide="ignore", invalid="ignore"):
                bounds = np.arcsinh((transformed._ends - loc[:, None]) / scale[:, None])
        terms = cls(
            n, row, weight, df, loc, scale, bounds, lambda z, _: z if transformed is None else transformed._target(z)
        )
        reach = terms._reach()  # components without probability between the bounds are left out
        kept = (weight > 0.0) & (bounds[:, 0] < reach) & (bounds[:, 1] > -reach)
        return cls(n, row[kept], weight[kept], df[kept], loc[kept], scale[kept], bounds[kept], terms.target)

    def _reach(self) -> FloatArray:
        """Return the largest |s| (T,) of the first integration range of each component."""
        ν, place = np.unique(self.df, return_inverse=True)
        quantile = StudentT(ν, np.zeros(len(ν)), 1.0).ppf(_MIN_LEVEL)
        return np.asarray(np.arcsinh(np.clip(-quantile, _GAUSSIAN_END, _MAX_DISTANCE))[place])

    def edges(self) -> FloatArray:
        """Return the limits (T, k + 1) of the k intervals with which each component begins, away from bounds."""
        reach, (low, high) = self._reach(), self.bounds.T
        first, last = np.maximum(-reach, low), np.minimum(reach, high)
        margin = (last - first) / (_PANELS * _TO_BOUND)
        first, last = np.where(low > -reach, first + margin, first), np.where(high < reach, last - margin, last)
        return np.asarray(first[:, None] + (last - first)[:, None] * np.linspace(0.0, 1.0, _PANELS + 1))

    def beyond(self, term: IndexArray, edge: FloatArray, side: int, width: float) -> FloatArray:
        """Return the outer limits of the next intervals in a tail, from ``edge`` on (``side`` 0: lower, 1: upper)."""
        bound = self.bounds[term, side]
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(bound), bound - (bound - edge) / _TO_BOUND, edge + (2 * side - 1) * width)

    def at(self, term: IndexArray, s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return targets, and densities of s, at integration points ``s`` (m, k) of the components ``term`` (m,)."""
        u = np.sinh(s)
        density = self.weight[term, None] * np.exp(standard_t_logpdf(u, self.df[term, None])) * np.cosh(s)
        return self.target(self.loc[term, None] + self.scale[term, None] * u, self.row[term]), density

    def rounding(self) -> FloatArray:
        """Return the relative error (T,) of the integral of each component that is due to the rounding of targets."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.fmin(_ROUNDING * (1.0 + np.abs(self.loc) / self.scale), 1.0)


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Intervals (m,) of the integration variable s: number of the component, limits, and how often each was halved."""

    term: IndexArray
    low: FloatArray
    high: FloatArray
    halvings: int | IndexArray = 0

    def __len__(self) -> int:
        return len(self.term)

    def __getitem__(self, some: slice | BoolArray) -> _Pieces:
        halvings = np.broadcast_to(self.halvings, self.term.shape)
        return _Pieces(self.term[some], self.low[some], self.high[some], halvings[some])

    def halves(self) -> _Pieces:
        """Return the lower halves and then the upper halves of all intervals."""
        middle = (self.low + self.high) / 2.0
        ends = np.concatenate([self.low, middle]), np.concatenate([middle, self.high])
        return _Pieces(np.tile(self.term, 2), *ends, np.tile(self.halvings + 1, 2))


class _Measured(NamedTuple):
    """Results of integration over m intervals: integral of f, its error, integral of |f|, integrand at the limits."""

    value: FloatArray
    error: FloatArray
    size: FloatArray
    ends: FloatArray


class _Integral:
    """Expectation of a function for each row, by adaptive quadrature; ``numbers`` are the row numbers passed to it."""

    def __init__(self, terms: _Terms, function: Function, tolerance: float, numbers: IndexArray) -> None:
        self.terms, self.function, self.tolerance, self.numbers = terms, function, tolerance, numbers
        self.rounding = terms.rounding()
        self.total, self.size, self.missing = np.zeros((3, terms.n))
        """Sums over the finished intervals of each row: integrals of f and |f| (f: the function), errors too large."""
        self.unit = np.zeros(terms.n)
        """Integral of the absolute function of each row before any halving: the unit of the tolerance."""

    def value(self) -> FloatArray:
        """Return the expectation of each row; raise an error if the tolerance is not reached."""
        edges = self.terms.edges()
        term = np.repeat(np.arange(len(edges)), _PANELS)
        pieces = _Pieces(term, edges[:, :-1].ravel(), edges[:, 1:].ravel())
        found = self._measure(pieces)
        self.unit += np.bincount(self.terms.row[pieces.term], weights=found.size, minlength=self.terms.n)
        ends = found.ends.reshape(len(edges), _PANELS, 2)
        measured = [(pieces, found), *self._beyond(0, edges[:, 0], ends[:, 0, 0])]
        measured += self._beyond(1, edges[:, -1], ends[:, -1, 1])
        waiting = [piece for pair in measured for piece in self._open(*pair)]
        n_pieces = np.zeros(self.terms.n, dtype=np.int64)
        while waiting:  # intervals are halved until their errors are small; the newest first, to save memory
            halves = waiting.pop().halves()
            n_pieces += np.bincount(self.terms.row[halves.term], minlength=self.terms.n)
            self._refuse(n_pieces > _MAX_PIECES)
            waiting += self._open(halves, self._measure(halves))
        self._refuse(self.missing > 10.0 * self.tolerance * self.size)
        if self.terms.ends_by_level:  # beyond the last levels of unknown tails, the function must be negligible
            term = np.arange(len(self.terms.row))
            y, _ = self.terms.at(term, self.terms.bounds)
            beyond = _MIN_LEVEL * np.abs(self._values(term, y, True)).sum(axis=1)
            self._refuse(beyond > 10.0 * self.tolerance * self.size)
        return self.total

    def _beyond(self, side: int, edge: FloatArray, last: FloatArray) -> list[tuple[_Pieces, _Measured]]:
        """Integrate a tail of each component (``side`` 0: lower, 1: upper) until intervals are negligible; return them.

        The tails start at ``edge`` (T,), where the integrand is ``last`` (T,). Integrals are returned, too.
        """
        added: list[tuple[_Pieces, _Measured]] = []
        term, width = np.arange(len(edge)), 1.0
        for _ in range(_MAX_BEYOND + 1):
            end = self.terms.beyond(term, edge, side, width)
            allowed = self.tolerance * self.unit[self.terms.row[term]] * self.terms.weight[term] / _NEGLIGIBLE
            counts = np.abs(last * (end - edge)) > allowed
            if not counts.any():
                return added
            term, edge, end = term[counts], edge[counts], end[counts]
            pieces = _Pieces(term, np.minimum(edge, end), np.maximum(edge, end))
            found = self._measure(pieces, is_beyond=True)
            self.unit += np.bincount(self.terms.row[pieces.term], weights=found.size, minlength=self.terms.n)
            added.append((pieces, found))
            edge, last, width = end, found.ends[:, side], _WIDENING * width
        self._refuse_terms(term)
        return added

    def _open(self, pieces: _Pieces, found: _Measured) -> list[_Pieces]:
        """Add the integrals of accurate intervals to the sums; return the other intervals, in blocks to halve."""
        row = self.terms.row[pieces.term]
        allowed = self.tolerance * self.unit[row] * self.terms.weight[pieces.term] / _SHARES
        inexact = found.error > np.maximum(allowed, self.rounding[pieces.term] * found.size)
        last = pieces.halvings >= _MAX_HALVINGS
        done = ~inexact | last
        for total, part in ((self.total, found.value), (self.size, found.size), (self.missing, inexact * found.error)):
            total += np.bincount(row[done], weights=part[done], minlength=self.terms.n)
        left = pieces[~done]
        return [left[start : start + _PIECES_AT_ONCE] for start in range(0, len(left), _PIECES_AT_ONCE)]

    def _measure(self, pieces: _Pieces, *, is_beyond: bool = False) -> _Measured:
        """Return the integrals over intervals, computed in blocks to limit the memory."""
        parts = []
        for start in range(0, len(pieces), _PIECES_AT_ONCE):
            some = pieces[start : start + _PIECES_AT_ONCE]
            half = (some.high - some.low)[:, None] / 2.0
            y, density = self.terms.at(some.term, (some.low + some.high)[:, None] / 2.0 + half * _CLOSED)
            f = self._values(some.term, y, is_beyond) * density
            ends, inner = f[:, [0, -1]], half * f[:, 1:-1]
            # Neither rule detects a jump beyond the outermost node; the value extrapolated to the limit is then wrong.
            missed = np.abs(inner @ np.stack([_AT_END[::-1], _AT_END], axis=1) - half * ends).sum(axis=1)
            error = np.abs(inner @ (KRONROD - GAUSS)) + (1.0 - NODES[-1]) * missed
            parts.append((inner @ KRONROD, error, np.abs(inner) @ KRONROD, ends))
        return _Measured(*map(np.concatenate, zip(*parts, strict=True)))

    def _values(self, term: IndexArray, y: FloatArray, is_beyond: bool) -> FloatArray:
        with np.errstate(all="ignore"):  # numbers that are not finite raise an error below
            f = self.function(y, self.numbers[self.terms.row[term]])
        wrong = ~np.isfinite(f)
        if wrong.any():
            if is_beyond:
                self._refuse_terms(term[wrong.any(axis=1)])
            raise InvalidParameterError(
                f"the function must be finite for every target; got {f[wrong][0]} at {y[wrong][0]:g}"
            )
        return f

    def _refuse_terms(self, term: IndexArray) -> None:
        self._refuse(np.isin(np.arange(self.terms.n), self.terms.row[term]))

    def _refuse(self, failed: BoolArray) -> None:
        if failed.any():
            raise InvalidParameterError(
                f"the expectation of row {self.numbers[np.argmax(failed)]} cannot be computed to the tolerance "
                f"{self.tolerance:g}: the function grows too fast for the tails of the prediction, or jumps too often; "
                "bound it, for example by np.minimum, or allow a larger tolerance"
            )
