"""Runs spread over threads."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import joblib

from bdkn.errors import InvalidParameterError
from bdkn.training.fused.run import Run

_CALL_S = 0.01
"""How long one call of compiled code should take: short enough to balance the threads and to be interrupted."""


def threads(n_jobs: int | None) -> int:
    """Return how many threads ``n_jobs`` means, as scikit-learn reads it: None is 1, -1 all cores, -2 all but one."""
    if n_jobs == 0:
        raise InvalidParameterError("n_jobs must not be 0; got 0; 1 is one thread, -1 a thread a core")
    if n_jobs is None or n_jobs > 0:
        return n_jobs or 1
    return max(1, int(joblib.cpu_count()) + 1 + n_jobs)


class Queue:
    """Runs waiting for a thread: whoever is free takes the one that is furthest behind, so all end together.

    A thread a member would leave a core idle for a sixth of the time with five members on two cores. ``after``, where
    given, is called with the member and its run after every epoch.
    """

    def __init__(self, runs: Sequence[Run], after: Callable[[int, Run], None] | None = None) -> None:
        self._after, self._lock, self._stopped = after, threading.Lock(), threading.Event()
        self._waiting = [(0, member, 1, run) for member, run in enumerate(runs)]

    def finish(self, workers: int) -> None:
        """Train all runs to their end on so many threads, this one among them."""
        with ThreadPoolExecutor(max_workers=max(1, workers - 1)) as pool:
            others = [pool.submit(self._work) for _ in range(workers - 1)]
            try:
                self._work()
                for other in others:
                    other.result()
            except BaseException:
                self._stopped.set()
                raise

    def _work(self) -> None:
        try:
            while (taken := self._take()) is not None:
                self._advance(*taken[1:])
        except BaseException:
            self._stopped.set()  # the other threads end after their present call
            raise

    def _take(self) -> tuple[int, int, int, Run] | None:
        with self._lock:
            return heapq.heappop(self._waiting) if self._waiting and not self._stopped.is_set() else None

    def _advance(self, member: int, epochs: int, run: Run) -> None:
        began = time.perf_counter()
        run.advance(epochs)
        if self._after is not None:
            self._after(member, run)
        else:
            epochs = max(1, int(epochs * min(_CALL_S / (time.perf_counter() - began), 4)))
        if not run.is_done():
            with self._lock:
                heapq.heappush(self._waiting, (run.epoch, member, epochs, run))
