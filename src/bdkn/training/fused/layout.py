"""Where everything of one member lies in its workspace.

A member's weights, their gradients and Adam moments, and the activations of one batch share one float32 array of some
100 KB that stays in the core's cache from the first step to the last. A bias is one more column of its layer's weight
matrix, whose input is always one: no product needs a special case for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from bdkn.networks import NetworkSpec
from bdkn.networks.mlp import Layer
from bdkn.training.fused.product import main_height
from bdkn.training.fused.tile import padded

CACHE_LINE = 16
"""Floats of a cache line, a multiple of every tile's width and of the transposition's blocks."""

LAYER_FIELDS = 11
N_IN, N_OUT, WEIGHTS, LD_WEIGHTS, INPUT, INPUT_T, LD_INPUT_T, OUTPUT, DELTA, TALLEST_IN, TALLEST_OUT = range(
    LAYER_FIELDS
)

PLACE_FIELDS = 8
PARAMETERS, FIRST_MOMENT, SECOND_MOMENT, GRADIENT, TARGETS, ROW_WEIGHTS, LD_BATCH, N_PARAMETERS = range(PLACE_FIELDS)


def _multiple(n: int, of: int) -> int:
    return -(-n // of) * of


@dataclass(frozen=True)
class Layout:
    """Offsets for networks of one shape and batches of at most ``batch`` rows."""

    spec: NetworkSpec
    batch: int

    @property
    def ld_batch(self) -> int:
        """Distance of two features' values in an activation."""
        return _multiple(padded(self.batch), CACHE_LINE)

    @cached_property
    def n_parameters(self) -> int:
        """Floats of the padded parameters, a whole number of vectors."""
        return _multiple(sum(n_out * padded(n_in + 1) for n_out, n_in in self.spec.shapes), CACHE_LINE)

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Offsets that belong to no layer."""
        n, places = self.n_parameters, np.zeros(PLACE_FIELDS, dtype=np.int64)
        places[[PARAMETERS, FIRST_MOMENT, SECOND_MOMENT, GRADIENT]] = np.arange(4) * n
        places[[TARGETS, ROW_WEIGHTS]] = 4 * n + np.arange(2) * self.ld_batch
        places[[LD_BATCH, N_PARAMETERS]] = self.ld_batch, n
        return places

    @cached_property
    def layers(self) -> NDArray[np.int64]:
        """One line of offsets a layer."""
        return self._lay_out()[0]

    @cached_property
    def size(self) -> int:
        """Floats of the whole workspace."""
        return self._lay_out()[1]

    def _lay_out(self) -> tuple[NDArray[np.int64], int]:
        table = np.zeros((len(self.spec.shapes), LAYER_FIELDS), dtype=np.int64)
        weights, end = 0, 4 * self.n_parameters + 2 * self.ld_batch
        output = end
        for line, (n_out, n_in) in zip(table, self.spec.shapes, strict=True):
            high = _multiple(n_in + 1, CACHE_LINE)
            line[[N_IN, N_OUT, WEIGHTS, LD_WEIGHTS]] = n_in, n_out, weights, padded(n_in + 1)
            line[[INPUT, INPUT_T, LD_INPUT_T]] = output, output + high * self.ld_batch, high
            line[[TALLEST_IN, TALLEST_OUT]] = main_height(n_in), main_height(n_out)
            weights += n_out * padded(n_in + 1)
            output = line[INPUT_T] + line[LD_INPUT_T] * self.ld_batch
            line[OUTPUT] = output
        end = output + CACHE_LINE * self.ld_batch
        for line in table:
            line[DELTA] = end
            end += line[N_OUT] * self.ld_batch
        return table, int(end)

    def workspace(self) -> NDArray[np.float32]:
        """Return a workspace, aligned to a cache line: zeros, and the ones that biases are multiplied with."""
        room = np.zeros(self.size + CACHE_LINE, dtype=np.float32)
        mem = room[-(room.ctypes.data // room.itemsize) % CACHE_LINE :][: self.size]
        mem[self.places[ROW_WEIGHTS] :][: self.ld_batch] = 1
        for line in self.layers:
            n_in = line[N_IN]
            mem[line[INPUT] + n_in * self.ld_batch :][: self.ld_batch] = 1
            mem[line[INPUT_T] + n_in : line[OUTPUT] : line[LD_INPUT_T]] = 1
        return mem

    def pack(self, layers: list[Layer]) -> NDArray[np.float32]:
        """Return one network's weights as padded parameters."""
        flat = np.zeros(self.n_parameters, dtype=np.float32)
        for matrix, (W, b) in zip(self._matrices(flat), layers, strict=True):
            matrix[:, : W.shape[1]] = W
            matrix[:, W.shape[1]] = b
        return flat

    def unpack(self, flat: NDArray[np.float32]) -> list[Layer]:
        """Return one network's weights from its padded parameters."""
        widths = [n_in for _, n_in in self.spec.shapes]
        return [(m[:, :n].copy(), m[:, n].copy()) for m, n in zip(self._matrices(flat), widths, strict=True)]

    def _matrices(self, flat: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        """Return views of the padded weight matrices."""
        shapes = [(n_out, padded(n_in + 1)) for n_out, n_in in self.spec.shapes]
        ends = np.cumsum([rows * columns for rows, columns in shapes])
        return [flat[end - r * c : end].reshape(r, c) for end, (r, c) in zip(ends, shapes, strict=True)]


@lru_cache(maxsize=16)
def layout_of(spec: NetworkSpec, batch: int) -> Layout:
    """Return the layout for that shape; members and fits of one shape share it."""
    return Layout(spec, batch)
