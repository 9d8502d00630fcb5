"""Sufficient statistics of a linear model in square-root form: all that N rows say about the weights, in O(H²) numbers.

With Φ (N, H), y (N,), relative precisions w and counts c, the factor is the upper triangle ``root`` with

    rootᵀ root = Aᵀ A,   A = [√(wc) Φ, √(wc) (y - Φ ref)],   root = [R_Φ  z]
                                                                     [ 0   ρ].

Its condition number is that of Φ; the normal equations ΦᵀΦ would square it.

The reference ``ref``. A QR factorisation of [Φ, y] knows the residual norm ρ only to 1e-16 ‖y‖. Where the fit is
nearly perfect, or y has a large mean and a small spread, no digit of ρ may be left. So whenever ρ turns out far below
‖z‖, the least-squares solution becomes the new reference and the rows are factored again, as [Φ, y - Φ ref] with the
new column computed in twice the precision: one step of iterative refinement, done while the rows stream past.
Afterwards only differences from ``ref``, which are small, are ever multiplied. While ``ref`` is zero it costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dlange

from bdkn.errors import InvalidParameterError, check_number
from bdkn.inference import triangular
from bdkn.inference.residual import residual
from bdkn.typing import FloatArray

Chunk = Sequence[Any]  # (Φ, y), (Φ, y, precision) or (Φ, y, precision, counts); an absent entry may be None

# Numbers in a chunk: a quarter of a megabyte stays in the second-level cache, and is too little for BLAS to start its
# threads on, which on a busy machine cost a hundred times more than they bring.
_CACHED = 2**15
_FAR_BELOW = 1e-3  # of ‖z‖: from here on the residual norm has lost three digits, and a reference pays
_TOO_LARGE = 1e4  # a reference this much larger than the fit needs would cost digits in ref + R⁻¹z
_REFINEMENTS = 2
_OVERFLOWS = 1e150  # when squared, all but
_FORGIVEN, _FORGIVEN_TARGETS = 1e-8, 1e-12  # relative rounding after which removed rows still count as those added


class Rows(NamedTuple):
    """Rows of a least-squares problem whose targets are counted from the weights ``ref``: r = y - Φ ref."""

    phi: NDArray[Any]
    r: FloatArray
    ref: FloatArray
    scale: FloatArray | None = None

    def parts(self, step: int) -> Iterable[Rows]:
        """Return the rows, ``step`` at a time."""
        if 0 < len(self.r) <= step:
            return (self,)
        return (self._part(slice(start, start + step)) for start in range(0, len(self.r), step))

    def _part(self, some: slice) -> Rows:
        return Rows(self.phi[some], self.r[some], self.ref, None if self.scale is None else self.scale[some])

    def targets_from(self, ref: FloatArray) -> FloatArray:
        """Return the targets counted from other weights, r - Φ (ref - self.ref)."""
        return self.r if ref.tolist() == self.ref.tolist() else residual(self.phi, self.r, ref - self.ref)

    def seen_from(self, ref: FloatArray) -> FloatArray:
        """Return [Φ, ``targets_from(ref)``] with the rows scaled, in the column order LAPACK wants."""
        seen = np.empty((len(self.r), len(ref) + 1), order="F")
        seen[:, :-1] = self.phi
        seen[:, -1] = self.targets_from(ref)
        if self.scale is not None:
            seen *= self.scale[:, None]
        return seen


@dataclass(frozen=True, eq=False)
class Statistics:
    """What the rows added so far say about the weights; see the module for the symbols.

    ``n`` is the number of observations (the sum of the counts), ``sum_log_w`` is Σ c log w.
    """

    root: FloatArray
    ref: FloatArray
    n: float
    sum_log_w: float

    @classmethod
    def empty(cls, n_weights: int) -> Self:
        """Return the statistics of no rows, for ``n_weights`` weights."""
        check_number("n_weights", n_weights, low=1, whole=True)
        return cls(np.zeros((n_weights + 1, n_weights + 1)), np.zeros(n_weights), 0.0, 0.0)

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
        """Return the statistics of the rows of ``Phi`` (N, H) with targets ``y`` (N,).

        ``precision`` (N,), positive: row i is observed with variance σ²/precision_i. ``counts`` (N,), not negative:
        row i stands for counts_i equal rows; a count of zero leaves it out. ``Phi`` may be float32: it is widened
        ``chunk_rows`` rows at a time, which by default fill a quarter of a megabyte.
        """
        return cls.from_chunks([(Phi, y, precision, counts)], chunk_rows=chunk_rows)

    @classmethod
    def from_chunks(cls, chunks: Iterable[Chunk], *, chunk_rows: int | None = None) -> Self:
        """Return the statistics of all chunks ``(Phi, y[, precision[, counts]])``, of which one at a time is held."""
        if chunk_rows is not None:
            check_number("chunk_rows", chunk_rows, low=1, whole=True)
        factor: tuple[FloatArray, FloatArray] | None = None
        n = sum_log_w = 0.0
        for chunk in chunks:
            rows, more, more_log_w = _read(chunk)
            root, ref = factor or (np.zeros((len(rows.ref) + 1, len(rows.ref) + 1)), rows.ref)
            check_width("every chunk", len(rows.ref), len(ref))
            for part in rows.parts(chunk_rows or max(1, _CACHED // len(root))):
                root, ref = fold(root, ref, part)
            factor, n, sum_log_w = (root, ref), n + more, sum_log_w + more_log_w
        if factor is None:
            raise InvalidParameterError(
                "chunks must hold at least one (Phi, y); got none: use Statistics.empty(H) for no data"
            )
        return cls(*factor, n, sum_log_w)

    @property
    def n_weights(self) -> int:
        """The number H of weights."""
        return len(self.ref)

    @cached_property
    def denoised(self) -> triangular.Denoised:
        """The root with exactly the rank it has up to rounding, the order of its columns, and its singular values."""
        return triangular.denoised(self.root)

    def merge(self, other: Statistics) -> Self:
        """Return the statistics of the rows of both, by a QR factorisation of the stacked factors."""
        check_width("other", other.n_weights, self.n_weights)
        root, ref = fold(self.root, self.ref, as_rows(other.root, other.ref))
        return type(self)(root, ref, self.n + other.n, self.sum_log_w + other.sum_log_w)

    def remove(self, other: Statistics) -> Self:
        """Return the statistics without the rows of ``other``, which must have been added before.

        The opposite of ``merge`` up to rounding: it loses digits in proportion to how much of ‖Φ‖² it takes away.
        """
        check_width("other", other.n_weights, self.n_weights)
        left = self.n - other.n
        left = 0.0 if abs(left) <= 1e-12 * self.n else left
        check_number("the number of observations left", left, low=0.0)
        error = self._error(other)
        root = triangular.remove(self.root, as_rows(other.root, other.ref).seen_from(self.ref), error)
        if left:
            return type(self)(root, self.ref, left, self.sum_log_w - other.sum_log_w)
        if np.any(np.linalg.norm(root, axis=0) > np.sqrt(_FORGIVEN) * np.linalg.norm(self.root, axis=0) + error):
            raise triangular.not_contained()
        return self.empty(self.n_weights)

    __add__ = merge
    __sub__ = remove

    def _error(self, other: Statistics) -> FloatArray:
        """Return how far rounding may have moved each column; the targets round in units of their own size, Φ ref."""
        error = _FORGIVEN * np.linalg.norm(self.root, axis=0)
        for ref in (self.ref, other.ref):
            error[-1] += _FORGIVEN_TARGETS * np.linalg.norm(self.root[:, :-1] @ ref)
        return np.asarray(error)


def as_rows(root: FloatArray, ref: FloatArray) -> Rows:
    """Return a factor read as rows: H + 1 observations that say what all those behind it did."""
    return Rows(root[:, :-1], root[:, -1], ref)


def fold(root: FloatArray, ref: FloatArray, more: Rows) -> tuple[FloatArray, FloatArray]:
    """Return root and reference with ``more`` rows added; the reference moves where that pays."""
    before = root, ref
    root = _checked_root(triangular.append(root, more.seen_from(ref)))
    for _ in range(_REFINEMENTS):
        if not _has_lost_digits(root) or np.array_equal(moved := ref + _refinement(root), ref):
            break
        ref = moved
        root = triangular.append(as_rows(*before).seen_from(ref), more.seen_from(ref))
    return root, ref


def _has_lost_digits(root: FloatArray) -> bool:
    """Return whether the residual norm ρ is so far below ‖z‖ that another reference pays."""
    *z, ρ = root[:, -1].tolist()
    return bool(abs(ρ) < _FAR_BELOW * math.hypot(*z))


def _refinement(root: FloatArray) -> FloatArray:
    """Return the least-squares step R⁻¹z from the reference.

    Directions the rows do not determine are left where they are. So are those with a coefficient far larger than the
    fit needs, which happens with few rows and nearly equal columns.
    """
    z = root[:-1, -1]
    norm = np.linalg.norm(z)
    U, s, Vt, size = triangular.scaled_svd(root[:-1, :-1])
    c = U.T @ z
    keep = (s > 0.0) & (np.abs(c) * s[0] <= _TOO_LARGE * norm * s)
    step: FloatArray = Vt[keep].T @ (c[keep] / s[keep]) / size
    return step


def _read(chunk: Chunk) -> tuple[Rows, float, float]:
    """Return the rows of a chunk, their number and Σ c log w; Φ keeps its dtype until a slice of it is used."""
    Phi, y, precision, counts = (*chunk, None, None)[:4]
    phi, targets = np.asarray(Phi), np.asarray(y, dtype=np.float64)
    if phi.ndim != 2 or phi.shape[1] == 0 or targets.shape != phi.shape[:1]:
        raise InvalidParameterError(
            f"Phi must be (rows, weights) and y (rows,), with at least one weight; got {phi.shape} and {targets.shape}"
        )
    rows = Rows(phi, targets, np.zeros(phi.shape[1]))
    if precision is None and counts is None:
        return rows, float(len(targets)), 0.0
    w, c = _per_row("precision", precision, targets, strict=True), _per_row("counts", counts, targets, strict=False)
    return rows._replace(scale=np.sqrt(w * c)), float(np.sum(c)), float(c @ np.log(w))


def _per_row(name: str, given: ArrayLike | None, y: FloatArray, *, strict: bool) -> FloatArray:
    """Return one number a row, ones if nothing was given; each must be above zero, or with ``strict`` off at least."""
    values = np.asarray(1.0 if given is None else given, dtype=np.float64)
    if values.shape not in ((), y.shape):
        raise InvalidParameterError(f"{name} must hold one number for each of {len(y)} rows; got shape {values.shape}")
    wrong = ~np.isfinite(values) | (values <= 0 if strict else values < 0)
    if wrong.any():
        bound = "> 0" if strict else ">= 0"
        raise InvalidParameterError(f"{name} must be finite and {bound}; got {np.atleast_1d(values[wrong])[0]}")
    return np.broadcast_to(values, y.shape)


def _checked_root(root: FloatArray) -> FloatArray:
    """Return the factor if it is finite: a NaN or infinity in any row reaches it, so the rows need no pass for that."""
    if not dlange("M", root) < _OVERFLOWS:  # LAPACK takes NaN for the largest
        raise InvalidParameterError(
            "Phi and y must be finite, and small enough that their squares do not overflow; "
            "they hold NaN, infinity or magnitudes above 1e150: drop or impute such rows, or rescale"
        )
    return root


def check_width(name: str, given: int, expected: int) -> None:
    """Raise unless ``name`` is about the ``expected`` number of weights."""
    if given != expected:
        raise InvalidParameterError(f"{name} must be about {expected} weights; got one about {given}")
