"""Sufficient statistics of a linear model in square-root form: all that N rows tell about H weights, in O(H²) numbers.

With Φ (N, H), targets y (N,), relative precisions w and counts c, they are the upper triangle ``root`` with

    rootᵀ root = Aᵀ A,   A = [√(wc) Φ, √(wc) (y - Φ ref)],   root = [R_Φ  z]
                                                                     [ 0   ρ].

A block of q targets Y (N, q) has q columns in the place of y: z becomes Z (H, q) and ρ the triangle P (q, q). See
``factor`` for the reference ``ref``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from bdkn.errors import InvalidParameterError, check_number
from bdkn.inference.factor import Factor, Observations, not_contained, remove
from bdkn.storage.fields import NonNegative, stored
from bdkn.typing import FloatArray

Chunk = Sequence[Any]
"""(Φ, y), (Φ, y, precision) or (Φ, y, precision, counts); an absent entry may be None."""

# Numbers in a chunk: a quarter of a megabyte stays in the second-level cache, and is too little for BLAS to start its
# threads on, which on a busy machine cost a hundred times more than they bring.
_CACHED = 2**15
_FORGIVEN, _FORGIVEN_TARGETS = 1e-8, 1e-12  # relative rounding after which removed rows still count as those added


@stored
@dataclass(frozen=True, eq=False)
class Statistics:
    """Sufficient statistics of rows for a linear model, in square-root form.

    Make them with ``from_rows``, ``from_chunks`` or ``empty``. Statistics of different rows are merged by ``+`` and
    taken apart by ``-``.

    Parameters
    ----------
    factor : Factor
        The triangular factor of the rows, with its reference.
    n : float
        Number of observations, the sum of the counts.
    sum_log_w : float
        Σ c log w over the rows.

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
        if n_targets is None:
            return cls(Factor.empty(np.zeros(n_weights)), 0.0, 0.0)
        check_number("n_targets", n_targets, low=1, whole=True)
        return cls(Factor.empty(np.zeros((n_weights, n_targets))), 0.0, 0.0)

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
        """Return the statistics of rows.

        Parameters
        ----------
        Phi : array-like (N, H)
            Means of the H members. It may be float32: it is widened ``chunk_rows`` rows at a time.
        y : array-like (N,) or (N, q)
            Targets: one per row, or a block of q per row.
        precision : array-like (N,), optional
            Positive: row i is observed with variance σ²/precision_i.
        counts : array-like (N,), optional
            Not negative: row i stands for counts_i equal rows; a count of zero leaves it out.
        chunk_rows : int, optional
            Rows taken at a time; by default they fill a quarter of a megabyte, or are as many as weights.
        """
        return cls.from_chunks([(Phi, y, precision, counts)], chunk_rows=chunk_rows)

    @classmethod
    def from_chunks(cls, chunks: Iterable[Chunk], *, chunk_rows: int | None = None) -> Self:
        """Return the statistics of all chunks ``(Phi, y[, precision[, counts]])``, of which one at a time is held."""
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
            for part in rows.parts(chunk_rows or max(_CACHED // width, width)):
                factor = factor.add(part)
            n, sum_log_w = n + more, sum_log_w + more_log_w
        if factor is None:
            raise InvalidParameterError(
                "chunks must hold at least one (Phi, y); got none: use Statistics.empty(H) for no data"
            )
        return cls(factor, n, sum_log_w)

    @property
    def root(self) -> FloatArray:
        """The triangular factor (H + q, H + q)."""
        return self.factor.root

    @property
    def ref(self) -> FloatArray:
        """The weights that targets are relative to: (H,) for one target, (H, q) for a block."""
        return self.factor.ref

    @property
    def n_weights(self) -> int:
        """The number H of weights of a target."""
        return len(self.factor.ref)

    @property
    def n_targets(self) -> int:
        """The number q of targets."""
        return len(self.factor.root) - len(self.factor.ref)

    def merge(self, other: Statistics) -> Self:
        """Return the statistics of the rows of both, by a QR factorisation of the stacked factors."""
        _check_alike("other", other.ref, self.ref)
        factor = self.factor.add(other.factor.observations)
        return type(self)(factor, self.n + other.n, self.sum_log_w + other.sum_log_w)

    def remove(self, other: Statistics) -> Self:
        """Return the statistics without the rows of ``other``, which must have been added before.

        The opposite of ``merge`` up to rounding: it loses digits in proportion to how much of ‖Φ‖² it takes away.
        """
        _check_alike("other", other.ref, self.ref)
        left = self.n - other.n
        left = 0.0 if abs(left) <= 1e-12 * self.n else left
        check_number("the number of observations left", left, low=0.0)
        error = self._error(other)
        root = remove(self.root, other.factor.observations.columns_from(self.ref), error)
        if left:
            return type(self)(Factor(root, self.ref), left, self.sum_log_w - other.sum_log_w)
        if np.any(np.linalg.norm(root, axis=0) > np.sqrt(_FORGIVEN) * np.linalg.norm(self.root, axis=0) + error):
            raise not_contained()
        return type(self)(Factor.empty(np.zeros_like(self.ref)), 0.0, 0.0)

    def discount(self, factor: float) -> Self:
        """Return the statistics in which every row counts ``factor`` times as much as before.

        Counts enter as Σ c over rows and as √c in the factor, so nothing is lost but for rounding.
        """
        check_number("the factor of a discount", factor, low=0.0, strict=True)
        if factor == 1.0:
            return self
        root = np.sqrt(factor) * self.root
        return type(self)(Factor(root, self.ref), factor * self.n, factor * self.sum_log_w)

    __add__ = merge
    __sub__ = remove

    def _error(self, other: Statistics) -> FloatArray:
        """Return how far rounding may have moved each column; the targets round in units of their own size, Φ ref."""
        H, error = self.n_weights, _FORGIVEN * np.linalg.norm(self.root, axis=0)
        for ref in (self.ref, other.ref):
            error[H:] += _FORGIVEN_TARGETS * np.linalg.norm(self.root[:, :H] @ ref, axis=0)
        return np.asarray(error)


def read_chunk(chunk: Chunk) -> tuple[Observations, float, float]:
    """Return the rows of a chunk, their number and Σ c log w; Φ keeps its dtype until a slice of it is used."""
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
    n = len(targets)
    w, c = _per_row("precision", precision, n, strict=True), _per_row("counts", counts, n, strict=False)
    return rows._replace(scale=np.sqrt(w * c)), float(np.sum(c)), float(c @ np.log(w))


def _per_row(name: str, given: ArrayLike | None, n: int, *, strict: bool) -> FloatArray:
    """Return one number per row, ones if none are given; each must be positive, or not negative if not ``strict``."""
    values = np.asarray(1.0 if given is None else given, dtype=np.float64)
    if values.shape not in ((), (n,)):
        raise InvalidParameterError(f"{name} must hold one number for each of {n} rows; got shape {values.shape}")
    wrong = ~np.isfinite(values) | (values <= 0 if strict else values < 0)
    if wrong.any():
        bound = "> 0" if strict else ">= 0"
        raise InvalidParameterError(f"{name} must be finite and {bound}; got {np.atleast_1d(values[wrong])[0]}")
    return np.broadcast_to(values, (n,))


def _check_alike(name: str, given: FloatArray, expected: FloatArray) -> None:
    """Raise unless ``name`` has weights, and targets, of the ``expected`` numbers."""
    if len(given) != len(expected):
        raise InvalidParameterError(f"{name} must have {len(expected)} weights; got {len(given)}")
    if given.shape != expected.shape:
        kinds = ["one target y (rows,)" if ref.ndim == 1 else f"a block of {ref.shape[1]}" for ref in (expected, given)]
        raise InvalidParameterError(f"{name} must have the same targets, {kinds[0]}; got {kinds[1]}")
