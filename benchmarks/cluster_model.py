"""A model of fits on a large cluster: the costs of single things, and a simulation of networks that wait for chunks."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass
from typing import Any

CHUNK_ROWS = 2**17
NETWORK = 1e8
"""Bytes a second between two workers: a tenth of a network of 10 Gbit/s."""

_SIMULATED = 60_000
"""Passes that are simulated; the others are alike."""


@dataclass(frozen=True)
class Costs:
    """Seconds of training a member on a row, and one of its networks alone, of a pass besides, of a task for client and
    scheduler, and of reading and summarizing a row; bytes of the state of a network and of an encoded row.
    """

    row_s: float
    part_s: float
    pass_s: float
    task_s: float
    read_s: float
    summary_s: float
    state_bytes: float
    row_bytes: float


@dataclass(frozen=True)
class Fit:
    """The size of a fit."""

    rows: int
    columns: int
    members: int
    folds: int
    epochs: int

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return -(-self.rows // CHUNK_ROWS)

    def ways(self, workers: int) -> int:
        """Return how many members, or networks of members that are divided, go their own ways through the chunks."""
        return self.members if self.members >= workers else self.members * self.folds


def simulated_rate(ways: int, workers: int, pass_s: float, move_s: float, task_s: float, passes: int) -> float:
    """Return passes a second, where each of so many goes its way from worker to worker at random.

    A worker serves one at a time, and so does the scheduler, in the order in which they come.
    """
    chance = random.Random(0)
    events = [(0.0, number, 0) for number in range(ways)]
    free, scheduler, done, now = [0.0] * workers, 0.0, 0, 0.0
    while done < passes:
        now, number, at_worker = heapq.heappop(events)
        if not at_worker:  # a pass is done, and the scheduler sends the state to the next chunk
            scheduler = max(scheduler, now) + task_s
            heapq.heappush(events, (scheduler + move_s, number, 1))
        else:
            worker = chance.randrange(workers)
            free[worker] = max(free[worker], now) + pass_s
            heapq.heappush(events, (free[worker], number, 0))
            done += 1
    return done / max(free)


def predicted(fit: Fit, costs: Costs, workers: int) -> dict[str, Any]:
    """Return the hours of a fit and what limits it."""
    ways = fit.ways(workers)
    passes, whole = ways * fit.chunks * fit.epochs, ways == fit.members
    pass_s = CHUNK_ROWS * (costs.row_s if whole else costs.part_s) + costs.pass_s
    move_s = costs.state_bytes * (fit.folds if whole else 1) / NETWORK
    rate = simulated_rate(ways, workers, pass_s, move_s, costs.task_s, min(passes, _SIMULATED))
    training = passes / rate
    shuffled = fit.rows * costs.row_bytes / workers / NETWORK
    reading = fit.rows * (2 * costs.read_s + costs.summary_s) / workers + shuffled
    even, scheduler = passes * pass_s / workers, passes * costs.task_s
    busy = even / training
    work_space = CHUNK_ROWS * 4 * fit.columns * 17 + 3 * CHUNK_ROWS * costs.row_bytes + 4e8
    return {
        "rows": fit.rows,
        "members": fit.members,
        "ways": ways,
        "workers": workers,
        "hours": (training + reading) / 3600,
        "training_h": training / 3600,
        "reading_h": reading / 3600,
        "even_h": (even + reading) / 3600,
        "scheduler_h": scheduler / 3600,
        "busy": busy,
        "scheduler": scheduler / training,
        "worker_gb": (fit.rows * costs.row_bytes / workers + work_space) / 1e9,
        "limit": _limit(ways, busy, scheduler / training, workers),
    }


def _limit(ways: int, busy: float, scheduler: float, workers: int) -> str:
    if scheduler > 0.8:
        return "the scheduler"
    if ways < workers:
        return f"only {ways} networks"
    return "networks wait for one another" if busy < 0.8 else "the workers"
