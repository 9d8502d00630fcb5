"""Observe the stages of a fit or a prediction: how long each takes, or that it begins and ends.

The stages of a fit are "encode", "train", "predict held-out rows" (or, where no rows are left out, "predict members")
and "combine"; those of a prediction are "predict members" and "predict". Code that does the work says
``with stage(name):``; whoever wants to know calls ``observe_stages`` around it. Without an observer a stage costs
next to nothing.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

Observer = Callable[[str], AbstractContextManager[None]]
"""Given the name of a stage, returns the context in which it runs."""

_observer: ContextVar[Observer | None] = ContextVar("bdkn stages", default=None)


def stage(name: str) -> AbstractContextManager[None]:
    """Return the context in which a stage of this name runs."""
    observer = _observer.get()
    return nullcontext() if observer is None else observer(name)


@contextmanager
def observe_stages(observer: Observer) -> Iterator[None]:
    """Let ``observer`` see every stage that this thread runs inside the block."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


class StageTimer:
    """An observer that measures the seconds of each stage; a stage inside another counts for itself alone.

    Examples
    --------
    >>> from bdkn.stages import StageTimer, observe_stages, stage
    >>> timer = StageTimer()
    >>> with observe_stages(timer), stage("train"):
    ...     pass
    >>> list(timer.seconds)
    ['train']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._inside: list[float] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Measure the block as the stage ``name``."""
        self._inside.append(0.0)
        began = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - began
            self.seconds[name] += spent - self._inside.pop()
            if self._inside:
                self._inside[-1] += spent
