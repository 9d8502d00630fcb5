"""Where the time goes inside a call, without a line changed in what is called."""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Stopwatch:
    """Seconds by label; a part inside another counts for itself alone, so that the labels add up.

    It belongs to one thread: what it watches must not call itself from several.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._inside: list[float] = []

    @contextmanager
    def part(self, label: str) -> Iterator[None]:
        """Count the time of a block."""
        self._inside.append(0.0)
        began = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - began
            self.seconds[label] += spent - self._inside.pop()
            if self._inside:
                self._inside[-1] += spent

    @contextmanager
    def watching(self, owner: Any, name: str, label: str) -> Iterator[None]:
        """Count the time of every call of a method of ``owner``, an object or a class, while the block runs."""
        method, own = getattr(owner, name), name in vars(owner)

        @functools.wraps(method)
        def watched(*args: Any, **kwargs: Any) -> Any:
            with self.part(label):
                return method(*args, **kwargs)

        setattr(owner, name, watched)
        try:
            yield
        finally:
            if own:
                setattr(owner, name, method)
            else:
                delattr(owner, name)
