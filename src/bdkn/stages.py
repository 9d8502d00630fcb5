"""Stages: the named parts of a fit or a prediction, which an observer can time or report.

The stages of a fit are "encode", "train", "predict held-out rows" (or, if there are none, "predict members") and
"combine"; the stages of a prediction are "predict members" and "predict". The code of a stage runs inside
``with stage(name):``. To observe stages, run a fit inside ``with observe_stages(observer):``. Without an observer, a
stage takes practically no time.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

Observer = Callable[[str], AbstractContextManager[None]]
"""Function that takes the name of a stage and returns the context manager in which the stage runs."""

_observer: ContextVar[Observer | None] = ContextVar("bdkn stages", default=None)


def stage(name: str) -> AbstractContextManager[None]:
    """Return the context manager in which a stage runs; the observer, if there is one, provides it."""
    observer = _observer.get()
    return nullcontext() if observer is None else observer(name)


@contextmanager
def observe_stages(observer: Observer) -> Iterator[None]:
    """Call ``observer`` for every stage that this thread runs inside the block."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


class StageTimer:
    """Observer that measures the time of each stage, in seconds.

    The time of an inner stage is not part of the time of the outer stage.

    Attributes
    ----------
    seconds : dict of str to float
        Seconds by name of the stage, added up over all its runs.

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
        """Measure the time that the block takes, and add it to the time of the stage ``name``."""
        self._inside.append(0.0)
        began = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - began
            self.seconds[name] += spent - self._inside.pop()
            if self._inside:
                self._inside[-1] += spent
