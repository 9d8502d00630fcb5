"""Where a cell gets its rows from: the benchmark's data sets, and small ones that need no download."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bdkn.errors import check_choice
from bdkn.typing import FloatArray

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Task:
    """A data set with all its splits into (rows to fit to, rows to score)."""

    X: FloatArray
    y: FloatArray
    splits: Sequence[tuple[Indices, Indices]]


class TaskSource(Protocol):
    """Knows data sets by name; it travels to worker processes."""

    def names(self) -> Sequence[str]:
        """Return the names it knows."""

    def n_splits(self, name: str) -> int:
        """Return how many splits a data set has, without loading it."""

    def train_size(self, name: str) -> int:
        """Return how many rows a split fits to, without loading them."""

    def load(self, name: str) -> Task:
        """Return the rows; raise a ``BDKNError`` or an ``OSError`` if they are not to be had."""


@dataclass(frozen=True)
class Toy:
    """A data set that is made, or comes with scikit-learn."""

    rows: int
    features: int
    train_size: int
    n_splits: int


TOYS = {
    "diabetes": Toy(442, 10, 398, 20),
    "synthetic-small": Toy(200, 4, 180, 20),
    # The size of the largest set of the paper's table, for the time it takes; its scores mean nothing.
    "synthetic-song": Toy(515_345, 90, 463_715, 1),
}


@dataclass(frozen=True)
class DataSource:
    """The data sets of ``bdkn_paper.data``, from a folder if one is given, the toys, and tables of one's own.

    The last two of each kind stay in memory.
    """

    folder: str | None = None
    tables: Mapping[str, OwnTask] = field(default_factory=dict)

    def names(self) -> Sequence[str]:
        """Return the names of all data sets."""
        from bdkn_paper.data import DATASETS

        return [*DATASETS, *TOYS, *self.tables]

    def n_splits(self, name: str) -> int:
        """Return how many splits a data set has."""
        return self._about(name).n_splits

    def train_size(self, name: str) -> int:
        """Return how many rows a split fits to."""
        return self._about(name).train_size

    def load(self, name: str) -> Task:
        """Return the rows and the splits."""
        check_choice("dataset", name, self.names())
        if name in self.tables:
            return self.tables[name].load()
        return toy(name) if name in TOYS else _registered(name, self.folder or os.environ.get("BDKN_DATA"))

    def _about(self, name: str) -> _About:
        from bdkn_paper.data import DATASETS

        check_choice("dataset", name, self.names())
        known: dict[str, _About] = {**self.tables, **TOYS, **DATASETS}
        return known[name]


class _About(Protocol):
    @property
    def n_splits(self) -> int: ...
    @property
    def train_size(self) -> int: ...


class OwnTask(_About, Protocol):
    """A task that is in no registry."""

    def load(self) -> Task:
        """Return the rows; raise a ``BDKNError`` or an ``OSError`` if they are not to be had."""


@lru_cache(maxsize=2)
def _registered(name: str, folder: str | None) -> Task:
    from bdkn_paper.data import load_dataset, splits

    data = load_dataset(name, folder)
    return Task(data.X, data.y, [(split.train, split.test) for split in splits(name)])


@lru_cache(maxsize=2)
def toy(name: str) -> Task:
    """Return a data set that needs no download."""
    about = TOYS[name]
    X, y = _diabetes() if name == "diabetes" else _synthetic(about.rows, about.features)
    generator = np.random.default_rng(1)
    orders = [generator.permutation(about.rows) for _ in range(about.n_splits)]
    return Task(X, y, [(order[: about.train_size], order[about.train_size :]) for order in orders])


def _diabetes() -> tuple[FloatArray, FloatArray]:
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    return X, y


def _synthetic(rows: int, features: int) -> tuple[FloatArray, FloatArray]:
    """Return rows of a smooth function with noise, in the units of a year."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((rows, features))
    return X, 1998 + 10 * np.tanh(X[:, 0] + X[:, 1] * X[:, 2]) + 3 * generator.standard_normal(rows)
