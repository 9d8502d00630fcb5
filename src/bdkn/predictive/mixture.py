"""Mixtures of Gaussian and of Student-t distributions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, gammaln, logsumexp, ndtr, ndtri, stdtrit

from bdkn.arrays import read_numbers
from bdkn.blocks import CACHED_CELLS, THREAD_ROWS, row_slices, rows_within
from bdkn.errors import InvalidParameterError
from bdkn.predictive.base import Components, Located
from bdkn.predictive.location_scale import (
    FAR_DOWN,
    GAUSSIAN_DF,
    MAX_DF,
    Gaussian,
    StudentT,
    by_scale,
    log_density,
    normal_absolute_mean,
    normal_logpdf,
    standardise,
)
from bdkn.threads import run_on_threads
from bdkn.typing import Float32Array, FloatArray

_LARGE = 1e300
"""Absolute value above which sums of floats may overflow."""

_NARROW = 1e-150
"""Standard deviation of the Gaussian that replaces a point mass in the CRPS; its square does not underflow."""

_EPS, _MAX = np.finfo(np.float64).eps, np.finfo(np.float64).max

_ROUNDING = 3e-14
"""Rounding error of log probabilities in far tails: a root search stops where the function is closer to zero."""

_MAX_STEPS = 200
"""Maximum number of steps of a root search, enough for bisection alone; smooth functions need about eight."""


@dataclass(frozen=True, eq=False, init=False)
class GaussianMixture(Located):
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
        scale, weights = (np.broadcast_to(part, loc.shape) for part in (scale, weights))
        self.__dict__.update(loc=loc, scale=scale, weights=weights)
        self._check()

    def _check(self) -> None:
        super()._check()
        least, sums = self.weights.min(initial=np.inf), self.weights.sum(axis=1)
        if not (least >= 0 and np.allclose(sums, 1.0, rtol=0.0, atol=1e-8)):
            raise InvalidParameterError(
                f"weights must be >= 0 and sum to 1 in each row; got a least weight of {least} "
                f"and sums from {sums.min()} to {sums.max()}"
            )

    def mean(self) -> FloatArray:
        """Return the mean ``Σ_h w_h loc_h`` of each row."""
        unit = float(np.abs(self.loc).max(initial=0.0))
        return self._mix(self.loc) if unit < _LARGE else unit * self._mix(self.loc / unit)  # their sum may overflow

    def var(self) -> FloatArray:
        """Return ``Σ_h w_h (scale_h² + (loc_h - mean)²)``, the variance within components plus that between them."""
        with np.errstate(over="ignore"):
            between = self.loc - self.mean()[:, None]
            return self._mix(self.scale**2 + between**2)

    def moment_matched(self) -> Gaussian:
        """Return the Gaussian with the mean and the variance of the mixture."""
        return Gaussian(self.mean(), self.std())

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
        return np.minimum(self._mix(np.asarray(ndtr(z))), 1.0)

    def _ppf(self, q: FloatArray) -> FloatArray:
        return np.stack([self._quantile(level) for level in q], axis=1)

    def _quantile(self, q: float) -> FloatArray:
        if q > 0.5:  # the upper tail of the mixture is the lower tail of its mirror image, where F keeps its digits
            return -self._with(loc=-self.loc)._quantile(1.0 - q)
        # The quantile lies between the smallest and the largest quantile of the components with a weight.
        components = Gaussian.unchecked(self.loc.ravel(), self.scale.ravel()).ppf(q).reshape(self.loc.shape)
        lower: FloatArray = np.where(self.weights > 0, components, np.inf).min(axis=1)
        if q == 0.0:
            return lower
        upper = np.where(self.weights > 0, components, -np.inf).max(axis=1)

        def log_excess(x: FloatArray) -> tuple[FloatArray, FloatArray]:
            """Return ``log F(x) - log q`` and its slope: in a tail, log F is much closer to linear than F, the cdf."""
            F, f = self.cdf(x), self.pdf(x)
            with np.errstate(all="ignore"):
                return np.log(F / q), f / F

        lower, upper = np.clip(lower, -_MAX, _MAX), np.clip(upper, -_MAX, _MAX)  # they may overflow
        return increasing_root(log_excess, lower, upper, 1e-14 * self.scale.min(axis=1))

    def _rvs(self, size: int, generator: np.random.Generator) -> FloatArray:
        steps, level = np.cumsum(self.weights, axis=1), generator.random((len(self), size))
        # The last cumulated weight is one up to rounding; it is left out, so that every chosen number is valid.
        chosen = np.sum(level[:, :, None] >= steps[:, None, :-1], axis=2)
        loc: FloatArray = np.take_along_axis(self.loc, chosen, axis=1)
        scale: FloatArray = np.take_along_axis(self.scale, chosen, axis=1)
        with np.errstate(over="ignore"):
            return np.asarray(loc + scale * generator.standard_normal(chosen.shape))

    def _crps(self, y: FloatArray) -> FloatArray:
        unit = max(float(np.abs(self.loc).max(initial=0.0)), float(self.scale.max(initial=0.0)))
        if unit > _LARGE:  # in units of the widest component, sums do not overflow
            with np.errstate(over="ignore"):
                return np.asarray(unit * self._with(loc=self.loc / unit, scale=self.scale / unit)._crps(y / unit))
        # E|Y - y| - E|Y - Y'|/2, sums over components and over pairs of them
        found = np.empty(y.shape)
        for rows in row_slices(len(self), rows_within(CACHED_CELLS, y.shape[1] * self.loc.shape[1] ** 2)):
            loc, scale, weights = self.loc[rows], np.maximum(self.scale[rows], _NARROW), self.weights[rows]
            errors = _gaussian_absolute_mean(y[rows, :, None] - loc[:, None, :], scale[:, None, :])
            widths = np.hypot(scale[:, :, None], scale[:, None, :])
            distances = _gaussian_absolute_mean(loc[:, :, None] - loc[:, None, :], widths)
            own = np.einsum("nij,ni,nj->n", distances, weights, weights)
            found[rows] = np.einsum("nmi,ni->nm", errors, weights) - own[:, None] / 2
        return found

    def _absolute_mean(self, y: FloatArray) -> FloatArray:
        parts = [by_scale(y, *part, normal_absolute_mean) for part in zip(self.loc.T, self.scale.T, strict=True)]
        return np.asarray(np.einsum("hnk,nh->nk", np.stack(parts), self.weights))

    def _components(self) -> Components:
        return self.weights, np.full_like(self.loc, np.inf), self.loc, self.scale


def _gaussian_absolute_mean(loc: FloatArray, scale: FloatArray) -> FloatArray:
    """Return E|Z| of Gaussians Z with the mean ``loc`` and the standard deviation ``scale``."""
    with np.errstate(over="ignore"):
        return np.asarray(scale * normal_absolute_mean(loc / scale))


def increasing_root(
    function: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    lower: FloatArray,
    upper: FloatArray,
    tolerance: FloatArray,
) -> FloatArray:
    """Return the root within [lower, upper] of each of many increasing functions, by Newton's method and bisection.

    ``function`` returns the values and the slopes at x; it may jump and may be infinite. A Newton step is taken only if
    it stays inside the interval and is at most half as long as the step before; otherwise the interval is halved. A
    root is found once the value is zero up to rounding, or x changes by no more than ``tolerance`` or its last digit.
    """
    with np.errstate(over="ignore"):
        x, last = lower / 2 + upper / 2, upper - lower
    resting = np.zeros(x.shape, dtype=bool)
    for _ in range(_MAX_STEPS):
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


@dataclass(frozen=True, eq=False, init=False)
class StudentTMixture(Located):
    """Mixture of a Student-t and several Gaussians for each of n rows.

    With u = (y - loc) / scale, row i has the density (kept St(u; df) + Σ_c mass_c N(u; position_c, width_c²)) / scale.

    Parameters
    ----------
    df : float or array-like (n,)
        Degrees of freedom of the Student-t, above two.
    loc : array-like (n,)
        Centre of the Student-t.
    scale : float or array-like (n,)
        Scale of the Student-t, and unit of all Gaussians of the row. A row of scale zero is a point mass at ``loc``.
    kept : float or array-like (n,)
        Weight of the Student-t.
    position, width, mass : array-like (n, A)
        Means and standard deviations of A Gaussians, in units of ``scale`` around ``loc``, and their weights, stored
        in single precision. The width of a Gaussian without weight does not matter.

    Examples
    --------
    >>> from bdkn.predictive import StudentTMixture
    >>> dist = StudentTMixture(5.0, [10.0], [2.0], 0.5, [[-1.0, 3.0]], [[0.1, 0.1]], [[0.25, 0.25]])
    >>> print(dist.mean(), dist.ppf([0.1, 0.5, 0.9]).round(2))
    [11.] [[ 7.73 10.   16.07]]
    """

    df: FloatArray
    loc: FloatArray
    scale: FloatArray
    kept: FloatArray
    position: Float32Array
    width: Float32Array
    mass: Float32Array

    def __init__(
        self,
        df: ArrayLike,
        loc: ArrayLike,
        scale: ArrayLike,
        kept: ArrayLike,
        position: ArrayLike,
        width: ArrayLike,
        mass: ArrayLike,
    ) -> None:
        student = StudentT(df, loc, scale)
        shares, rows = read_numbers("kept", kept), student.loc.shape
        if shares.shape not in ((), rows):
            raise InvalidParameterError(f"kept must be a number, or one for each of {rows[0]} rows; got {shares.shape}")
        self.__dict__.update(df=student.df, loc=student.loc, scale=student.scale, kept=np.broadcast_to(shares, rows))
        for name, part in (("position", position), ("width", width), ("mass", mass)):
            is_single = isinstance(part, np.ndarray) and part.dtype == np.float32
            with np.errstate(over="ignore"):
                numbers = np.ascontiguousarray(part if is_single else read_numbers(name, part), dtype=np.float32)
            self.__dict__[name] = numbers
        shapes = {part.shape for part in (self.position, self.width, self.mass)}
        if len(shapes) > 1 or self.mass.ndim != 2 or len(self.mass) != len(self):
            raise InvalidParameterError(
                f"position, width and mass must have one shape (rows, components) with {len(self)} rows; got {shapes}"
            )
        if not (self.df > 2.0).all():
            raise InvalidParameterError(f"df must be > 2, so that there is a variance; got {self.df.min()}")
        if not ((self.width > 0.0) | (self.mass == 0.0)).all() or not (self.mass >= 0.0).all():
            raise InvalidParameterError("width must be > 0 and mass >= 0; some are not")
        if not (np.isfinite(self.position).all() and np.isfinite(self.width).all()):
            raise InvalidParameterError("position and width must be finite in single precision, below 3.4e38")
        total = self.kept + self.mass.sum(axis=1, dtype=np.float64)
        if not ((self.kept >= 0.0).all() and np.abs(total - 1.0).max(initial=0.0) < 1e-5):
            raise InvalidParameterError(
                f"kept and mass must be >= 0 and sum to 1 in each row; got sums from {total.min()} to {total.max()}"
            )
        # Weights in single precision add up to one up to rounding; the difference is added to the Student-t's weight.
        self.__dict__["kept"] = np.clip(self.kept + (1.0 - total), 0.0, 1.0)

    def student_t(self) -> StudentT:
        """Return the only component of each row that is a Student-t; the others are Gaussian."""
        return StudentT.unchecked(self.df, self.loc, self.scale)

    def mean(self) -> FloatArray:
        return self.loc + self.scale * self._offset()

    def var(self) -> FloatArray:
        squares = np.square(self.position, dtype=np.float64) + np.square(self.width, dtype=np.float64)
        own = self.kept / (1.0 - 2.0 / self.df)
        with np.errstate(over="ignore"):
            variance = own + np.einsum("nc,nc->n", self.mass, squares) - self._offset() ** 2
            return np.asarray(self.scale**2 * variance)

    def carry(self, levels: FloatArray) -> FloatArray:
        """Return the quantiles (n, k) at ``levels`` (n, k), which may differ between rows."""
        df = self.df  # quantiles of the Student-t are computed once for equal rows
        shared = levels.strides[0] == 0 and bool((df == df[:1]).all())
        ν, q = (df[:1], levels[:1]) if shared else (df, levels)
        lower = np.minimum(q, 1.0 - q)
        tail: FloatArray = stdtrit(ν[:, None], lower)
        for far in np.unique(lower[lower < FAR_DOWN]):  # where stdtrit fails
            standard = StudentT.unchecked(ν, np.zeros(len(ν)), np.ones(len(ν)))
            tail = np.where(lower == far, standard.ppf(far)[:, None], tail)
        q_t = np.broadcast_to(np.where(q > 0.5, -tail, tail), levels.shape)
        u = self._in_blocks("quantiles", levels, q_t, ndtri(levels))
        with np.errstate(invalid="ignore"):
            y = self.loc[:, None] + self.scale[:, None] * u
        return np.where(self.scale[:, None] > 0.0, y, self.loc[:, None])

    def _offset(self) -> FloatArray:
        return np.asarray(np.einsum("nc,nc->n", self.mass, self.position, dtype=np.float64))

    def _logpdf(self, y: FloatArray) -> FloatArray:
        loc, scale = self.loc[:, None], self.scale[:, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            density = self._in_blocks("log_density", (y - loc) / scale) - np.log(scale)
        density = np.where(scale > 0.0, density, np.where(y == loc, np.inf, -np.inf))
        return np.where(np.isnan(y), np.nan, density)

    def _cdf(self, y: FloatArray) -> FloatArray:
        return self._in_blocks("distribution", standardise(y, self.loc[:, None], self.scale[:, None]))

    def _ppf(self, q: FloatArray) -> FloatArray:
        return self.carry(np.broadcast_to(q, (len(self), len(q))))

    def _rvs(self, size: int, generator: np.random.Generator) -> FloatArray:
        steps = np.cumsum(np.column_stack([self.kept, self.mass]), axis=1)
        chosen = np.empty((len(self), size), dtype=np.intp)
        for row, (level, step) in enumerate(zip(generator.random((len(self), size)), steps, strict=True)):
            chosen[row] = np.searchsorted(step[:-1], level, side="right")
        own = chosen == 0
        c = np.maximum(chosen - 1, 0)
        position, width = (np.take_along_axis(part, c, axis=1) for part in (self.position, self.width))
        student = generator.standard_t(np.minimum(self.df, MAX_DF)[:, None], size=chosen.shape)
        u = np.where(own, student, position + width * generator.standard_normal(chosen.shape))
        return np.asarray(self.loc[:, None] + self.scale[:, None] * u)

    def _crps(self, y: FloatArray) -> FloatArray:
        ν = np.minimum(self.df, GAUSSIAN_DF)  # E|T - T'|/2 of a standard Student-t:
        half = np.exp(np.log(2.0 * np.sqrt(ν) / (ν - 1.0)) + betaln(0.5, ν - 0.5) - 2.0 * betaln(0.5, ν / 2.0))
        own, precisions = self.kept**2 * half, _precisions(self.df)

        def standard(u: FloatArray) -> FloatArray:
            half_distances = self._in_blocks("half_distances", *precisions)
            return np.asarray(self._in_blocks("distances", u) - half_distances[:, None] - own[:, None])

        return by_scale(y, self.loc, self.scale, standard)

    def _absolute_mean(self, y: FloatArray) -> FloatArray:
        return by_scale(y, self.loc, self.scale, lambda u: self._in_blocks("distances", u))

    def _components(self) -> Components:
        loc, scale = self.loc[:, None], self.scale[:, None]
        df = np.hstack([self.df[:, None], np.full(self.mass.shape, np.inf)])
        weights = np.hstack([self.kept[:, None], self.mass])
        parts = np.hstack([loc, loc + scale * self.position]), np.hstack([scale, scale * self.width])
        return weights, df, *parts

    def _in_blocks(self, name: str, *per_row: FloatArray) -> FloatArray:
        """Return the results of the compiled function ``name`` for all rows, on several threads if rows are many."""
        from bdkn.kernels import student_mixture

        function = getattr(student_mixture, name)
        parts = row_slices(len(self.loc), THREAD_ROWS)
        found: list[Any] = [None] * len(parts)

        def compute(k: int) -> None:
            rows = tuple(
                np.ascontiguousarray(part[parts[k]])
                for part in (self.df, self.kept, self.position, self.width, self.mass)
            )
            found[k] = function(rows, *(np.ascontiguousarray(part[parts[k]]) for part in per_row))

        run_on_threads(compute, range(len(parts)))
        return np.concatenate(found) if len(found) > 1 else found[0]


def _precisions(df: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return precisions λ and weights (n, m) of Gaussians, whose mixtures approximate standard Student-t distributions.

    λ has the distribution Gamma(ν/2, ν/2). The trapezoidal rule in log λ converges exponentially: its integrand has no
    singularity within π of the real line, and decays as λ^((ν - 1)/2) for small λ.
    """
    unique, place = np.unique(df, return_inverse=True)
    rules = [_rule(min(float(ν), GAUSSIAN_DF)) for ν in unique]
    most = max((len(λ) for λ, _ in rules), default=0)
    nodes, shares = np.ones((len(rules), most)), np.zeros((len(rules), most))
    for k, (λ, share) in enumerate(rules):
        nodes[k, : len(λ)], shares[k, : len(λ)] = λ, share
    return nodes[place], shares[place]


def _rule(ν: float) -> tuple[FloatArray, FloatArray]:
    σ = np.sqrt(2.0 / ν)
    step = min(0.6, 0.7 * σ)
    left, right = max(9.0 * σ, 70.0 / (ν - 1.0)) if ν < 100.0 else 9.0 * σ, min(9.0 * σ, 4.5)
    u = np.arange(-np.ceil(left / step), np.ceil(right / step) + 1.0) * step
    logs = ν / 2.0 * (u - np.exp(u)) + ν / 2.0 * np.log(ν / 2.0) - gammaln(ν / 2.0)
    share = np.exp(logs) * step if ν < 1e4 else np.exp(ν / 2.0 * (u - np.exp(u) + 1.0))
    return np.exp(u), share if ν < 1e4 else share / share.sum()
