"""The forward pass in NumPy and double precision, written to be read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from bdkn.networks.activation import activate
from bdkn.networks.functions import NUMPY
from bdkn.networks.spec import Layer, NetworkSpec
from bdkn.threads import one_blas_thread, run_on_threads
from bdkn.typing import Array

_CHUNK_ROWS = 2048
"""Rows per forward pass."""


def exact_outputs(spec: NetworkSpec, layers: Sequence[Layer], X: ArrayLike) -> tuple[Array, Array]:
    """Return the means and variances, each (H, n), of stacked networks."""
    rows, wide = np.asarray(X), [(W.astype(np.float64), b.astype(np.float64)) for W, b in layers]
    means = np.empty((len(layers[0][0]), len(rows)))
    variances = np.empty_like(means)

    def fill(part: slice) -> None:
        chunk = rows[part].astype(np.float64)
        for h in range(len(means)):
            out = _forward(spec.activation, [(W[h], b[h]) for W, b in wide], chunk)
            means[h, part], variances[h, part] = spec.head.mean_and_variance(NUMPY, out)

    with one_blas_thread():
        run_on_threads(fill, [slice(start, start + _CHUNK_ROWS) for start in range(0, len(rows), _CHUNK_ROWS)])
    return means, variances


def _forward(activation: str, layers: Sequence[Layer], value: Array) -> Array:
    for W, b in layers[:-1]:
        value = activate(activation, value @ W.T + b)
    W, b = layers[-1]
    return value @ W.T + b
