"""Networks trained on part of the rows, and what they say about the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bdkn.members import Folds, HeldOut, TrainingRows, networks_of
from bdkn.stages import stage
from bdkn.training import Hook, Trained

Seeds = Sequence[np.random.SeedSequence]


class Train(Protocol):
    """Trains one network a seed, as members of these numbers are, each on the rows ``only`` gives for its place."""

    def __call__(
        self,
        rows: TrainingRows,
        seeds: Seeds,
        on_epoch: Hook | None,
        numbers: Sequence[int],
        only: Callable[[int], NDArray[np.intp]],
    ) -> Trained:
        """Return the networks."""


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Networks of all folds, one fold after the other, and what each member says about the rows left out of it.

    ``finite`` (H,) tells which members have finite weights in all folds.
    """

    trained: Trained
    held_out: HeldOut
    finite: NDArray[np.bool_]

    def join(self, other: CrossFit) -> CrossFit:
        """Return both as one: in each fold first these members, then the other ones."""
        H, more = len(self.finite), len(other.finite)
        ours, theirs = len(self.trained.loss_curves), len(other.trained.loss_curves)
        order = np.hstack([networks_of(range(H), H, ours), ours + networks_of(range(more), more, theirs)])
        trained = Trained.join([self.trained, other.trained])[order.ravel()]
        return CrossFit(trained, self.held_out.join(other.held_out), np.concatenate([self.finite, other.finite]))


def cross_fit(
    train: Train,
    rows: TrainingRows,
    folds: Sequence[Folds],
    seeds: Seeds,
    numbers: Sequence[int],
    on_epoch: Hook | None,
) -> CrossFit:
    """Train for each member, which has a seed and folds, a network a fold on the rows that the fold does not leave out.

    Members with folds of their own differ, on rows left out, by the rows they learned from as well as by chance. Their
    mean then errs there as it does on new rows, where each member is in addition an average over its folds.
    """
    H, K = len(seeds), len(folds[0])
    # All folds at once, so that no core is idle while the last network of a fold is trained.
    own_seeds = [_child(seed, k) for k in range(K) for seed in seeds]
    with stage("train"):
        trained = train(
            rows, own_seeds, on_epoch, [*numbers] * K, lambda place: folds[place % H].trained_on(place // H)
        )
    means, variances, spread = np.full((3, len(rows.y), H), np.nan)
    with np.errstate(over="ignore", invalid="ignore"), stage("predict held-out rows"):
        for k, h in np.ndindex(K, H):
            left_out = folds[h].left_out[k]
            said = trained.networks[[k * H + h]].outputs(rows.X[left_out])
            means[left_out, h], variances[left_out, h] = said[0][0], said[1][0]
        for h in range(H):
            spread[:, h] = trained.networks[networks_of([h], H, K * H).ravel()].outputs(rows.X)[0].var(axis=0)
    seen = folds[0].judged  # all rows, or the same ones for every member
    counts = None if rows.counts is None else rows.counts[seen]
    finite = np.all(trained.networks.is_finite().reshape(K, H), axis=0)
    return CrossFit(trained, HeldOut(means[seen], variances[seen], spread[seen], rows.y[seen], counts), finite)


def _child(seed: np.random.SeedSequence, number: int) -> np.random.SeedSequence:
    """Return the seed of a member's network in a fold, whatever else was drawn from the member's seed."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, number))
