"""The mixture of a Student-t and Gaussians, which combining regressors predict where the data support a shape."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, gammaln, ndtri, stdtrit

from bdkn.arrays import read_numbers
from bdkn.errors import InvalidParameterError
from bdkn.predictive.base import Predictive, check_affine, check_location_scale
from bdkn.predictive.location_scale import NARROW, StudentT, standardise
from bdkn.threads import run_on_threads
from bdkn.typing import Float32Array, FloatArray

_BLOCK_ROWS = 1 << 12
"""Rows that one thread processes at once."""

_GAUSSIAN_DF = 1e8
_FAR_DOWN = 1e-100


@dataclass(frozen=True, eq=False, init=False)
class StudentTMixture(Predictive):
    """Mixture of a Student-t and A Gaussians for each of n rows.

    With u = (y - loc) / scale, row i has the density (kept St(u; df) + Σ_c mass_c N(u; position_c, width_c²)) / scale.

    Parameters
    ----------
    df : float or array-like (n,)
        Degrees of freedom of the Student-t, above two.
    loc : array-like (n,)
        Its centre.
    scale : float or array-like (n,)
        Its scale, and the unit of all Gaussians of the row. A row of scale zero is a point mass at ``loc``.
    kept : float or array-like (n,)
        Weight of the Student-t.
    position, width, mass : array-like (n, A)
        Means and standard deviations of the Gaussians, in units of ``scale`` around ``loc``, and their weights; kept in
        single precision. The width of a Gaussian without weight does not matter.

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
        shares, parts = read_numbers("kept", kept), {"position": position, "width": width, "mass": mass}
        if shares.shape not in ((), student.loc.shape):
            raise InvalidParameterError(
                f"kept must be a number, or one for each of {len(student)} rows; got {shares.shape}"
            )
        shares = np.broadcast_to(shares, student.loc.shape)
        gaussians = [_in_single(name, part) for name, part in parts.items()]
        fields = {"df": student.df, "loc": student.loc, "scale": student.scale, "kept": shares}
        for name, array in (fields | dict(zip(("position", "width", "mass"), gaussians, strict=True))).items():
            object.__setattr__(self, name, array)
        self._check()

    def _check(self) -> None:
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
        # Masses of single precision add up to one but for rounding; the Student-t takes the difference.
        object.__setattr__(self, "kept", np.clip(self.kept + (1.0 - total), 0.0, 1.0))

    def __len__(self) -> int:
        return len(self.loc)

    def student_t(self) -> StudentT:
        """Return the Student-t among the components."""
        return StudentT(self.df, self.loc, self.scale)

    def mean(self) -> FloatArray:
        """Return the mean of the mixture."""
        return self.loc + self.scale * self._offset()

    def var(self) -> FloatArray:
        """Return the variance of the mixture."""
        with np.errstate(over="ignore"):
            return self.scale**2 * self._variance()

    def affine(self, scale: float, shift: float) -> Self:
        """Return the distribution of ``scale * Y + shift``, for ``scale > 0``."""
        scale, shift = check_affine(scale, shift)
        moved = copy.copy(self)  # a check of all components takes longer than the prediction of a row
        with np.errstate(over="ignore"):  # what overflows is refused
            object.__setattr__(moved, "loc", scale * self.loc + shift)
            object.__setattr__(moved, "scale", scale * self.scale)
        check_location_scale(moved.loc, moved.scale)
        return moved

    def carry(self, levels: FloatArray) -> FloatArray:
        """Return the quantiles (n, k) at levels (n, k) of each row's own."""
        from bdkn.kernels import student_mixture

        q_t = _t_quantiles(self.df, levels)
        u = self._in_blocks(student_mixture.quantiles, levels, q_t, ndtri(levels))
        with np.errstate(invalid="ignore"):
            y = self.loc[:, None] + self.scale[:, None] * u
        return np.where(self.scale[:, None] > 0.0, y, self.loc[:, None])

    def _offset(self) -> FloatArray:
        return np.asarray(np.einsum("nc,nc->n", self.mass, self.position, dtype=np.float64))

    def _variance(self) -> FloatArray:
        squares = np.square(self.position, dtype=np.float64) + np.square(self.width, dtype=np.float64)
        own = self.kept / (1.0 - 2.0 / self.df)
        return np.asarray(own + np.einsum("nc,nc->n", self.mass, squares) - self._offset() ** 2)

    def _logpdf(self, y: FloatArray) -> FloatArray:
        from bdkn.kernels import student_mixture

        loc, scale = self.loc[:, None], self.scale[:, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            density = self._in_blocks(student_mixture.log_density, (y - loc) / scale) - np.log(scale)
        density = np.where(scale > 0.0, density, np.where(y == loc, np.inf, -np.inf))
        return np.where(np.isnan(y), np.nan, density)

    def _cdf(self, y: FloatArray) -> FloatArray:
        from bdkn.kernels import student_mixture

        return self._in_blocks(student_mixture.distribution, standardise(y, self.loc[:, None], self.scale[:, None]))

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
        student = generator.standard_t(np.minimum(self.df, 1e15)[:, None], size=chosen.shape)
        u = np.where(own, student, position + width * generator.standard_normal(chosen.shape))
        return np.asarray(self.loc[:, None] + self.scale[:, None] * u)

    def _crps(self, y: FloatArray) -> FloatArray:
        from bdkn.kernels import student_mixture

        error = y - self.loc[:, None]
        wide = self.scale[:, None] > NARROW * np.abs(error)
        u = np.where(wide, error, 0.0) / np.where(wide, self.scale[:, None], 1.0)
        apart = self._in_blocks(student_mixture.half_distances, *_precisions(self.df))
        score = self._in_blocks(student_mixture.distances, u) - apart[:, None]
        score -= (self.kept**2 * _half_distance(self.df))[:, None]
        return np.where(wide, self.scale[:, None] * score, np.abs(error))

    def absolute_mean(self, y: FloatArray) -> FloatArray:
        """Return E|Y - y| (n, k) at ``y`` (n, k)."""
        from bdkn.kernels import student_mixture

        error, wide = y - self.loc[:, None], self.scale[:, None] > 0.0
        unit = np.where(wide, self.scale[:, None], 1.0)
        return np.where(wide, unit * self._in_blocks(student_mixture.distances, error / unit), np.abs(error))

    def _in_blocks(self, function: Callable[..., FloatArray], *per_row: FloatArray) -> FloatArray:
        """Return the results of a compiled function, computed on several threads if rows are many."""
        parts = [slice(start, start + _BLOCK_ROWS) for start in range(0, len(self), _BLOCK_ROWS)] or [slice(0, 0)]
        found: list[Any] = [None] * len(parts)

        def compute(k: int) -> None:
            rows = tuple(
                np.ascontiguousarray(part[parts[k]])
                for part in (self.df, self.kept, self.position, self.width, self.mass)
            )
            found[k] = function(rows, *(np.ascontiguousarray(part[parts[k]]) for part in per_row))

        run_on_threads(compute, range(len(parts)))
        return np.concatenate(found) if len(found) > 1 else found[0]


def _in_single(name: str, given: ArrayLike) -> Float32Array:
    """Return numbers in single precision."""
    if isinstance(given, np.ndarray) and given.dtype == np.float32:
        return np.ascontiguousarray(given)
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(read_numbers(name, given), dtype=np.float32)


def _t_quantiles(df: FloatArray, levels: FloatArray) -> FloatArray:
    """Return the quantiles of a standard Student-t at levels (n, k); what rows share is computed once."""
    shared = levels.strides[0] == 0 and bool((df == df[:1]).all())
    ν, q = (df[:1], levels[:1]) if shared else (df, levels)
    lower = np.minimum(q, 1.0 - q)
    tail: FloatArray = stdtrit(ν[:, None], lower)
    for far in np.unique(lower[lower < _FAR_DOWN]):  # where stdtrit gives up
        tail = np.where(lower == far, StudentT(ν, np.zeros(len(ν)), 1.0).ppf(far)[:, None], tail)
    return np.broadcast_to(np.where(q > 0.5, -tail, tail), levels.shape)


def _half_distance(df: FloatArray) -> FloatArray:
    """Return E|T - T'|/2 of a standard Student-t."""
    ν = np.minimum(df, _GAUSSIAN_DF)
    return np.asarray(np.exp(np.log(2.0 * np.sqrt(ν) / (ν - 1.0)) + betaln(0.5, ν - 0.5) - 2.0 * betaln(0.5, ν / 2.0)))


def _precisions(df: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return nodes λ and shares (n, m) of a quadrature over the precision of which a Student-t is a mixture.

    λ has the distribution Gamma(ν/2, ν/2). The trapezoidal rule in log λ converges exponentially: its integrand has no
    singularity within π of the real line, and decays as λ^((ν - 1)/2) on the left.
    """
    unique, place = np.unique(df, return_inverse=True)
    rules = [_rule(min(float(ν), _GAUSSIAN_DF)) for ν in unique]
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
