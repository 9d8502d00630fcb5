"""Sufficient statistics of a linear model in square-root form: N rows with H weights as O(H²) numbers.

With Φ (N, H), targets y (N,), relative precisions w and counts c, the statistics are the upper triangle ``root`` with

    rootᵀ root = Aᵀ A,   A = [√(wc) Φ, √(wc) (y - Φ ref)],   root = [R  z]
                                                                     [0  ρ].

The Gram matrix AᵀA itself, whose condition number is the square of that of A, is never formed. A block of q targets
Y (N, q), with ``ref`` (H, q), has q columns in the place of y: z becomes Z (H, q), and ρ the triangle P (q, q).

A factorisation of [Φ, y] contains the norm of the residual only to 1e-16 ‖y‖. Where the fit is nearly perfect, or y has
a large mean and a small variance, no digit of it may be left. So whenever the residual is far below ‖z‖, the
least-squares solution becomes the new reference ``ref``, and the rows are factored again, with the column y - Φ ref
computed in twice the precision: one step of iterative refinement, done while the rows stream past. Afterwards only
differences from ``ref``, which are small, are multiplied. While ``ref`` is zero, this costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lapack, qr
from scipy.linalg.lapack import dlange

from bdkn.errors import InvalidParameterError, check_number
from bdkn.lazy import lazy
from bdkn.storage.fields import NonNegative, floats, must, stored
from bdkn.typing import FloatArray, IndexArray

EPS = float(np.finfo(np.float64).eps)
"""Distance from 1 to the next larger number in double precision."""

RANK_TOLERANCE = 4.0 * EPS
"""Relative size of a singular value, per column, below which it is a rounding error and counts as zero."""

WELL_CONDITIONED = 1e-6
"""Ratio of smallest to largest singular value above which a QR factor is accurate enough: ten digits are correct."""

Chunk = Sequence[Any]
"""Type of rows that are processed together: (Φ, y[, precision[, counts]]), where precision and counts may be None."""

Directions = tuple[FloatArray, FloatArray, FloatArray]
"""Type: singular values of Φ, the targets in the basis of its left singular vectors, and their residuals."""

_CHUNK_NUMBERS = 2**15
"""Number of matrix entries in one step of a QR factorisation. This quarter of a megabyte stays in the cache, and is
too little for BLAS to start its threads, which on a busy machine cost a hundred times more than they save."""

_MAX_SQUARABLE = 1e150
"""Magnitude of numbers above which their squares may overflow."""

_REFINE_BELOW = 1e-3
"""Ratio of residual norm to norm of the fit below which the reference weights ``ref`` are computed again."""

_MAX_REFERENCE = 1e4
"""Maximum reference weight in ``ref``, relative to the size that the fit needs; larger ones cost correct digits."""

_REFINEMENTS = 2
"""Maximum number of changes of the reference weights ``ref`` when a set of rows is added."""

_REMOVAL_ERROR, _REMOVAL_ERROR_OF_TARGETS = 1e-8, 1e-12
"""Relative rounding errors of columns and of targets that are tolerated when rows are removed."""

_REMOVAL_ROUNDINGS = 64.0
"""Accumulated rounding errors of a column, in units of EPS, that are tolerated when rows are removed."""

_NOT_CONTAINED = (
    "the rows to remove must be among those that were added, with the same targets, precisions and counts; "
    "these were not: build the statistics anew from the rows to keep"
)

_SPLITTER = 134217729.0
"""Veltkamp's constant 2^27 + 1, which splits the 53 bits of a number into two halves whose products are exact."""


class Observations(NamedTuple):
    """Rows Φ of a least-squares problem, with targets relative to the weights ``ref``: r = y - Φ ref.

    Every row is multiplied by its ``scale``, the square root of its precision times its count (None: one).
    """

    phi: NDArray[Any]
    r: FloatArray
    ref: FloatArray
    scale: FloatArray | None = None

    def targets_from(self, ref: FloatArray) -> FloatArray:
        """Return the targets relative to other weights ``ref``, computed as r - Φ (ref - self.ref)."""
        if ref.tolist() == self.ref.tolist():
            return self.r
        step = ref - self.ref
        if step.ndim == 1:
            return residual(self.phi, self.r, step)
        return np.stack([residual(self.phi, r, β) for r, β in zip(self.r.T, step.T, strict=True)], axis=1)

    def columns_from(self, ref: FloatArray) -> FloatArray:
        """Return the scaled rows [Φ, y - Φ ref] for other weights ``ref``, in the column order that LAPACK needs."""
        H, targets = len(ref), self.targets_from(ref)
        targets = targets[:, None] if ref.ndim == 1 else targets
        columns = np.empty((len(targets), H + targets.shape[1]), order="F")
        columns[:, :H], columns[:, H:] = self.phi, targets
        if self.scale is not None:
            columns *= self.scale[:, None]
        return columns


@stored
@dataclass(frozen=True, eq=False)
class Factor:
    """QR factor of rows [Φ, y - Φ ref]: the upper triangle ``root`` = [R Z; 0 P], and the reference weights ``ref``."""

    root: Annotated[FloatArray, floats("W+1", "W+1")]
    ref: Annotated[FloatArray, floats("W")]

    def check(self) -> None:
        """Raise unless ``root`` is an upper triangular matrix."""
        must(not np.tril(self.root, -1).any(), "root must be an upper triangle")

    @classmethod
    def empty(cls, ref: FloatArray) -> Factor:
        """Return the factor of no rows; ``ref`` is (H,) for one target and (H, q) for a block of q targets."""
        width = sum(ref.shape) + (ref.ndim == 1)
        return cls(np.zeros((width, width)), ref)

    @property
    def observations(self) -> Observations:
        """The rows of the triangle as observations: least squares gives the same weights as for the rows added."""
        H = len(self.ref)
        return Observations(self.root[:, :H], self.root[:, H] if self.ref.ndim == 1 else self.root[:, H:], self.ref)

    @lazy
    def denoised(self) -> Denoised:
        """The factor after removal of singular values that are only rounding errors."""
        H = len(self.ref)  # nearly always R is well-conditioned by its singular values, and stays as it is
        U, s, _, failed = lapack.dgesdd(self.root[:H, :H])
        if not failed and s[-1] > WELL_CONDITIONED * s[0]:
            same = Factor(self.root, self.ref)  # not self, which would refer to itself and live until a collection
            return Denoised(same, slice(None), U, s)
        return _carefully_denoised(self)

    def add(self, more: Observations) -> Factor:
        """Return the factor with the rows ``more`` added; ``ref`` is computed again if the residual is not accurate."""
        ref, H = self.ref, len(self.ref)
        root = checked_root(append(self.root, more.columns_from(ref)))
        for _ in range(_REFINEMENTS):
            if ref.ndim == 1:
                *z, ρ = root[:, H].tolist()
                has_lost_digits = abs(ρ) < _REFINE_BELOW * math.hypot(*z)
            else:
                size = np.linalg.norm(root[:H, H:], axis=0)
                has_lost_digits = bool(np.any(np.linalg.norm(root[H:, H:], axis=0) < _REFINE_BELOW * size))
            if not has_lost_digits or np.array_equal(moved := ref + _refinement(root, ref), ref):
                break
            ref = moved
            root = append(self.observations.columns_from(ref), more.columns_from(ref))
        return Factor(root, ref)


class Denoised(NamedTuple):
    """A factor [R Z; 0 P] with R = U diag(s) Vᵀ, in which singular values that are rounding errors are removed.

    Column k belongs to the weight with number ``order[k]``.
    """

    factor: Factor
    order: IndexArray | slice
    U: FloatArray
    s: FloatArray


@stored
@dataclass(frozen=True, eq=False)
class Statistics:
    """Sufficient statistics of rows for a linear model, in square-root form.

    Make them with ``from_rows``, ``from_chunks`` or ``empty``. ``+`` merges the statistics of different rows, and ``-``
    removes rows again.

    Parameters
    ----------
    factor : Factor
        The triangular QR factor of the rows, with its reference weights.
    n : float
        Number of observations, the sum of the counts.
    sum_log_w : float
        Σ c log w over the rows, with counts c and relative precisions w.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import Prior, Statistics, posterior
    >>> Phi, y = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([1.0, 2.0, 4.0])
    >>> stats = Statistics.from_rows(Phi, y)
    >>> stats.n, stats.n_weights, stats.n_targets
    (3.0, 2, 1)
    >>> parts = Statistics.from_rows(Phi[:2], y[:2]) + Statistics.from_rows(Phi[2:], y[2:])
    >>> prior = Prior.isotropic(2, 1.0)
    >>> print(posterior(stats, prior).mean.round(3), posterior(parts, prior).mean.round(3))
    [0.8   1.267] [0.8   1.267]
    """

    factor: Factor
    n: NonNegative
    sum_log_w: float

    @classmethod
    def empty(cls, n_weights: int, n_targets: int | None = None) -> Self:
        """Return the statistics of no rows, for ``n_weights`` weights of one target, or of a block of ``n_targets``."""
        check_number("n_weights", n_weights, low=1, whole=True)
        if n_targets is not None:
            check_number("n_targets", n_targets, low=1, whole=True)
        return cls(Factor.empty(np.zeros(n_weights if n_targets is None else (n_weights, n_targets))), 0.0, 0.0)

    @classmethod
    def from_rows(
        cls,
        Phi: ArrayLike,
        y: ArrayLike,
        *,
        precision: ArrayLike | None = None,
        counts: ArrayLike | None = None,
        chunk_rows: int | None = None,
    ) -> Self:
        """Return the statistics of rows: means Φ (N, H) of the members, and targets y (N,), or a block (N, q).

        Row i is observed with variance σ²/precision_i, and stands for counts_i equal rows. Φ may be in single
        precision. ``chunk_rows`` rows are taken at a time; by default they fill a quarter of a megabyte, or are as many
        as weights.
        """
        return cls.from_chunks([(Phi, y, precision, counts)], chunk_rows=chunk_rows)

    @classmethod
    def from_chunks(cls, chunks: Iterable[Chunk], *, chunk_rows: int | None = None) -> Self:
        """Return the statistics of all chunks ``(Phi, y[, precision[, counts]])``, one in memory at a time."""
        if chunk_rows is not None:
            check_number("chunk_rows", chunk_rows, low=1, whole=True)
        factor: Factor | None = None
        n = sum_log_w = 0.0
        for chunk in chunks:
            rows, more, more_log_w = read_chunk(chunk)
            if factor is None:
                factor = Factor.empty(rows.ref)
            else:
                _check_alike("every chunk", rows.ref, factor.ref)
            width = len(factor.root)
            step = chunk_rows or max(_CHUNK_NUMBERS // width, width)
            for start in range(0, len(rows.r), step):
                some = slice(start, start + step)
                scale = None if rows.scale is None else rows.scale[some]
                factor = factor.add(Observations(rows.phi[some], rows.r[some], rows.ref, scale))
            n, sum_log_w = n + more, sum_log_w + more_log_w
        if factor is None:
            raise InvalidParameterError(
                "chunks must hold at least one (Phi, y); got none: use Statistics.empty(H) for no data"
            )
        return cls(factor, n, sum_log_w)

    @property
    def root(self) -> FloatArray:
        """The upper triangle (H + q, H + q) of the QR factor of the rows, for H weights and q targets."""
        return self.factor.root

    @property
    def ref(self) -> FloatArray:
        """The reference weights that targets are relative to: (H,) for one target, (H, q) for a block."""
        return self.factor.ref

    @property
    def n_weights(self) -> int:
        """The number H of weights of a target."""
        return len(self.factor.ref)

    @property
    def n_targets(self) -> int:
        """The number q of targets."""
        return len(self.factor.root) - len(self.factor.ref)

    def directions(self, mean: ArrayLike) -> Directions:
        """Return the singular values of Φ, and y - Φ ``mean`` in the basis of its singular vectors and as residuals."""
        factor, order, U, s = self.factor.denoised
        μ0 = np.empty_like(factor.ref)
        μ0[:] = mean
        z = factor.observations.targets_from(μ0[order])
        return s, U.T.dot(z[: len(s)]), z[len(μ0) :]

    def merge(self, other: Statistics) -> Self:
        """Return the statistics of both sets of rows together, by a QR factorisation of the stacked factors."""
        _check_alike("other", other.ref, self.ref)
        factor = self.factor.add(other.factor.observations)
        return type(self)(factor, self.n + other.n, self.sum_log_w + other.sum_log_w)

    def remove(self, other: Statistics) -> Self:
        """Return the statistics without the rows of ``other``, which must have been added before.

        It reverses ``merge`` up to rounding. The larger the share of ‖Φ‖² that is removed, the more digits are lost.
        """
        _check_alike("other", other.ref, self.ref)
        left = self.n - other.n
        left = 0.0 if abs(left) <= 1e-12 * self.n else left
        check_number("the number of observations left", left, low=0.0)
        # The largest rounding error of each column; for targets it also depends on their own size, Φ ref.
        H, error = self.n_weights, _REMOVAL_ERROR * np.linalg.norm(self.root, axis=0)
        for ref in (self.ref, other.ref):
            error[H:] += _REMOVAL_ERROR_OF_TARGETS * np.linalg.norm(self.root[:, :H] @ ref, axis=0)
        root = remove(self.root, other.factor.observations.columns_from(self.ref), error)
        if left:
            return type(self)(Factor(root, self.ref), left, self.sum_log_w - other.sum_log_w)
        if np.any(np.linalg.norm(root, axis=0) > np.sqrt(_REMOVAL_ERROR) * np.linalg.norm(self.root, axis=0) + error):
            raise InvalidParameterError(_NOT_CONTAINED)
        return type(self)(Factor.empty(np.zeros_like(self.ref)), 0.0, 0.0)

    def discount(self, factor: float) -> Self:
        """Return the statistics in which every row counts ``factor`` times as much as before.

        The sum of counts is multiplied by ``factor``, the triangle by its square root; this is exact up to rounding.
        """
        check_number("the factor of a discount", factor, low=0.0, strict=True)
        if factor == 1.0:
            return self
        root = np.sqrt(factor) * self.root
        return type(self)(Factor(root, self.ref), factor * self.n, factor * self.sum_log_w)

    __add__ = merge
    __sub__ = remove


def read_chunk(chunk: Chunk) -> tuple[Observations, float, float]:
    """Check a chunk; return its rows, the sum of their counts c, and Σ c log w for precisions w. Φ is not converted."""
    Phi, y, precision, counts = (*chunk, None, None)[:4]
    phi, targets = np.asarray(Phi), np.asarray(y, dtype=np.float64)
    shape = phi.shape[1:] + targets.shape[1:]  # of the weights: (H,), or (H, q) for a block
    if phi.ndim != 2 or targets.ndim not in (1, 2) or len(phi) != len(targets) or 0 in shape:
        raise InvalidParameterError(
            "Phi must be (rows, weights) and y (rows,) or (rows, targets), with at least one weight and one target; "
            f"got {phi.shape} and {targets.shape}"
        )
    rows = Observations(phi, targets, np.zeros(shape))
    if precision is None and counts is None:
        return rows, float(len(targets)), 0.0
    found = []
    for name, given, bound in (("precision", precision, "> 0"), ("counts", counts, ">= 0")):
        values, n = np.asarray(1.0 if given is None else given, dtype=np.float64), len(targets)
        if values.shape not in ((), (n,)):
            raise InvalidParameterError(f"{name} must hold one number for each of {n} rows; got shape {values.shape}")
        wrong = ~np.isfinite(values) | (values <= 0 if bound == "> 0" else values < 0)
        if wrong.any():
            raise InvalidParameterError(f"{name} must be finite and {bound}; got {np.atleast_1d(values[wrong])[0]}")
        found.append(np.broadcast_to(values, (n,)))
    w, c = found
    return rows._replace(scale=np.sqrt(w * c)), float(np.sum(c)), float(c @ np.log(w))


def _check_alike(name: str, given: FloatArray, expected: FloatArray) -> None:
    """Raise unless ``given`` has the same numbers of weights and of targets as ``expected``."""
    if len(given) != len(expected):
        raise InvalidParameterError(f"{name} must have {len(expected)} weights; got {len(given)}")
    if given.shape != expected.shape:
        kinds = ["one target y (rows,)" if ref.ndim == 1 else f"a block of {ref.shape[1]}" for ref in (expected, given)]
        raise InvalidParameterError(f"{name} must have the same targets, {kinds[0]}; got {kinds[1]}")


def append(root: FloatArray, rows: FloatArray) -> FloatArray:
    """Add ``rows`` to a triangular QR factor: return the factor of [root; rows], by Householder reflections.

    LAPACK's ``tpqrt`` takes the triangle and the rows separately, without a copy. Few numbers are processed as one
    block of columns, since products of matrices would take too long to start. Up to four columns are processed one by
    one: only with this rounding is an exact fit computed exactly.
    """
    if len(rows) == 0:
        return root
    width = len(root)
    block = min(8, width if width > 4 and rows.size <= 2**12 else max(1, width // 3))
    factor: FloatArray = lapack.dtpqrt(0, block, np.array(root, order="F"), rows, overwrite_a=1, overwrite_b=1)[0]
    return factor


def checked_root(root: FloatArray) -> FloatArray:
    """Return ``root``; raise if it is too large or not finite, because rows have NaN, infinity or huge numbers."""
    if not dlange("M", root) < _MAX_SQUARABLE:  # for LAPACK, NaN is the largest
        raise InvalidParameterError(
            "Phi and y must be finite, and small enough that their squares do not overflow; "
            "they hold NaN, infinity or magnitudes above 1e150: drop or impute such rows, or rescale"
        )
    return root


def _refinement(root: FloatArray, ref: FloatArray) -> FloatArray:
    """Return the change R⁻¹z of the reference weights to the least-squares solution, for each target.

    It is zero along directions that the rows do not determine, and along directions with a coefficient far larger than
    the fit needs, which occur with few rows and nearly equal columns.
    """
    H = len(ref)
    U, s, Vt, size = _scaled_svd(root[:H, :H])
    step = np.empty((H, len(root) - H))
    for j in range(len(root) - H):
        z = root[:H, H + j]
        c = U.T @ z
        keep = (s > 0.0) & (np.abs(c) * s[0] <= _MAX_REFERENCE * np.linalg.norm(z) * s)
        step[:, j] = Vt[keep].T @ (c[keep] / s[keep]) / size
    return step.reshape(ref.shape)


def _scaled_svd(R: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return U, s, Vᵀ of the SVD of R / size, and the column norms ``size`` of R; rounding errors in s become zero."""
    size = np.linalg.norm(R, axis=0)  # so that the units of the columns do not change what counts as zero
    size[size == 0.0] = 1.0
    U, s, Vt = np.linalg.svd(R / size)
    s[s <= len(R) * RANK_TOLERANCE * s[0]] = 0.0
    return U, s, Vt, size


def _carefully_denoised(given: Factor) -> Denoised:
    """Return the factor [R Z; 0 P] without rounding errors of R that would act like data; R may have any rank.

    Equal columns of Φ leave rounding errors where R should have zeros. The entries of Z in the same rows are not small:
    with a weak prior, they would give large weights. So these entries are moved from Z to P, the residuals.

    Independent columns come first, as many as the rank, the largest in front; the others depend on them linearly. The
    part of a small column in a large one, if it is below the rounding error of the large one, is set to zero: otherwise
    equal columns would differ by a multiple of a column far below them.
    """
    root, H = given.root, len(given.ref)
    _, s, Vt, size = _scaled_svd(root[:H, :H])
    rank, noise = int(np.count_nonzero(s)), H * RANK_TOLERANCE * size
    by_size = np.argsort(-size, kind="stable")
    # Any one of parallel columns can represent the others; ``weights`` prefer a large column to a small one.
    weights = np.linspace(2.0, 1.0, H)
    _, pivots = qr((s > 0.0)[:, None] * Vt[:, by_size] * weights, mode="r", pivoting=True)
    order = by_size[[*np.sort(pivots[:rank]), *pivots[rank:]]]
    Q, R = qr(root[:H, order])
    dependent = R[:, rank:]
    dependent[np.sqrt(np.cumsum(dependent[::-1] ** 2, axis=0))[::-1] <= noise[order[rank:]]] = 0.0
    Z = Q.T @ root[:H, H:]
    clean = np.zeros_like(root)
    clean[:rank] = np.column_stack([R[:rank], Z[:rank]])
    P, rest = root[H:, H:], Z[rank:]
    clean[H:, H:] = np.hypot(np.linalg.norm(rest), P) if len(P) == 1 else append(P, np.array(rest, order="F"))
    return Denoised(Factor(clean, given.ref[order]), order, *_graded_svd(clean[:rank, :H]))


def _graded_svd(R: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return U and s of the SVD of a wide R of full rank; sorting by size keeps the digits of small singular values."""
    Q, R, _ = qr(R, pivoting=True, check_finite=False)
    L, rows = qr(R.T, mode="r", pivoting=True, check_finite=False)
    _, s, Ut = np.linalg.svd(L[: len(R)])
    return Q[:, rows] @ Ut.T, s


def residual(phi: ArrayLike, y: FloatArray, beta: FloatArray) -> FloatArray:
    """Return the residual y - Φβ, computed in twice the working precision and rounded once at the end.

    Every product is split exactly into its rounded value and its rounding error (Veltkamp and Dekker), and every sum,
    too (Knuth). So the relative error is about 1e-16 as long as the terms exceed the residual by less than 1e16. This
    is plain NumPy, with the same results on every platform. The splitting overflows for magnitudes above about 1e300.
    """
    high, low = np.array(y, dtype=np.float64), np.zeros(len(y))
    columns = np.asarray(phi).T
    for h in beta.nonzero()[0]:
        product, product_error = _two_product(columns[h].astype(np.float64), beta[h])
        high, sum_error = _two_sum(high, -product)
        low += sum_error - product_error
    return high + low


def _two_sum(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the rounded sum a + b and its rounding error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: FloatArray, b: float) -> tuple[FloatArray, FloatArray]:
    """Return the rounded product a b and its rounding error."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(np.asarray(b))
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, error


def _split(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return two numbers with the sum ``a``: the upper and the lower half of its bits."""
    shifted = _SPLITTER * a
    high = shifted - (shifted - a)
    return high, a - high


def remove(root: FloatArray, rows: FloatArray, error: FloatArray) -> FloatArray:
    """Remove ``rows`` from a triangular QR factor: return the factor of rootᵀroot - rowsᵀrows.

    For each column k, a reflection gathers the column of ``rows`` in one entry β, then a hyperbolic rotation takes β
    out of the pivot. The new row of the factor is used to compute the rest of the row to remove (mixed form), so that
    rounding errors stay small. A pivot that vanishes up to rounding is set to zero: the rank has dropped. ``error``
    (width,) is the largest error of each column; larger differences raise, since the rows are not part of the factor. A
    rotation that leaves the share c of a pivot divides the errors of the other columns by c.
    """
    R, B = root.copy(), rows.copy()
    size = np.linalg.norm(root, axis=0)
    noise = _REMOVAL_ROUNDINGS * len(R) * EPS
    for k in range(len(R)):
        v = B[:, k].copy()
        norm = float(np.linalg.norm(v))
        if norm > 0.0 and v[1:].any():  # reflect the rows so that all of column k is in its first entry
            β = -np.copysign(norm, v[0])
            v[0] -= β
            B[:, k:] -= np.outer(v / (v @ v / 2.0), v @ B[:, k:])
            B[0, k] = β  # the entries below it are not used again
        r, β = R[k, k], B[0, k]
        gap = (abs(r) - abs(β)) * (abs(r) + abs(β))
        if gap > noise * size[k] ** 2:
            c, s = np.sqrt(gap) / abs(r), β / r
            R[k, k:] = (R[k, k:] - s * B[0, k:]) / c
            B[0, k:] = c * B[0, k:] - s * R[k, k:]
            error = error / c
            continue
        # If the difference is a sum of squares, the pivot bounds the rest of its row.
        largest = np.sqrt(noise) * size[k] * size[k:] + size[k] * error[k:] + (size[k:] + error[k:]) * error[k]
        if gap < -(2.0 * size[k] + error[k]) * error[k] or np.any(np.abs(r * R[k, k:] - β * B[0, k:]) > largest):
            raise InvalidParameterError(_NOT_CONTAINED)
        if k + 1 < len(R):  # the rest of the row belongs to the pivots below
            R[k + 1 :, k + 1 :] = append(R[k + 1 :, k + 1 :], np.array(R[k : k + 1, k + 1 :], order="F"))
        R[k] = 0.0
    return R
