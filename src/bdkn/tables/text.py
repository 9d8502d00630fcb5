"""Free text as numbers: the main directions of how often its parts of words occur."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.sparse import csr_matrix

from bdkn.persistence.fields import floats, stored
from bdkn.tables.columns import ColumnName
from bdkn.tables.reading import RawColumn
from bdkn.typing import FloatArray

BUCKETS = 2048
"""Numbers that runs of letters are hashed to."""

_DIRECTIONS = 8
_LENGTH = 4


@stored
@dataclass(frozen=True, eq=False)
class TextColumn:
    """A column of free text: its coordinates along the directions (buckets, k) in which training texts differ most.

    A text is the set of all runs of four letters in it, each hashed to one of the buckets and weighted by how rare the
    bucket is (``rarity``).
    """

    name: ColumnName
    rarity: Annotated[FloatArray, floats(BUCKETS)]
    directions: Annotated[FloatArray, floats(BUCKETS, "k")]

    @classmethod
    def fit(cls, column: RawColumn) -> TextColumn:
        """Return the encoder of training texts."""
        from scipy.sparse.linalg import svds

        table = _buckets(column)
        rows = np.asarray((table > 0).sum(axis=0)).ravel()
        rarity = np.log((1 + table.shape[0]) / (1 + rows))
        weighted = _normalized(table, rarity)
        k = max(1, min(_DIRECTIONS, min(weighted.shape) - 1))
        _, size, directions = svds(weighted, k=k, v0=np.ones(min(weighted.shape)))
        order = np.argsort(-size)
        directions = directions[order]
        sign = np.sign(directions[np.arange(k), np.abs(directions).argmax(axis=1)])
        return cls(column.name, rarity, np.ascontiguousarray((sign[:, None] * directions).T))

    @property
    def n_codes(self) -> int:
        """The number of codes per text."""
        return int(self.directions.shape[1])

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(f"{self.name}: text {j + 1}" for j in range(self.n_codes))

    def code(self, column: RawColumn) -> FloatArray:
        """Return the coordinates of each text; a missing one is at the origin."""
        return np.asarray(_normalized(_buckets(column), self.rarity) @ self.directions)

    def expand(self, codes: FloatArray) -> FloatArray:
        """Return the codes themselves."""
        return codes


def _buckets(column: RawColumn) -> Any:
    """Return which buckets (n, buckets) the runs of letters of each text fall into."""
    rows, columns = [], []
    for row, text in enumerate(column.values):
        padded = f" {(text or '').lower()} "
        runs = {padded[j : j + _LENGTH] for j in range(max(1, len(padded) - _LENGTH + 1))} if text else set()
        found = {zlib.crc32(run.encode()) % BUCKETS for run in runs}
        rows += [row] * len(found)
        columns += sorted(found)
    return csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(column.values), BUCKETS))


def _normalized(table: Any, rarity: FloatArray) -> Any:
    """Return the weighted table with rows of length one."""
    weighted = table.multiply(rarity).tocsr()
    length = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    return weighted.multiply(1.0 / np.where(length > 0, length, 1.0)[:, None]).tocsr()
