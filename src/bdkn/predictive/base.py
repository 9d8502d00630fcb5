"""Base classes of predictions: one distribution per row, with methods named as in ``scipy.stats``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from bdkn.arrays import read_numbers
from bdkn.errors import InvalidParameterError, check_number, shown
from bdkn.memory import check_memory
from bdkn.typing import FloatArray

Index = Any
"""Index that selects rows, as in NumPy: an integer, a slice, a boolean mask or a list of row numbers."""

Components = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
"""Weights, degrees of freedom, centres and scales of n mixtures of k Student-t (df infinite: Gaussian), (n, k) each."""


class Predictive(ABC):
    """Base class of predicted distributions, one for each of n rows.

    A subclass is a frozen dataclass whose fields are arrays with one entry or row per prediction. In all
    methods ``y`` may be a number, one value per row ``(n,)``, or several values per row ``(n, k)``; the result has the
    shape of ``y``, or ``(n,)`` for a number. A row of scale zero is a point mass: its ``cdf`` is a step, its ``ppf``
    the point, its ``logpdf`` infinite at the point and minus infinity elsewhere, its ``crps`` the absolute error.

    ``bdkn.testing.check_predictive`` checks a class of your own.

    Parameters
    ----------
    scale : array (n,) or (n, H)
        Scale of each row, or of each component of each row, in the units of the target.

    Examples
    --------
    >>> from bdkn.predictive import Gaussian, Predictive
    >>> dist = Gaussian([0.0, 10.0], [1.0, 2.0])
    >>> isinstance(dist, Predictive), len(dist), len(dist[:1])
    (True, 2, 1)
    """

    scale: FloatArray
    __match_args__: ClassVar[tuple[str, ...]]

    @classmethod
    def unchecked(cls, *parameters: Any) -> Self:
        """Return distributions with these parameters, in the order of the fields, without checking their values."""
        dist = cls.__new__(cls)
        dist.__dict__.update(zip(cls.__match_args__, parameters, strict=True))
        return dist

    def _with(self, **changed: Any) -> Self:
        """Return a copy with some fields changed, without checking the values."""
        return self.unchecked(*[changed.get(name, getattr(self, name)) for name in self.__match_args__])

    def _check(self) -> None:  # noqa: B027, not abstract: a family without such parameters has nothing to check
        """Raise an error unless the parameters of the distributions are valid."""

    @abstractmethod
    def __len__(self) -> int: ...

    def __getitem__(self, rows: Index) -> Self:
        index = [rows] if isinstance(rows, (int, np.integer)) else rows
        return type(self)(*[getattr(self, name)[index] for name in self.__match_args__])

    @abstractmethod
    def mean(self) -> FloatArray:
        """Return the point prediction of each row: the mean, or the centre if there is no mean."""

    @abstractmethod
    def var(self) -> FloatArray:
        """Return the variance of each row, infinite where it does not exist."""

    def affine(self, scale: float, shift: float) -> Self:
        """Return the distribution of ``scale * Y + shift``, for ``scale > 0``."""
        moved = self._affine(*check_affine(scale, shift))
        moved._check()  # parameters that overflow are refused
        return moved

    @abstractmethod
    def _affine(self, scale: float, shift: float) -> Self:
        """Return the distribution of ``scale * Y + shift``, without checks."""

    @abstractmethod
    def _logpdf(self, y: FloatArray) -> FloatArray:
        """Return the log density at ``y`` (n, k)."""

    @abstractmethod
    def _cdf(self, y: FloatArray) -> FloatArray:
        """Return the cumulative distribution function at ``y`` (n, k)."""

    @abstractmethod
    def _ppf(self, q: FloatArray) -> FloatArray:
        """Return the quantiles (n, k) at the levels ``q`` (k,)."""

    @abstractmethod
    def _crps(self, y: FloatArray) -> FloatArray:
        """Return the continuous ranked probability score at ``y`` (n, k)."""

    @abstractmethod
    def _rvs(self, size: int, generator: np.random.Generator) -> FloatArray:
        """Return ``size`` random draws per row, (n, size)."""

    def _absolute_mean(self, y: FloatArray) -> FloatArray | None:
        """Return the mean distance E|Y - y| from ``y`` (n, k); infinite without a mean, None without a formula."""
        return None

    def _components(self) -> Components | None:
        """Return the distributions as mixtures of Student-t components; None if the class is not such a mixture."""
        return None

    def std(self) -> FloatArray:
        """Return the standard deviation of each row, infinite where it does not exist."""
        widest = float(self.scale.max(initial=0.0))
        if widest == 0.0 or 1e-150 < widest < 1e150:
            return np.sqrt(self.var())
        unit = max(widest, 1e-300)  # in units of the largest scale, no variance overflows or underflows
        with np.errstate(over="ignore"):
            return np.asarray(unit * np.sqrt(self._in_units(unit).var()))

    def _in_units(self, unit: float) -> Predictive:
        """Return distributions with the variances of ``Y / unit``, whose means may be different."""
        return self.affine(1.0 / unit, 0.0)

    def median(self) -> FloatArray:
        """Return the median of each row."""
        return self.ppf(0.5)

    def pdf(self, y: ArrayLike) -> FloatArray:
        """Return the density at ``y``."""
        with np.errstate(over="ignore"):  # with a scale near the smallest float, a density may exceed the largest
            return np.exp(self.logpdf(y))

    def logpdf(self, y: ArrayLike) -> FloatArray:
        """Return the log density at ``y``."""
        return self._by_row(self._logpdf, y)

    def cdf(self, y: ArrayLike) -> FloatArray:
        """Return the probability of a value at most ``y``."""
        return self._by_row(self._cdf, y)

    def crps(self, y: ArrayLike) -> FloatArray:
        """Return the continuous ranked probability score of ``y``, in the units of ``y``; smaller is better."""
        return self._by_row(self._crps, y)

    def ppf(self, q: ArrayLike) -> FloatArray:
        """Return the quantiles: ``(n,)`` for one level ``q``, ``(n, k)`` for k levels."""
        levels = read_numbers("q", q)
        if levels.ndim > 1 or not np.all((levels >= 0) & (levels <= 1)):
            raise InvalidParameterError(
                f"q must be one probability or a list of them, each within [0, 1]; got {shown(q)}"
            )
        quantiles = self._ppf(np.atleast_1d(levels))
        return quantiles if levels.ndim else quantiles[:, 0]

    def interval(self, coverage: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Return, for each row, the lower and upper limits of the central interval with probability ``coverage``."""
        check_number("coverage", coverage, low=0.0, high=1.0)
        lower, upper = self.ppf([(1.0 - coverage) / 2.0, (1.0 + coverage) / 2.0]).T
        return lower, upper

    def rvs(self, size: int = 1, random_state: int | np.random.Generator | None = None) -> FloatArray:
        """Return ``size`` independent random draws per row, ``(n, size)``."""
        check_number("size", size, low=0, whole=True)
        check_draws("size", len(self), size)
        return self._rvs(int(size), generator_of(random_state))

    def _by_row(self, function: Callable[[FloatArray], FloatArray], y: ArrayLike) -> FloatArray:
        values = read_numbers("y", y)
        if values.ndim == 0:
            values = np.full(len(self), values)
        if values.ndim > 2 or len(values) != len(self):
            raise InvalidParameterError(
                f"y must be a number or hold one row for each of the {len(self)} predictions; got shape {values.shape}"
            )
        columns = values[:, None] if values.ndim == 1 else values
        return function(columns).reshape(values.shape)


class Located(Predictive):
    """Base class of distributions whose parameters ``loc`` and ``scale``, and no others, are in units of the target."""

    loc: FloatArray

    def __len__(self) -> int:
        return len(self.loc)

    def _affine(self, scale: float, shift: float) -> Self:
        with np.errstate(over="ignore"):
            return self._with(loc=scale * self.loc + shift, scale=scale * self.scale)

    def _check(self) -> None:
        check_location_scale(self.loc, self.scale)


def generator_of(random_state: Any) -> np.random.Generator:
    """Return a random number generator; raise an error if ``random_state`` is not a seed or a generator."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(
            f"random_state must be None, an integer >= 0 or a numpy.random.Generator; got {shown(random_state)}"
        ) from error


def check_draws(name: str, rows: int, size: int) -> None:
    """Raise an error if ``size`` random draws for each of ``rows`` rows do not fit into memory."""
    check_memory(f"{name}={size} draws of {rows} rows", 8.0 * rows * size, "draw fewer at once")


def check_affine(scale: float, shift: float) -> tuple[float, float]:
    """Return factor and shift of an affine map; raise an error unless both are finite and the factor is positive."""
    check_number("scale", scale, low=0.0, strict=True)
    check_number("shift", shift, low=-float(np.finfo(np.float64).max))
    return float(scale), float(shift)


def check_location_scale(loc: FloatArray, scale: FloatArray) -> None:
    """Raise an error unless every location is finite and every scale finite and not negative."""
    if not np.isfinite(loc).all():
        raise InvalidParameterError(f"loc must be finite; {np.sum(~np.isfinite(loc))} of {loc.size} values are not")
    wrong = ~(np.isfinite(scale) & (scale >= 0))
    if wrong.any():
        raise InvalidParameterError(f"scale must be finite and >= 0; got {scale[wrong][0]} among {scale.size} values")
