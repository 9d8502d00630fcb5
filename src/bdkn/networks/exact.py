"""The forward pass in NumPy and double precision, to be read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from bdkn.networks.activation import activate
from bdkn.networks.spread import one_blas_thread, spread
from bdkn.typing import Array

MIN_VARIANCE = 1e-6
"""Added to the softplus of the raw variance, as in Lakshminarayanan et al. (2017)."""

_CHUNK_ROWS = 2048
"""Rows a forward pass takes at once."""

Layer = tuple[Array, Array]


def softplus(raw: Array) -> Array:
    """Return log(1 + exp(raw)) without overflow."""
    return np.logaddexp(raw, raw.dtype.type(0))


def exact_outputs(activation: str, layers: Sequence[Layer], X: ArrayLike) -> tuple[Array, Array]:
    """Return means and variances, each of shape (H, n), of stacked networks."""
    rows, wide = np.asarray(X), [(W.astype(np.float64), b.astype(np.float64)) for W, b in layers]
    means = np.empty((len(layers[0][0]), len(rows)))
    variances = np.empty_like(means)

    def fill(part: slice) -> None:
        chunk = rows[part].astype(np.float64)
        for member in range(len(means)):
            out = _forward(activation, [(W[member], b[member]) for W, b in wide], chunk)
            means[member, part] = out[:, 0]
            variances[member, part] = softplus(out[:, 1]) + MIN_VARIANCE

    with one_blas_thread():
        spread(fill, [slice(start, start + _CHUNK_ROWS) for start in range(0, len(rows), _CHUNK_ROWS)])
    return means, variances


def _forward(activation: str, layers: Sequence[Layer], value: Array) -> Array:
    for W, b in layers[:-1]:
        value = activate(activation, value @ W.T + b)
    W, b = layers[-1]
    return value @ W.T + b
