"""How the weights of networks lie in the memory of a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from bdkn.networks.spec import Layer, NetworkSpec
from bdkn.typing import Float32Array


def padded(n: int) -> int:
    """Return the next multiple of eight: products are computed in tiles of eight numbers."""
    return (n + 7) & ~7


@dataclass(frozen=True)
class Packing:
    """Where the weights of one network lie: layer after layer, row k the weights of input k, then a row of biases."""

    spec: NetworkSpec

    @cached_property
    def places(self) -> tuple[tuple[int, int, int], ...]:
        """Where each layer begins, its rows, and the numbers of a row."""
        places, start = [], 0
        for n_out, n_in in self.spec.shapes:
            places.append((start, padded(n_in + 1), padded(n_out)))
            start += padded(n_in + 1) * padded(n_out)
        return tuple(places)

    @cached_property
    def size(self) -> int:
        """Numbers of one network."""
        start, rows, columns = self.places[-1]
        return start + rows * columns

    def _views(self, flat: Float32Array) -> Iterator[Float32Array]:
        return (
            flat[..., start : start + rows * columns].reshape(*flat.shape[:-1], rows, columns)
            for start, rows, columns in self.places
        )

    def pack(self, layers: Sequence[Layer], into: Float32Array) -> None:
        """Write the weights of one network, or of a stack (J, ...), into zeros of shape (..., size)."""
        for view, (W, b) in zip(self._views(into), layers, strict=True):
            n_out, n_in = W.shape[-2:]
            view[..., :n_in, :n_out] = W.mT
            view[..., n_in, :n_out] = b

    def unpack(self, flat: Float32Array) -> tuple[Layer, ...]:
        """Return the weights (J, n_out, n_in) and biases (J, n_out) of every layer of networks (J, size)."""
        return tuple(
            (np.ascontiguousarray(view[:, :n_in, :n_out].mT), view[:, n_in, :n_out].copy())
            for view, (n_out, n_in) in zip(self._views(flat), self.spec.shapes, strict=True)
        )


@lru_cache(maxsize=256)
def packing_of(spec: NetworkSpec) -> Packing:
    """Return the packing of networks of one shape."""
    return Packing(spec)
