"""Rows of a Dask data frame on a cluster: a sample of them, and chunks of all, which stay on the workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from math import sqrt
from typing import Any

import numpy as np

from bdkn.blocks.chunks import Chunk, number_of_chunks
from bdkn.blocks.encoding import KnownInputs, RowEncoding
from bdkn.blocks.numbering import chunk_of
from bdkn.blocks.places import KeptChunks
from bdkn.blocks.sample import Part, Sample, Tally, counted_rows, joined, sample_of
from bdkn.blocks.tree import merged_in_tree
from bdkn.cluster.client import active_client, on_cluster, result_of, results_of, started
from bdkn.cluster.cluster_chunks import ClusterChunks
from bdkn.errors import InvalidParameterError
from bdkn.row_sources.dask_rows import DaskRows, partition_rows
from bdkn.row_sources.named_columns import NamedColumns
from bdkn.rows import Rows, RowSource
from bdkn.typing import IndexArray


def cluster_of(source: RowSource, chunk_rows: int) -> ClusterRows | None:
    """Return the rows of a Dask data frame on the cluster whose client is active; None if there is no such thing."""
    client = active_client() if isinstance(source, DaskRows) else None
    return None if client is None else ClusterRows(source, client, chunk_rows)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class ClusterRows:
    """The rows of a Dask data frame on a cluster; chunks, and the sample, have about ``chunk_rows`` rows."""

    source: DaskRows
    client: Any
    chunk_rows: int

    def sample(self) -> Sample:
        """Return a sample of the rows: each partition sends those that may be in it, which are merged in a tree."""
        from dask.delayed import delayed

        task, n = delayed(drawn_rows), int(self._sizes.counted.sum())
        expected = self.chunk_rows
        while True:
            bound = _bound(expected, n)
            parts = [task(part, place, bound, self.chunk_rows) for part, place in self._partitions()]
            drawn = result_of(self.client, merged_in_tree(parts, delayed(partial(merged_draws, size=self.chunk_rows))))
            if drawn.part is not None and len(drawn.part.keys) >= min(self.chunk_rows, drawn.tally.n):
                return sample_of([drawn.part], drawn.tally, self.chunk_rows)
            if not drawn.tally.n:
                return sample_of([], drawn.tally, self.chunk_rows)
            expected *= 2  # by chance, fewer keys than expected are below the bound

    def chunks(self, sample: Sample, encoding: RowEncoding, known: KnownInputs) -> KeptChunks:
        """Return all rows, encoded, in chunks on the workers: Dask's shuffle brings the rows of a chunk together."""
        import dask.dataframe as dd
        from dask.delayed import delayed
        from distributed import wait

        n_chunks, weighted = number_of_chunks(sample.n, self.chunk_rows), sample.rows.counts is not None
        task, shared = delayed(encoded_rows), delayed(encoding)
        parts = [
            task(part, place, shared, known.between(place.first, place.first + place.size), n_chunks)
            for part, place in self._partitions()
        ]
        frame = dd.from_delayed(parts, meta=_frame_of_none(encoding, weighted), verify_meta=False)
        frame = frame.set_index("chunk", divisions=list(range(n_chunks + 1)))
        futures = started(self.client, [delayed(chunk_of_frame)(part, weighted) for part in frame.to_delayed()])
        with on_cluster(self.client, futures):
            wait(futures)
            for future in futures:
                if future.status == "error":
                    future.result()
        return ClusterChunks(self.client, futures)

    def _partitions(self) -> Iterator[tuple[Any, Place]]:
        """Yield the partitions, delayed objects that become data frames, and their places."""
        first, read = self._sizes.first.tolist(), self._sizes.read.tolist()
        for number, part in enumerate(self.source.frame.to_delayed()):
            yield part, Place(self.source.columns, number, first[number], read[number])

    @cached_property
    def _sizes(self) -> Sizes:
        """The numbers of rows of all partitions, for which the target, and weights, alone are read."""
        from dask.delayed import delayed

        columns, weights = self.source.columns, self.source.columns.sample_weight
        frame = self.source.frame[[columns.target] if weights is None else [columns.target, weights]]
        sizes = results_of(self.client, [delayed(partition_size)(part, weights) for part in frame.to_delayed()])
        read, counted = np.array(sizes, dtype=np.int64).reshape(-1, 2).T
        return Sizes(np.concatenate([[0], np.cumsum(read)[:-1]]), read, counted)


@dataclass(frozen=True, eq=False)
class Sizes:
    """Of each partition the number of its first row, how many rows it has, and how many of them are counted."""

    first: IndexArray
    read: IndexArray
    counted: IndexArray


@dataclass(frozen=True, eq=False)
class Place:
    """A partition: its columns, its number, that of its first row, and how many rows it has."""

    columns: NamedColumns
    number: int
    first: int
    size: int

    def rows(self, frame: Any) -> Rows:
        """Return the checked rows of the partition, a pandas data frame."""
        rows = partition_rows(frame, self.columns, self.number, self.first)
        if len(rows) != self.size:
            raise InvalidParameterError(
                f"a Dask data frame must have the same rows whenever it is computed; partition {self.number} had "
                f"{self.size} rows at first and {len(rows)} then: persist() it, or write it to Parquet files"
            )
        return rows


@dataclass(frozen=True, eq=False)
class Drawn:
    """Rows of some partitions that may be in the sample (None: there are none), and the tally of all their rows."""

    part: Part | None
    tally: Tally

    def __sizeof__(self) -> int:  # by which Dask decides what to move
        from dask.sizeof import sizeof

        return 200 if self.part is None else int(sizeof(self.part.rows.X)) + 40 * len(self.part.keys)


def partition_size(frame: Any, weights: Any) -> tuple[int, int]:
    """Return how many rows a partition has, and how many of them are counted at least once."""
    return len(frame), len(frame) if weights is None else int((frame[weights] != 0).sum())


def drawn_rows(frame: Any, place: Place, bound: int, most: int) -> Drawn:
    """Return the rows of a partition whose keys are below a bound, at most so many."""
    return draw(place.rows(frame), place.first, bound, most)


def draw(rows: Rows, first: int, bound: int, most: int) -> Drawn:
    """Return the rows whose keys are below a bound, at most so many; the number of the first row is ``first``."""
    numbers, counted = counted_rows(first, rows)
    if not len(counted):
        return Drawn(None, Tally())
    part = Part.of(numbers, counted).below(bound).smallest(most)
    return Drawn(part if len(part.keys) else None, Tally.of(numbers, counted))


def merged_draws(one: Drawn, other: Drawn, size: int) -> Drawn:
    """Return what two parts of the rows tell, of which the second follows the first."""
    parts = [drawn.part for drawn in (one, other) if drawn.part is not None]
    return Drawn(joined(parts).smallest(size) if parts else None, one.tally + other.tally)


def encoded_rows(frame: Any, place: Place, encoding: RowEncoding, known: KnownInputs, n_chunks: int) -> Any:
    """Return the encoded rows of a partition as a data frame."""
    return encoded_frame(place.rows(frame), place.first, encoding, known, n_chunks)


def encoded_frame(rows: Rows, first: int, encoding: RowEncoding, known: KnownInputs, n_chunks: int) -> Any:
    """Return encoded rows as a data frame with a column that names their chunks."""
    numbers, counted = counted_rows(first, rows)
    if not len(counted):
        return _frame_of_none(encoding, rows.counts is not None)
    numbers, units, found = encoding(numbers, counted, known)
    return _frame(chunk_of(numbers, n_chunks), numbers, units, found)


def chunk_of_frame(frame: Any, weighted: bool) -> Chunk:
    """Return a chunk, whose rows may come in any order."""
    frame = frame.sort_values("number")
    X = np.ascontiguousarray(frame.filter(regex="^x").to_numpy(np.float32))
    counts = frame["count"].to_numpy(np.float64).copy() if weighted else None
    return Chunk(Rows(X, frame["y"].to_numpy(np.float64).copy(), counts), frame["unit"].to_numpy(np.uint64).copy())


def _frame(chunks: Any, numbers: Any, units: Any, rows: Rows) -> Any:
    import pandas as pd

    counts = {} if rows.counts is None else {"count": rows.counts}
    columns = {"chunk": np.asarray(chunks, dtype=np.int64), "number": numbers, "unit": units, "y": rows.y, **counts}
    names = [f"x{j}" for j in range(rows.X.shape[1])]
    return pd.concat([pd.DataFrame(columns), pd.DataFrame(rows.X, columns=names)], axis=1)


def _frame_of_none(encoding: RowEncoding, weighted: bool) -> Any:
    none = np.empty(0, dtype=np.uint64)
    X = np.empty((0, encoding.n_inputs), dtype=np.float32)
    return _frame(none, none, none, Rows(X, np.empty(0), np.empty(0) if weighted else None))


def _bound(expected: int, n: int) -> int:
    """Return a bound of keys, below which are at least so many of n rows but for one case in a billion."""
    return int(min(1.0, (expected + 6 * sqrt(expected) + 36) / max(n, 1)) * 2.0**64)
