"""Statistics of what members predict for the rows that they leave out, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from bdkn.blocks.chunks import Chunk
from bdkn.blocks.numbering import MemberFolds
from bdkn.blocks.tree import merged_in_tree
from bdkn.inference import Forecast, Statistics
from bdkn.inference.combination import features
from bdkn.members import FoldNetworks, FoldPlan, HeldOut, predict_held_out
from bdkn.persistence.fields import NonNegative, stored
from bdkn.rows import Rows
from bdkn.typing import FloatArray

Slopes = Callable[[FloatArray], FloatArray]
"""The logarithm of the derivative of the scaled target, at targets in scaled units."""


@stored
@dataclass(frozen=True, eq=False)
class LeftOut:
    """What rows that were left out tell: statistics, and sums over rows of v^τ and of log g′(y), each with counts."""

    statistics: Statistics
    noise: NonNegative
    log_slopes: float

    def __add__(self, other: LeftOut) -> LeftOut:
        return LeftOut(self.statistics + other.statistics, self.noise + other.noise, self.log_slopes + other.log_slopes)


@dataclass(frozen=True, eq=False)
class Summary:
    """How chunks are summarized: the networks of the members in use, their folds, and the tempering τ.

    ``constant`` are the variances of members whose networks have none of their own, else None.
    """

    names: tuple[str, ...]
    networks: FoldNetworks
    folds: MemberFolds
    refit: bool
    tempering: float
    constant: FloatArray | None
    slopes: Slopes

    def of(self, chunk: Chunk) -> LeftOut | None:
        """Return what the rows of a chunk tell that are left out once; None if there are none."""
        held_out = self.predictions(chunk)
        if not len(held_out.y):
            return None
        forecast: Forecast = held_out.forecast()
        counts = np.ones(len(held_out.y)) if held_out.counts is None else held_out.counts
        statistics = Statistics.from_rows(
            features(forecast.means), held_out.y, precision=forecast.variance**-self.tempering, counts=held_out.counts
        )
        slopes = np.broadcast_to(self.slopes(held_out.y), held_out.y.shape)
        return LeftOut(statistics, float(counts @ forecast.variance**self.tempering), float(counts @ slopes))

    def predictions(self, chunk: Chunk) -> HeldOut:
        """Return what members predict for the rows of a chunk that they leave out."""
        plan = fold_plan(self.names, self.folds, chunk, refit=self.refit)
        held_out = predict_held_out(self.networks, chunk.rows, plan)
        if self.constant is None:
            return held_out
        return HeldOut(
            held_out.means,
            np.broadcast_to(self.constant, held_out.means.shape),
            held_out.fold_variance,
            held_out.y,
            held_out.counts,
            held_out.fold_of,
        )


def statistics_of_chunks(summary: Summary, chunks: Iterable[Chunk]) -> LeftOut:
    """Return what all chunks tell together, of which one at a time is in memory."""
    merged = merged_in_tree([summary.of(chunk) for chunk in chunks], merged_left_out)
    assert merged is not None, "some rows are left out once"
    return merged


def merged_left_out(one: LeftOut | None, other: LeftOut | None) -> LeftOut | None:
    """Return what two parts of the rows tell together; None: nothing."""
    if one is None or other is None:
        return one or other
    return one + other


def fold_plan(names: tuple[str, ...], folds: MemberFolds, chunk: Chunk, *, refit: bool) -> FoldPlan:
    """Return the plan by which held-out rows of a chunk are predicted; it trains no networks."""
    fold_of = folds.of(chunk.units)
    left_out = fold_of[:, 0] >= 0
    held_out = None if left_out.all() else np.flatnonzero(left_out)
    return FoldPlan(names, [], [], [], fold_of, held_out, refit)


def whole(rows: Rows, units: object) -> Chunk:
    """Return rows in memory as a chunk."""
    return Chunk(rows, np.asarray(units, dtype=np.uint64))
