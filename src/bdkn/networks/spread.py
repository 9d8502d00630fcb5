"""NumPy work spread over threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import joblib
from threadpoolctl import ThreadpoolController

Part = TypeVar("Part")

_WORTH_A_THREAD = 4
"""Parts a thread should have before it is started."""

_LIMITING = threading.Lock()
"""The limit on BLAS holds for the whole process: callers take turns, or one would restore what another had limited."""


def spread(work: Callable[[Part], None], parts: Sequence[Part]) -> None:
    """Do the work on every part, on several threads if there is much of it, with one thread in each product.

    BLAS would rather split each small product over all cores, and its threads then wait for one another: on a busy
    machine a hundred times longer than the product takes.
    """
    threads = min(int(joblib.cpu_count()), len(parts) // _WORTH_A_THREAD)
    with _LIMITING, _blas().limit(limits=1, user_api="blas"):
        if threads < 2:
            for part in parts:
                work(part)
            return
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, parts))


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()
