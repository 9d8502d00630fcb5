"""Record of the rows that a model has absorbed: a hash and a count for each row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Self

import numpy as np

from bdkn.data.repeated_rows import Keys, bits_of, mixed_bits
from bdkn.errors import InvalidParameterError
from bdkn.storage.fields import floats, integers, stored
from bdkn.typing import FloatArray

MAX_ROWS = 100_000
"""Maximum number of absorbed rows whose hashes are kept; the oldest are dropped first."""

_STEP = np.uint64(0x9E3779B97F4A7C15)
"""Increment of the random number generator SplitMix64, whose last step is the hash function of rows."""


@stored
@dataclass(frozen=True, eq=False)
class RowMemory:
    """Hashes (n,) and counts (n,) of the rows that a model has absorbed, the oldest first, to remove them later.

    ``is_complete`` is False if some absorbed rows are missing: rows beyond ``MAX_ROWS``, or rows of merged models.
    """

    keys: Annotated[Keys, integers("n", types=("u8",))] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    weights: Annotated[FloatArray, floats("n", low=0.0)] = field(default_factory=lambda: np.empty(0))
    is_complete: bool = True
    may_be_empty: ClassVar = ("n",)

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, keys: Keys, weights: FloatArray) -> Self:
        """Return the record with the hashes and counts of more rows added."""
        is_complete = self.is_complete and len(self) + len(keys) <= MAX_ROWS
        joined = np.concatenate([self.keys, keys])[-MAX_ROWS:], np.concatenate([self.weights, weights])[-MAX_ROWS:]
        return replace(self, keys=joined[0], weights=joined[1], is_complete=is_complete)

    def take(self, keys: Keys, weights: FloatArray) -> tuple[FloatArray, Self]:
        """Remove the rows with these hashes; return their counts, and the remaining record.

        A row that is not in the record raises an error if the record is complete; otherwise its count is taken from
        ``weights``. If the record has a hash several times, the oldest is removed first.
        """
        order, given = np.argsort(self.keys, kind="stable"), np.argsort(keys, kind="stable")
        known, sorted_keys = self.keys[order], keys[given]
        nth = np.arange(len(keys)) - np.searchsorted(sorted_keys, sorted_keys, "left")  # of equal keys
        place = np.searchsorted(known, sorted_keys, "left") + nth
        inside = place < len(known)
        is_known, places = np.zeros(len(keys), dtype=bool), np.zeros(len(keys), dtype=np.intp)
        is_known[given[inside]] = known[place[inside]] == sorted_keys[inside]
        places[given[inside]] = order[place[inside]]
        if self.is_complete and not is_known.all():
            raise InvalidParameterError(
                f"forget removes rows that partial_fit absorbed; {int(np.sum(~is_known))} of {len(keys)} are not among "
                f"them, the first at position {int(np.argmin(is_known))}: give X, y and sample_weight as they were "
                "absorbed; rows of the fit are part of the members, and are removed by a fit without them"
            )
        found, kept = weights.copy(), np.ones(len(self), dtype=bool)
        found[is_known] = self.weights[places[is_known]]
        kept[places[is_known]] = False
        return found, replace(self, keys=self.keys[kept], weights=self.weights[kept])


def row_keys(*columns: FloatArray) -> Keys:
    """Return a hash of each row of tables (n, p) and columns (n,); different rows hardly ever have equal hashes.

    Each number is hashed by the last step of the generator SplitMix64 (Steele, Lea and Flood, 2014).
    """
    table = bits_of(np.column_stack(columns))
    keys = np.zeros(len(table), dtype=np.uint64)
    for column in table.T:
        keys = mixed_bits((keys + _STEP) ^ column)
    return keys
