"""Triangular factors: solving, extending and removing rows.

With the upper triangle ``root`` = [R Z; 0 P] of A = [Φ, y - Φ ref], rootᵀ root = AᵀA. The Gram matrix AᵀA itself, whose
condition number is the square of that of A, is never formed.

A factorisation of [Φ, y] knows the norm of the residual only to 1e-16 ‖y‖. Where the fit is nearly perfect, or y has a
large mean and a small variance, no digit of it may be left. So whenever the residual is far below ‖Z‖, the
least-squares solution becomes the new reference ``ref`` and the rows are factored again, as [Φ, y - Φ ref] with the new
column computed in twice the precision: one step of iterative refinement, done while the rows stream past. Afterwards
only differences from ``ref``, which are small, are multiplied. While ``ref`` is zero it costs nothing.

One target is a vector y (n,) with ``ref`` (H,); a block of q targets is a matrix Y (n, q) with ``ref`` (H, q). Both are
columns to the right of Φ here, and the same code serves both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lapack, qr
from scipy.linalg.lapack import dlange

from bdkn.errors import InvalidParameterError
from bdkn.lazy import lazy
from bdkn.storage.fields import floats, must, stored
from bdkn.typing import FloatArray, IndexArray

NOISE = 4.0 * float(np.finfo(np.float64).eps)
"""A singular value below H times this, relative to the largest, is rounding error and means zero."""

WELL_CONDITIONED = 1e-6
"""A ratio of smallest to largest singular value that leaves ten digits in any case."""

_NARROW = 4  # columns still taken one by one: an exact fit among the tests comes out exact only with that rounding
_FEW = 2**12  # numbers too few for products of matrices to pay
_FAR_BELOW = 1e-3  # of ‖z‖: from here on the residual norm has lost three digits, and a reference pays
_TOO_LARGE = 1e4  # a reference this much larger than the fit needs would cost digits in ref + R⁻¹z
_REFINEMENTS = 2
_OVERFLOWS = 1e150  # the square of a larger number nearly overflows

# Veltkamp's constant 2^27 + 1: times x, it splits the 53 bits of x into two halves whose products are exact.
_SPLITTER = 134217729.0


class Observations(NamedTuple):
    """Rows of a least-squares problem with targets relative to the weights ``ref``: r = y - Φ ref.

    Every row is multiplied by its ``scale``, the square root of its precision times its count (None: one).
    """

    phi: NDArray[Any]
    r: FloatArray
    ref: FloatArray
    scale: FloatArray | None = None

    def parts(self, step: int) -> Iterable[Observations]:
        """Return the rows, ``step`` at a time."""
        return (self._part(slice(start, start + step)) for start in range(0, len(self.r), step))

    def _part(self, some: slice) -> Observations:
        return Observations(self.phi[some], self.r[some], self.ref, None if self.scale is None else self.scale[some])

    def targets_from(self, ref: FloatArray) -> FloatArray:
        """Return the targets relative to other weights, r - Φ (ref - self.ref)."""
        if ref.tolist() == self.ref.tolist():
            return self.r
        step = ref - self.ref
        if step.ndim == 1:
            return residual(self.phi, self.r, step)
        return np.stack([residual(self.phi, r, β) for r, β in zip(self.r.T, step.T, strict=True)], axis=1)

    def columns_from(self, ref: FloatArray) -> FloatArray:
        """Return [Φ, ``targets_from(ref)``] with the rows scaled, in the column order LAPACK needs."""
        H, targets = len(ref), self.targets_from(ref)
        if ref.ndim == 1:
            columns = np.empty((len(targets), H + 1), order="F")
            columns[:, H] = targets
        else:
            columns = np.empty((len(targets), sum(ref.shape)), order="F")
            columns[:, H:] = targets
        columns[:, :H] = self.phi
        if self.scale is not None:
            columns *= self.scale[:, None]
        return columns


@stored
@dataclass(frozen=True, eq=False)
class Factor:
    """The upper-triangular ``root`` of rows [Φ, y - Φ ref]; see the module for the symbols."""

    root: Annotated[FloatArray, floats("W+1", "W+1")]
    ref: Annotated[FloatArray, floats("W")]

    def check(self) -> None:
        """Raise unless the root is an upper triangle."""
        must(not np.tril(self.root, -1).any(), "root must be an upper triangle")

    @classmethod
    def empty(cls, ref: FloatArray) -> Factor:
        """Return the factor of no rows; ``ref`` is (H,) for one target and (H, q) for a block of q."""
        width = sum(ref.shape) + (ref.ndim == 1)
        return cls(np.zeros((width, width)), ref)

    @property
    def observations(self) -> Observations:
        """The factor read as rows: as many observations as it has columns, equivalent to all rows behind it."""
        H = len(self.ref)
        return Observations(self.root[:, :H], self.root[:, H] if self.ref.ndim == 1 else self.root[:, H:], self.ref)

    @lazy
    def denoised(self) -> Denoised:
        """The factor with exactly the rank it has up to rounding, the order of its columns, and its singular values.

        Nearly always R is well-conditioned, has no rounding errors that matter, and stays as it is: its singular values
        tell. The others need care.
        """
        H = len(self.ref)
        U, s, _, failed = lapack.dgesdd(self.root[:H, :H])
        if not failed and s[-1] > WELL_CONDITIONED * s[0]:
            same = Factor(self.root, self.ref)  # not self, which would refer to itself and live until a collection
            return Denoised(same, slice(None), U, s)
        return _carefully_denoised(self)

    def add(self, more: Observations) -> Factor:
        """Return the factor with ``more`` rows; the reference moves where that pays."""
        ref = self.ref
        root = checked_root(append(self.root, more.columns_from(ref)))
        for _ in range(_REFINEMENTS):
            if not _has_lost_digits(root, len(ref)) or np.array_equal(moved := ref + _refinement(root, ref), ref):
                break
            ref = moved
            root = append(self.observations.columns_from(ref), more.columns_from(ref))
        return Factor(root, ref)


class Denoised(NamedTuple):
    """A factor [R Z; 0 P] with R = U diag(s) Vᵀ of exactly the rank it has up to rounding: s holds no zeros.

    Column k belongs to the weight with number ``order[k]``.
    """

    factor: Factor
    order: IndexArray | slice
    U: FloatArray
    s: FloatArray


def append(root: FloatArray, rows: FloatArray) -> FloatArray:
    """Return the upper-triangular factor of [root; rows] by Householder reflections.

    LAPACK's ``tpqrt`` keeps the triangle apart from the rows below it, so nothing is copied together, and its small
    blocks suit few columns. Few numbers are one block: products of matrices would take longer to start.
    """
    if len(rows) == 0:
        return root
    width = len(root)
    block = min(8, width if width > _NARROW and rows.size <= _FEW else max(1, width // 3))
    factor: FloatArray = lapack.dtpqrt(0, block, np.array(root, order="F"), rows, overwrite_a=1, overwrite_b=1)[0]
    return factor


def checked_root(root: FloatArray) -> FloatArray:
    """Return the root if it is finite: a NaN or infinity in any row reaches it, so the rows need no check for that."""
    if not dlange("M", root) < _OVERFLOWS:  # for LAPACK, NaN is the largest
        raise InvalidParameterError(
            "Phi and y must be finite, and small enough that their squares do not overflow; "
            "they hold NaN, infinity or magnitudes above 1e150: drop or impute such rows, or rescale"
        )
    return root


def _has_lost_digits(root: FloatArray, H: int) -> bool:
    """Return whether the residual norm of a target is so far below its ‖z‖ that another reference pays."""
    if len(root) == H + 1:
        *z, ρ = root[:, H].tolist()
        return bool(abs(ρ) < _FAR_BELOW * math.hypot(*z))
    return bool(np.any(np.linalg.norm(root[H:, H:], axis=0) < _FAR_BELOW * np.linalg.norm(root[:H, H:], axis=0)))


def _refinement(root: FloatArray, ref: FloatArray) -> FloatArray:
    """Return the least-squares step R⁻¹z from the reference, for each target.

    Directions that the rows do not determine are left where they are. So are those with a coefficient far larger than
    the fit needs, which happens with few rows and nearly equal columns.
    """
    H = len(ref)
    U, s, Vt, size = scaled_svd(root[:H, :H])
    step = np.empty((H, len(root) - H))
    for j in range(len(root) - H):
        z = root[:H, H + j]
        c = U.T @ z
        keep = (s > 0.0) & (np.abs(c) * s[0] <= _TOO_LARGE * np.linalg.norm(z) * s)
        step[:, j] = Vt[keep].T @ (c[keep] / s[keep]) / size
    return step.reshape(ref.shape)


class ScaledSVD(NamedTuple):
    """R = U diag(s) Vt diag(size): a singular value decomposition with columns of equal size, zeros where s is noise.

    Scaled so, what counts as zero does not depend on the units of the columns.
    """

    U: FloatArray
    s: FloatArray
    Vt: FloatArray
    size: FloatArray

    @property
    def rank(self) -> int:
        """The number of directions that the rows behind R determine."""
        return int(np.count_nonzero(self.s))


def scaled_svd(R: FloatArray) -> ScaledSVD:
    """Return the decomposition of a square ``R``."""
    size = np.linalg.norm(R, axis=0)
    size[size == 0.0] = 1.0
    U, s, Vt = np.linalg.svd(R / size)
    s[s <= len(R) * NOISE * s[0]] = 0.0
    return ScaledSVD(U, s, Vt, size)


def _carefully_denoised(given: Factor) -> Denoised:
    """Return the factor [R Z; 0 P] without the rounding errors of R that could be taken for data, for R of any rank.

    Columns that are equal leave rounding errors where R should hold zeros, in directions that are random, with entries
    of Z that are not small. A weak prior would take the two for a large weight. What Z has there belongs to P.

    As many columns as the rank come first, independent ones, the largest in front; the others are combinations of
    them. How much of a small column there is in a large one is unknown below the rounding error of the large one, and
    is taken to be nothing: else equal columns would differ by a multiple of a column far below them.
    """
    root, H = given.root, len(given.ref)
    _, s, Vt, size = svd = scaled_svd(root[:H, :H])
    rank, noise = svd.rank, len(s) * NOISE * size
    by_size = np.argsort(-size, kind="stable")
    # Any column may stand for those it is parallel to; the weights prefer a large one to a small one.
    weights = np.linspace(2.0, 1.0, len(s))
    _, pivots = qr((s > 0.0)[:, None] * Vt[:, by_size] * weights, mode="r", pivoting=True)
    order = by_size[[*np.sort(pivots[:rank]), *pivots[rank:]]]
    Q, R = qr(root[:H, order])
    dependent = R[:, rank:]
    dependent[np.sqrt(np.cumsum(dependent[::-1] ** 2, axis=0))[::-1] <= noise[order[rank:]]] = 0.0
    Z = Q.T @ root[:H, H:]
    clean = np.zeros_like(root)
    clean[:rank] = np.column_stack([R[:rank], Z[:rank]])
    clean[H:, H:] = _joined(root[H:, H:], Z[rank:])
    return Denoised(Factor(clean, given.ref[order]), order, *_graded_svd(clean[:rank, :H]))


def _joined(P: FloatArray, rest: FloatArray) -> FloatArray:
    """Return the triangular factor of [P; rest]."""
    if len(P) == 1:
        return np.hypot(np.linalg.norm(rest), P)
    return append(P, np.array(rest, order="F"))


def _graded_svd(R: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return U and s of a wide R of full rank, whose columns and rows may be of all sizes.

    Pivoting sorts first the columns and then the rows by size, so that small singular values keep their digits.
    """
    Q, R, _ = qr(R, pivoting=True, check_finite=False)
    L, rows = qr(R.T, mode="r", pivoting=True, check_finite=False)
    _, s, Ut = np.linalg.svd(L[: len(R)])
    return Q[:, rows] @ Ut.T, s


def residual(phi: ArrayLike, y: FloatArray, beta: FloatArray) -> FloatArray:
    """Return y - Φβ in twice the working precision, rounded once at the end.

    Every product is split exactly into its rounded value and its rounding error (Veltkamp and Dekker), every sum
    likewise (Knuth), so the relative error is about 1e-16 as long as the terms exceed the residual by less than 1e16.
    Plain NumPy, hence the same on every platform. The splitting overflows for magnitudes above about 1e300.
    """
    high, low = np.array(y, dtype=np.float64), np.zeros(len(y))
    columns = np.asarray(phi).T
    for h in beta.nonzero()[0]:
        product, product_error = _two_product(columns[h].astype(np.float64), beta[h])
        high, sum_error = _two_sum(high, -product)
        low += sum_error - product_error
    return high + low


def _two_sum(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return fl(a + b) and its rounding error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: FloatArray, b: float) -> tuple[FloatArray, FloatArray]:
    """Return fl(a b) and its rounding error."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(np.asarray(b))
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, error


def _split(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the upper and the lower half of the bits of ``a``."""
    shifted = _SPLITTER * a
    high = shifted - (shifted - a)
    return high, a - high


_EPS = float(np.finfo(np.float64).eps)
_SLACK = 64.0  # how many rounding errors a column may have collected before a removal counts as wrong


def remove(root: FloatArray, rows: FloatArray, error: FloatArray) -> FloatArray:
    """Return the upper-triangular factor of rootᵀroot - rowsᵀrows, one column at a time.

    A reflection gathers column k of ``rows`` in one entry β, then a hyperbolic rotation in mixed form (the new row of
    the factor is used to compute the new row that is still to be removed, which keeps the rounding errors small)
    takes β out of the pivot. A pivot that vanishes up to rounding is set to zero: the rank has dropped.
    ``error`` (width,) is how far each column may be off; a larger gap is an error of the caller. A rotation that leaves
    the share c of a pivot divides the errors of the other columns by c.
    """
    R, B = root.copy(), rows.copy()
    size = np.linalg.norm(root, axis=0)
    noise = _SLACK * len(R) * _EPS
    for k in range(len(R)):
        _gather(B, k)
        r, β = R[k, k], B[0, k]
        gap = (abs(r) - abs(β)) * (abs(r) + abs(β))
        if gap > noise * size[k] ** 2:
            c, s = np.sqrt(gap) / abs(r), β / r
            R[k, k:] = (R[k, k:] - s * B[0, k:]) / c
            B[0, k:] = c * B[0, k:] - s * R[k, k:]
            error = error / c
            continue
        # The rest of a row is bounded by its pivot if the difference is a sum of squares.
        largest = np.sqrt(noise) * size[k] * size[k:] + size[k] * error[k:] + (size[k:] + error[k:]) * error[k]
        if gap < -(2.0 * size[k] + error[k]) * error[k] or np.any(np.abs(r * R[k, k:] - β * B[0, k:]) > largest):
            raise not_contained()
        if k + 1 < len(R):  # the rest of the row belongs to the pivots below
            R[k + 1 :, k + 1 :] = append(R[k + 1 :, k + 1 :], np.array(R[k : k + 1, k + 1 :], order="F"))
        R[k] = 0.0
    return R


def _gather(B: FloatArray, k: int) -> None:
    """Reflect the rows of ``B`` in place so that all of column k is in its first entry."""
    v = B[:, k].copy()
    norm = float(np.linalg.norm(v))
    if norm == 0.0 or not v[1:].any():
        return
    β = -np.copysign(norm, v[0])
    v[0] -= β
    B[:, k:] -= np.outer(v / (v @ v / 2.0), v @ B[:, k:])
    B[0, k] = β  # what is below is not used again


def not_contained() -> InvalidParameterError:
    """Return the error for rows that cannot be among those behind a factor."""
    return InvalidParameterError(
        "the rows to remove must be among those that were added, with the same targets, precisions and counts; "
        "these were not: build the statistics anew from the rows to keep"
    )
