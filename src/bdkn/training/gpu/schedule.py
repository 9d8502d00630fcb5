"""What the host prepares for every step: the order of the rows, and the factors of Adam."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import joblib
import numpy as np
from numpy.typing import NDArray

from bdkn.kernels.compiled import compiled
from bdkn.kernels.gpu.device import Device
from bdkn.threads import run_on_threads
from bdkn.training.config import BETA_1, BETA_2
from bdkn.training.job import Job
from bdkn.training.rows import JobRows, RowNumbers, shuffle
from bdkn.typing import Array, Float32Array, IndexArray

States = NDArray[np.uint64]


@compiled
def _orders(
    numbers: RowNumbers,
    starts: IndexArray,
    states: NDArray[np.uint64],
    epochs: int,
    into: RowNumbers,
    first: int,
    stop: int,
) -> None:
    """Shuffle the rows of the jobs from first to stop once for each epoch, and write all orders, job after job."""
    for job in range(first, stop):
        own, state = numbers[starts[job] : starts[job + 1]], states[job]
        place = epochs * starts[job]
        for _ in range(epochs):
            state = shuffle(own, state)
            into[place : place + len(own)] = own
            place += len(own)
        states[job] = state


class Orders:
    """The order of the rows of every job in the next epochs, shuffled by the host while the device trains."""

    def __init__(self, rows: Sequence[JobRows], device: Device) -> None:
        self._device = device
        self.starts = np.cumsum([0, *(len(own.training) for own in rows)])
        self._numbers = np.concatenate([own.training for own in rows])
        self._states = np.array([own.streams.order for own in rows], dtype=np.uint64)
        self._room = np.empty(0, dtype=np.int32)
        parts = min(len(rows), 4 * int(joblib.cpu_count()))
        ends = np.searchsorted(self.starts[1:], np.linspace(0, self.starts[-1], parts + 1)[1:-1])
        self._ends = [0, *sorted({*ends.tolist()} - {0, len(rows)}), len(rows)]

    def __len__(self) -> int:
        return len(self._numbers)

    def next(self, epochs: int) -> RowNumbers:
        """Return the orders of the next epochs, job after job; the array is used again by the next call."""
        if self._room.size < epochs * len(self):
            self._room = self._device.host_memory(4 * epochs * len(self)).view(np.int32)
        into = self._room[: epochs * len(self)]

        def work(part: tuple[int, int]) -> None:
            _orders(self._numbers, self.starts, self._states, epochs, into, *part)

        run_on_threads(work, list(itertools.pairwise(self._ends)))
        return into


def adam_factors(jobs: Sequence[Job], rows: Sequence[JobRows]) -> tuple[Float32Array, list[int]]:
    """Return what Adam needs in every step, for each schedule, and where each job's begins.

    These are the rate over the bias correction of the first moment, one over the root of that of the second, and the
    factor of weight decay.
    """
    known: dict[object, int] = {}
    parts: list[Array] = []
    starts, size = [], 0
    for job, own in zip(jobs, rows, strict=True):
        config = job.config
        steps = config.epochs * -(-len(own.training) // min(config.batch_size, len(own.training)))
        key = steps, config.learning_rate, config.schedule, config.weight_decay
        if key not in known:
            known[key] = size
            taken = np.arange(steps)
            rate = np.broadcast_to(config.learning_rate_at(taken, steps), taken.shape)
            factors = [rate / (1 - BETA_1 ** (taken + 1)), 1 / np.sqrt(1 - BETA_2 ** (taken + 1))]
            parts.append(np.stack([*factors, 1 - rate * config.weight_decay], axis=-1).astype(np.float32).ravel())
            size += parts[-1].size
        starts.append(known[key])
    return np.concatenate(parts), starts
