"""How rows are divided: which of them are used, which belong together, and how folds are made of them."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold
from sklearn.model_selection._split import GroupsConsumerMixin
from sklearn.utils import _safe_indexing

from bdkn.errors import InvalidParameterError, RepeatedRowsWarning, check_number, shown, warn_user
from bdkn.members.folds import Folds, OwnFolds
from bdkn.members.repeated_rows import find_repeated_rows
from bdkn.rows import Rows
from bdkn.typing import IndexArray


class ShuffledRows:
    """Base class of splitters that assign samples to folds at random, one by one if there are no groups."""


@dataclass(frozen=True, eq=False)
class Splitting:
    """The rows of a table, the numbers of those that are used, and the number of the set that each of these belongs to.

    Rows of one set are in the same fold; ``sets`` is None if each row is a set of its own. ``groups`` are the labels
    that the user gave to all rows of the table, None if there are none.
    """

    rows: Rows
    used: IndexArray
    sets: IndexArray | None = None
    groups: NDArray[Any] | None = None

    @classmethod
    def of(cls, rows: Rows, groups: ArrayLike | None = None, cv: Any = None, *, warn: bool = True) -> Splitting:
        """Return the splitting of a table: by ``groups`` or, without them, by rows that repeat others.

        Rows that are counted zero times are not used, and rows that repeat another are used once, unless the user says
        which rows belong together: by groups, or by row numbers as ``cv``.
        """
        plain = cls.plain(rows)
        if groups is None:
            return plain if _is_row_numbers(cv) else plain._without_copies(warn)
        labels = _labels(groups, len(rows))
        return cls(rows, plain.used, np.unique(labels[plain.used], return_inverse=True)[1], labels)

    @classmethod
    def plain(cls, rows: Rows) -> Splitting:
        """Return the splitting that uses every row that is counted, each as a set of its own."""
        return cls(rows, np.arange(len(rows)) if rows.counts is None else np.flatnonzero(rows.counts))

    def by_cv(self, cv: Any) -> Splitting:
        """Return the splitting ``by_folds`` of ``cv``, this one for a number of folds or a splitter lacking groups."""
        if self.groups is not None or cv is None or is_fold_count(cv) or isinstance(cv, GroupsConsumerMixin):
            return self
        return self.by_folds(self.cross(cv, np.random.default_rng(0)), cv)

    def by_folds(self, folds: Folds | OwnFolds, cv: Any) -> Splitting:
        """Return the splitting whose sets are ``folds``, if ``cv`` chose them and no groups are given.

        A fold may hold whole groups, places or periods, which only ``cv`` knows. If the forest of a density or target
        statistics separated its rows, a row would be predicted from others of its group, which new rows do not have:
        with ``GroupKFold`` as row numbers, 90 % intervals then covered 50 to 76 % of new groups, and 79 % of the future
        with ``TimeSeriesSplit`` and time as an input (88 % now, and a lower NLL). Rows that are never held out are one
        set. Folds of samples that are shuffled one by one are no sets.
        """
        if self.groups is not None or isinstance(folds, OwnFolds) or folds.kept is None or _shuffles_rows(cv):
            return self
        return replace(self, sets=np.unique(folds.fold_of_rows(), return_inverse=True)[1])

    def sets_of(self, numbers: IndexArray) -> IndexArray | None:
        """Return the numbers of the sets of some of the rows that are used."""
        return None if self.sets is None else self.sets[numbers]

    def used_rows(self) -> Rows:
        """Return the rows that are used, of a table of any kind."""
        if len(self.used) == len(self.rows):
            return self.rows
        counts = None if self.rows.counts is None else self.rows.counts[self.used]
        return Rows(_safe_indexing(self.rows.X, self.used), self.rows.y[self.used], counts)

    def split(self, cv: Any, given: Mapping[str, Any] | None = None) -> Folds:
        """Return the folds of the used rows by a splitter, which receives what is ``given``, or by row numbers."""
        splits = cv
        if hasattr(cv, "split"):
            groups = {} if self.groups is None else {"groups": self.groups}
            groups |= given or {}
            if not groups and isinstance(cv, GroupsConsumerMixin):
                raise InvalidParameterError(f"cv={cv!r} divides rows by their groups; got none: fit(X, y, groups=...)")
            splits = cv.split(self.rows.X, self.rows.y, **groups)
        return Folds.of(len(self.rows), splits).only(self.used)

    def cross(self, cv: Any, generator: np.random.Generator) -> Folds:
        """Return folds: ``cv`` random ones, or those of a splitter, at random if its ``random_state`` is None."""
        if is_fold_count(cv):
            return Folds.cross(len(self.used), cv, generator, self.sets)
        if getattr(cv, "random_state", 0) is None:
            cv = copy.copy(cv)
            cv.random_state = int(generator.integers(2**31))
        return self.split(cv)

    def digest(self, cv: Any = None) -> str:
        """Return a hash of the groups and of ``cv``; empty without groups if ``cv`` is None or a number."""
        if self.groups is None and (cv is None or is_fold_count(cv)):
            return ""
        seen = hashlib.sha256()
        if self.groups is not None:
            seen.update(np.unique(self.groups, return_inverse=True)[1].astype(np.int64).tobytes())
        if _is_row_numbers(cv):
            for split in cv:
                parts = split if isinstance(split, Iterable) else [split]  # which is refused, when folds are made
                seen.update(repr([np.asarray(part).tolist() for part in parts]).encode())
        else:
            seen.update(repr(cv).encode())
        return seen.hexdigest()

    def _without_copies(self, warn: bool) -> Splitting:
        """Return the splitting that uses one row of each set of copies."""
        rows = self.used_rows()
        found = find_repeated_rows(rows.X, rows.y)
        if found is None:
            return self
        if warn and found.copies.any():
            warn_user(
                f"{found.copies.sum()} of {len(rows)} rows repeat another row, inputs and target, and count once; "
                "if they are observations of their own, pass groups=np.arange(len(y)); if rows belong together in "
                "another way, pass their groups",
                RepeatedRowsWarning,
            )
        sets = None if found.settings is None else found.settings[~found.copies]
        return replace(self, used=self.used[~found.copies], sets=sets)


def is_fold_count(cv: Any) -> bool:
    """Return whether ``cv`` is a number of folds, not "prefit", a splitter or row numbers."""
    return cv is not None and not (hasattr(cv, "split") or isinstance(cv, Iterable))


def _shuffles_rows(cv: Any) -> bool:
    """Return whether ``cv`` is a splitter that assigns samples to folds at random, one by one."""
    if isinstance(cv, KFold | StratifiedKFold):
        return bool(cv.shuffle)
    return isinstance(cv, ShuffleSplit | ShuffledRows)


def _is_row_numbers(cv: Any) -> bool:
    return isinstance(cv, Iterable) and not isinstance(cv, str)


def check_cv(cv: Any) -> None:
    """Raise unless ``cv`` is None, a number of folds, a splitter, or pairs of row numbers."""
    if isinstance(cv, str | bytes) or (isinstance(cv, np.ndarray) and cv.ndim == 0):
        raise InvalidParameterError(
            f"cv must be a number, a splitter or pairs of lists of row numbers; got {shown(cv)}"
        )
    if is_fold_count(cv):
        check_number("cv", cv, low=2, whole=True)


def _is_missing(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which labels are missing."""
    if labels.dtype.kind in "mM":
        return np.asarray(np.isnat(labels))
    if labels.dtype.kind not in "fcO":
        return np.zeros(len(labels), dtype=bool)
    return np.array([_is_no_label(label) for label in labels], dtype=bool)


def _is_no_label(label: Any) -> bool:
    """Return whether a label is None, not equal to itself, as nan is, or pandas' NA, which is not even unequal."""
    return label is None or type(label).__name__ == "NAType" or bool(np.any(label != label))


def _labels(groups: ArrayLike, n: int) -> NDArray[Any]:
    """Return the checked labels of n rows."""
    try:
        labels = np.asarray(groups)
    except ValueError as error:
        raise InvalidParameterError(f"groups must hold one label per row; got {shown(groups)}") from error
    if labels.shape != (n,):
        got = (
            f"{shown(groups)}: if this is a column, X[{groups!r}]"
            if isinstance(groups, str)
            else f"shape {labels.shape}"
        )
        raise InvalidParameterError(f"groups must hold one label per row, shape ({n},); got {got}")
    if (isinstance(groups, np.ma.MaskedArray) and np.ma.getmaskarray(groups).any()) or _is_missing(labels).any():
        raise InvalidParameterError(
            "groups must hold a label for every row; got nan, None or masked ones: give such rows their own"
        )
    labels = labels.astype(str) if labels.dtype.kind == "O" else labels
    if len(np.unique(labels)) < 2:
        raise InvalidParameterError(
            "groups must hold at least 2 labels, as members are compared on groups left out of training; got 1"
        )
    return labels
