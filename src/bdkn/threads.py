"""Work on several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import joblib
from threadpoolctl import ThreadpoolController

Part = TypeVar("Part")

_LIMITING = threading.Lock()
"""The limit on BLAS holds for the whole process: callers take turns, or one would undo the limit of another."""


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
