"""Tasks: data sets with their splits, from the registry, generated, or from a user's table."""

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
    """A data set with all its splits, each the numbers of the training rows and of the test rows."""

    X: FloatArray
    y: FloatArray
    splits: Sequence[tuple[Indices, Indices]]


class TaskSource(Protocol):
    """A source of data sets by name; it is sent to worker processes."""

    def names(self) -> Sequence[str]:
        """Return the names of its data sets."""

    def n_splits(self, name: str) -> int:
        """Return the number of splits of a data set, without loading it."""

    def train_size(self, name: str) -> int:
        """Return the number of training rows per split, without loading them."""

    def load(self, name: str) -> Task:
        """Return rows and splits; raise a ``BDKNError`` or an ``OSError`` if they are not available."""


@dataclass(frozen=True)
class Toy:
    """The size of a data set that is generated or comes with scikit-learn."""

    rows: int
    features: int
    train_size: int
    n_splits: int


TOYS = {
    "diabetes": Toy(442, 10, 398, 20),
    "synthetic-small": Toy(200, 4, 180, 20),
    # As large as the paper's largest data set, to measure the time of a fit; its scores mean nothing.
    "synthetic-song": Toy(515_345, 90, 463_715, 1),
}


@dataclass(frozen=True)
class DataSource:
    """The data sets of ``bdkn_paper.data``, read from ``folder`` if given, the generated ones, and a user's tables.

    The two data sets of each kind that were used last are kept in memory.
    """

    folder: str | None = None
    tables: Mapping[str, UserTask] = field(default_factory=dict)

    def names(self) -> Sequence[str]:
        """Return the names of all data sets."""
        from bdkn_paper.data import DATASETS

        return [*DATASETS, *TOYS, *self.tables]

    def n_splits(self, name: str) -> int:
        """Return the number of splits of a data set."""
        return self._size(name).n_splits

    def train_size(self, name: str) -> int:
        """Return the number of training rows per split."""
        return self._size(name).train_size

    def load(self, name: str) -> Task:
        """Return rows and splits."""
        check_choice("dataset", name, self.names())
        if name in self.tables:
            return self.tables[name].load()
        return toy(name) if name in TOYS else _registered(name, self.folder or os.environ.get("BDKN_DATA"))

    def _size(self, name: str) -> _Size:
        from bdkn_paper.data import DATASETS

        check_choice("dataset", name, self.names())
        known: dict[str, _Size] = {**self.tables, **TOYS, **DATASETS}
        return known[name]


class _Size(Protocol):
    @property
    def n_splits(self) -> int: ...
    @property
    def train_size(self) -> int: ...


class UserTask(_Size, Protocol):
    """A data set that is not in the registry."""

    def load(self) -> Task:
        """Return rows and splits; raise a ``BDKNError`` or an ``OSError`` if they are not available."""


@lru_cache(maxsize=2)
def _registered(name: str, folder: str | None) -> Task:
    from bdkn_paper.data import load_dataset, splits

    data = load_dataset(name, folder)
    return Task(data.X, data.y, [(split.train, split.test) for split in splits(name)])


@lru_cache(maxsize=2)
def toy(name: str) -> Task:
    """Return a data set that needs no download."""
    size = TOYS[name]
    X, y = _diabetes() if name == "diabetes" else _synthetic(size.rows, size.features)
    generator = np.random.default_rng(1)
    orders = [generator.permutation(size.rows) for _ in range(size.n_splits)]
    return Task(X, y, [(order[: size.train_size], order[size.train_size :]) for order in orders])


def _diabetes() -> tuple[FloatArray, FloatArray]:
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    return X, y


def _synthetic(rows: int, features: int) -> tuple[FloatArray, FloatArray]:
    """Return a smooth function of the inputs plus noise, in the units of Song, years."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((rows, features))
    return X, 1998 + 10 * np.tanh(X[:, 0] + X[:, 1] * X[:, 2]) + 3 * generator.standard_normal(rows)
