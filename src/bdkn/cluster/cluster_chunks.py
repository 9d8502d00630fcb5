"""Chunks of rows on the workers of a cluster, which train networks and are summarized there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import numpy as np

from bdkn.blocks.chunks import Chunk
from bdkn.blocks.left_out import LeftOut, Summary, merged_left_out
from bdkn.blocks.places import KeptChunks, OnPass
from bdkn.blocks.training import ChunkPlan, MemberTraining, beginning, in_grid_order
from bdkn.blocks.tree import merged_in_tree
from bdkn.cluster.client import cancel, on_cluster, result_of, started
from bdkn.rows import Rows
from bdkn.training import NetworkSettings, Trained

PASSES_AT_ONCE = 16
"""Passes of a network that are asked for at once. Then its state comes to the client, from where it goes on: so the
scheduler forgets these tasks, and no more than these are made again after a worker was lost."""

ENOUGH = 1.0
"""Members per thread that keep a cluster busy. If there are fewer, the networks of a member go separate ways: then bins
of inputs are computed for each of them, which is up to twice the work."""


@dataclass(frozen=True, eq=False)
class ClusterChunks(AbstractContextManager["KeptChunks"]):
    """Chunks as futures; a worker that trains on a chunk is one that has it."""

    client: Any
    futures: list[Any]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        cancel(self.client, self.futures)

    def __len__(self) -> int:
        return len(self.futures)

    def train(self, settings: NetworkSettings, sample: Rows, plan: ChunkPlan, on_pass: OnPass | None) -> Trained:
        """Return the networks of a plan, trained on all chunks; each goes its own way through them."""
        members = beginning(settings, sample, plan, len(self))
        threads = sum(self.client.nthreads().values())
        divided = [member.by_fold() if len(members) < ENOUGH * threads else [member] for member in members]
        done = _trained(self, [part for parts in divided for part in parts], on_pass, 1 / len(divided[0]))
        joined = []
        for parts in divided:
            joined.append(MemberTraining.joined(done[: len(parts)]))
            done = done[len(parts) :]
        return in_grid_order([member.trained() for member in joined])

    def left_out(self, summary: Summary) -> LeftOut:
        """Return what all rows tell that members leave out: statistics of each chunk, merged in a tree."""
        from dask.delayed import delayed

        shared, task = delayed(summary), delayed(summary_of)
        merged = merged_in_tree([task(shared, future) for future in self.futures], delayed(merged_left_out))
        left_out: LeftOut = result_of(self.client, merged)
        return left_out


def _trained(
    chunks: ClusterChunks, parts: Sequence[MemberTraining], on_pass: OnPass | None, weight: float
) -> list[MemberTraining]:
    """Return parts of members after all their passes, which are asked for a few at a time; each counts ``weight``."""
    from distributed import as_completed

    states, client = list(parts), chunks.client
    running = {_some_passes(chunks, state): number for number, state in enumerate(states)}
    with on_cluster(client, running):
        waiting = as_completed(list(running), with_results=True)
        for future, state in waiting:
            number = running.pop(future)
            if on_pass is not None:
                on_pass((state.n_passes - states[number].n_passes) * weight)
            states[number] = state
            if not state.is_done:
                following = _some_passes(chunks, state)
                running[following] = number
                waiting.add(following)
    return states


def _some_passes(chunks: ClusterChunks, state: MemberTraining) -> Any:
    """Return the future of a member after some more passes over chunks."""
    from dask.delayed import delayed

    task, after = delayed(after_pass), delayed(state)
    for number in state.next_chunks(PASSES_AT_ONCE):
        after = task(after, chunks.futures[number])
    return started(chunks.client, [after])[0]


def after_pass(state: MemberTraining, chunk: Chunk) -> MemberTraining:
    """Return the networks of a member after a pass over a chunk."""
    from bdkn.training.fused.engine import prepare

    prepare()
    return state.after(writeable(chunk))


def summary_of(summary: Summary, chunk: Chunk) -> LeftOut | None:
    """Return what the rows of a chunk tell that are left out once."""
    return summary.of(writeable(chunk))


def writeable(chunk: Chunk) -> Chunk:
    """Return a chunk whose arrays can be written, as compiled code requires it; those that came by wire cannot."""
    return replace(chunk, rows=replace(chunk.rows, X=np.require(chunk.rows.X, requirements="W")))
