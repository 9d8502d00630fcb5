"""The plan of a cross-fit: which network is trained on which rows, with which seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.errors import InvalidParameterError
from bdkn.members.folds import Folds
from bdkn.members.splitting import Splitting
from bdkn.training.job import RowSelection
from bdkn.typing import IndexArray

Seeds = Sequence[np.random.SeedSequence]


@dataclass(frozen=True, eq=False)
class FoldPlan:
    """The networks to train, in the order of a ``FoldGrid``, and the rows that each fold leaves out.

    Of each network: ``seeds``, ``members`` (the number of its member), and ``rows`` (None: all rows). ``fold_of``, of
    shape (n, H), is the fold that leaves a row out, for each member, and -1 if none does. ``held_out`` are the rows
    that all members leave out, None if every row is left out once. With ``refit`` a member predicts with one more
    network, trained on all rows, instead of the average over its folds; these networks are the last ones.
    """

    names: tuple[str, ...]
    seeds: Seeds
    members: Sequence[int]
    rows: Sequence[RowSelection | None]
    fold_of: NDArray[np.signedinteger]
    held_out: IndexArray | None
    refit: bool

    @classmethod
    def of(cls, model: Any, splitting: Splitting, entropy: Any, members: range) -> FoldPlan:
        """Return the plan of a regressor for the members with these numbers.

        With ``design="hold-out"`` all members leave the same rows out, else each has folds of its own, if they are
        random. A member whose folds train on few rows, such as the past only, predicts with a refit.
        """
        root, n_rows = np.random.SeedSequence(entropy), len(splitting.used)
        seeds = root.spawn(members.stop)[members.start :]
        folds = _member_folds(model, splitting, root, seeds)
        refit, held_out, K = model.predict_with == "refit" or folds[0].trains_on_few, folds[0].held_out, len(folds[0])
        fold_of = np.full((n_rows, len(seeds)), -1, dtype=np.int16 if K < 2**15 else np.int32)
        rows: list[RowSelection | None] = []
        for k, h in np.ndindex(K, len(folds)):
            fold_of[folds[h].left_out[k], h] = k
            rows.append(folds[h].selection(k))
        return cls(
            names=tuple(f"network {h + 1}" for h in members),
            seeds=[child_seed(seed, k) for k in range(K) for seed in seeds] + seeds * refit,
            members=[*members] * (K + refit),
            rows=rows + [None] * (len(seeds) * refit),
            fold_of=fold_of,
            held_out=held_out if len(held_out) < n_rows else None,
            refit=refit,
        )

    @property
    def rows_per_member(self) -> float:
        """Rows that the networks of a member are trained on, all together."""
        total = sum(len(self.fold_of) if numbers is None else len(numbers) for numbers in self.rows)
        return total / len(self.names)


def _member_folds(model: Any, splitting: Splitting, root: np.random.SeedSequence, seeds: Seeds) -> list[Folds]:
    """Return the folds of each member."""
    if model.design == "hold-out":
        n, fraction = len(splitting.used), model.holdout_fraction
        return [Folds.single(n, fraction, fold_generator(root), splitting.sets)] * len(seeds)
    cv = model.n_folds if model.cv is None else model.cv
    folds = [splitting.cross(cv, fold_generator(seed)) for seed in seeds]
    first = folds[0].held_out
    if any(len(one) != len(folds[0]) or not np.array_equal(one.held_out, first) for one in folds[1:]):
        raise InvalidParameterError(
            "cv must leave out the same rows, in as many folds, for every member; got others for another random_state: "
            "give the splitter a random_state, for the same folds for all members"
        )
    return folds


def fold_generator(seed: np.random.SeedSequence) -> np.random.Generator:
    """Return a generator from a child of the seed that no member and no fold uses."""
    return np.random.default_rng(child_seed(seed, 2**32 - 1))


def child_seed(seed: np.random.SeedSequence, number: int) -> np.random.SeedSequence:
    """Return the child of that number, which does not depend on what else was spawned from the seed."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, number))
