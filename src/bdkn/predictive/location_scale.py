"""Gaussian and Student-t distributions: a standard distribution, shifted and scaled for each row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, betaln, gammaln, ndtr, ndtri, stdtr, stdtrit

from bdkn.arrays import read_numbers
from bdkn.errors import InvalidParameterError
from bdkn.predictive.base import Components, Located
from bdkn.typing import FloatArray

NARROW = 1e-100
"""Ratio of the scale to the error |y - loc| below which a row is scored as a point mass: squares would overflow."""

GAUSSIAN_DF = 1e8
"""Degrees of freedom above which the Student-t is computed as a Gaussian: the difference, of order 1/df, is as small as
rounding errors, while (1 + z²/df)^df begins to lose digits."""

FAR_DOWN = 1e-100
"""Level below which quantiles of the Student-t are computed by the incomplete beta function: SciPy's stdtrit fails."""

MAX_DF = 1e15
"""Finite degrees of freedom that are used in place of infinity, to avoid inf * 0."""

_FAR_OUT = 1e3
"""Standardised value above which the Gaussian log density needs its own formula, as ``MAX_DF`` is not close enough."""

_FEW_DF, _LOG_X = 2.5, -690.0
"""Degrees of freedom ν up to which a quantile t may be so large that SciPy's stdtrit fails, and the value of
log(ν/(ν + t²)) below which it fails, since the fraction underflows."""

_HUGE = 1e150
"""Number above which squares of floats may overflow."""


class LocationScale(Located):
    """Distributions of ``loc + scale * Z``, one per row; a subclass defines the symmetric distribution of ``Z``."""

    @abstractmethod
    def _standard_logpdf(self, z: FloatArray) -> FloatArray:
        """Return the log density of ``Z`` at ``z`` (n, k)."""

    @abstractmethod
    def _standard_cdf(self, z: FloatArray) -> FloatArray:
        """Return the cumulative distribution function of ``Z`` at ``z`` (n, k)."""

    @abstractmethod
    def _standard_ppf(self, q: FloatArray) -> FloatArray:
        """Return the quantiles of ``Z`` at the levels ``q`` (k,), in a shape that broadcasts to (n, k)."""

    @abstractmethod
    def _standard_rvs(self, shape: tuple[int, int], generator: np.random.Generator) -> FloatArray:
        """Return random draws of ``Z`` with the shape (n, size)."""

    @abstractmethod
    def _standard_crps(self, z: FloatArray) -> FloatArray:
        """Return the continuous ranked probability score of ``Z`` at ``z`` (n, k)."""

    @abstractmethod
    def _standard_absolute_mean(self, z: FloatArray) -> FloatArray:
        """Return E|Z - z| at ``z`` (n, k)."""

    def mean(self) -> FloatArray:
        """Return ``loc``, the centre of each row, also if the distribution has no mean."""
        return self.loc.copy()

    def median(self) -> FloatArray:
        """Return ``loc``: these distributions are symmetric."""
        return self.loc.copy()

    def _in_units(self, unit: float) -> Self:
        return self._with(loc=np.zeros(len(self)), scale=self.scale / unit)  # the centre might overflow

    def _store(self, **parameters: ArrayLike) -> None:
        """Set the parameters as float arrays of one length n, the length of ``loc``, and check them."""
        arrays = {name: read_numbers(name, value) for name, value in parameters.items()}
        rows = arrays["loc"].shape
        if len(rows) != 1 or any(array.shape not in ((), rows) for array in arrays.values()):
            shapes = ", ".join(f"{name} {given.shape}" for name, given in arrays.items())
            raise InvalidParameterError(f"loc must be 1-D and the rest numbers or of its length; got {shapes}")
        for name, array in arrays.items():
            self.__dict__[name] = array if array.shape == rows else np.broadcast_to(array, rows)
        self._check()

    def _logpdf(self, y: FloatArray) -> FloatArray:
        loc, scale = self.loc[:, None], self.scale[:, None]
        return log_density(self._standard_logpdf(standardise(y, loc, scale)), y, loc, scale)

    def _cdf(self, y: FloatArray) -> FloatArray:
        return self._standard_cdf(standardise(y, self.loc[:, None], self.scale[:, None]))

    def _ppf(self, q: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore", over="ignore"):  # 0 * inf for a point mass
            quantiles = self.loc[:, None] + self.scale[:, None] * self._standard_ppf(q)
        return np.where(self.scale[:, None] > 0, quantiles, self.loc[:, None])

    def _rvs(self, size: int, generator: np.random.Generator) -> FloatArray:
        draws = self._standard_rvs((len(self), size), generator)
        with np.errstate(over="ignore"):
            return np.asarray(self.loc[:, None] + self.scale[:, None] * draws)

    def _crps(self, y: FloatArray) -> FloatArray:
        return by_scale(y, self.loc, self.scale, self._standard_crps)

    def _absolute_mean(self, y: FloatArray) -> FloatArray:
        return by_scale(y, self.loc, self.scale, self._standard_absolute_mean)


def standardise(y: FloatArray, loc: FloatArray, scale: FloatArray) -> FloatArray:
    """Return ``(y - loc) / scale``; for scale 0, +inf if y >= loc and else -inf, so that every cdf is a step."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z = (y - loc) / scale
    return np.where((scale == 0) & (y == loc), np.inf, z)


def by_scale(
    y: FloatArray, loc: FloatArray, scale: FloatArray, distance: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Return ``scale * distance((y - loc) / scale)``, such as the CRPS of ``y`` (n, k); |y - loc| for a point mass."""
    with np.errstate(over="ignore"):
        error = y - loc[:, None]
        wide = scale[:, None] > NARROW * np.abs(error)
        unit = np.where(wide, scale[:, None], 1.0)
        return np.where(wide, unit * distance(np.where(wide, error, 0.0) / unit), np.abs(error))


def log_density(standard: FloatArray, y: FloatArray, loc: FloatArray, scale: FloatArray) -> FloatArray:
    """Return the log density at ``y``, given its value ``standard`` for (y - loc) / scale; scale 0 is a point mass."""
    with np.errstate(divide="ignore", invalid="ignore"):
        density = standard - np.log(scale)
    return np.where(scale > 0, density, np.where(y == loc, np.inf, -np.inf))


@dataclass(frozen=True, eq=False, init=False)
class Gaussian(LocationScale):
    """Gaussian predictive: ``N(loc, scale²)`` for each of n rows.

    The predictions of a single network or of a Gaussian process have this form.

    Parameters
    ----------
    loc : array-like (n,)
        Means.
    scale : float or array-like (n,)
        Standard deviations, not negative. Zero is a point mass.

    Examples
    --------
    >>> from bdkn.predictive import Gaussian
    >>> dist = Gaussian([0.0, 10.0], [1.0, 2.0])
    >>> lower, upper = dist.interval(0.9)
    >>> print(lower.round(2), upper.round(2))
    [-1.64  6.71] [ 1.64 13.29]
    >>> print(dist.logpdf([0.0, 10.0]).round(3))
    [-0.919 -1.612]
    """

    loc: FloatArray
    scale: FloatArray

    def __init__(self, loc: ArrayLike, scale: ArrayLike) -> None:
        self._store(loc=loc, scale=scale)

    def var(self) -> FloatArray:
        """Return the variance ``scale²`` of each row."""
        with np.errstate(over="ignore"):
            return np.asarray(self.scale**2)

    def _standard_logpdf(self, z: FloatArray) -> FloatArray:
        return normal_logpdf(z)

    def _standard_cdf(self, z: FloatArray) -> FloatArray:
        return np.asarray(ndtr(z))

    def _standard_ppf(self, q: FloatArray) -> FloatArray:
        quantiles: FloatArray = ndtri(q)
        return quantiles

    def _standard_rvs(self, shape: tuple[int, int], generator: np.random.Generator) -> FloatArray:
        return generator.standard_normal(shape)

    def _standard_crps(self, z: FloatArray) -> FloatArray:
        return np.asarray(normal_absolute_mean(z) - 1 / np.sqrt(np.pi))

    def _standard_absolute_mean(self, z: FloatArray) -> FloatArray:
        return normal_absolute_mean(z)

    def _components(self) -> Components:
        loc, scale = self.loc[:, None], self.scale[:, None]
        return np.ones_like(loc), np.full_like(loc, np.inf), loc, scale


def normal_absolute_mean(z: FloatArray) -> FloatArray:
    """Return E|Z - z| = z(2Φ(z) - 1) + 2φ(z) for a standard normal Z."""
    mean: FloatArray = z * (2 * ndtr(z) - 1) + 2 * np.exp(normal_logpdf(z))
    return mean


def normal_logpdf(z: FloatArray) -> FloatArray:
    """Return the log density of the standard normal distribution at z."""
    with np.errstate(over="ignore"):
        density: FloatArray = -(z**2) / 2 - np.log(2 * np.pi) / 2
    return density


@dataclass(frozen=True, eq=False, init=False)
class StudentT(LocationScale):
    """Student-t predictive: ``St(df, loc, scale²)`` for each of n rows.

    The predictions of a conjugate Bayesian linear model have this form. ``mean()`` is always ``loc``, also for
    ``df <= 1``, where the first moment does not exist. ``var()`` is infinite for ``df <= 2``. The ``crps``, the
    integral of ``(F - 1{x >= y})²``, is infinite for ``df <= 1/2``.

    Parameters
    ----------
    df : float or array-like (n,)
        Degrees of freedom, positive. Infinity is the Gaussian.
    loc : array-like (n,)
        Centres.
    scale : float or array-like (n,)
        Scales, not negative. Zero is a point mass.

    Examples
    --------
    >>> from bdkn.predictive import StudentT
    >>> dist = StudentT(5.0, [0.0, 10.0], [1.0, 2.0])
    >>> print(dist.std().round(3), dist.ppf(0.95).round(3))
    [1.291 2.582] [ 2.015 14.03 ]
    """

    df: FloatArray
    loc: FloatArray
    scale: FloatArray

    def __init__(self, df: ArrayLike, loc: ArrayLike, scale: ArrayLike) -> None:
        self._store(df=df, loc=loc, scale=scale)

    def _check(self) -> None:
        super()._check()
        if not (self.df > 0).all():
            raise InvalidParameterError(f"df must be > 0; got {self.df[~(self.df > 0)][0]}")

    def var(self) -> FloatArray:
        """Return the variance ``scale² df / (df - 2)``, infinite for ``df <= 2``; 0 for a point mass."""
        heavy = self.df <= 2
        inflation = 1 / (1 - 2 / np.where(heavy, np.inf, self.df))
        with np.errstate(over="ignore"):
            return np.asarray(self.scale**2 * inflation + np.where(heavy & (self.scale > 0), np.inf, 0.0))

    def _standard_logpdf(self, z: FloatArray) -> FloatArray:
        return standard_t_logpdf(z, self.df[:, None])

    def _standard_cdf(self, z: FloatArray) -> FloatArray:
        ν = self.df[:, None]
        cumulative: FloatArray = stdtr(ν, z)
        huge = np.abs(z) > _HUGE * np.sqrt(np.minimum(ν, 1.0))  # where stdtr fails
        if not huge.any():
            return cumulative
        a, far = _half(ν), np.where(huge, z, np.inf)
        with np.errstate(divide="ignore"):
            tail = np.exp(a * (np.log(2 * a) - 2 * np.log(np.abs(far))) - _log_share(a)) / 2
        return np.where(huge, np.where(z < 0, tail, 1 - tail), cumulative)

    def _standard_ppf(self, q: FloatArray) -> FloatArray:
        ν = (self.df[:1] if self.df.strides == (0,) else self.df)[:, None]  # one number for all rows
        inner: FloatArray = stdtrit(ν, q)
        # For very low levels stdtrit fails; F(-t) = ½ I_x(ν/2, ½) with x = ν/(ν + t²) is inverted instead.
        x = betaincinv(np.minimum(ν, GAUSSIAN_DF) / 2, 0.5, 2 * np.minimum(q, FAR_DOWN))
        with np.errstate(divide="ignore", over="ignore"):
            far = -np.sqrt(ν) * np.sqrt(1 / x - 1)
        found = np.where((q < FAR_DOWN) & (ν < GAUSSIAN_DF), far, np.where(q == 0, -np.inf, inner))
        if ν.min(initial=np.inf) <= _FEW_DF:  # quantiles that are too large for stdtrit
            a = _half(ν)
            with np.errstate(divide="ignore", over="ignore"):
                log_x = (np.log(2 * np.minimum(q, 1 - q)) + _log_share(a)) / a
                size = np.exp(np.log(ν) / 2 - log_x / 2)
            found = np.where(log_x < _LOG_X, np.where(q < 0.5, -size, size), found)
        return np.where(q == 1, np.inf, found)

    def _standard_rvs(self, shape: tuple[int, int], generator: np.random.Generator) -> FloatArray:
        return generator.standard_t(np.minimum(self.df, MAX_DF)[:, None], size=shape)

    def _standard_crps(self, z: FloatArray) -> FloatArray:
        """Return the CRPS of the standard Student-t at z (Jordan, Krüger and Lerch, 2019).

        z(2F(z) - 1) + 2{f(z)(ν + z²) - √ν B(½, ν - ½)/B(½, ν/2)²}/(ν - 1); products that overflow are computed from
        logarithms. For one degree of freedom, this is infinity minus infinity; crps'(z) = 2 F(z) - 1 is then integrated
        from crps(0) = 2 log(2) / π.
        """
        df = self.df[:, None]
        cauchy, gaussian = np.abs(df - 1) < 1e-8, df > GAUSSIAN_DF
        regular = (df > 0.5) & ~cauchy & ~gaussian
        ν = np.where(regular, df, 2.0)
        half_distance = np.exp(np.log(ν) / 2 + betaln(0.5, ν - 0.5) - 2 * betaln(0.5, ν / 2))
        score = z * (2 * stdtr(ν, z) - 1) + 2 * (_weighted_density(z, ν) - half_distance) / (ν - 1)
        score = np.where(gaussian, normal_absolute_mean(z) - 1 / np.sqrt(np.pi), np.where(regular, score, np.inf))
        of_cauchy = 2 * np.log(2.0) + 2 * z * np.arctan(z) - 2 * np.log(np.hypot(1.0, z))
        return np.where(cauchy, of_cauchy / np.pi, score)

    def _standard_absolute_mean(self, z: FloatArray) -> FloatArray:
        heavy, gaussian = self.df[:, None] <= 1.0, self.df[:, None] > GAUSSIAN_DF
        df = np.where(heavy | gaussian, 3.0, self.df[:, None])
        mean = z * (2.0 * stdtr(df, z) - 1.0) + 2.0 * _weighted_density(z, df) / (df - 1.0)
        return np.where(gaussian, normal_absolute_mean(z), np.where(heavy, np.inf, mean))

    def _components(self) -> Components:
        df, loc, scale = self.df[:, None], self.loc[:, None], self.scale[:, None]
        return np.ones_like(loc), df, loc, scale


def _half(df: FloatArray) -> FloatArray:
    """Return half of the degrees of freedom, limited so that the reciprocal is finite."""
    return np.clip(df / 2, 1e-300, GAUSSIAN_DF)


def _log_share(a: FloatArray) -> FloatArray:
    """Return log(a B(a, ½)), for far tails of a Student-t: F(-t) ≈ ½ x^a / (a B(a, ½)), a = ν/2, x = ν/(ν + t²)."""
    found: FloatArray = gammaln(1 + a) + gammaln(0.5) - gammaln(a + 0.5)
    return found


def student_t_logpdf(y: FloatArray, df: float | FloatArray, loc: FloatArray, scale: FloatArray) -> FloatArray:
    """Return the log density of ``StudentT(df, loc, scale)`` at ``y``; arguments are arrays of one shape or numbers."""
    return log_density(standard_t_logpdf(standardise(y, loc, scale), df), y, loc, scale)


def standard_t_logpdf(z: FloatArray, df: float | FloatArray) -> FloatArray:
    """Return the log density of the standard Student-t at z."""
    ν = np.minimum(df, MAX_DF)
    with np.errstate(over="ignore", divide="ignore"):
        ratio: FloatArray = np.log1p(z**2 / ν)
        if np.isinf(ratio).any():
            ratio = np.where(np.isinf(ratio), 2 * np.log(np.abs(z)) - np.log(ν), ratio)
        tail: FloatArray = (ν + 1) / 2 * ratio
    # log B(1/2, ν/2) keeps its digits at large ν, where log Γ((ν+1)/2) - log Γ(ν/2) cancels.
    normaliser: FloatArray = np.log(ν) / 2 + betaln(0.5, ν / 2)
    return np.where(np.isinf(df) & (np.abs(z) > _FAR_OUT), normal_logpdf(z), -tail - normaliser)


def _weighted_density(z: FloatArray, df: FloatArray) -> FloatArray:
    """Return f(z)(ν + z²), a term of the CRPS: f is the density of the standard Student-t with ν degrees of freedom."""
    return np.asarray(np.exp(standard_t_logpdf(z, df) + 2 * np.log(np.hypot(np.sqrt(df), z))))
