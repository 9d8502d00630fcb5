"""A cell: one method on one split of one data set with one seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from bdkn_paper.store.parameter_names import stored_parameters, today_parameters
from bdkn_paper.store.record import Record


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Everything that determines a result: running an equal cell again gives the same numbers.

    ``base`` says how the regressor is created: ``{"from_paper": 1}``, or by its constructor if empty. ``parameters``
    override it. ``data`` identifies the content of a user's table; it is empty for registered data sets, whose content
    is known.
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
        """Return the cell of a record."""
        fields = record["cell"]
        return cls(**{**fields, "parameters": today_parameters(fields["regressor"], fields.get("parameters", {}))})

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, as a record holds them."""
        fields = {name: value for name, value in asdict(self).items() if name != "data" or value}
        return fields | {"parameters": stored_parameters(self.regressor, self.parameters)}

    @cached_property
    def key(self) -> str:
        """The SHA-256 of the cell's canonical JSON, its name in a store."""
        text = json.dumps(self.as_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return _digest(text)

    def is_like(self, other: Cell) -> bool:
        """Return whether two cells differ only in the split, so that their results may be averaged."""
        return replace(self, split=other.split) == other

    @property
    def random_state(self) -> int:
        """The seed of the regressor; all methods share it, so that they combine the same networks."""
        return int(_digest(f"{self.seed}/{self.dataset}/{self.split}")[:8], 16)

    def __str__(self) -> str:
        return f"{self.experiment}: {self.method} on {self.dataset}, split {self.split}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
