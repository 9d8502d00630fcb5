"""Parallel work on threads, and limits for the threads of OpenMP, BLAS and PyTorch."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

Part = TypeVar("Part")

ROWS_PER_THREAD = 10_000
"""Minimum number of rows per thread; with fewer, threads spend more time on synchronization than on work."""


def run_on_threads(work: Callable[[Part], None], parts: Sequence[Part], max_threads: int | None = None) -> None:
    """Call ``work`` on every part, on at most ``max_threads`` threads (None: one per core); it must release the GIL."""
    if len(parts) < 2 or max_threads == 1 or (threads := min(max_threads or int(joblib.cpu_count()), len(parts))) < 2:
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, parts))


class _Fork:
    """Whether this process was made by ``fork`` after the import of this library, and whether it has warned of that.

    Threads do not survive a fork. In such a process, OpenMP (used by boosting and PyTorch) waits forever for the
    threads of the parent, unless it uses only one thread.
    """

    is_child = has_warned = False

    def begin(self) -> None:
        """Record that this process was made by ``fork``, and has not warned yet."""
        self.is_child, self.has_warned = True, False


_FORK = _Fork()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_FORK.begin)


def openmp_threads(threads: int) -> int:
    """Return the number of threads, out of ``threads``, that OpenMP and PyTorch may use: one after a fork, else all.

    A warning is issued once if the number is reduced.
    """
    if not _FORK.is_child or threads < 2:
        return threads
    if not _FORK.has_warned:
        _FORK.has_warned = True
        text = (
            f"this process was made by fork, in which {threads} threads of OpenMP could wait for ever: one thread is "
            'used instead; to use more, start processes by multiprocessing.get_context("spawn") or by joblib, whose '
            "processes are made anew"
        )
        warnings.warn(text, UserWarning, stacklevel=2)
    return 1


def settle_torch() -> None:
    """Limit PyTorch, already imported, to one thread in a process made by fork; call it before any computation."""
    if _FORK.is_child:
        torch: Any = sys.modules["torch"]
        torch.set_num_threads(openmp_threads(torch.get_num_threads()))


class _BlasLimit:
    """Limit of BLAS to one thread in the whole process; its first user sets it, and its last user removes it."""

    def begin(self) -> None:
        """Start without users of the limit: in a process made by fork, the threads of the parent do not exist."""
        self.lock, self.n_users = threading.Lock(), 0
        self.limit: Any = None


_BLAS = _BlasLimit()
_BLAS.begin()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_BLAS.begin)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside the block.

    On a busy machine, threads of BLAS can wait for each other a hundred times longer than a small product takes.
    """
    with _BLAS.lock:
        if not _BLAS.n_users:
            _BLAS.limit = _controller(len(sys.modules)).limit(limits=1, user_api="blas")
        _BLAS.n_users += 1
    try:
        yield
    finally:
        with _BLAS.lock:
            _BLAS.n_users -= 1
            if not _BLAS.n_users:
                _BLAS.limit.restore_original_limits()


@contextmanager
def bounded_threads(n_rows: int, n_jobs: int = 1) -> Iterator[None]:
    """Limit the threads of OpenMP and BLAS inside the block: few for few rows; ``n_jobs`` models share the cores.

    Threads wait for each other after each tree of boosting and each product of matrices. On a busy machine that takes
    a hundred times longer than a small tree. The limit of OpenMP holds for the calling thread only.
    """
    n_threads = openmp_threads(max(1, min(int(joblib.cpu_count()) // n_jobs, n_rows // ROWS_PER_THREAD)))
    blas = one_blas_thread() if n_rows < 2 * ROWS_PER_THREAD or _FORK.is_child else nullcontext()
    with _controller(len(sys.modules)).limit(limits=n_threads, user_api="openmp"), blas:
        yield


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    """Return an object that limits the threads of all loaded libraries; it is made again after further imports."""
    return ThreadpoolController()
