"""Student-t distributions of several numbers at once: rows predicted together, targets predicted together, or both.

``MultivariateT`` is one distribution over n rows of one target, ``VectorT`` one distribution over q targets for each of
n rows, ``MatrixT`` one distribution over n rows and q targets. All have the property that every single number is
Student-t with ``df`` degrees of freedom.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from scipy.special import betaln, gammaln

from bdkn.arrays import read_numbers
from bdkn.errors import InvalidParameterError, check_number
from bdkn.predictive.base import check_affine, check_draws, generator_of
from bdkn.predictive.location_scale import MAX_DF, StudentT
from bdkn.typing import FloatArray


class _Joint:
    """Base class of joint Student-t distributions, with their number of rows and their mean."""

    loc: FloatArray

    def __len__(self) -> int:
        return len(self.loc)

    def mean(self) -> FloatArray:
        """Return ``loc``, the centre, also if the distribution has no mean."""
        return self.loc.copy()


@dataclass(frozen=True, eq=False, init=False)
class MultivariateT(_Joint):
    """Joint Student-t distribution of one target at n rows: ``St_n(df, loc, shape)``.

    Parameters
    ----------
    df : float
        Degrees of freedom, positive. Infinity is the Gaussian.
    loc : array-like (n,)
        Centre.
    shape : array-like (n, n)
        Shape matrix, positive semi-definite; it may be singular.

    Examples
    --------
    >>> from bdkn.predictive import MultivariateT
    >>> joint = MultivariateT(5.0, [0.0, 1.0], [[1.0, 0.9], [0.9, 1.0]])
    >>> print(joint.cov().round(3))
    [[1.667 1.5  ]
     [1.5   1.667]]
    >>> print(joint.logpdf([0.0, 1.0]).round(3), joint.rvs(3, random_state=0).shape)
    -1.008 (2, 3)
    """

    df: float
    loc: FloatArray
    shape: FloatArray

    def __init__(self, df: float, loc: ArrayLike, shape: ArrayLike) -> None:
        check_number("df", df, low=0.0, strict=True, infinite=True)
        centre, matrix = read_numbers("loc", loc), read_numbers("shape", shape)
        if centre.ndim != 1 or matrix.shape != centre.shape * 2:
            raise InvalidParameterError(f"loc must be (n,) and shape (n, n); got {centre.shape} and {matrix.shape}")
        self.__dict__.update(df=float(df), **_finite(loc=centre, shape=matrix))

    def cov(self) -> FloatArray:
        """Return the covariance ``shape * df / (df - 2)``; raise an error unless ``df`` is above 2."""
        return _covariance(self.df, self.shape)

    def marginal(self) -> StudentT:
        """Return the marginal distribution of each row."""
        return StudentT(self.df, self.loc, np.sqrt(np.maximum(np.diag(self.shape), 0.0)))

    def affine(self, scale: float, shift: float) -> MultivariateT:
        """Return the distribution of ``scale * Y + shift``, for ``scale > 0``."""
        scale, shift = check_affine(scale, shift)
        return MultivariateT(self.df, scale * self.loc + shift, scale**2 * self.shape)

    def logpdf(self, y: ArrayLike) -> FloatArray:
        """Return the joint log density at ``y`` (n,) or each column of ``y`` (n, k); ``shape`` must have full rank."""
        λ, U = _regular("score each row with marginal(), or predict with the noise included", _eigen(self.shape))
        n, ν = len(self), min(self.df, MAX_DF)
        values = read_numbers("y", y)
        if values.ndim not in (1, 2) or len(values) != n:
            raise InvalidParameterError(f"y must be (n,) or (n, k) with n={n} rows; got shape {values.shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            z = U.T @ (values.T - self.loc).T
            δ: FloatArray = np.sum(z.T**2 / λ, axis=-1)
        δ = np.where(np.isnan(δ) & np.isfinite(values).all(axis=0), np.inf, δ)  # inf - inf within a sum gave nan
        # log B(ν/2, n/2) keeps its digits at large ν, where log Γ((ν+n)/2) - log Γ(ν/2) cancels.
        normaliser = gammaln(n / 2) - betaln(ν / 2, n / 2) - (n * np.log(ν * np.pi) + np.sum(np.log(λ))) / 2
        return np.asarray(normaliser - (ν + n) / 2 * np.log1p(δ / ν))

    def rvs(self, size: int = 1, random_state: int | np.random.Generator | None = None) -> FloatArray:
        """Return ``size`` joint draws as the columns of an array ``(n, size)``."""
        check_number("size", size, low=0, whole=True)
        check_draws("size", len(self), size)
        generator = generator_of(random_state)
        λ, U = _eigen(self.shape)
        normal = (U * np.sqrt(λ)) @ generator.standard_normal((len(self), size))
        ν = min(self.df, MAX_DF)
        mixing = generator.chisquare(ν, size) / ν
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # with df such as 0.001
            away = np.where(normal == 0.0, 0.0, normal / np.sqrt(mixing))
            return np.asarray(self.loc[:, None] + away)


@dataclass(frozen=True, eq=False, init=False)
class VectorT(_Joint):
    """Student-t distributions of q targets, one for each of n rows: ``St_q(df, loc, shape)``.

    Parameters
    ----------
    df : float or array-like (n,)
        Degrees of freedom, positive.
    loc : array-like (n, q)
        Centres.
    shape : array-like (n, q, q)
        Shape matrices, positive semi-definite.

    Examples
    --------
    >>> from bdkn.predictive import VectorT
    >>> dist = VectorT(5.0, [[0.0, 1.0]], [[[1.0, 0.9], [0.9, 4.0]]])
    >>> print(dist.target(1).scale, dist.logpdf([[0.0, 1.0]]).round(3))
    [2.] [-2.418]
    """

    df: FloatArray
    loc: FloatArray
    shape: FloatArray

    def __init__(self, df: ArrayLike, loc: ArrayLike, shape: ArrayLike) -> None:
        centre, matrices = read_numbers("loc", loc), read_numbers("shape", shape)
        degrees = read_numbers("df", df)
        fits = centre.ndim == 2 and matrices.shape == (*centre.shape, centre.shape[1])
        if not fits or degrees.shape not in ((), centre.shape[:1]):
            raise InvalidParameterError(
                "loc must be (n, q), shape (n, q, q) and df a number or (n,); "
                f"got {centre.shape}, {matrices.shape} and {degrees.shape}"
            )
        if not (degrees > 0).all():
            raise InvalidParameterError(f"df must be > 0; got {degrees.min()}")
        self.__dict__.update(df=np.broadcast_to(degrees, len(centre)), **_finite(loc=centre, shape=matrices))

    def __getitem__(self, rows: Any) -> VectorT:
        index: Any = [rows] if isinstance(rows, (int, np.integer)) else rows
        return VectorT(self.df[index], self.loc[index], self.shape[index])

    @property
    def n_targets(self) -> int:
        """The number q of targets."""
        return int(self.loc.shape[1])

    def cov(self) -> FloatArray:
        """Return the covariances (n, q, q) of the targets of each row; raise an error unless ``df`` is above 2."""
        return _covariance(float(self.df.min(initial=np.inf)), self.shape, self.df[:, None, None])

    def target(self, number: int) -> StudentT:
        """Return the marginal distribution, for each row, of the target with this index (from 0)."""
        return StudentT(self.df, self.loc[:, number], np.sqrt(np.maximum(self.shape[:, number, number], 0.0)))

    def affine(self, scale: ArrayLike, shift: ArrayLike) -> VectorT:
        """Return the distribution of ``scale * Y + shift``; both are a number, or one number per target (q,)."""
        unit = np.broadcast_to(read_numbers("scale", scale), self.n_targets)
        if not (unit > 0).all():
            raise InvalidParameterError(f"scale must be > 0; got {unit.min()}")
        return VectorT(self.df, unit * self.loc + np.asarray(shift), unit[:, None] * unit * self.shape)

    def logpdf(self, Y: ArrayLike) -> FloatArray:
        """Return the log density (n,) at the targets ``Y`` (n, q); each ``shape`` must have full rank."""
        size, shape = _unit_diagonal(self.shape)
        λ, U = _regular("score each target with target(), or predict with the noise included", _eigen(shape))
        q, ν = self.n_targets, np.minimum(self.df, MAX_DF)
        z = np.einsum("nij,ni->nj", U, (read_numbers("Y", Y) - self.loc) / size)
        δ = np.sum(z**2 / λ, axis=1)
        volume = np.sum(np.log(λ), axis=1) / 2 + np.sum(np.log(size), axis=1)
        normaliser = gammaln(q / 2) - betaln(ν / 2, q / 2) - q * np.log(ν * np.pi) / 2 - volume
        return np.asarray(normaliser - (ν + q) / 2 * np.log1p(δ / ν))

    def rvs(self, size: int = 1, random_state: int | np.random.Generator | None = None) -> FloatArray:
        """Return ``size`` random draws per row, ``(n, q, size)``; rows are independent."""
        check_number("size", size, low=0, whole=True)
        generator = np.random.default_rng(random_state)
        unit, shape = _unit_diagonal(self.shape)
        λ, U = _eigen(shape)
        normal = unit[:, :, None] * ((U * np.sqrt(λ)[:, None, :]) @ generator.standard_normal((*self.loc.shape, size)))
        ν = np.minimum(self.df, MAX_DF)[:, None]
        mixing = generator.chisquare(ν, (len(self), size)) / ν
        return self.loc[:, :, None] + normal / np.sqrt(mixing)[:, None, :]


@dataclass(frozen=True, eq=False, init=False)
class MatrixT(_Joint):
    """Joint Student-t distribution of q targets at n rows.

    Given a covariance Σ ~ Inv-Wishart(df + q - 1, df ``columns``) of the targets, Y is matrix-normal with centre
    ``loc``, covariance ``rows`` among the rows and Σ among the targets. Each row is ``St_q(df, locᵢ, rowsᵢᵢ columns)``,
    each target ``St_n(df, locⱼ, columnsⱼⱼ rows)``.

    Parameters
    ----------
    df : float
        Degrees of freedom, positive.
    loc : array-like (n, q)
        Centre.
    rows : array-like (n, n)
        Shape matrix of the rows, positive semi-definite.
    columns : array-like (q, q)
        Shape matrix of the targets, positive semi-definite.

    Examples
    --------
    >>> from bdkn.predictive import MatrixT
    >>> joint = MatrixT(5.0, [[0.0, 1.0], [2.0, 3.0]], [[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.9], [0.9, 4.0]])
    >>> print(round(joint.logpdf([[0.0, 1.0], [2.0, 3.0]]), 3))
    -4.366
    >>> print(joint.marginal().target(1).scale, joint.rvs(3, random_state=0).shape)
    [2. 2.] (2, 2, 3)
    """

    df: float
    loc: FloatArray
    rows: FloatArray
    columns: FloatArray

    def __init__(self, df: float, loc: ArrayLike, rows: ArrayLike, columns: ArrayLike) -> None:
        check_number("df", df, low=0.0, strict=True)
        centre, across, along = read_numbers("loc", loc), read_numbers("rows", rows), read_numbers("columns", columns)
        if centre.ndim != 2 or across.shape != centre.shape[:1] * 2 or along.shape != centre.shape[1:] * 2:
            raise InvalidParameterError(
                f"loc must be (n, q), rows (n, n) and columns (q, q); got {centre.shape}, {across.shape}, {along.shape}"
            )
        self.__dict__.update(df=float(df), **_finite(loc=centre, rows=across, columns=along))

    def marginal(self) -> VectorT:
        """Return the joint distribution of the targets of each row, without the dependence between rows."""
        return VectorT(self.df, self.loc, np.diag(self.rows)[:, None, None] * self.columns)

    def target(self, number: int) -> MultivariateT:
        """Return the joint distribution of all rows of the target with this index (from 0)."""
        return MultivariateT(self.df, self.loc[:, number], self.columns[number, number] * self.rows)

    def logpdf(self, Y: ArrayLike) -> float:
        """Return the joint log density at ``Y`` (n, q); ``rows`` and ``columns`` must have full rank."""
        hint = "score each row with marginal(), or predict with the noise included"
        size, columns = _unit_diagonal(self.columns)
        (λ, U), (κ, V) = _regular(hint, _eigen(self.rows)), _regular(hint, _eigen(columns))
        (n, q), ν = self.loc.shape, min(self.df, MAX_DF)
        z = (U.T @ ((read_numbers("Y", Y) - self.loc) / size) @ V) / np.sqrt(np.outer(λ, κ))
        j = np.arange(q)
        # log Γ_q((ν+q-1+n)/2) - log Γ_q((ν+q-1)/2) as a sum of logarithms of beta functions, which keep their digits.
        normaliser = np.sum(gammaln(n / 2) - betaln((ν + j) / 2, n / 2)) - n * q * np.log(ν * np.pi) / 2
        volume = (q * np.sum(np.log(λ)) + n * np.sum(np.log(κ))) / 2 + n * np.sum(np.log(size))
        tail = (ν + q - 1 + n) / 2 * np.sum(np.log1p(np.linalg.svd(z, compute_uv=False) ** 2 / ν))
        return float(normaliser - volume - tail)

    def rvs(self, size: int = 1, random_state: int | np.random.Generator | None = None) -> FloatArray:
        """Return ``size`` random draws for all rows and targets together, ``(n, q, size)``."""
        check_number("size", size, low=0, whole=True)
        generator = np.random.default_rng(random_state)
        (n, q), ν = self.loc.shape, min(self.df, MAX_DF)
        unit, columns = _unit_diagonal(self.columns)
        (λ, U), (κ, V) = _eigen(self.rows), _eigen(columns)
        S = inverse_wishart_roots(ν + q - 1, unit[:, None] * V * np.sqrt(ν * κ), size, generator)
        normal = (U * np.sqrt(λ)) @ generator.standard_normal((size, n, q)) @ S.swapaxes(1, 2)
        return np.moveaxis(self.loc + normal, 0, 2)


def inverse_wishart_roots(ν: float, root: FloatArray, size: int, generator: np.random.Generator) -> FloatArray:
    """Return square roots S (size, q, q), SSᵀ = Σ, of draws Σ ~ Inv-Wishart(ν, root rootᵀ).

    By Bartlett's decomposition a Wishart matrix of unit scale is TTᵀ, T lower-triangular with chi-distributed numbers
    on the diagonal and normal ones below; S = root T⁻ᵀ.
    """
    q = len(root)
    T = np.tril(generator.standard_normal((size, q, q)), -1)
    T[:, np.arange(q), np.arange(q)] = np.sqrt(generator.chisquare(ν - np.arange(q), (size, q)))
    return np.asarray(np.linalg.solve(T, np.broadcast_to(root.T, T.shape)).swapaxes(1, 2))


def _finite(**parts: FloatArray) -> dict[str, FloatArray]:
    """Return the arrays by name; raise an error unless all numbers are finite."""
    for name, part in parts.items():
        if not np.isfinite(part).all():
            raise InvalidParameterError(f"{name} must be finite; {np.sum(~np.isfinite(part))} of {part.size} are not")
    return parts


def _covariance(least_df: float, shape: FloatArray, df: FloatArray | None = None) -> FloatArray:
    """Return the covariance ``shape * df / (df - 2)``; raise an error if the smallest ``df`` is not above 2."""
    if not least_df > 2:
        raise InvalidParameterError(
            f"a covariance needs more than 2 degrees of freedom; there are {least_df:g}: fit to more rows, or use "
            "quantiles, intervals or draws"
        )
    return shape / (1 - 2 / (least_df if df is None else df))


def _unit_diagonal(shape: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the scales of the targets, and the shape matrix of the targets in units of their scales."""
    size = np.sqrt(np.maximum(np.diagonal(shape, axis1=-2, axis2=-1), 0.0))
    size = np.where(size > 0.0, size, 1.0)
    return size, shape / (size[..., :, None] * size[..., None, :])


def _regular(hint: str, eigen: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return ``eigen`` (eigenvalues and eigenvectors); raise an error with the ``hint`` if an eigenvalue is zero."""
    λ = eigen[0]
    if np.any(λ == 0):
        rank = int(np.sum(λ > 0, axis=-1).min())
        raise InvalidParameterError(
            f"a joint density needs a shape of full rank; this one has rank {rank} of {λ.shape[-1]}: {hint}"
        )
    return eigen


def _eigen(shape: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues and eigenvectors of ``shape``; eigenvalues that are zero up to rounding are set to 0."""
    λ, U = eigh(shape) if shape.ndim == 2 else np.linalg.eigh(shape)
    largest = np.max(np.abs(λ), axis=-1, keepdims=True, initial=0.0)
    if np.any(λ < -1e-8 * largest):
        raise InvalidParameterError(f"shape must be positive semi-definite; its smallest eigenvalue is {λ.min():g}")
    return np.where(λ > λ.shape[-1] * np.finfo(np.float64).eps * largest, λ, 0.0), U
