"""Which rows are left out when members are trained, so that they can be judged on rows they have not seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.errors import InvalidParameterError

RowNumbers = NDArray[np.intp]


@dataclass(frozen=True)
class Folds:
    """The rows each fold leaves out, no row twice, and those it trains on: all others, unless ``kept`` says which."""

    n: int
    left_out: tuple[RowNumbers, ...]
    kept: tuple[RowNumbers, ...] | None = None

    @classmethod
    def cross(cls, n: int, folds: int, generator: np.random.Generator) -> Self:
        """Return ``folds`` parts of nearly equal size, every row in one of them; fewer if there are fewer rows."""
        _check_rows(n)
        return cls(n, tuple(np.sort(part) for part in np.array_split(generator.permutation(n), min(folds, n))))

    @classmethod
    def single(cls, n: int, fraction: float, generator: np.random.Generator) -> Self:
        """Return one fold that leaves out that share of the rows, at least one and not all."""
        _check_rows(n)
        held = min(max(1, round(n * fraction)), n - 1)
        return cls(n, (np.sort(generator.permutation(n)[:held]),))

    @classmethod
    def of(cls, n: int, splits: Iterable[tuple[ArrayLike, ArrayLike]]) -> Self:
        """Return the folds of a cross-validation: for each the rows to train on and the rows to leave out."""
        kept, left_out = zip(*((np.asarray(a), np.sort(np.asarray(b))) for a, b in splits), strict=True)
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

    def only(self, rows: RowNumbers) -> Self:
        """Return the folds of some of the rows, which are numbered anew."""
        place = np.full(self.n, -1)
        place[rows] = np.arange(len(rows))
        parts = [(place[kept], place[left_out]) for kept, left_out in self]
        return type(self).of(
            len(rows), [(kept[kept >= 0], left[left >= 0]) for kept, left in parts if (left >= 0).any()]
        )

    @property
    def judged(self) -> RowNumbers:
        """The rows that are left out once, in their order."""
        return np.sort(np.concatenate(self.left_out))

    def __len__(self) -> int:
        return len(self.left_out)

    def __iter__(self) -> Iterator[tuple[RowNumbers, RowNumbers]]:
        """Yield for each fold the rows to train on and the rows left out."""
        for fold, left_out in enumerate(self.left_out):
            if self.kept is not None:
                yield self.kept[fold], left_out
                continue
            others = np.ones(self.n, dtype=bool)
            others[left_out] = False
            yield np.flatnonzero(others), left_out


def _check_rows(n: int) -> None:
    if n < 2:
        raise InvalidParameterError(
            f"members are judged on rows left out of their training, which takes at least 2 rows; got n_samples={n}: "
            "add rows, or use design='in-sample'"
        )
