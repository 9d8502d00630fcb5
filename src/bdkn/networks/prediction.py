"""Predictions of many networks in compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.errors import InvalidParameterError
from bdkn.kernels import elementary
from bdkn.kernels.compiled import announce, compiled
from bdkn.kernels.tile import padded
from bdkn.networks.activation import ACTIVATIONS
from bdkn.networks.exact import MIN_VARIANCE, Layer
from bdkn.networks.forward import Floats, Table, forward
from bdkn.networks.layout import CACHE_LINE, INPUT, N_IN, N_OUT, OUTPUT, Packing
from bdkn.networks.spec import NetworkSpec
from bdkn.networks.spread import spread

Doubles = NDArray[np.float64]

_BATCH = 64
"""Rows a forward pass takes at once, so that its activations stay in the first-level cache."""

_PART_PRODUCTS = 1 << 26
"""Multiplications worth handing to a thread, about a millisecond of work."""


@compiled
def _workspace(layers: Table, ld: int) -> Floats:
    """Return room for the activations of a batch, aligned to a cache line, with the ones that biases multiply."""
    size = (layers[-1, OUTPUT] // ld + layers[-1, N_OUT]) * ld
    room = np.zeros(size + CACHE_LINE, dtype=np.float32)
    mem = room[-(room.ctypes.data // 4) % CACHE_LINE :][:size]
    for line in layers:
        ones = line[INPUT] + line[N_IN] * ld
        mem[ones : ones + ld] = 1
    return mem


@compiled
def _predict(
    X: Floats, weights: Floats, size: int, layers: Table, ld: int, activation: int,
    first: int, stop: int, means: Doubles, variances: Doubles,
) -> None:  # fmt: skip
    """Write the outputs of every network, each ``size`` floats of ``weights``, on the rows from first to stop."""
    mem, out = _workspace(layers, ld), layers[-1, OUTPUT]
    for start in range(first, stop, ld):
        rows = min(ld, stop - start)
        for b in range(rows):
            for k in range(X.shape[1]):
                mem[k * ld + b] = X[start + b, k]
        for h in range(len(means)):
            forward(mem, layers, ld, weights, h * size, activation, rows)
            for b in range(rows):
                means[h, start + b] = mem[out + b]
                variances[h, start + b] = elementary.softplus(mem[out + ld + b]) + MIN_VARIANCE


@dataclass(frozen=True)
class Packed:
    """Networks of one shape as compiled code takes them: their weights in one array, one network after the other."""

    spec: NetworkSpec
    weights: Floats
    _tables: dict[int, tuple[int, Table]] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: NetworkSpec, layers: Sequence[Layer]) -> Packed:
        """Pack stacked layers."""
        packing, members = Packing(spec), range(len(layers[0][0]))
        parts = [packing.pack([(W[h], b[h]) for W, b in layers]) for h in members]
        return cls(spec, np.concatenate(parts) if parts else np.empty(0, dtype=np.float32))

    def outputs(self, X: ArrayLike, threads: int | None = None) -> tuple[Doubles, Doubles]:
        """Return means and variances, each of shape (H, n); many rows are spread over threads, by default all cores.

        A row's answer has the same bits whatever the other rows and the number of threads.
        """
        rows, size = self._checked(X), self._packing.size
        n = len(rows)
        means = np.empty((len(self.weights) // size, n))
        variances = np.empty_like(means)
        ld, layers = self._table(min(n, _BATCH) or 1)

        def fill(first: int) -> None:
            stop = min(first + step, n)
            _predict(rows, self.weights, size, layers, ld, self._activation, first, stop, means, variances)

        step = max(1, _PART_PRODUCTS // max(1, len(self.weights)) // _BATCH) * _BATCH
        if n <= step:
            fill(0)
        else:
            spread(fill, range(0, n, step), threads)
        return means, variances

    @cached_property
    def _packing(self) -> Packing:
        return Packing(self.spec)

    @cached_property
    def _activation(self) -> int:
        return ACTIVATIONS.index(self.spec.activation)

    def _checked(self, X: ArrayLike) -> Floats:
        rows = np.ascontiguousarray(X, dtype=np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.spec.n_inputs:
            raise InvalidParameterError(f"rows must be of shape (n, {self.spec.n_inputs}); got shape {np.shape(X)}")
        # Numba would compile anew for arrays that are read-only.
        return rows if rows.flags.writeable else rows.copy()

    def _table(self, batch: int) -> tuple[int, Table]:
        """Return the distance of two features in a batch, and the layers' lines; an output is the next one's input."""
        if batch not in self._tables:
            ld, table = padded(batch), self._packing.table()
            ends = np.cumsum(table[:, N_IN] + 1) * ld
            table[1:, INPUT], table[:, OUTPUT] = ends[:-1], ends
            self._tables[batch] = ld, table
        return self._tables[batch]


@cache
def prepare() -> None:
    """Compile prediction for this CPU, or load it from disk, by predicting with a tiny network."""
    announce(_predict, "prediction", 4)
    layers = [(np.zeros((1, 2, 1), np.float32), np.zeros((1, 2), np.float32))]
    Packed.of(NetworkSpec(n_inputs=1, hidden=()), layers).outputs(np.zeros((1, 1), np.float32))
