"""One cell of a table, before it is averaged: a method on a split of a data set."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from bdkn_paper.store.record import Record


@dataclass(frozen=True, kw_only=True)
class Cell:
    """All that decides a result: what runs again with the same cell gives the same numbers.

    ``base`` says how the regressor is made, ``{"from_paper": 1}`` or, if empty, by its constructor; ``parameters`` go
    on top of it. ``data`` tells the content of a table of one's own; that of a registered data set is known.
    """

    experiment: str
    method: str
    dataset: str
    split: int
    regressor: str
    base: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    kind: str = "scores"
    data: str = ""

    @classmethod
    def of(cls, record: Record) -> Self:
        """Return the cell a record is of."""
        return cls(**record["cell"])

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, as a record holds them."""
        return {name: value for name, value in asdict(self).items() if name != "data" or value}

    @cached_property
    def key(self) -> str:
        """The SHA-256 of the cell's canonical JSON, its name in a store."""
        text = json.dumps(self.as_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return _digest(text)

    def is_like(self, other: Cell) -> bool:
        """Tell whether two cells differ in nothing but the split, so that their results may be averaged."""
        return replace(self, split=other.split) == other

    @property
    def random_state(self) -> int:
        """The seed of the networks; methods share it, so that they differ in nothing but what they do with them."""
        return int(_digest(f"{self.seed}/{self.dataset}/{self.split}")[:8], 16)

    def __str__(self) -> str:
        return f"{self.experiment}: {self.method} on {self.dataset}, split {self.split}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
