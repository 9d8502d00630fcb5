"""Networks trained on part of the rows, and their predictions for the rows left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bdkn.members import Folds, HeldOut, NetworkGrid
from bdkn.regressors.network_settings import NetworkSettings, Seeds
from bdkn.rows import Rows
from bdkn.stages import stage
from bdkn.typing import BoolArray

_BLOCK_ROWS = 1 << 15
"""Rows that a member's networks predict at once."""


@dataclass(frozen=True, eq=False)
class FoldPlan:
    """The members to train: for each a seed, folds, and the number by which it takes activation and weight decay.

    With ``refit`` a member predicts with one more network, trained on all rows, instead of the average over its folds.
    """

    seeds: Seeds
    folds: Sequence[Folds]
    numbers: Sequence[int]
    refit: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members."""
        return tuple(f"network {h + 1}" for h in self.numbers)


@dataclass(frozen=True, eq=False)
class FoldNetworks:
    """Networks of each fold and member, and those to predict with: the same, or one per member trained on all rows."""

    crossed: NetworkGrid
    used: NetworkGrid

    def is_finite(self) -> BoolArray:
        """Return for each member whether all weights of all its networks are finite."""
        return self.crossed.is_finite() & self.used.is_finite()


@dataclass(frozen=True, eq=False)
class Candidates:
    """Members to select from: names, networks to predict with, whether weights are finite, held-out predictions."""

    names: tuple[str, ...]
    networks: NetworkGrid
    is_finite: BoolArray
    held_out: HeldOut

    def join(self, other: Candidates) -> Candidates:
        """Return the members of both."""
        return Candidates(
            (*self.names, *other.names),
            self.networks.join(other.networks),
            np.concatenate([self.is_finite, other.is_finite]),
            self.held_out.join(other.held_out),
        )


def train_folds(settings: NetworkSettings, rows: Rows, plan: FoldPlan) -> FoldNetworks:
    """Train one network per fold and member, on the rows that the fold does not leave out.

    With folds of their own members differ, on held-out rows, by the rows they learned from as well as by chance. Their
    mean then errs there as it does on new rows, where each member is in addition an average over its folds.
    """
    seeds, folds, H, K = plan.seeds, plan.folds, len(plan.seeds), len(plan.folds[0])
    own_seeds = [_child(seed, k) for k in range(K) for seed in seeds]
    # All networks in one call, so that no core is idle while the last network of a fold is trained.
    jobs = settings.jobs(
        rows, own_seeds, [*plan.numbers] * K, lambda i: folds[i % H].trained_on(i // H).astype(np.int32)
    )
    if plan.refit:
        jobs += settings.jobs(rows, seeds, plan.numbers)
    trained = settings.train(jobs, rows)
    if not plan.refit:
        return FoldNetworks(networks := NetworkGrid(trained, H), networks)
    return FoldNetworks(NetworkGrid(trained[range(K * H)], H), NetworkGrid(trained[range(K * H, len(jobs))], H))


def predict_held_out(networks: FoldNetworks, rows: Rows, plan: FoldPlan) -> HeldOut:
    """Return the predictions of each member for the rows that its folds leave out."""
    means, variances, fold_variance = np.full((3, len(rows), len(plan.seeds)), np.nan)
    with stage("predict held-out rows"), np.errstate(over="ignore", invalid="ignore"):  # see sound_members
        for h, folds in enumerate(plan.folds):
            fold_of = folds.fold_of_row()
            for start in range(0, len(rows), _BLOCK_ROWS):
                block = slice(start, start + _BLOCK_ROWS)
                by_fold, own = networks.crossed.outputs(h, rows.X[block])
                left_out = fold_of[block], np.arange(by_fold.shape[1])
                means[block, h], variances[block, h] = by_fold[left_out], own[left_out]
                fold_variance[block, h] = 0.0 if plan.refit else by_fold.var(axis=0)
    found = HeldOut(means, variances, fold_variance, rows.y, rows.counts)
    return found.rows(plan.folds[0].held_out)  # all rows, or the same ones for every member


def fold_generator(seed: np.random.SeedSequence) -> np.random.Generator:
    """Return a generator from a child of the seed that no member and no fold has, however many there are."""
    return np.random.default_rng(_child(seed, 2**32 - 1))


def _child(seed: np.random.SeedSequence, number: int) -> np.random.SeedSequence:
    """Return a child of the seed, whatever else was spawned from it."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, number))
