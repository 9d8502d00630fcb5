"""How jobs, tables and weights lie in memory, as ``kernel.cu`` has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bdkn.networks import NetworkSpec
from bdkn.training.gpu.device import THREADS
from bdkn.typing import Array, Float32Array

MAX_LAYERS = 10
_PARTS = THREADS // 64

JOB = np.dtype(
    [(name, np.int64) for name in ("table", "targets", "order", "held_out", "weights", "rates")]
    + [
        (name, np.int32)
        for name in (
            "n_layers", "inputs", "n_train", "n_val", "epochs", "warmup", "patience", "activation", "objective",
            "batch", "first_moments_outside", "buffers",
        )
    ]
    + [("width", np.int32, MAX_LAYERS), ("beta", np.float32), ("tol", np.float32)]
)  # fmt: skip

POINTERS = (
    "X", "y", "row_weight", "rates", "order", "held_out", "weights", "moments", "best", "score", "losses",
    "validation_losses", "state", "jobs",
)  # fmt: skip

TABLES = np.dtype(
    [(name, np.uint64) for name in POINTERS] + [(n, np.int32) for n in ("first", "until", "curve", "is_weighted")]
)


def _padded(n: int) -> int:
    return (n + 3) & ~3


@dataclass(frozen=True)
class Room:
    """Whether the next batch is copied ahead, and whether the first layer's moments are in global memory."""

    buffers: int
    first_moments_outside: bool


ROOMS = (Room(2, False), Room(1, False), Room(2, True), Room(1, True))
"""From the fastest to the one that takes least shared memory."""


@dataclass(frozen=True)
class Packing:
    """Where the weights of one network lie: layer after layer, row k the weights of input k, the last row the bias."""

    spec: NetworkSpec

    @cached_property
    def _places(self) -> list[tuple[int, int, int]]:
        places, start = [], 0
        for n_out, n_in in self.spec.shapes:
            places.append((start, n_in + 1, _padded(n_out)))
            start += (n_in + 1) * _padded(n_out)
        return places

    @property
    def size(self) -> int:
        """Numbers of one network."""
        start, rows, columns = self._places[-1]
        return start + rows * columns

    def shared_bytes(self, batch: int, room: Room) -> int:
        """Return the shared memory that a program needs for this network."""
        rows, layers = _padded(batch) + 4, self._places
        first = layers[0][1] * layers[0][2]
        moments = 2 * (self.size - (first if room.first_moments_outside else 0))
        inputs = sum(n * rows for _, n, _ in layers) + (room.buffers - 1) * layers[0][1] * rows
        deltas = sum(columns * rows for _, _, columns in layers)
        return 4 * (self.size + moments + inputs + deltas + (2 * _PARTS + 7) * rows)

    def _views(self, flat: Float32Array) -> Iterator[Float32Array]:
        return (
            flat[..., start : start + rows * columns].reshape(*flat.shape[:-1], rows, columns)
            for start, rows, columns in self._places
        )

    def pack(self, layers: Sequence[tuple[Array, Array]]) -> Float32Array:
        """Return the weights of a network in one array."""
        flat = np.zeros(self.size, dtype=np.float32)
        for view, (W, b) in zip(self._views(flat), layers, strict=True):
            view[:-1, : len(b)] = W.T
            view[-1, : len(b)] = b
        return flat

    def unpack(self, flat: Float32Array) -> tuple[tuple[Float32Array, Float32Array], ...]:
        """Return the weights (J, n_out, n_in) and biases (J, n_out) of every layer of networks (J, size)."""
        return tuple(
            (np.ascontiguousarray(view[:, :-1, :n_out].mT), view[:, -1, :n_out].copy())
            for view, (n_out, _) in zip(self._views(flat), self.spec.shapes, strict=True)
        )
