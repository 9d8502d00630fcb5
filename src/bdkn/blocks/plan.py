"""Which networks are trained, with which folds and seeds, as functions of row numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bdkn.blocks.numbering import MemberFolds, Numbers, fold_of, group_numbers
from bdkn.blocks.training import ChunkPlan
from bdkn.errors import InvalidParameterError, check_number
from bdkn.members import FoldPlan
from bdkn.members.fold_plan import child_seed, fold_generator
from bdkn.members.splitting import ShuffledRows, is_fold_count
from bdkn.training.job import RowSelection, RowsWithout
from bdkn.typing import IndexArray


@dataclass
class RowNumberFolds(ShuffledRows):
    """Cross-validation splitter whose folds are functions of a row's number, or of its group.

    Rows in blocks are divided so: the fold of a row does not depend on how many other rows there are. With it, a fit to
    rows in memory has the folds of a fit to the same rows in blocks.

    Parameters
    ----------
    n_folds : int, default=5
        Number of folds, of nearly equal size if rows are many.
    random_state : int, optional
        Another number gives other folds; None: 0, and in a ``BDKNRegressor`` other folds for each member.

    Examples
    --------
    >>> from bdkn import RowNumberFolds
    >>> [left_out.tolist() for _, left_out in RowNumberFolds(2, random_state=0).split([[0]] * 8)]
    [[0, 4, 7], [1, 2, 3, 5, 6]]
    """

    n_folds: int = 5
    random_state: int | None = None

    def __post_init__(self) -> None:
        check_number("n_folds", self.n_folds, low=2, whole=True)

    def split(
        self, X: Any, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Iterator[tuple[IndexArray, IndexArray]]:
        """Yield the numbers of the rows to train on and of those left out, for each fold."""
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        units = np.arange(n, dtype=np.uint64) if groups is None else group_numbers(np.asarray(groups))
        folds = fold_of(units, self.n_folds, self.random_state or 0)
        for k in range(self.n_folds):
            yield np.flatnonzero(folds != k), np.flatnonzero(folds == k)

    def get_n_splits(self, X: Any = None, y: ArrayLike | None = None, groups: ArrayLike | None = None) -> int:
        """Return the number of folds."""
        return self.n_folds


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """The seeds and folds of all networks of a fit.

    ``members`` are the seeds of members, ``networks`` those of each member's networks, fold by fold; with ``refit`` the
    last one is trained on all rows.
    """

    members: tuple[np.random.SeedSequence, ...]
    networks: tuple[tuple[np.random.SeedSequence, ...], ...]
    folds: MemberFolds
    refit: bool

    @classmethod
    def of(cls, model: Any, entropy: Any, n_members: int) -> BlockPlan:
        """Return the plan of a regressor, with the seeds that it has for rows in memory."""
        root = np.random.SeedSequence(entropy)
        members, refit = tuple(root.spawn(n_members)), model.predict_with == "refit"
        if model.design == "hold-out":
            seed = int(fold_generator(root).integers(2**31))
            folds = MemberFolds(1, (seed,) * n_members, float(model.holdout_fraction))
        else:
            seeds = tuple(int(fold_generator(member).integers(2**31)) for member in members)
            folds = MemberFolds(_fold_count(model), seeds)
        networks = tuple(
            (*(child_seed(member, k) for k in range(folds.n_folds)), *([member] if refit else [])) for member in members
        )
        return cls(members, networks, folds, refit)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members."""
        return tuple(f"network {h + 1}" for h in range(len(self.members)))

    @property
    def rows_per_row(self) -> float:
        """How many of a member's networks are trained on a row, on average."""
        left_out = 1.0 if self.folds.fraction is None else self.folds.fraction
        return len(self.networks[0]) - left_out

    def in_memory(self, units: Numbers) -> FoldPlan:
        """Return the plan of a cross-fit of rows in memory."""
        fold_of_row, n = self.folds.of(units), len(units)
        left_out = [[np.flatnonzero(fold_of_row[:, h] == k) for h in self._numbers] for k in range(self.folds.n_folds)]
        rows: list[RowSelection | None] = [RowsWithout(n, some) for of_fold in left_out for some in of_fold]
        held_out = np.flatnonzero(fold_of_row[:, 0] >= 0)
        return FoldPlan(
            names=self.names,
            seeds=[seeds[k] for k in range(len(self.networks[0])) for seeds in self.networks],
            members=[*self._numbers] * len(self.networks[0]),
            rows=rows + [None] * (len(self.members) * self.refit),
            fold_of=fold_of_row,
            held_out=None if len(held_out) == n else held_out,
            refit=self.refit,
        )

    def on_chunks(self, mean_count: float) -> ChunkPlan:
        """Return the plan of training on chunks."""
        return ChunkPlan(list(self._numbers), self.members, self.networks, self.folds, mean_count)

    @property
    def _numbers(self) -> range:
        return range(len(self.members))


def _fold_count(model: Any) -> int:
    """Return the number of folds; raise if other folds than those of row numbers are asked for."""
    cv: Any = model.n_folds if model.cv is None else model.cv
    if isinstance(cv, RowNumberFolds):
        return cv.n_folds
    if not is_fold_count(cv):
        raise InvalidParameterError(
            f"the folds of rows in blocks are functions of their numbers, or of their groups; got cv={cv!r}: leave cv "
            "out, or give the number of folds, and name a column of groups if rows belong together"
        )
    check_number("cv", cv, low=2, whole=True)
    return int(cv)
