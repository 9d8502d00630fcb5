"""Remove rows from a triangular factor, the opposite of adding them; no part of a fit."""

from __future__ import annotations

import numpy as np

from bdkn.errors import InvalidParameterError
from bdkn.inference.factor import append
from bdkn.typing import FloatArray

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
