"""The design matrix Φ of the published method: the outputs of all networks for the rows they were trained on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from bdkn.members.held_out import ScoredPart
from bdkn.networks import Predictor
from bdkn.rows import Rows
from bdkn.typing import FloatArray, IndexArray

_KEPT_NUMBERS = 2**21

Part = tuple[Rows, FloatArray, FloatArray]
"""Some rows, and the means and variances of all networks for them, each (H, rows)."""

Chunk = tuple[FloatArray, FloatArray, None, FloatArray | None]


@dataclass(frozen=True)
class Design:
    """Networks and their training rows. Few outputs are stored; many are computed again each time they are needed."""

    networks: Predictor
    rows: Rows
    _kept: list[Part] = field(default_factory=list)

    def __getitem__(self, chosen: IndexArray) -> Design:
        kept = [(part, means[chosen], variances[chosen]) for part, means, variances in self._kept]
        return Design(self.networks[chosen], self.rows, kept)

    def parts(self) -> Iterator[Part]:
        """Yield the rows in blocks with their means and variances."""
        if not self._kept and len(self.networks) * len(self.rows) <= _KEPT_NUMBERS:
            self._kept.extend(self._computed())
        yield from self._kept or self._computed()

    def scored(self) -> Iterator[ScoredPart]:
        """Yield the rows in blocks, in the form that ``MemberScores.of`` expects."""
        for part, means, variances in self.parts():
            yield part.y, part.counts, means, variances

    def chunks(self) -> Iterator[Chunk]:
        """Yield (Φ, y, None, counts) in blocks of rows, so that a large Φ is never in memory as a whole."""
        for part, means, _ in self.parts():
            yield np.asarray(means.T), part.y, None, part.counts

    def _computed(self) -> Iterator[Part]:
        with np.errstate(over="ignore", invalid="ignore"):  # diverged networks are removed by their outputs
            for part in self.rows.blocks():
                means, variances = self.networks.outputs(part.X)
                yield part, np.asarray(means, dtype=np.float64), np.asarray(variances, dtype=np.float64)
