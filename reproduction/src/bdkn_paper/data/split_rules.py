"""Rules that split a table into training and test rows, the same way on every machine.

The row numbers refer to one order of the rows; the fingerprint of a data set makes sure that the table has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

SEED = 1
"""Seed of the published splits; one generator draws all splits of a data set, one after the other."""


class Split(NamedTuple):
    """Row numbers of the training and of the test part."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]


class SplitRule(Protocol):
    """A rule that splits a table ``n_splits`` times into ``train_size`` and ``test_size`` rows."""

    @property
    def n_splits(self) -> int:
        """Number of splits."""
        ...

    @property
    def train_size(self) -> int:
        """Number of training rows of a split."""
        ...

    @property
    def test_size(self) -> int:
        """Number of test rows of a split."""
        ...

    def draw(self) -> Iterator[Split]:
        """Yield the splits one after the other."""
        ...


@dataclass(frozen=True)
class Shuffled:
    """The protocol of probabilistic backpropagation and MC dropout: shuffled rows, nine tenths of them for training."""

    rows: int
    n_splits: int = 20

    @property
    def train_size(self) -> int:
        """Nine tenths of the rows, rounded."""
        return round(self.rows * 0.9)

    @property
    def test_size(self) -> int:
        """The other rows."""
        return self.rows - self.train_size

    def draw(self) -> Iterator[Split]:
        """Yield both parts of each shuffle."""
        rng = np.random.RandomState(SEED)  # the legacy generator, which the published splits were drawn with
        for _ in range(self.n_splits):
            order = rng.choice(self.rows, self.rows, replace=False)
            yield Split(order[: self.train_size], order[self.train_size :])


@dataclass(frozen=True)
class Sampled:
    """Training rows sampled from the first ``official`` rows; the rows after them are the test rows of every split.

    ``leave_out=10`` never samples row 0, 10, 20, ..., which in Sarcos repeat the test rows.
    """

    official: int
    train_size: int
    test_size: int
    leave_out: int | None = None
    n_splits: int = 20

    def draw(self) -> Iterator[Split]:
        """Yield samples of training rows, each with the same test rows."""
        rng = np.random.RandomState(SEED)
        pool = np.arange(self.official)
        if self.leave_out is not None:
            pool = pool[pool % self.leave_out != 0]
        test = np.arange(self.official, self.official + self.test_size)
        for _ in range(self.n_splits):
            yield Split(pool[rng.choice(len(pool), self.train_size, replace=False)], test)


@dataclass(frozen=True)
class ByPosition:
    """One split: the first ``train_size`` rows, then ``test_size`` rows."""

    train_size: int
    test_size: int
    n_splits: int = 1

    def draw(self) -> Iterator[Split]:
        """Yield the only split."""
        rows = np.arange(self.train_size + self.test_size)
        yield Split(rows[: self.train_size], rows[self.train_size :])
