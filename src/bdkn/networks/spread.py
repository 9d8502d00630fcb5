"""Work spread over threads."""

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
"""The limit on BLAS holds for the whole process: callers take turns, or one would restore what another had limited."""


def spread(work: Callable[[Part], None], parts: Sequence[Part], most: int | None = None) -> None:
    """Do the work, which leaves the interpreter to others, on every part: a thread a core, or ``most``, if need be."""
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
