"""Folds: the rows that are left out when members are trained, on which members are compared."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bdkn.errors import InvalidParameterError
from bdkn.training.job import RowsWithout
from bdkn.typing import IndexArray

Seeds = Sequence[np.random.SeedSequence]


@dataclass(frozen=True)
class Folds:
    """The rows that each fold leaves out, no row twice, and those it trains on: all others, or those in ``kept``."""

    n: int
    left_out: tuple[IndexArray, ...]
    kept: tuple[IndexArray, ...] | None = None

    @classmethod
    def cross(cls, n: int, folds: int, generator: np.random.Generator) -> Self:
        """Return random folds of nearly equal size, each row in one of them; not more folds than rows."""
        _check_rows(n)
        return cls(n, tuple(np.sort(part) for part in np.array_split(generator.permutation(n), min(folds, n))))

    @classmethod
    def single(cls, n: int, fraction: float, generator: np.random.Generator) -> Self:
        """Return one fold that leaves out a random fraction of the rows, at least one row and not all."""
        _check_rows(n)
        held = min(max(1, round(n * fraction)), n - 1)
        return cls(n, (np.sort(generator.permutation(n)[:held]),))

    @classmethod
    def of(cls, n: int, splits: Iterable[object]) -> Self:
        """Return the folds of a cross-validation, given as pairs of rows to train on and rows to leave out."""
        pairs = [_row_numbers(n, split) for split in splits]
        if not any(len(part) for _, part in pairs):
            raise InvalidParameterError("cv must leave out rows, on which members are compared; it leaves out none")
        kept, left_out = zip(*pairs, strict=True)
        if np.bincount(np.concatenate(left_out)).max() > 1:
            raise InvalidParameterError(
                "cv must leave no row out twice, as every row is predicted once; its parts overlap: try KFold in place "
                "of repeated or random splits"
            )
        return cls(n, left_out, kept)

    @classmethod
    def everything(cls, n: int) -> Self:
        """Return one fold that leaves out all rows, for members that were trained on others."""
        return cls(n, (np.arange(n),))

    def only(self, rows: IndexArray) -> Self:
        """Return the folds of some of the rows, numbered from 0."""
        place = np.full(self.n, -1)
        place[rows] = np.arange(len(rows))
        parts = [(place[kept], place[left_out]) for kept, left_out in self]
        return type(self).of(
            len(rows), [(kept[kept >= 0], left[left >= 0]) for kept, left in parts if (left >= 0).any()]
        )

    def of_member(self, name: str) -> Self:
        """Return the folds of a member, which are the same for all members."""
        return self

    @property
    def held_out(self) -> IndexArray:
        """The numbers of the rows that are left out once, sorted."""
        return np.sort(np.concatenate(self.left_out))

    def __len__(self) -> int:
        return len(self.left_out)

    def __iter__(self) -> Iterator[tuple[IndexArray, IndexArray]]:
        """Yield for each fold the rows to train on and the rows left out."""
        for fold, left_out in enumerate(self.left_out):
            yield self.trained_on(fold), left_out

    def trained_on(self, fold: int) -> IndexArray:
        """Return the rows to train on in a fold; computed on each call, as those of all folds need much memory."""
        if self.kept is not None:
            return self.kept[fold]
        return np.asarray(RowsWithout(self.n, self.left_out[fold]))


@dataclass(frozen=True)
class OwnFolds:
    """Random folds of each member, which depend on the seed and on the member's name but not on other members."""

    n: int
    count: int
    entropy: int | Sequence[int] | None

    def __post_init__(self) -> None:
        _check_rows(self.n)

    def of_member(self, name: str) -> Folds:
        """Return the folds of the member of that name."""
        seed = np.random.SeedSequence(self.entropy, spawn_key=(*name_key(name), 2**32 - 1))
        return Folds.cross(self.n, self.count, np.random.default_rng(seed))

    @property
    def held_out(self) -> IndexArray:
        """The numbers of all rows: every row is left out once."""
        return np.arange(self.n)


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
    rows: Sequence[RowsWithout | None]
    fold_of: NDArray[np.signedinteger]
    held_out: IndexArray | None
    refit: bool

    @classmethod
    def of(cls, model: Any, n_rows: int, entropy: Any, members: range) -> FoldPlan:
        """Return the plan of a regressor for the members with these numbers.

        With ``design="hold-out"`` all members leave the same rows out, else each has ``n_folds`` folds of its own.
        """
        root = np.random.SeedSequence(entropy)
        seeds = root.spawn(members.stop)[members.start :]
        if model.design == "hold-out":
            folds = [Folds.single(n_rows, model.holdout_fraction, _generator(root))] * len(seeds)
        else:
            folds = [Folds.cross(n_rows, model.n_folds, _generator(seed)) for seed in seeds]
        refit, held_out = model.predict_with == "refit", folds[0].held_out
        few = len(folds[0].left_out) < 2**15
        fold_of = np.full((n_rows, len(seeds)), -1, dtype=np.int16 if few else np.int32)
        rows: list[RowsWithout | None] = []
        for k, h in np.ndindex(len(folds[0].left_out), len(folds)):
            fold_of[folds[h].left_out[k], h] = k
            rows.append(RowsWithout(n_rows, folds[h].left_out[k]))
        return cls(
            names=tuple(f"network {h + 1}" for h in members),
            seeds=[_child(seed, k) for k in range(len(folds[0].left_out)) for seed in seeds] + seeds * refit,
            members=[*members] * (len(folds[0].left_out) + refit),
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


def _generator(seed: np.random.SeedSequence) -> np.random.Generator:
    """Return a generator from a child of the seed that no member and no fold uses."""
    return np.random.default_rng(_child(seed, 2**32 - 1))


def _child(seed: np.random.SeedSequence, number: int) -> np.random.SeedSequence:
    """Return the child of that number, which does not depend on what else was spawned from the seed."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, number))


def _row_numbers(n: int, split: object) -> tuple[IndexArray, IndexArray]:
    """Return the rows to train on and the sorted rows to leave out of a split; raise if it is no such pair."""
    parts = [np.asarray(part) for part in split] if isinstance(split, tuple | list) else []
    parts = [part if part.size else np.arange(0) for part in parts]
    if len(parts) != 2 or not all(part.ndim == 1 and part.dtype.kind in "iu" for part in parts):
        raise InvalidParameterError(
            "cv must be a number, a splitter, or pairs of lists of row numbers: those to train on and those to leave "
            "out; got something else in place of a pair"
        )
    if not all(0 <= row < n for part in parts for row in (part.min(initial=0), part.max(initial=0))):
        raise InvalidParameterError(f"cv must give row numbers from 0 to {n - 1}; got others: split the rows of X")
    return parts[0].astype(np.intp), np.sort(parts[1].astype(np.intp))


def name_key(name: str) -> tuple[int]:
    """Return a spawn key for the random numbers of a member, which differs between names."""
    return (zlib.crc32(name.encode()),)


def _check_rows(n: int) -> None:
    if n < 2:
        raise InvalidParameterError(
            f"members are compared on rows left out of their training, which takes at least 2 rows; got n_samples={n}: "
            "add rows, or use design='in-sample'"
        )
