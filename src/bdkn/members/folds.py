"""Folds: the rows that are left out when members are trained, on which members are compared."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np

from bdkn.errors import InvalidParameterError
from bdkn.persistence.fields import Entropy, Number, integers, must, sizes, stored
from bdkn.training.job import RowSelection, RowsWithout
from bdkn.typing import IndexArray

_RowNumbers = Annotated[IndexArray, integers("*")]


@stored
@dataclass(frozen=True)
class Folds:
    """The rows that each fold leaves out, no row twice, and those it trains on: all others, or those in ``kept``."""

    n: Annotated[int, Number(low=1)]
    left_out: Annotated[tuple[_RowNumbers, ...], sizes(K=len)]
    kept: Annotated[tuple[_RowNumbers, ...] | None, sizes(K=len)] = None

    def check(self) -> None:
        """Raise unless there are rows of these numbers, and none is held out twice."""
        held_out = np.concatenate(self.left_out)
        must(len(np.unique(held_out)) == len(held_out), "no row must be held out twice")
        for numbers in (held_out, *(self.kept or ())):
            must(numbers.max(initial=0) < self.n, f"rows must be from 0 to {self.n - 1}")

    @classmethod
    def cross(cls, n: int, folds: int, generator: np.random.Generator, sets: IndexArray | None = None) -> Self:
        """Return random folds of nearly equal size, each row in one of them; not more folds than rows.

        Rows with the same number in ``sets`` are in the same fold.
        """
        _check_rows(n)
        if sets is not None:
            fold_of = _deal_sets(sets, folds, generator)
            return cls(n, tuple(np.flatnonzero(fold_of == k) for k in range(fold_of.max() + 1)))
        return cls(n, tuple(_sorted(part, n) for part in np.array_split(generator.permutation(n), min(folds, n))))

    @classmethod
    def single(cls, n: int, fraction: float, generator: np.random.Generator, sets: IndexArray | None = None) -> Self:
        """Return one fold that leaves out a random fraction of the rows, at least one row and not all.

        Rows with the same number in ``sets`` are left out together.
        """
        _check_rows(n)
        if sets is not None:
            return cls(n, (_draw_sets(sets, fraction, generator),))
        held = min(max(1, round(n * fraction)), n - 1)
        return cls(n, (_sorted(generator.permutation(n)[:held], n),))

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
        return _sorted(np.concatenate(self.left_out), self.n)

    def fold_of_rows(self) -> IndexArray:
        """Return the number of the fold that holds out each row, and -1 for rows that no fold does."""
        fold_of = np.full(self.n, -1)
        for fold, left_out in enumerate(self.left_out):
            fold_of[left_out] = fold
        return fold_of

    @property
    def trains_on_few(self) -> bool:
        """Whether some fold trains on fewer than half of the rows, as when only the past is used."""
        return self.kept is not None and any(2 * len(kept) < self.n - 1 for kept in self.kept)

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

    def selection(self, fold: int) -> RowSelection:
        """Return the rows to train on in a fold, as a training job receives them."""
        return RowsWithout(self.n, self.left_out[fold]) if self.kept is None else self.kept[fold]


@stored
@dataclass(frozen=True)
class OwnFolds:
    """Random folds of each member, which depend on the seed and on the member's name but not on other members.

    Rows with the same number in ``sets`` are in the same fold.
    """

    n: Annotated[int, Number(low=2)]
    count: Annotated[int, Number(low=1)]
    entropy: Annotated[int | Sequence[int] | None, Entropy()]
    sets: Annotated[IndexArray | None, integers("*")] = None

    def __post_init__(self) -> None:
        _check_rows(self.n)

    def check(self) -> None:
        """Raise unless each row has a set, numbered from 0."""
        must(self.sets is None or len(self.sets) == self.n, "sets must have an entry for each row")
        must(self.sets is None or int(self.sets.max()) < self.n, "sets must be numbered from 0")

    def of_member(self, name: str) -> Folds:
        """Return the folds of the member of that name."""
        seed = np.random.SeedSequence(self.entropy, spawn_key=(*name_key(name), 2**32 - 1))
        return Folds.cross(self.n, self.count, np.random.default_rng(seed), self.sets)

    @property
    def trains_on_few(self) -> bool:
        """False: every fold trains on all rows that it does not leave out."""
        return False

    @property
    def held_out(self) -> IndexArray:
        """The numbers of all rows: every row is left out once."""
        return np.arange(self.n)


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


def _deal_sets(sets: IndexArray, folds: int, generator: np.random.Generator) -> IndexArray:
    """Return the fold of each row; sets are dealt out from the largest to the smallest, forwards and backwards."""
    sizes = np.bincount(sets)
    order = generator.permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    count = min(folds, len(sizes))
    turn, place = np.divmod(np.arange(len(sizes)), count)
    fold = np.empty(len(sizes), dtype=np.intp)
    fold[order] = np.where(turn % 2, count - 1 - place, place)
    return np.asarray(fold[sets])


def _draw_sets(sets: IndexArray, fraction: float, generator: np.random.Generator) -> IndexArray:
    """Return the rows of random sets that hold about a fraction of the rows: at least one set, and not all."""
    sizes = np.bincount(sets)
    order = generator.permutation(len(sizes))
    before = np.cumsum(sizes[order]) - sizes[order] / 2
    held = min(max(1, int((before < fraction * len(sets)).sum())), len(sizes) - 1)
    return np.flatnonzero(np.isin(sets, order[:held]))


def name_key(name: str) -> tuple[int]:
    """Return a spawn key for the random numbers of a member, which differs between names."""
    return (zlib.crc32(name.encode()),)


def _sorted(numbers: IndexArray, n: int) -> IndexArray:
    """Return numbers of rows, no row twice, in rising order: marks take less time than a sort."""
    is_there = np.zeros(n, dtype=np.bool_)
    is_there[numbers] = True
    return np.flatnonzero(is_there)


def _check_rows(n: int) -> None:
    if n < 2:
        raise InvalidParameterError(
            f"members are compared on rows left out of their training, which takes at least 2 rows; got n_samples={n}: "
            "add rows, or use design='in-sample'"
        )
