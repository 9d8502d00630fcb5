"""Cross-fitting: networks trained on part of the rows, and their predictions for the held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bdkn.blocks import PREDICTED_ROWS, row_slices
from bdkn.data.folds import FoldPlan
from bdkn.data.rows import Rows
from bdkn.ensemble.held_out import HeldOut
from bdkn.networks import NetworkSettings, Trained
from bdkn.stages import stage
from bdkn.typing import Array, BoolArray, IndexArray

Members = Sequence[int] | IndexArray
Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True)
class FoldGrid:
    """The order of networks by fold and member: all members of the first fold, then those of the second, and so on."""

    n_folds: int
    n_members: int

    @classmethod
    def of(cls, n_networks: int, n_members: int) -> FoldGrid:
        """Return the grid of ``n_networks`` networks of ``n_members`` members."""
        return cls(n_networks // n_members, n_members)

    def numbers(self, members: Members) -> IndexArray:
        """Return the numbers (n_folds, members) of the networks of some members."""
        return np.arange(self.n_folds)[:, None] * self.n_members + np.asarray(members, dtype=np.intp)

    def arrange(self, values: NDArray[Number]) -> NDArray[Number]:
        """Return one value, or array, per network as an array (n_folds, n_members, ...)."""
        flat = np.asarray(values)
        return flat.reshape(self.n_folds, self.n_members, *flat.shape[1:])


@dataclass(frozen=True, eq=False)
class NetworkGrid:
    """Trained networks, one per fold and member."""

    trained: Trained
    grid: FoldGrid

    def __getitem__(self, members: Members) -> NetworkGrid:
        trained = self.trained[self.grid.numbers(members).ravel()]
        return NetworkGrid(trained, FoldGrid(self.grid.n_folds, len(members)))

    def outputs(self, member: int, X: Array) -> tuple[Array, Array]:
        """Return means and variances, each (n_folds, n), of a member's networks."""
        return self.trained.networks[self.grid.numbers([member]).ravel()].outputs(X)

    def join(self, other: NetworkGrid) -> NetworkGrid:
        """Return the members of both: in each fold first these, then the other ones."""
        ours, theirs = (one.grid.numbers(range(one.grid.n_members)) for one in (self, other))
        order = np.hstack([ours, ours.size + theirs])
        trained = Trained.join([self.trained, other.trained])[order.ravel()]
        return NetworkGrid(trained, FoldGrid(*order.shape))


@dataclass(frozen=True, eq=False)
class FoldNetworks:
    """Networks of each fold and member, and the networks to predict with.

    ``crossed`` has one network per fold and member. ``used`` has the same networks or, after a refit, one network per
    member, trained on all rows. ``is_finite`` (H,) is True for a member if all its networks have finite weights.
    ``own_variance`` is False if the objective did not train the networks' variances.
    """

    crossed: NetworkGrid
    used: NetworkGrid
    is_finite: BoolArray
    own_variance: bool


@dataclass(frozen=True, eq=False)
class Candidates:
    """Members to select from: names, networks to predict with, and held-out predictions.

    ``is_finite`` (H,) is True for a member with finite weights. ``own_variance`` is False if the objective did not
    train the networks' variances.
    """

    names: tuple[str, ...]
    networks: NetworkGrid
    is_finite: BoolArray
    held_out: HeldOut
    own_variance: bool

    @classmethod
    def in_use(cls, members: Any, held_out: HeldOut) -> Candidates:
        """Return the networks in use by a model as candidates of another selection."""
        is_finite = np.ones(len(members), dtype=bool)
        return cls(members.names, members.networks, is_finite, held_out, members.ensemble.variances is None)

    def join(self, other: Candidates) -> Candidates:
        """Return the members of both."""
        return Candidates(
            (*self.names, *other.names),
            self.networks.join(other.networks),
            np.concatenate([self.is_finite, other.is_finite]),
            self.held_out.join(other.held_out),
            other.own_variance,
        )


def train_folds(settings: NetworkSettings, rows: Rows, plan: FoldPlan) -> FoldNetworks:
    """Train one network per fold and member, on the rows that the fold does not hold out.

    Each member has folds of its own, so that members differ on a held-out row by the rows they were trained on as well
    as by their seeds. The error of their mean is then as on new rows, where each member is also an average over folds.
    """
    # All networks in one call, so that no core is idle while the last network of a fold is trained.
    trained = settings.train(rows, plan.seeds, plan.members, plan.rows)
    return fold_networks(trained, plan, own_variance=settings.trains_variance(len(rows)))


def fold_networks(trained: Trained, plan: FoldPlan, *, own_variance: bool) -> FoldNetworks:
    """Return the trained networks of a plan by fold and member."""
    H, is_finite = len(plan.names), trained.networks.is_finite()
    grid = FoldGrid.of(len(is_finite), H)
    sound = np.asarray(grid.arrange(is_finite).all(axis=0))
    if not plan.refit:
        return FoldNetworks(networks := NetworkGrid(trained, grid), networks, sound, own_variance)
    crossed = NetworkGrid(trained[range(len(is_finite) - H)], FoldGrid(grid.n_folds - 1, H))
    used = NetworkGrid(trained[range(len(is_finite) - H, len(is_finite))], FoldGrid(1, H))
    return FoldNetworks(crossed, used, sound, own_variance)


def predict_held_out(networks: FoldNetworks, rows: Rows, plan: FoldPlan) -> HeldOut:
    """Return the predictions of each member for the held-out rows of its folds."""
    means, variances, fold_variance = np.full((3, len(rows), len(plan.names)), np.nan)
    with stage("predict held-out rows"), np.errstate(over="ignore", invalid="ignore"):  # see finite_members
        for h, block in product(range(len(plan.names)), row_slices(len(rows), PREDICTED_ROWS)):
            by_fold, own = networks.crossed.outputs(h, rows.X[block])
            left_out = plan.fold_of[block, h], np.arange(by_fold.shape[1])
            means[block, h], variances[block, h] = by_fold[left_out], own[left_out]
            fold_variance[block, h] = 0.0 if plan.refit else by_fold.var(axis=0)
    found = HeldOut(means, variances, fold_variance, rows.y, rows.counts, None if plan.refit else plan.fold_of)
    return found if plan.held_out is None else found.rows(plan.held_out)
