"""The design matrix Φ: what every network says about the rows it was trained on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bdkn.members.rows import TrainingRows
from bdkn.members.scores import Part as ScoredPart
from bdkn.networks import Predictor
from bdkn.typing import FloatArray

_HELD_NUMBERS = 2**21

Part = tuple[TrainingRows, FloatArray, FloatArray]
Chunk = tuple[FloatArray, FloatArray, None, FloatArray | None]


@dataclass(frozen=True)
class Design:
    """Networks and their training rows, whose outputs are held if they are few and computed anew if they are many."""

    networks: Predictor
    rows: TrainingRows
    _held: list[Part] = field(default_factory=list)

    def __getitem__(self, chosen: NDArray[np.intp]) -> Design:
        held = [(part, means[chosen], variances[chosen]) for part, means, variances in self._held]
        return Design(self.networks[chosen], self.rows, held)

    def parts(self) -> Iterator[Part]:
        """Yield a few thousand rows at a time with their means and variances, each (H, rows)."""
        if not self._held and len(self.networks) * len(self.rows.y) <= _HELD_NUMBERS:
            self._held.extend(self._computed())
        yield from self._held or self._computed()

    def scored(self) -> Iterator[ScoredPart]:
        """Yield the rows as ``MemberScores`` takes them."""
        for part, means, variances in self.parts():
            yield part.y, part.counts, means, variances

    def chunks(self) -> Iterator[Chunk]:
        """Yield (Φ, y, None, counts) a few thousand rows at a time, so that a large Φ is never held whole."""
        for part, means, _ in self.parts():
            yield np.asarray(means.T), part.y, None, part.counts

    def _computed(self) -> Iterator[Part]:
        with np.errstate(over="ignore", invalid="ignore"):  # whoever diverged is screened out by what it yields
            for part in self.rows.parts():
                means, variances = self.networks.outputs(part.X)
                yield part, np.asarray(means, dtype=np.float64), np.asarray(variances, dtype=np.float64)
