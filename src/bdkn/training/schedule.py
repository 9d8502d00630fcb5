"""The learning rate of each step."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bdkn.training.config import TrainingConfig


def learning_rates(config: TrainingConfig, steps: int) -> Iterator[float]:
    """Yield the rate of each of ``steps`` steps: constant, or half a cosine wave that falls from its top to zero."""
    for t in range(steps):
        share = 1.0 if config.schedule == "constant" else (1 + math.cos(math.pi * t / steps)) / 2
        yield config.learning_rate * share
