"""The order of rows in an epoch, the same for every engine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bdkn.kernels.compiled import compiled


@compiled
def shuffle(order: NDArray[np.int32], state: np.uint64) -> np.uint64:
    """Shuffle in place (Fisher-Yates on SplitMix64) and return the generator's next state."""
    for i in range(len(order) - 1, 0, -1):
        state = state + np.uint64(0x9E3779B97F4A7C15)
        z = state
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        high = (z ^ (z >> np.uint64(31))) >> np.uint64(32)
        j = np.int64((high * np.uint64(i + 1)) >> np.uint64(32))
        order[i], order[j] = order[j], order[i]
    return state
