"""Rows of a source as networks see them: encoders learned from the sample, applied to blocks of any size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bdkn.blocks.chunks import Encoded
from bdkn.blocks.numbering import Numbers, group_numbers
from bdkn.errors import InvalidParameterError
from bdkn.members import Encoders
from bdkn.rows import Rows
from bdkn.tables.encoder import TableEncoder
from bdkn.typing import FloatArray


@dataclass(frozen=True, eq=False)
class KnownInputs:
    """The inputs that were learned for rows of the sample, which are in the order of their ``numbers``."""

    numbers: Numbers
    X: FloatArray

    def between(self, first: int, stop: int) -> KnownInputs:
        """Return those of rows with numbers from ``first`` to ``stop`` - 1."""
        start, end = np.searchsorted(self.numbers, np.array([first, stop], dtype=np.uint64))
        return KnownInputs(self.numbers[start:end], self.X[start:end])

    def put_into(self, X: FloatArray, numbers: Numbers) -> None:
        """Set the inputs of the rows of ``X`` that are known."""
        if len(self.numbers):
            place = np.searchsorted(self.numbers, numbers)
            known = self.numbers[np.minimum(place, len(self.numbers) - 1)] == numbers
            X[known] = self.X[place[known]]


@dataclass(frozen=True, eq=False)
class RowEncoding:
    """How rows are encoded: the encoder of a data frame (None: rows are arrays of so many columns), then encoders."""

    table: TableEncoder | None
    n_columns: int
    encoders: Encoders
    n_inputs: int

    def __call__(self, numbers: Numbers, rows: Rows, known: KnownInputs) -> Encoded:
        """Return rows as networks see them; those of the sample with the inputs that were learned for them."""
        X = self._inputs(rows.X)
        known.put_into(X, numbers)
        units = numbers if rows.groups is None else group_numbers(rows.groups)
        return numbers, units, self.encoders.transform(Rows(X, rows.y, rows.counts))

    def _inputs(self, X: Any) -> FloatArray:
        """Return the columns of a block as numbers."""
        if self.table is not None:
            return self.table.transform(X)
        table = np.array(X, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != self.n_columns:
            raise InvalidParameterError(
                f"every block must have {self.n_columns} columns, as the first one; got shape {table.shape}"
            )
        if not np.isfinite(table).all():
            raise InvalidParameterError("rows must be finite; a block holds NaN or infinity: drop or impute such rows")
        return table
