"""Work on several threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import TypeVar

import joblib
from threadpoolctl import ThreadpoolController

Part = TypeVar("Part")

_LIMITING = threading.Lock()
"""The limit on BLAS holds for the whole process: callers take turns, or one would undo the limit of another."""

ROWS_PER_THREAD = 10_000
"""With fewer rows than this for each, threads of OpenMP wait for one another longer than they work."""


def run_on_threads(work: Callable[[Part], None], parts: Sequence[Part], most: int | None = None) -> None:
    """Do the work on every part, on at most ``most`` threads (None: one per core); the work must release the GIL."""
    if len(parts) < 2 or most == 1 or (threads := min(most or int(joblib.cpu_count()), len(parts))) < 2:
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, parts))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS from splitting products over cores.

    Its threads would wait for one another: on a busy machine a hundred times longer than a small product takes.
    """
    with _LIMITING, _blas().limit(limits=1, user_api="blas"):
        yield


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def bounded_openmp(n_rows: int, n_jobs: int = 1) -> Iterator[None]:
    """Bound the threads of OpenMP, which boosting of scikit-learn uses: few for few rows, cores shared by ``n_jobs``.

    They wait for one another after each tree. On a busy machine that takes a hundred times longer than a small tree.
    The bound holds for the calling thread only.
    """
    most = max(1, min(int(joblib.cpu_count()) // n_jobs, n_rows // ROWS_PER_THREAD))
    with _controller(len(sys.modules)).limit(limits=most, user_api="openmp"):
        yield


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    """Return the controller of all libraries loaded, looked up again after another module was imported."""
    return ThreadpoolController()
