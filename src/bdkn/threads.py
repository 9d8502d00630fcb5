"""Work on several threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

Part = TypeVar("Part")

ROWS_PER_THREAD = 10_000
"""With fewer rows than this for each, threads wait for one another longer than they work."""


def run_on_threads(work: Callable[[Part], None], parts: Sequence[Part], most: int | None = None) -> None:
    """Do the work on every part, on at most ``most`` threads (None: one per core); the work must release the GIL."""
    if len(parts) < 2 or most == 1 or (threads := min(most or int(joblib.cpu_count()), len(parts))) < 2:
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, parts))


class _OneBlasThread:
    """The limit on threads of BLAS, which holds for the whole process: set by the first user, undone by the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                self._limit = _controller(len(sys.modules)).limit(limits=1, user_api="blas")
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._limit.restore_original_limits()


_ONE_BLAS_THREAD = _OneBlasThread()


def one_blas_thread() -> AbstractContextManager[None]:
    """Keep BLAS from splitting products over cores.

    Its threads would wait for one another: on a busy machine a hundred times longer than a small product takes.
    """
    return _ONE_BLAS_THREAD


@contextmanager
def bounded_threads(n_rows: int, n_jobs: int = 1) -> Iterator[None]:
    """Bound the threads of models that use OpenMP or BLAS: few for few rows, cores shared by ``n_jobs`` models.

    Threads wait for one another after each tree of boosting and each product of matrices. On a busy machine that takes
    a hundred times longer than a small tree. The bound on OpenMP holds for the calling thread only.
    """
    most = max(1, min(int(joblib.cpu_count()) // n_jobs, n_rows // ROWS_PER_THREAD))
    blas = one_blas_thread() if n_rows < 2 * ROWS_PER_THREAD else nullcontext()
    with _controller(len(sys.modules)).limit(limits=most, user_api="openmp"), blas:
        yield


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    """Return the controller of all libraries loaded, looked up again after another module was imported."""
    return ThreadpoolController()
