"""The design matrix Φ: what every network says about the rows it was trained on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bdkn.members.member import FloatArray
from bdkn.members.rows import TrainingRows
from bdkn.networks import Predictor

Chunk = tuple[FloatArray, FloatArray, None, FloatArray | None]


def design_chunks(networks: Predictor, rows: TrainingRows) -> Iterator[Chunk]:
    """Yield (Φ, y, None, counts) for a few thousand rows at a time, so that Φ is never held whole."""
    for part in rows.parts():
        means, _ = networks.outputs(part.X)
        yield np.asarray(means.T), part.y, None, part.counts
