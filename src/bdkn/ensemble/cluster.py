"""Training on a Dask cluster: its workers store the encoded rows in chunks and train networks on them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import sqrt
from types import TracebackType
from typing import Any

import numpy as np

from bdkn.data.dask_rows import DaskRows, partition_rows
from bdkn.data.rows import Rows, RowSource
from bdkn.data.sample import Sample, SampleCandidates, chunk_of, counted_rows, merged_in_tree
from bdkn.data.sources import NamedColumns
from bdkn.ensemble.chunks import (
    Chunk,
    ChunkStatistics,
    ChunkStore,
    HeldOutStatistics,
    KnownInputs,
    LocalChunks,
    MemberTraining,
    OnPass,
    RowEncoding,
    merged_statistics,
    number_of_chunks,
)
from bdkn.errors import BDKNError, ClusterError, InvalidParameterError

RETRIES = 2
"""Maximum number of times that Dask repeats a task after an error, such as a file error; lost workers do not count."""

_LARGE_GRAPH = "1 GB"
"""Size of a task graph above which Dask warns; a fit's graph is large, as it contains the inputs of sampled rows."""


PASSES_AT_ONCE = 16
"""Number of training passes of a network that are submitted to Dask at a time. After them, the network's state is sent
to the client and the scheduler forgets these tasks: if a worker is lost, at most this number of passes is repeated."""

MIN_MEMBERS_PER_THREAD = 1.0
"""Minimum number of members per thread of the cluster to train each member in one task. With fewer, each network has
its own task, so that no thread is idle; each of these tasks computes the bins of inputs again: up to twice the work."""


def chunk_store(source: RowSource, chunk_rows: int) -> ChunkStore:
    """Return the storage of chunks: on the active Dask cluster for a Dask data frame, else on this machine."""
    client = active_client() if isinstance(source, DaskRows) else None
    return LocalChunks(source, chunk_rows) if client is None else ClusterChunks(source, chunk_rows, client)


def active_client() -> Any | None:
    """Return the active Dask client; None if there is none, or if this code itself runs as a task of a cluster."""
    if "distributed" not in sys.modules:
        return None
    from distributed import Client, get_worker

    try:
        get_worker()
        return None
    except ValueError:  # not in a task
        pass
    try:
        client = Client.current()
    except ValueError:
        return None
    if client.asynchronous:
        raise InvalidParameterError(
            "a fit on a cluster waits for its results; the active Dask client is asynchronous: make one by "
            "Client(address)"
        )
    return client


class ClusterChunks(ChunkStore):
    """Storage of encoded rows on a Dask cluster: each chunk is a future and stays on the worker that trains on it."""

    source: DaskRows

    def __init__(self, source: RowSource, chunk_rows: int, client: Any) -> None:
        super().__init__(source, chunk_rows)
        self.client = client
        self._chunks: list[Any] = []

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        cancel(self.client, self._chunks)

    @cached_property
    def _partitions(self) -> tuple[list[tuple[Any, Partition]], int]:
        """Pairs (delayed data frame, description of its partition), and the number of rows with a positive weight.

        To count the rows, Dask reads only the columns of targets and weights.
        """
        from dask.delayed import delayed

        columns, task = self.source.columns, delayed(partition_size)
        frame = self.source.frame[list(columns.numeric)]
        sizes = results_of(self.client, [task(part, columns.sample_weight) for part in frame.to_delayed()])
        found, first = [], 0
        for number, (part, (size, _)) in enumerate(zip(self.source.frame.to_delayed(), sizes, strict=True)):
            found.append((part, Partition(columns, number, first, size)))
            first += size
        return found, sum(counted for _, counted in sizes)

    def sample(self) -> Sample:
        """Return a random sample of all rows: candidates are drawn from each partition and then merged pair by pair."""
        from dask.delayed import delayed

        task, merge = delayed(candidate_rows), delayed(partial(merged_candidates, size=self.chunk_rows))
        (partitions, n), expected = self._partitions, self.chunk_rows
        while True:
            # Candidates are rows with random keys below the bound; fewer than ``expected`` with probability 1e-9
            bound = int(min(1.0, (expected + 6 * sqrt(expected) + 36) / max(n, 1)) * 2.0**64)
            parts = [task(part, partition, bound, self.chunk_rows) for part, partition in partitions]
            drawn: SampleCandidates = results_of(self.client, [merged_in_tree(parts, merge)])[0]
            if len(drawn.keys) >= min(self.chunk_rows, drawn.n):
                return drawn.sample()
            expected *= 2

    def write(self, sample: Sample, encoding: RowEncoding, known: KnownInputs) -> None:
        """Encode all rows and store them in chunks on the workers; a shuffle by Dask collects the rows of a chunk."""
        import dask.dataframe as dd
        from dask.delayed import delayed
        from distributed import wait

        self.n_chunks, weighted = number_of_chunks(sample.n, self.chunk_rows), sample.rows.counts is not None
        task, shared = delayed(encoded_rows), delayed(encoding)
        parts = [
            task(
                part, partition, shared, known.between(partition.first, partition.first + partition.size), self.n_chunks
            )
            for part, partition in self._partitions[0]
        ]
        frame = dd.from_delayed(parts, meta=_frame_of_none(encoding, weighted), verify_meta=False)
        frame = frame.set_index("chunk", divisions=list(range(self.n_chunks + 1)))
        self._chunks = started(self.client, [delayed(chunk_of_frame)(part, weighted) for part in frame.to_delayed()])
        with on_cluster(self.client, self._chunks):
            wait(self._chunks)
            for future in self._chunks:
                if future.status == "error":
                    future.result()

    def _train(self, members: list[MemberTraining], n_jobs: int | None, on_pass: OnPass | None) -> list[MemberTraining]:
        """Return the members after all their training passes; a few passes over chunks are submitted at a time."""
        from dask.delayed import delayed
        from distributed import as_completed

        few = len(members) < MIN_MEMBERS_PER_THREAD * sum(self.client.nthreads().values())
        divided = [member.by_fold() if few else [member] for member in members]
        states, task = [part for parts in divided for part in parts], delayed(after_pass)

        def some_passes(state: MemberTraining) -> Any:
            """Submit the next passes of a member, or of one of its networks; return the future of the new state."""
            after = delayed(state)
            for number in state.next_chunks(PASSES_AT_ONCE):
                after = task(after, self._chunks[number])
            return started(self.client, [after])[0]

        running = {some_passes(state): number for number, state in enumerate(states)}
        with on_cluster(self.client, running):
            waiting = as_completed(list(running), with_results=True)
            for future, state in waiting:
                number = running.pop(future)
                if on_pass is not None:
                    on_pass((state.n_passes - states[number].n_passes) / len(divided[0]))
                states[number] = state
                if not state.is_done:
                    following = some_passes(state)
                    running[following] = number
                    waiting.add(following)
        rest = iter(states)
        return [MemberTraining.joined([next(rest) for _ in parts]) for parts in divided]

    def statistics(self, computation: ChunkStatistics) -> HeldOutStatistics:
        """Return the sufficient statistics of all held-out rows, merged from all chunks."""
        from dask.delayed import delayed

        shared, task = delayed(computation), delayed(statistics_of)
        parts = [task(shared, chunk) for chunk in self._chunks]
        [found] = results_of(self.client, [merged_in_tree(parts, delayed(merged_statistics))])
        merged: HeldOutStatistics = found
        return merged


# Calls from the client to the cluster


def started(client: Any, tasks: Sequence[Any]) -> list[Any]:
    """Submit delayed objects of Dask to the cluster and return their futures."""
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": _LARGE_GRAPH}):
        futures: list[Any] = client.compute(list(tasks), retries=RETRIES)
    return futures


def results_of(client: Any, tasks: Sequence[Any]) -> list[Any]:
    """Compute delayed objects of Dask on the cluster, wait for them, and return their results."""
    futures = started(client, tasks)
    with on_cluster(client, futures):
        results: list[Any] = client.gather(futures)
    return results


@contextmanager
def on_cluster(client: Any, futures: Collection[Any]) -> Iterator[None]:
    """Cancel futures after an error or interrupt in the ``with`` block; convert errors of Dask to those of bdkn."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker

    try:
        yield
    except BaseException as error:
        cancel(client, futures)
        if isinstance(error, KilledWorker):
            raise ClusterError(
                f"{error.allowed_failures + 1} workers were lost one after the other while they worked on the same "
                "part of a fit, most often for lack of memory: give workers more of it, or fewer threads each"
            ) from error
        if isinstance(error, CancelledError | OSError) and client.status != "running":
            raise ClusterError(
                f"the connection to the scheduler of the cluster was lost during a fit ({error}): connect to it by "
                "Client(address), and fit again"
            ) from error
        own = _own(error)
        if own is None:
            raise
        raise own from error


def cancel(client: Any, futures: Collection[Any]) -> None:
    """Cancel futures if the client is still connected to the cluster."""
    if client.status == "running":
        client.cancel(list(futures), force=True)


def _own(error: BaseException) -> BDKNError | None:
    """Return the ``BDKNError`` that caused ``error``, or None; also None if ``error`` is itself a ``BDKNError``."""
    cause = error.__cause__
    while cause is not None and not isinstance(cause, BDKNError):
        cause = cause.__cause__
    return cause if not isinstance(error, BDKNError) else None


# Functions that run as tasks on the workers


@dataclass(frozen=True, eq=False)
class Partition:
    """Description of a partition of a Dask data frame: columns, its number, number of its first row, number of rows."""

    columns: NamedColumns
    number: int
    first: int
    size: int

    def rows(self, frame: Any) -> Rows:
        """Convert the partition, a pandas data frame, to rows; raise if they are not valid."""
        rows = partition_rows(frame, self.columns, self.number, self.first)
        if len(rows) != self.size:
            raise InvalidParameterError(
                f"a Dask data frame must have the same rows whenever it is computed; partition {self.number} had "
                f"{self.size} rows at first and {len(rows)} then: persist() it, or write it to Parquet files"
            )
        return rows


def partition_size(frame: Any, weights: Any) -> tuple[int, int]:
    """Return how many rows a partition has, and how many of them have a positive weight."""
    return len(frame), len(frame) if weights is None else int((frame[weights] != 0).sum())


def candidate_rows(frame: Any, partition: Partition, bound: int, most: int) -> SampleCandidates:
    """Draw candidates for the random sample: at most ``most`` rows of a partition, with the smallest random keys."""
    return SampleCandidates.of(*counted_rows(partition.first, partition.rows(frame)), most, bound)


def merged_candidates(one: SampleCandidates, other: SampleCandidates, size: int) -> SampleCandidates:
    """Merge the candidates for the random sample from two consecutive parts of the rows; keep at most ``size``."""
    return SampleCandidates.join([one, other], size)


def encoded_rows(frame: Any, partition: Partition, encoding: RowEncoding, known: KnownInputs, n_chunks: int) -> Any:
    """Return the encoded rows of a partition as a data frame, with a column of chunk numbers."""
    rows = partition.rows(frame)
    numbers, counted = counted_rows(partition.first, rows)
    if not len(counted):
        return _frame_of_none(encoding, rows.counts is not None)
    encoded = encoding(numbers, counted, known)
    return _frame(chunk_of(numbers, n_chunks), numbers, encoded.units, encoded.rows)


def chunk_of_frame(frame: Any, weighted: bool) -> Chunk:
    """Convert a data frame with the encoded rows of a chunk, in any order, to a chunk in the order of row numbers."""
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


def after_pass(state: MemberTraining, chunk: Chunk) -> MemberTraining:
    """Train the networks of a member in one pass over a chunk, and return their new state."""
    from bdkn.networks.fused import prepare

    prepare()
    return state.after(writeable(chunk))


def statistics_of(computation: ChunkStatistics, chunk: Chunk) -> HeldOutStatistics | None:
    """Return the sufficient statistics of the held-out rows of a chunk; None if it has no held-out row."""
    return computation.of(writeable(chunk))


def writeable(chunk: Chunk) -> Chunk:
    """Return a chunk with writeable inputs, as compiled code requires; arrays received from a worker are read-only."""
    return replace(chunk, rows=replace(chunk.rows, X=np.require(chunk.rows.X, requirements="W")))
