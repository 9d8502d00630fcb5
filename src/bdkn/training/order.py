"""Each member's independent random streams, and the rows it holds out.

Every engine takes them from here, so that all of them start from the same weights and see the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Streams:
    """The independent random streams of one member."""

    initial: np.random.Generator
    split: np.random.Generator
    order: int

    @classmethod
    def of(cls, seed: np.random.SeedSequence) -> Streams:
        """Derive the streams from the member's seed; the same seed always gives the same streams."""
        initial, split, order = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key).spawn(3)
        state = int(order.generate_state(1, np.uint64)[0])
        return cls(np.random.default_rng(initial), np.random.default_rng(split), state)


def split_rows(n: int, fraction: float, generator: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return (training rows, validation rows); no validation rows for fraction 0, at least one of each otherwise."""
    if fraction == 0 or n < 2:
        return np.arange(n, dtype=np.int32), np.empty(0, dtype=np.int32)
    held = min(max(1, round(n * fraction)), n - 1)
    rows = generator.permutation(n).astype(np.int32)
    return np.sort(rows[held:]), np.sort(rows[:held])
