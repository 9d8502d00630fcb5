"""Work on several threads."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import lru_cache
from typing import Any, Generic, Self, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

Part = TypeVar("Part")
Result = TypeVar("Result")

ROWS_PER_THREAD = 10_000
"""With fewer rows than this for each, threads wait for one another longer than they work."""


class _Fork:
    """Whether this process was made by ``fork`` from one in which this library was imported.

    Threads do not survive a fork. OpenMP, which boosting and PyTorch use, waits in such a process for the threads that
    its parent had, and waits for ever. One thread waits for no other.
    """

    def __init__(self) -> None:
        self.is_child = False
        self._is_told = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self.is_child, self._is_told = True, False

    def most(self, threads: int) -> int:
        """Return the number of threads of OpenMP that can be used, and warn once if they are fewer."""
        if not self.is_child or threads < 2:
            return threads
        if not self._is_told:
            self._is_told = True
            warnings.warn(_FORKED.format(threads), UserWarning, stacklevel=3)
        return 1


_FORKED = (
    "this process was made by fork, in which {} threads of OpenMP could wait for ever: one thread is used instead; to "
    'use more, start processes by multiprocessing.get_context("spawn") or by joblib, whose processes are made anew'
)
_FORK = _Fork()


def openmp_threads(threads: int) -> int:
    """Return how many of these threads OpenMP and PyTorch may use in this process: one after a fork, else all."""
    return _FORK.most(threads)


def settle_torch() -> None:
    """Set PyTorch, once it is imported, to one thread in a process made by fork; called before it computes anything."""
    if _FORK.is_child:
        torch: Any = sys.modules["torch"]
        torch.set_num_threads(openmp_threads(torch.get_num_threads()))


_is_in_vain: ContextVar[threading.Event | None] = ContextVar("bdkn work in vain", default=None)
"""Set if nobody waits any more for the work that a thread does ahead."""


def run_on_threads(work: Callable[[Part], None], parts: Sequence[Part], most: int | None = None) -> None:
    """Do the work on every part, on at most ``most`` threads (None: one per core); the work must release the GIL.

    Within the work of an ``Ahead`` that nobody waits for any more, no further part is begun.
    """
    is_in_vain = _is_in_vain.get()

    def work_on(part: Part) -> None:
        if is_in_vain is not None and is_in_vain.is_set():
            raise CancelledError
        work(part)

    if len(parts) < 2 or most == 1 or (threads := min(most or int(joblib.cpu_count()), len(parts))) < 2:
        for part in parts:
            work_on(part)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work_on, parts))


class Ahead(Generic[Result]):
    """Work that a thread of its own can do ahead, while the owner does something else.

    It is used in a ``with`` block. A thread that has not finished at the end of the block is told so, and stops before
    the next part of ``run_on_threads``; nobody waits for it.

    Parameters
    ----------
    work : callable
        The work, without arguments. It sees the context variables of the thread that calls ``start``.

    Examples
    --------
    >>> from bdkn.threads import Ahead
    >>> with Ahead(lambda: 6 * 7) as ahead:
    ...     ahead.start()
    ...     ahead.result()
    42
    """

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work, self._is_in_vain = work, threading.Event()
        self._future: Future[Result] | None = None

    def start(self) -> None:
        """Begin the work in a thread."""
        context = copy_context()
        context.run(_is_in_vain.set, self._is_in_vain)
        pool = ThreadPoolExecutor(1)
        self._future = pool.submit(context.run, self._work)
        pool.shutdown(wait=False)  # the thread ends with this work

    def result(self) -> Result | None:
        """Return the result, or raise what the work raised, once it is done; None if it was not begun."""
        return None if self._future is None else self._future.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_in_vain.set()


class _OneBlasThread:
    """The limit on threads of BLAS, which holds for the whole process: set by the first user, undone by the last."""

    def __init__(self) -> None:
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Begin without users: those in other threads are not in a process made by fork."""
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
    most = openmp_threads(max(1, min(int(joblib.cpu_count()) // n_jobs, n_rows // ROWS_PER_THREAD)))
    blas = one_blas_thread() if n_rows < 2 * ROWS_PER_THREAD or _FORK.is_child else nullcontext()
    with _controller(len(sys.modules)).limit(limits=most, user_api="openmp"), blas:
        yield


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    """Return the controller of all libraries loaded, looked up again after another module was imported."""
    return ThreadpoolController()
