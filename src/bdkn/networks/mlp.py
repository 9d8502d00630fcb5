"""H networks of one shape as stacked arrays, and their forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.networks.activation import Array, activate
from bdkn.networks.spec import NetworkSpec
from bdkn.networks.spread import spread

MIN_VARIANCE = 1e-6
"""Added to the softplus of the raw variance, as in Lakshminarayanan et al. (2017)."""

_CHUNK_ROWS = 512
"""Rows a forward pass takes at once, so that its activations stay in cache."""

Layer = tuple[Array, Array]


def softplus(raw: Array) -> Array:
    """Return log(1 + exp(raw)) without overflow."""
    return np.logaddexp(raw, raw.dtype.type(0))


@dataclass(frozen=True)
class Networks:
    """H networks of one shape: for each layer W of shape (H, n_out, n_in) and b of shape (H, n_out)."""

    spec: NetworkSpec
    layers: tuple[Layer, ...]

    def __len__(self) -> int:
        return len(self.layers[0][0])

    def __getitem__(self, members: Sequence[int] | NDArray[np.intp]) -> Networks:
        return Networks(self.spec, tuple((W[members], b[members]) for W, b in self.layers))

    @classmethod
    def concatenate(cls, parts: Sequence[Networks]) -> Networks:
        """Return all networks of several stacks of one shape."""
        layers = zip(*(part.layers for part in parts), strict=True)
        stacked = tuple(
            (np.concatenate([W for W, _ in layer]), np.concatenate([b for _, b in layer])) for layer in layers
        )
        return cls(parts[0].spec, stacked)

    def is_finite(self) -> NDArray[np.bool_]:
        """Tell for each network whether all its weights are finite."""
        flat = np.concatenate([part.reshape(len(self), -1) for layer in self.layers for part in layer], axis=1)
        finite: NDArray[np.bool_] = np.isfinite(flat).all(axis=1)
        return finite

    def outputs(self, X: ArrayLike) -> tuple[Array, Array]:
        """Return means and variances, each of shape (H, n).

        Computed in double precision whatever the weights' dtype: a row's answer then does not depend, to far below
        single precision, on which rows it is asked together with.
        """
        rows = np.asarray(X)
        means = np.empty((len(self), len(rows)))
        variances = np.empty_like(means)

        def fill(part: slice) -> None:
            chunk = rows[part].astype(np.float64)
            for member, layers in enumerate(wide):
                out = _forward(self.spec.activation, layers, chunk)
                means[member, part] = out[:, 0]
                variances[member, part] = softplus(out[:, 1]) + MIN_VARIANCE

        wide = self._members()
        spread(fill, [slice(start, start + _CHUNK_ROWS) for start in range(0, len(rows), _CHUNK_ROWS)])
        return means, variances

    def _members(self) -> list[list[Layer]]:
        wide = [(W.astype(np.float64), b.astype(np.float64)) for W, b in self.layers]
        return [[(W[h], b[h]) for W, b in wide] for h in range(len(self))]


def _forward(activation: str, layers: Sequence[Layer], value: Array) -> Array:
    for W, b in layers[:-1]:
        value = activate(activation, value @ W.T + b)
    W, b = layers[-1]
    return value @ W.T + b
