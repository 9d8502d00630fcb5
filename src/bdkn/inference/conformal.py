"""Cross-conformal intervals (CV+) around a combination, from held-out rows.

Each of the n rows has a predictor fᵢ: the fits of all members that were made without row i, combined with the posterior
weights without row i. With centres fᵢ(x), scales sᵢ(x) and scores Rᵢ = |yᵢ - fᵢ(xᵢ)|/sᵢ(xᵢ), the interval of a row x is

    [⌊α(n + 1)⌋-th smallest of fᵢ(x) - Rᵢ sᵢ(x),   ⌈(1 - α)(n + 1)⌉-th smallest of fᵢ(x) + Rᵢ sᵢ(x)]

(Barber, Candès, Ramdas and Tibshirani, 2021). If the rows i and x have weights, these replace the equal shares
1/(n + 1) (Tibshirani et al., 2019; Prinster, Liu and Saria, 2022).

The K fits of a member have K outputs for x; a matrix of zeros and ones selects the outputs for fᵢ, so that all centres
fᵢ(x) are one product of matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.blocks import LARGE_CELLS, row_slices, rows_within
from bdkn.inference.posterior import Posterior, solve
from bdkn.inference.rowwise import leverage, whitened
from bdkn.typing import FloatArray

_ROUNDING = 1e-12
"""Tolerance for rounding errors of a coverage, so that they do not change the rank of a quantile."""


Outputs = tuple[FloatArray, FloatArray, FloatArray]
"""Type of predictions by K fits per member: means (K, m, H), variances (K, m, V), (m,) to add to squared scales."""


@dataclass(frozen=True, eq=False)
class HeldOutPredictors:
    """The n predictors fᵢ of cross-conformal intervals, each made without training row i.

    ``fits`` (n, H) and ``variance_fits`` (n, V) are the numbers of the fits that each predictor uses. ``weights``
    (n, H) and ``constants`` (n,) are posterior means without row i, ``scores`` (n,) are |residual|/scale of row i.
    """

    fits: NDArray[Any]
    variance_fits: NDArray[Any]
    weights: FloatArray
    constants: FloatArray
    scores: FloatArray
    tempering: float

    def ends(self, outputs: Outputs) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield centres and half-widths (n, rows) of the intervals of n predictors, one block of rows at a time."""
        all_means, variances, extra = outputs
        K, _, H = all_means.shape
        chosen, variance_of = _chosen(self.fits, K), _chosen(self.variance_fits, K) / self.variance_fits.shape[1]
        weighted = chosen * np.tile(self.weights, (1, K))
        for rows in row_slices(len(extra), rows_within(LARGE_CELLS, len(self.scores))):
            means = _flat(all_means[:, rows])
            middle = means.mean(axis=0)
            centred = means - middle  # so that the variance among members loses no digits
            disagreement = chosen @ centred**2 / H - (chosen @ centred / H) ** 2
            v = variance_of @ _flat(variances[:, rows]) + np.maximum(disagreement, 0.0)
            scale = np.sqrt(v**self.tempering + extra[rows])
            yield weighted @ means + self.constants[:, None], self.scores[:, None] * scale

    def interval(
        self, outputs: Outputs, coverage: float, weights: FloatArray | None = None, own: FloatArray | None = None
    ) -> FloatArray:
        """Return the limits (m, 2) of the interval of each row, infinite if n is too small for the coverage.

        ``weights`` (n,) belong to the training rows, ``own`` (m,) to the rows to predict; None: equal weights.
        """
        found, start = np.empty((len(outputs[2]), 2)), 0
        for centre, width in self.ends(outputs):
            rows = slice(start, start := start + centre.shape[1])
            theirs = None if own is None else own[rows]
            found[rows, 0] = -upper_end(width - centre, coverage, weights, theirs)
            found[rows, 1] = upper_end(centre + width, coverage, weights, theirs)
        return np.sort(found, axis=1)


def upper_end(
    values: FloatArray, coverage: float, weights: FloatArray | None = None, own: FloatArray | None = None
) -> FloatArray:
    """Return an upper limit per column: the ⌈coverage (n + 1)⌉-th smallest of n values, or infinity if n is too small.

    With ``weights`` (n,) it is the smallest value such that the values up to it have at least the share ``coverage`` of
    the total weight, to which the weight ``own`` of the column is added.
    """
    n = len(values)
    if weights is None:
        k = int(np.ceil(coverage * (n + 1) * (1.0 - _ROUNDING)))
        if k > n:
            return np.full(values.shape[1], np.inf)
        return np.asarray(np.partition(values, max(k, 1) - 1, axis=0)[max(k, 1) - 1])
    order = np.argsort(values, axis=0)
    sums = np.cumsum(weights[order], axis=0)
    needed = coverage * (sums[-1] + (1.0 if own is None else own)) * (1.0 - _ROUNDING)
    place = np.sum(sums < needed, axis=0)
    columns = np.arange(values.shape[1])
    found = values[order[np.minimum(place, n - 1), columns], columns]
    return np.where(place < n, found, np.inf)


def weights_without_each(
    post: Posterior, Phi: FloatArray, y: FloatArray, precision: FloatArray, counts: FloatArray | None = None
) -> FloatArray:
    """Return the posterior means (n, H) of the weights without each row: in row i, row i is left out of the fit.

    For a row with residual e, leverage h and precision w (times count), μ₋ᵢ = μₙ - Λₙ⁻¹φ w e/(1 - w h).
    """
    w = precision if counts is None else precision * counts
    h = leverage(post.root, np.ascontiguousarray(Phi))
    left = np.maximum(1.0 - w * h, np.finfo(np.float64).eps)
    steps = solve(post.root, whitened(post.root, np.ascontiguousarray(Phi))).T
    return np.asarray(post.mean - steps * (w * (y - Phi @ post.mean) / left)[:, None])


def _chosen(fits: NDArray[Any], K: int) -> FloatArray:
    """Return a matrix (n, K·H) of zeros and ones that selects for each row one fit of every member: ``fits``."""
    n, H = fits.shape
    chosen = np.zeros((n, K, H))
    chosen[np.arange(n)[:, None], fits, np.arange(H)] = 1.0
    return chosen.reshape(n, K * H)


def _flat(outputs: FloatArray) -> FloatArray:
    """Return the outputs (K, m, H) of K fits of H members for m rows as a matrix (K·H, m)."""
    return np.ascontiguousarray(outputs.transpose(0, 2, 1).reshape(-1, outputs.shape[1]))
