"""Folds: which rows each member is trained on, and which are held out."""

from __future__ import annotations

import copy
import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold
from sklearn.model_selection._split import GroupsConsumerMixin

from bdkn.data.rows import Rows
from bdkn.data.sample import MemberFolds, Numbers, fold_of, group_numbers
from bdkn.errors import InvalidParameterError, check_number, shown
from bdkn.storage.fields import Entropy, Number, integers, must, sizes, stored
from bdkn.typing import IndexArray

_RowNumbers = Annotated[IndexArray, integers("*")]


DESIGNS = ("cross-fit", "hold-out", "in-sample")

N_FOLDS = 5
"""Number of folds if the parameter ``cv`` is None."""

HOLDOUT_FRACTION = 0.1
"""Fraction of the rows that ``design="hold-out"`` holds out if the parameter ``cv`` is None."""


@dataclass(frozen=True, eq=False)
class RowsWithout:
    """The training rows of a fold: the row numbers from 0 to n - 1 without the numbers in ``held_out``.

    It saves memory: ``numpy.asarray`` converts it to an array of row numbers only when these are needed.
    """

    n: int
    held_out: IndexArray

    def __len__(self) -> int:
        return self.n - len(self.held_out)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        others = np.ones(self.n, dtype=bool)
        others[self.held_out] = False
        return np.flatnonzero(others).astype(np.int32 if dtype is None else dtype)


RowSelection = NDArray[Any] | RowsWithout
"""Type of the training rows of a network: an array of row numbers, or a ``RowsWithout``, which takes less memory."""


@stored
@dataclass(frozen=True)
class Folds:
    """Cross-validation folds: for each fold its ``held_out`` rows and its training rows ``kept`` (None: all others)."""

    n: Annotated[int, Number(low=1)]
    held_out: Annotated[tuple[_RowNumbers, ...], sizes(K=len)]
    kept: Annotated[tuple[_RowNumbers, ...] | None, sizes(K=len)] = None

    def check(self) -> None:
        """Raise unless all row numbers are below ``n`` and no row is held out twice."""
        held_out = np.concatenate(self.held_out)
        must(len(np.unique(held_out)) == len(held_out), "no row must be held out twice")
        for numbers in (held_out, *(self.kept or ())):
            must(numbers.max(initial=0) < self.n, f"rows must be from 0 to {self.n - 1}")

    @classmethod
    def cross(cls, n: int, folds: int, generator: np.random.Generator, sets: IndexArray | None = None) -> Self:
        """Return random folds of n rows, of nearly equal size; each row is held out once. There are at most n folds.

        Rows with the same number in ``sets`` are in the same fold. Sets are assigned from the largest to the smallest:
        to the first fold up to the last, then to the last fold down to the first, and so on.
        """
        _check_rows(n)
        if sets is None:
            return cls(n, tuple(_sorted(part, n) for part in np.array_split(generator.permutation(n), min(folds, n))))
        sizes = np.bincount(sets)
        order = generator.permutation(len(sizes))
        order = order[np.argsort(-sizes[order], kind="stable")]
        count = min(folds, len(sizes))
        turn, place = np.divmod(np.arange(len(sizes)), count)
        fold = np.empty(len(sizes), dtype=np.intp)
        fold[order] = np.where(turn % 2, count - 1 - place, place)
        fold_of = fold[sets]
        return cls(n, tuple(np.flatnonzero(fold_of == k) for k in range(fold_of.max() + 1)))

    @classmethod
    def single(cls, n: int, fraction: float, generator: np.random.Generator, sets: IndexArray | None = None) -> Self:
        """Return one fold that holds out a random fraction of the rows, at least one row and not all.

        Rows with the same number in ``sets`` are held out together.
        """
        _check_rows(n)
        if sets is None:
            held = min(max(1, round(n * fraction)), n - 1)
            return cls(n, (_sorted(generator.permutation(n)[:held], n),))
        sizes = np.bincount(sets)
        order = generator.permutation(len(sizes))
        before = np.cumsum(sizes[order]) - sizes[order] / 2
        held = min(max(1, int((before < fraction * n).sum())), len(sizes) - 1)
        return cls(n, (np.flatnonzero(np.isin(sets, order[:held])),))

    @classmethod
    def of(cls, n: int, splits: Iterable[object]) -> Self:
        """Return the folds of a cross-validation, given as pairs of training rows and held-out rows."""
        kept, held_out = [], []
        for split in splits:
            parts = [np.asarray(part) for part in split] if isinstance(split, tuple | list) else []
            parts = [part if part.size else np.arange(0) for part in parts]
            if len(parts) != 2 or not all(part.ndim == 1 and part.dtype.kind in "iu" for part in parts):
                raise InvalidParameterError(
                    "cv must be a number, a splitter, or pairs of lists of row numbers: those to train on and those to "
                    "hold out; got something else in place of a pair"
                )
            if not all(0 <= row < n for part in parts for row in (part.min(initial=0), part.max(initial=0))):
                raise InvalidParameterError(
                    f"cv must give row numbers from 0 to {n - 1}; got others: split the rows of X"
                )
            kept.append(parts[0].astype(np.intp))
            held_out.append(np.sort(parts[1].astype(np.intp)))
        if not any(map(len, held_out)):
            raise InvalidParameterError("cv must hold out rows, on which members are compared; it holds out none")
        if np.bincount(np.concatenate(held_out)).max() > 1:
            raise InvalidParameterError(
                "cv must hold out no row twice, as every row is predicted once; its parts overlap: try KFold in place "
                "of repeated or random splits"
            )
        return cls(n, tuple(held_out), tuple(kept))

    @classmethod
    def everything(cls, n: int) -> Self:
        """Return a single fold in which all n rows are held out, for members that were trained on other rows."""
        return cls(n, (np.arange(n),))

    def only(self, rows: IndexArray) -> Self:
        """Return the folds of a subset of rows, renumbered from 0; omit folds that hold out no row of the subset."""
        place = np.full(self.n, -1)
        place[rows] = np.arange(len(rows))
        parts = [(place[kept], place[held_out]) for kept, held_out in self]
        return type(self).of(
            len(rows), [(kept[kept >= 0], left[left >= 0]) for kept, left in parts if (left >= 0).any()]
        )

    def of_member(self, name: str) -> Self:
        """Return these folds for any member name, since all members have the same folds (unlike in ``OwnFolds``)."""
        return self

    @property
    def all_held_out(self) -> IndexArray:
        """The sorted numbers of the rows that are held out in some fold."""
        return _sorted(np.concatenate(self.held_out), self.n)

    @property
    def trains_on_few(self) -> bool:
        """True if some fold trains on fewer than half of the rows, for example only on the past."""
        return self.kept is not None and any(2 * len(kept) < self.n - 1 for kept in self.kept)

    def __len__(self) -> int:
        return len(self.held_out)

    def __iter__(self) -> Iterator[tuple[IndexArray, IndexArray]]:
        """Yield the numbers of the training rows and of the held-out rows, for each fold."""
        for fold, held_out in enumerate(self.held_out):
            yield np.asarray(self.selection(fold)), held_out

    def selection(self, fold: int) -> RowSelection:
        """Return the training rows of one fold, as row numbers or as a ``RowsWithout``, which saves memory."""
        return RowsWithout(self.n, self.held_out[fold]) if self.kept is None else self.kept[fold]


@stored
@dataclass(frozen=True)
class OwnFolds:
    """Random cross-validation folds, drawn for each member from a seed and the member's name.

    Rows with the same number in ``sets`` are in the same fold.
    """

    n: Annotated[int, Number(low=2)]
    count: Annotated[int, Number(low=1)]
    entropy: Annotated[int | Sequence[int] | None, Entropy()]
    sets: Annotated[IndexArray | None, integers("*")] = None

    def __post_init__(self) -> None:
        _check_rows(self.n)

    def check(self) -> None:
        """Raise unless ``sets`` is None or has, for each row, the number of its set, below ``n``."""
        must(self.sets is None or len(self.sets) == self.n, "sets must have an entry for each row")
        must(self.sets is None or int(self.sets.max()) < self.n, "sets must be numbered from 0")

    def of_member(self, name: str) -> Folds:
        """Return the random folds of the member with this name."""
        seed = np.random.SeedSequence(self.entropy, spawn_key=(*name_key(name), 2**32 - 1))
        return Folds.cross(self.n, self.count, np.random.default_rng(seed), self.sets)

    @property
    def trains_on_few(self) -> bool:
        """Always False, since every fold is trained on all rows that are not held out."""
        return False

    @property
    def all_held_out(self) -> IndexArray:
        """The numbers of the rows that are held out in some fold: here all rows, 0 to n - 1."""
        return np.arange(self.n)


def name_key(name: str) -> tuple[int]:
    """Return a hash of a member's name, used as ``spawn_key`` of ``SeedSequence`` for the member's random numbers."""
    return (zlib.crc32(name.encode()),)


def _sorted(numbers: IndexArray, n: int) -> IndexArray:
    """Return distinct row numbers below ``n`` in increasing order; a boolean mask is faster than sorting."""
    is_there = np.zeros(n, dtype=np.bool_)
    is_there[numbers] = True
    return np.flatnonzero(is_there)


def _check_rows(n: int) -> None:
    if n < 2:
        raise InvalidParameterError(
            f"members are compared on held-out rows, which takes at least 2 rows; got n_samples={n}: add rows, or use "
            "design='in-sample'"
        )


class ShuffledRows:
    """Base class of cross-validation splitters that assign single rows or, if given, groups to folds at random."""


@dataclass(frozen=True, eq=False)
class Splitting:
    """Rows of a table for cross-validation, with the numbers ``used`` of the rows to fit and ``sets`` to keep together.

    ``sets`` has the set number of each used row (None: each row is a set of its own); rows of one set are in the same
    fold. ``groups`` are the labels that the user gave for all rows of the table, None if there are none.
    """

    rows: Rows
    used: IndexArray
    sets: IndexArray | None = None
    groups: NDArray[Any] | None = None

    def by_cv(self, cv: Any) -> Self:
        """Keep the rows of each fold together if ``cv`` is row numbers or a splitter that does not use groups."""
        if self.groups is not None or cv is None or is_fold_count(cv) or isinstance(cv, GroupsConsumerMixin):
            return self
        return self.by_folds(self.cross(cv, np.random.default_rng(0)), cv)

    def by_folds(self, folds: Folds | OwnFolds, cv: Any) -> Self:
        """Return a splitting in which rows that are held out together are a set, unless the user gave groups.

        A user's folds may consist of whole groups, places or periods. The forest for densities and the target encoding
        must not separate such rows, or a row would be predicted from others of its group, which new rows do not
        have. With separation, 90 % intervals covered 50 to 76 % of new groups (``GroupKFold`` as row numbers), and
        79 instead of 88 % of the future (``TimeSeriesSplit`` with time as an input). Rows that are never held out are
        one set. Folds of a splitter that shuffles single rows are not used as sets.
        """
        if self.groups is not None or isinstance(folds, OwnFolds) or folds.kept is None or _shuffles_rows(cv):
            return self
        fold_of = np.full(folds.n, -1)
        for fold, held_out in enumerate(folds.held_out):
            fold_of[held_out] = fold
        return replace(self, sets=np.unique(fold_of, return_inverse=True)[1])

    def split(self, cv: Any, given: Mapping[str, Any] | None = None) -> Folds:
        """Return the folds by ``cv``, row numbers or a splitter; ``given`` are keyword arguments of its ``split``."""
        splits = cv
        if hasattr(cv, "split"):
            groups = {} if self.groups is None else {"groups": self.groups}
            groups |= given or {}
            if not groups and isinstance(cv, GroupsConsumerMixin):
                raise InvalidParameterError(f"cv={cv!r} divides rows by their groups; got none: fit(X, y, groups=...)")
            splits = cv.split(self.rows.X, self.rows.y, **groups)
        return Folds.of(len(self.rows), splits).only(self.used)

    def digest(self, cv: Any = None) -> str:
        """Return a hash of groups and ``cv``, to detect changes; empty without groups if ``cv`` is a number or None."""
        if self.groups is None and (cv is None or is_fold_count(cv)):
            return ""
        seen = hashlib.sha256()
        if self.groups is not None:
            seen.update(np.unique(self.groups, return_inverse=True)[1].astype(np.int64).tobytes())
        if isinstance(cv, Iterable) and not isinstance(cv, str):
            for split in cv:
                parts = split if isinstance(split, Iterable) else [split]  # others are refused later
                seen.update(repr([np.asarray(part).tolist() for part in parts]).encode())
        else:
            seen.update(repr(cv).encode())
        return seen.hexdigest()

    def cross(self, cv: Any, generator: np.random.Generator) -> Folds:
        """Return random folds if ``cv`` is a number, else the splitter's folds; its ``random_state`` is set if None."""
        if is_fold_count(cv):
            return Folds.cross(len(self.used), cv, generator, self.sets)
        if getattr(cv, "random_state", 0) is None:
            cv = copy.copy(cv)
            cv.random_state = int(generator.integers(2**31))
        return self.split(cv)


def is_fold_count(cv: Any) -> bool:
    """Return whether the parameter ``cv`` is a number, the number of folds, and not a splitter, row numbers or None."""
    return cv is not None and not (hasattr(cv, "split") or isinstance(cv, Iterable))


def _shuffles_rows(cv: Any) -> bool:
    """Return whether ``cv`` is a splitter that shuffles rows, such as ``KFold(shuffle=True)``."""
    if isinstance(cv, KFold | StratifiedKFold):
        return bool(cv.shuffle)
    return isinstance(cv, ShuffleSplit | ShuffledRows)


Seeds = Sequence[np.random.SeedSequence]


@dataclass(frozen=True, eq=False)
class FoldPlan:
    """Plan of cross-fitting: the networks to train, with their training rows and seeds, and the held-out rows.

    Each network has an entry in ``seeds``, ``members`` (the number of its member) and ``rows`` (its training rows;
    None: all). Each of the H members has an entry in ``names`` and ``member_seeds``. ``fold_of`` (n, H) has, for each
    row and member, the fold that holds out the row, or -1 if no fold does. ``held_out`` are the rows that are held out
    in some fold, the same for all members (None: all rows). With ``refit`` a member predicts with one more
    network, trained on all rows, instead of the average over its folds; these networks are the last ones. For rows in
    blocks, ``by_number`` computes the folds of other rows from their row numbers; it is None for rows in memory.
    """

    names: tuple[str, ...]
    member_seeds: Seeds
    seeds: Seeds
    members: Sequence[int]
    rows: Sequence[RowSelection | None]
    fold_of: NDArray[np.signedinteger]
    held_out: IndexArray | None
    refit: bool
    by_number: MemberFolds | None = None

    @classmethod
    def of(
        cls, params: Any, splitting: Splitting, entropy: Any, members: range, *, units: Numbers | None = None
    ) -> FoldPlan:
        """Return the plan for training the members with the given numbers; ``params`` are a regressor's parameters.

        With ``design="hold-out"`` all members hold out the same rows; otherwise random folds differ between members. If
        folds train on few rows, such as the past only, members predict with a refit. For rows in blocks, folds are
        computed from ``units``, which are row numbers or hashes of groups.
        """
        root, n, hold_out = np.random.SeedSequence(entropy), len(splitting.used), params.design == "hold-out"
        seeds = root.spawn(members.stop)[members.start :]
        H, refit, by_number = len(seeds), params.predict_with == "refit", None
        fraction = HOLDOUT_FRACTION if params.cv is None else params.cv
        generators = [fold_generator(seed) for seed in ([root] if hold_out else seeds)]
        rows: list[RowSelection | None]
        if units is not None:
            fold_seeds = tuple(int(generator.integers(2**31)) for generator in generators)
            if hold_out:
                by_number = MemberFolds(1, fold_seeds * H, float(fraction))
            else:
                cv = params.cv
                if isinstance(cv, RowNumberFolds):
                    cv = cv.n_folds
                elif cv is not None and not is_fold_count(cv):
                    raise InvalidParameterError(
                        "the folds of rows in blocks are functions of their numbers, or of their groups; got "
                        f"cv={cv!r}: leave cv out, or give the number of folds, and name a column of groups if rows "
                        "belong together"
                    )
                by_number = MemberFolds(N_FOLDS if cv is None else int(cv), fold_seeds)
            fold_of: NDArray[np.signedinteger] = by_number.of(units)
            K, held_out = by_number.n_folds, np.flatnonzero(fold_of[:, 0] >= 0)
            rows = [RowsWithout(n, np.flatnonzero(fold_of[:, h] == k)) for k, h in np.ndindex(K, H)]
        else:
            if hold_out:
                folds = [Folds.single(n, fraction, generators[0], splitting.sets)] * H
            else:
                cv = N_FOLDS if params.cv is None else params.cv
                folds = [splitting.cross(cv, generator) for generator in generators]
            refit, K, held_out = refit or folds[0].trains_on_few, len(folds[0]), folds[0].all_held_out
            if any(len(one) != K or not np.array_equal(one.all_held_out, held_out) for one in folds[1:]):
                raise InvalidParameterError(
                    "cv must hold out the same rows, in as many folds, for every member; got others for another "
                    "random_state: give the splitter a random_state, for the same folds for all members"
                )
            fold_of = np.full((n, H), -1, dtype=np.int16 if K < 2**15 else np.int32)
            for k, h in np.ndindex(K, H):
                fold_of[folds[h].held_out[k], h] = k
            rows = [folds[h].selection(k) for k, h in np.ndindex(K, H)]
        return cls(
            names=tuple(f"network {h + 1}" for h in members),
            member_seeds=seeds,
            seeds=[child_seed(seed, k) for k in range(K) for seed in seeds] + [*seeds] * refit,
            members=[*members] * (K + refit),
            rows=rows + [None] * (H * refit),
            fold_of=fold_of,
            held_out=held_out if len(held_out) < n else None,
            refit=refit,
            by_number=by_number,
        )

    @property
    def rows_per_member(self) -> float:
        """Sum of the numbers of training rows over the networks of a member, a measure of the work per member."""
        total = sum(len(self.fold_of) if numbers is None else len(numbers) for numbers in self.rows)
        return total / len(self.names)

    def first_member(self, name: str) -> FoldPlan:
        """Return the part of the plan for its first member, with the same seeds and folds; ``name`` is its new name."""
        H = len(self.names)
        seeds, rows = self.seeds[::H], self.rows[::H]
        return replace(
            self,
            names=(name,),
            member_seeds=self.member_seeds[:1],
            seeds=seeds,
            members=[0] * len(rows),
            rows=rows,
            fold_of=self.fold_of[:, :1],
            by_number=None,
        )

    def for_chunk(self, units: Numbers, members: Sequence[int], names: tuple[str, ...]) -> FoldPlan:
        """Return a plan, without networks to train, for predicting the held-out rows of one chunk of a large table."""
        assert self.by_number is not None, "rows in blocks have folds that are functions of their numbers"
        fold_of = replace(self.by_number, seeds=tuple(self.by_number.seeds[h] for h in members)).of(units)
        is_held_out = fold_of[:, 0] >= 0
        held_out = None if is_held_out.all() else np.flatnonzero(is_held_out)
        return FoldPlan(names, [], [], [], [], fold_of, held_out, self.refit, self.by_number)


@dataclass
class RowNumberFolds(ShuffledRows):
    """Cross-validation splitter that computes the fold of a row from its row number, or from its group, by a hash.

    The fold of a row does not depend on how many other rows there are. A fit to rows in blocks always has such folds;
    with this splitter, a fit to the same rows in memory has the same folds.

    Parameters
    ----------
    n_folds : int, default=5
        Number of folds. They have nearly equal sizes if there are many rows.
    random_state : int, optional
        Seed of the folds. None is 0 or, in a ``BDKNRegressor``, another seed for each member.

    Examples
    --------
    >>> from bdkn import RowNumberFolds
    >>> [held_out.tolist() for _, held_out in RowNumberFolds(2, random_state=0).split([[0]] * 8)]
    [[0, 4, 7], [1, 2, 3, 5, 6]]
    """

    n_folds: int = 5
    random_state: int | None = None

    def __post_init__(self) -> None:
        check_number("n_folds", self.n_folds, low=2, whole=True)

    def split(
        self, X: Any, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Iterator[tuple[IndexArray, IndexArray]]:
        """Yield, for each fold, the numbers of the training rows and of the held-out rows."""
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        units = np.arange(n, dtype=np.uint64) if groups is None else group_numbers(np.asarray(groups))
        folds = fold_of(units, self.n_folds, self.random_state or 0)
        for k in range(self.n_folds):
            yield np.flatnonzero(folds != k), np.flatnonzero(folds == k)

    def get_n_splits(self, X: Any = None, y: ArrayLike | None = None, groups: ArrayLike | None = None) -> int:
        """Return the number of folds."""
        return self.n_folds


def fold_generator(seed: np.random.SeedSequence) -> np.random.Generator:
    """Return the random generator that draws folds; its seed, derived from ``seed``, is used for nothing else."""
    return np.random.default_rng(child_seed(seed, 2**32 - 1))


def child_seed(seed: np.random.SeedSequence, number: int) -> np.random.SeedSequence:
    """Return a child seed, as ``seed.spawn`` does, but by its number: earlier calls do not change the result."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, number))


Seed = int | np.random.RandomState | np.random.Generator | None


def seed_sequence(random_state: Seed) -> np.random.SeedSequence:
    """Convert the parameter ``random_state`` to a NumPy ``SeedSequence``.

    The same integer always gives the same sequence. A generator gives its next random numbers, so that a second call
    returns another sequence. None uses new entropy of the operating system.
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(random_state.randint(0, 2**32, size=4, dtype=np.uint32).tolist())
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(random_state.integers(0, 2**32, size=4, dtype=np.uint32).tolist())
    if random_state is None:
        return np.random.SeedSequence()
    if isinstance(random_state, Integral) and not isinstance(random_state, bool) and random_state >= 0:
        return np.random.SeedSequence(int(random_state))
    raise InvalidParameterError(
        "random_state must be None, an integer >= 0, a numpy.random.Generator or a numpy.random.RandomState; "
        f"got {shown(random_state)}"
    )
