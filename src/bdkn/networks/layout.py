"""How compiled code sees a network: its weights as one array, its layers as lines of a table.

A bias is one more column of its layer's weight matrix, whose input is always one: no product needs a special case for
it. Activations are stored feature by feature, the rows of a batch side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bdkn.kernels.product import main_height
from bdkn.kernels.tile import padded
from bdkn.networks.exact import Layer
from bdkn.networks.spec import NetworkSpec

CACHE_LINE = 16
"""Floats of a cache line, a multiple of every tile's width."""

LAYER_FIELDS = 7
N_IN, N_OUT, WEIGHTS, LD_WEIGHTS, INPUT, OUTPUT, TALLEST_OUT = range(LAYER_FIELDS)


def multiple(n: int, of: int) -> int:
    """Return the least multiple that holds n."""
    return -(-n // of) * of


@dataclass(frozen=True)
class Packing:
    """The weights of one network of a given shape in one array."""

    spec: NetworkSpec

    @cached_property
    def size(self) -> int:
        """Floats of the padded weights, a whole number of vectors."""
        return multiple(sum(rows * columns for rows, columns in self._shapes), CACHE_LINE)

    def pack(self, layers: Sequence[Layer]) -> NDArray[np.float32]:
        """Return one network's weights as padded parameters."""
        flat = np.zeros(self.size, dtype=np.float32)
        for matrix, (W, b) in zip(self._matrices(flat), layers, strict=True):
            matrix[:, : W.shape[1]] = W
            matrix[:, W.shape[1]] = b
        return flat

    def unpack(self, flat: NDArray[np.float32]) -> list[Layer]:
        """Return one network's weights from its padded parameters."""
        widths = [n_in for _, n_in in self.spec.shapes]
        return [(m[:, :n].copy(), m[:, n].copy()) for m, n in zip(self._matrices(flat), widths, strict=True)]

    def table(self, fields: int = LAYER_FIELDS) -> NDArray[np.int64]:
        """Return a line a layer that says its shape and where its weights lie; INPUT and OUTPUT are left to fill in."""
        table = np.zeros((len(self._shapes), fields), dtype=np.int64)
        for line, start, (n_out, n_in) in zip(table, self._ends[:-1], self.spec.shapes, strict=True):
            line[[N_IN, N_OUT, WEIGHTS, LD_WEIGHTS]] = n_in, n_out, start, padded(n_in + 1)
            line[TALLEST_OUT] = main_height(n_out)
        return table

    @cached_property
    def _shapes(self) -> list[tuple[int, int]]:
        return [(n_out, padded(n_in + 1)) for n_out, n_in in self.spec.shapes]

    @property
    def _ends(self) -> list[int]:
        return [0, *np.cumsum([rows * columns for rows, columns in self._shapes]).tolist()]

    def _matrices(self, flat: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        """Return views of the padded weight matrices."""
        return [
            flat[start:][: r * c].reshape(r, c) for start, (r, c) in zip(self._ends[:-1], self._shapes, strict=True)
        ]
