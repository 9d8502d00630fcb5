"""A user's table, read from a CSV file, as a data set of an experiment."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePath

import numpy as np

from bdkn.errors import InvalidParameterError, check_choice, check_number
from bdkn.table_files.formats import DAMAGED, open_binary
from bdkn_paper.data import DataError
from bdkn_paper.data.folder import read
from bdkn_paper.data.split_rules import Shuffled
from bdkn_paper.experiments.tasks import Task
from bdkn_paper.store.files import read_file

MOST_SPLITS = 1000
"""Most splits of a table."""

MOST_HEADER = 1 << 20
"""Longest line of column names, in bytes."""

MOST_BYTES = 1 << 30
"""Largest size of the file of a table."""


@dataclass(frozen=True, kw_only=True)
class CsvTable:
    """A CSV file, gzipped or not: column names, then numbers; ``target`` is predicted from the other columns."""

    path: str
    target: str
    splits: int = 20
    folder: str = "."

    def __post_init__(self) -> None:
        for name in ("path", "target"):
            if not isinstance(getattr(self, name), str):
                raise InvalidParameterError(f"{name} of a table must be text; got {getattr(self, name)!r}")
        place = PurePath(self.path)
        if place.anchor or ".." in place.parts or "\0" in self.path:
            raise InvalidParameterError(
                f"path of a table must name a file in the folder of the experiment or below it; got {self.path!r}"
            )
        check_number("splits of a table", self.splits, low=1, high=MOST_SPLITS, whole=True)

    @property
    def n_splits(self) -> int:
        """Number of random splits, each with nine tenths of the rows for training."""
        return self.splits

    @property
    def train_size(self) -> int:
        """Number of training rows per split."""
        return Shuffled(len(self.load().y), self.splits).train_size

    @property
    def digest(self) -> str:
        """A hash of content and target, part of a cell, so that a changed file gives new cells."""
        try:
            content = read_file(self.place, MOST_BYTES)
        except OSError as error:
            raise DataError(f"{self.place} must be a CSV file; it cannot be read ({error.strerror})") from error
        except InvalidParameterError as error:
            raise DataError(f"{self.place} must be a CSV file; {error}") from error
        return hashlib.sha256(self.target.encode() + b"\0" + content).hexdigest()[:16]

    @property
    def place(self) -> Path:
        """The path of the file, seen from here."""
        return Path(self.folder) / self.path

    def load(self) -> Task:
        """Return rows, targets and splits."""
        return _load(self, self.digest)


@lru_cache(maxsize=2)
def _load(table: CsvTable, digest: str) -> Task:
    names, numbers = _names(table.place), read(table.place)
    check_choice(f"target of {table.place}", table.target, names)
    if numbers.shape[1] != len(names) or len(numbers) < 3 or not np.isfinite(numbers).all():
        raise DataError(
            f"{table.place} must hold finite numbers in {len(names)} columns and at least 3 rows below the header; "
            f"got {numbers.shape[0]} rows of {numbers.shape[1]}, {np.sum(~np.isfinite(numbers))} entries not finite"
        )
    at = names.index(table.target)
    splits = [(split.train, split.test) for split in Shuffled(len(numbers), table.splits).draw()]
    return Task(np.delete(numbers, at, axis=1), numbers[:, at], splits)


def _names(path: Path) -> list[str]:
    try:
        with open_binary(path, packed=path.suffix == ".gz") as file:
            return [name.strip().strip('"') for name in file.readline(MOST_HEADER).decode("utf-8-sig").split(",")]
    except (*DAMAGED, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as a CSV of numbers ({error})") from error
