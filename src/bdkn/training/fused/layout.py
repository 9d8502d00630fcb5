"""Where everything of one network in training lies in its workspace.

A network's weights, their gradients and Adam moments, and the activations of one batch share one float32 array of some
100 KB that stays in the core's cache from the first step to the last. What the forward pass alone needs is laid out as
in ``bdkn.networks.compiled``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bdkn.kernels.product import main_height
from bdkn.kernels.tile import padded
from bdkn.lazy import lazy
from bdkn.networks import NetworkSpec
from bdkn.networks import compiled as shared
from bdkn.networks.compiled import CACHE_LINE, INPUT, N_IN, N_OUT, OUTPUT, multiple, packing_of

LAYER_FIELDS = shared.LAYER_FIELDS + 4
INPUT_T, LD_INPUT_T, DELTA, TALLEST_IN = range(shared.LAYER_FIELDS, LAYER_FIELDS)
"""What the backward pass needs in addition: the transposed input, the gradient by the output, a tile height."""

PLACE_FIELDS = 8
PARAMETERS, FIRST_MOMENT, SECOND_MOMENT, GRADIENT, TARGETS, ROW_WEIGHTS, LD_BATCH, N_PARAMETERS = range(PLACE_FIELDS)


@dataclass(frozen=True)
class Layout:
    """Offsets for networks of one shape and batches of at most ``batch`` rows."""

    spec: NetworkSpec
    batch: int

    @lazy
    def ld_batch(self) -> int:
        """Distance of two features' values in an activation."""
        return multiple(padded(self.batch), CACHE_LINE)

    @lazy
    def n_parameters(self) -> int:
        """Floats of the padded parameters, a whole number of vectors."""
        return packing_of(self.spec).size

    @lazy
    def places(self) -> NDArray[np.int64]:
        """Offsets that belong to no layer."""
        n, places = self.n_parameters, np.zeros(PLACE_FIELDS, dtype=np.int64)
        places[[PARAMETERS, FIRST_MOMENT, SECOND_MOMENT, GRADIENT]] = np.arange(4) * n
        places[[TARGETS, ROW_WEIGHTS]] = 4 * n + np.arange(2) * self.ld_batch
        places[[LD_BATCH, N_PARAMETERS]] = self.ld_batch, n
        return places

    @lazy
    def layers(self) -> NDArray[np.int64]:
        """One line of offsets per layer."""
        return self._lay_out()[0]

    @lazy
    def size(self) -> int:
        """Floats of the whole workspace."""
        return self._lay_out()[1]

    def _lay_out(self) -> tuple[NDArray[np.int64], int]:
        table = packing_of(self.spec).table(LAYER_FIELDS)
        output = 4 * self.n_parameters + 2 * self.ld_batch
        for line in table:
            high = multiple(line[N_IN] + 1, CACHE_LINE)
            line[[INPUT, INPUT_T, LD_INPUT_T]] = output, output + high * self.ld_batch, high
            line[TALLEST_IN] = main_height(line[N_IN])
            output = line[INPUT_T] + line[LD_INPUT_T] * self.ld_batch
            line[OUTPUT] = output
        end = output + CACHE_LINE * self.ld_batch
        for line in table:
            line[DELTA] = end
            end += line[N_OUT] * self.ld_batch
        return table, int(end)

    def workspace(self, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return a workspace, aligned to a cache line: weights, zeros, and the ones that biases are multiplied with."""
        room = np.zeros(self.size + CACHE_LINE, dtype=np.float32)
        mem = room[-(room.ctypes.data // room.itemsize) % CACHE_LINE :][: self.size]
        mem[: self.n_parameters] = weights
        mem[self.places[ROW_WEIGHTS] :][: self.ld_batch] = 1
        for line in self.layers:
            n_in = line[N_IN]
            mem[line[INPUT] + n_in * self.ld_batch :][: self.ld_batch] = 1
            mem[line[INPUT_T] + n_in : line[OUTPUT] : line[LD_INPUT_T]] = 1
        return mem


@lru_cache(maxsize=16)
def layout_of(spec: NetworkSpec, batch: int) -> Layout:
    """Return the layout for that shape; jobs and fits of one shape share it."""
    return Layout(spec, batch)
