"""Triangular factors R of a Gram matrix RᵀR: put rows in, take rows out, without ever forming the Gram matrix."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack, qr

from bdkn.errors import InvalidParameterError
from bdkn.typing import FloatArray

_EPS = float(np.finfo(np.float64).eps)
_NOISE = 4.0 * _EPS  # a singular value below this times H, relative to the largest, is rounding and means zero
_WELL_CONDITIONED = 1e-6  # a ratio of smallest to largest singular value that leaves ten digits whatever one does
_NARROW = 4  # columns still taken one by one: an exact fit among the tests comes out exact only with that rounding
_FEW = 2**12  # numbers too few for products of matrices to pay
_SLACK = 64.0  # how many roundings a column may have suffered before a removal counts as wrong


def append(root: FloatArray, rows: FloatArray) -> FloatArray:
    """Return the upper-triangular factor of [root; rows] by Householder reflections.

    LAPACK's ``tpqrt`` keeps the triangle apart from the rows below it, so nothing is copied together, and its small
    blocks suit the few columns there are. Few numbers are one block: products of matrices would take longer to start.
    """
    if len(rows) == 0:
        return root
    width = len(root)
    block = min(8, width if width > _NARROW and rows.size <= _FEW else max(1, width // 3))
    factor: FloatArray = lapack.dtpqrt(0, block, np.array(root, order="F"), rows, overwrite_a=1, overwrite_b=1)[0]
    return factor


def remove(root: FloatArray, rows: FloatArray, error: FloatArray) -> FloatArray:
    """Return the upper-triangular factor of rootᵀroot - rowsᵀrows, one column at a time.

    A reflection gathers column k of ``rows`` in one entry β, then a hyperbolic rotation in mixed form (the new row of
    the factor is used to compute the new row that is still to be removed, which keeps the rounding errors small)
    takes β out of the pivot. A pivot that vanishes up to rounding is set to zero: the rank has dropped.
    ``error`` (width,) is how far each column may be off; what cannot be explained by it is an error of the caller.
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
            continue
        # The rest of a row is bounded by its pivot if what is left is a sum of squares.
        largest = np.sqrt(noise) * size[k] * size[k:] + size[k] * error[k:] + (size[k:] + error[k:]) * error[k]
        if gap < -(2.0 * size[k] + error[k]) * error[k] or np.any(np.abs(r * R[k, k:] - β * B[0, k:]) > largest):
            raise not_contained()
        if k + 1 < len(R):  # what is left of the row belongs to the pivots below
            R[k + 1 :, k + 1 :] = append(R[k + 1 :, k + 1 :], np.array(R[k : k + 1, k + 1 :], order="F"))
        R[k] = 0.0
    return R


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
        """The number of directions the rows behind R determine."""
        return int(np.count_nonzero(self.s))


def scaled_svd(R: FloatArray) -> ScaledSVD:
    """Return the decomposition of a square ``R``."""
    size = np.linalg.norm(R, axis=0)
    size[size == 0.0] = 1.0
    U, s, Vt = np.linalg.svd(R / size)
    s[s <= len(R) * _NOISE * s[0]] = 0.0
    return ScaledSVD(U, s, Vt, size)


class Denoised(NamedTuple):
    """A factor [R z; 0 ρ] with R = U diag(s) Vᵀ of exactly the rank it has up to rounding: s holds no zeros.

    Column k belongs to the weight ``order`` puts in place k.
    """

    factor: FloatArray
    order: NDArray[np.intp] | slice
    U: FloatArray
    s: FloatArray


def denoised(root: FloatArray) -> Denoised:
    """Return the factor [R z; 0 ρ] without the rounding errors of R that could be taken for data.

    Nearly always R is well-conditioned, has none that matter, and stays as it is: one singular value decomposition
    tells. All the care is for the others.
    """
    U, s, _, failed = lapack.dgesdd(root[:-1, :-1])
    if not failed and s[-1] > _WELL_CONDITIONED * s[0]:
        return Denoised(root, slice(None), U, s)
    return _carefully_denoised(root)


def _carefully_denoised(root: FloatArray) -> Denoised:
    """Return the same for R of any condition.

    Columns that are equal leave rounding errors where R should hold zeros, in directions that are random, with entries
    of z that are not small. A weak prior would take the two for a large weight. What z has there belongs to ρ.

    As many columns as the rank come first, independent ones, the largest in front; the others are combinations of
    them. How much of a small column there is in a large one is unknown below the rounding error of the large one, and
    is taken to be nothing: else equal columns would differ by a multiple of a column far below them.
    """
    _, s, Vt, size = svd = scaled_svd(root[:-1, :-1])
    rank, noise = svd.rank, len(s) * _NOISE * size
    by_size = np.argsort(-size, kind="stable")
    # Any column may stand for those it is parallel to; the weights prefer a large one to a small one.
    weights = np.linspace(2.0, 1.0, len(s))
    _, pivots = qr((s > 0.0)[:, None] * Vt[:, by_size] * weights, mode="r", pivoting=True)
    order = by_size[[*np.sort(pivots[:rank]), *pivots[rank:]]]
    Q, R = qr(root[:-1, order])
    dependent = R[:, rank:]
    dependent[np.sqrt(np.cumsum(dependent[::-1] ** 2, axis=0))[::-1] <= noise[order[rank:]]] = 0.0
    z = Q.T @ root[:-1, -1]
    factor = np.zeros_like(root)
    factor[:rank] = np.column_stack([R[:rank], z[:rank]])
    factor[-1, -1] = np.hypot(np.linalg.norm(z[rank:]), root[-1, -1])
    return Denoised(factor, order, *_graded_svd(factor[:rank, :-1]))


def _graded_svd(R: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return U and s of a wide R of full rank, whose columns and rows may be of all sizes.

    Pivoting sorts first the columns and then the rows by size, so that small singular values keep their digits.
    """
    Q, R, _ = qr(R, pivoting=True, check_finite=False)
    L, rows = qr(R.T, mode="r", pivoting=True, check_finite=False)
    _, s, Ut = np.linalg.svd(L[: len(R)])
    return Q[:, rows] @ Ut.T, s


def _gather(B: FloatArray, k: int) -> None:
    """Reflect the rows of ``B`` in place so that column k is zero below its first entry."""
    v = B[:, k].copy()
    norm = float(np.linalg.norm(v))
    if norm == 0.0 or not v[1:].any():
        return
    β = -np.copysign(norm, v[0])
    v[0] -= β
    B[:, k:] -= np.outer(v / (v @ v / 2.0), v @ B[:, k:])
    B[:, k] = 0.0
    B[0, k] = β


def not_contained() -> InvalidParameterError:
    """Return the error for rows that cannot be among those behind a factor."""
    return InvalidParameterError(
        "the rows to remove must be among those that were added, with the same targets, precisions and counts; "
        "these were not: build the statistics anew from the rows to keep"
    )


def solve(root: FloatArray, b: FloatArray) -> FloatArray:
    """Return R⁻¹b for R upper-triangular up to the order of its columns, and (H, n) ``b``."""
    x = np.empty_like(b)
    order = triangular_order(root)
    x[order] = blas.dtrsm(1.0, root[:, order], b)
    return x


def log_determinant(root: FloatArray) -> float:
    """Return log|det R| for R upper-triangular up to the order of its columns."""
    pivots = root.diagonal().tolist()
    if 0.0 in pivots:  # the columns are in another order: in all but one, a zero comes to lie on the diagonal
        pivots = root[:, triangular_order(root)].diagonal().tolist()
    return sum(map(math.log, map(abs, pivots)))


def triangular_order(root: FloatArray) -> NDArray[np.intp]:
    """Return the order of the columns that makes ``root``, invertible, triangular: that of their last entries."""
    zeros_below: NDArray[np.intp] = (root[::-1] != 0.0).argmax(axis=0)
    return (-zeros_below).argsort()
