"""Which rows every member trains on, batch by batch, and which it holds out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bdkn.training.config import TrainingConfig
from bdkn.training.order import Streams, split_rows
from bdkn.training.shuffle import shuffle

RowNumbers = NDArray[np.int32]


class Batches:
    """The rows of H members: ``order`` (H, n_train), shuffled anew each epoch, and ``held_out`` (H, n_val)."""

    def __init__(self, streams: Sequence[Streams], n: int, config: TrainingConfig) -> None:
        splits = [split_rows(n, config.validation_fraction, stream.split) for stream in streams]
        self.order: RowNumbers = np.stack([training for training, _ in splits])
        self.held_out: RowNumbers = np.stack([validation for _, validation in splits])
        self.n_train: int = self.order.shape[1]
        self._size = config.batch_size
        self._states = [np.uint64(stream.order) for stream in streams]

    def __len__(self) -> int:
        """Return the batches of an epoch; the last may be a partial one."""
        return math.ceil(self.n_train / self._size)

    def __iter__(self) -> Iterator[RowNumbers]:
        """Yield the batches of the current order, each (H, B)."""
        return consecutive(self.order, self._size)

    def shuffle(self) -> None:
        """Put every member's rows into the order of its next epoch."""
        self._states = [np.uint64(shuffle(*pair)) for pair in zip(self.order, self._states, strict=True)]


def consecutive(rows: RowNumbers, size: int) -> Iterator[RowNumbers]:
    """Yield (H, n) row numbers ``size`` columns at a time."""
    for start in range(0, rows.shape[1], size):
        yield rows[:, start : start + size]
