"""The sample: at most so many rows, drawn at random in one pass, which stay in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bdkn.blocks.numbering import CHUNK_ROWS, Numbers, group_numbers, sample_keys
from bdkn.errors import InvalidParameterError
from bdkn.rows import Rows, RowSource
from bdkn.typing import IndexArray


@dataclass(frozen=True, eq=False)
class Sample:
    """Some rows of a source, in their order, with their ``numbers``, and what one pass tells about all ``n`` rows.

    ``units`` are the numbers that folds are functions of: those of the rows or, if there are groups, of these.
    ``n`` counts the rows that are counted at least once, ``n_read`` all of them, and ``total`` is the number of
    observations, the sum of the counts. ``targets_between`` are the smallest and the largest target.
    """

    rows: Rows
    numbers: Numbers
    units: Numbers
    n: int
    n_read: int
    total: float
    targets_between: tuple[float, float]

    @property
    def is_complete(self) -> bool:
        """Whether the sample consists of all rows that count."""
        return len(self.numbers) == self.n


@dataclass(frozen=True, eq=False)
class _Part:
    rows: Rows
    numbers: Numbers
    keys: Numbers

    def smallest(self, size: int) -> _Part:
        """Return the rows with the smallest keys, in their order."""
        if len(self.keys) <= size:
            return self
        return self[np.sort(np.argpartition(self.keys, size)[:size])]

    def __getitem__(self, places: IndexArray) -> _Part:
        return _Part(taken(self.rows, places), self.numbers[places], self.keys[places])


def draw_sample(source: RowSource, size: int = CHUNK_ROWS) -> Sample:
    """Return a random sample of the rows that are counted at least once, by one pass over a source."""
    parts: list[_Part] = []
    n, n_read, held, total, low, high = 0, 0, 0, 0.0, np.inf, -np.inf
    for numbers, rows in counted_blocks(source):
        n, n_read = n + len(rows), int(numbers[-1]) + 1
        total += float(len(rows) if rows.counts is None else rows.counts.sum())
        low, high = min(low, float(rows.y.min())), max(high, float(rows.y.max()))
        found = _Part(rows, numbers, sample_keys(numbers))
        if parts and len(parts[0].keys) == size:  # its largest key bounds what can still enter the sample
            found = found[np.flatnonzero(found.keys < parts[0].keys.max())]
        parts.append(found.smallest(size))
        held += len(parts[-1].keys)
        if held > 2 * size:
            parts = [_joined(parts).smallest(size)]
            held = len(parts[0].keys)
    if not parts:
        raise InvalidParameterError("a row source must have at least one row that counts; got none")
    drawn = _joined(parts).smallest(size)
    groups = drawn.rows.groups
    units = drawn.numbers if groups is None else group_numbers(groups)
    return Sample(replace(drawn.rows, groups=None), drawn.numbers, units, n, n_read, total, (low, high))


def counted_blocks(source: RowSource) -> Iterator[tuple[Numbers, Rows]]:
    """Yield the rows that are counted at least once, block by block, with their numbers."""
    start = 0
    for rows in source.blocks():
        numbers = np.arange(start, start + len(rows), dtype=np.uint64)
        start += len(rows)
        if rows.counts is not None and not rows.counts.all():
            used = np.flatnonzero(rows.counts)
            rows, numbers = taken(rows, used), numbers[used]
        if len(rows):
            yield numbers, rows


def taken(rows: Rows, places: IndexArray) -> Rows:
    """Return some rows of a table of any kind."""
    return Rows(
        _rows_of(rows.X, places),
        rows.y[places],
        None if rows.counts is None else rows.counts[places],
        None if rows.groups is None else rows.groups[places],
    )


def _joined(parts: Sequence[_Part]) -> _Part:
    if len(parts) == 1:
        return parts[0]
    rows = [part.rows for part in parts]
    return _Part(
        Rows(
            joined_tables([one.X for one in rows]),
            np.concatenate([one.y for one in rows]),
            None if rows[0].counts is None else np.concatenate([np.asarray(one.counts) for one in rows]),
            None if rows[0].groups is None else np.concatenate([np.asarray(one.groups) for one in rows]),
        ),
        np.concatenate([part.numbers for part in parts]),
        np.concatenate([part.keys for part in parts]),
    )


def _rows_of(table: Any, places: IndexArray) -> Any:
    if isinstance(table, np.ndarray):
        return table[places]
    import narwhals as nw

    return nw.from_native(table, eager_only=True)[places.tolist()].to_native()


def joined_tables(tables: Sequence[Any]) -> Any:
    """Return tables of one kind, arrays or data frames, one below the other."""
    if isinstance(tables[0], np.ndarray):
        return np.concatenate(tables)
    import narwhals as nw

    return nw.concat([nw.from_native(table, eager_only=True) for table in tables], how="vertical").to_native()
