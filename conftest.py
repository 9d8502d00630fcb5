"""What all tests share: how many examples Hypothesis tries, small forests, and which tests coverage follows."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Before NumPy is imported, here and in processes that tests start: a second thread of OpenBLAS, waiting for its turn on
# a busy core, makes the decomposition of a small matrix take many times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# How long an example takes depends on the machine, what else it does, and what must be compiled first. The same
# examples are tried whenever the tests run; HYPOTHESIS_PROFILE=search tries others, and more of them, each time.
ANY_SPEED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("any machine", **ANY_SPEED, derandomize=True, max_examples=25)
settings.register_profile("search", **ANY_SPEED, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "any machine"))


@pytest.fixture(scope="module")
def small_forests() -> Iterator[None]:
    """Let the forests that choose a link and shape a density have 16 trees: they take most of the time of a small fit.

    For files whose tests are not about links and densities; see tests/regressors/conftest.py.
    """
    from bdkn.model import density, target_choice

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(density, "_MAX_TREES", 16)
        patch.setattr(target_choice, "_TREES", 16)
        yield


_FOLLOWED_S = 0.03
"""Seconds of the processor for which coverage follows one test function; its other cases run as fast as they can."""

_followed: Counter[str] = Counter()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Add up how long each test function has run."""
    begin = time.process_time()
    try:
        return (yield)
    finally:
        _followed[item.nodeid.partition("[")[0]] += time.process_time() - begin


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Take coverage off many cases and examples of one test: it makes them half as long again."""
    test = getattr(item, "obj", None)
    if hasattr(test, "hypothesis") or _followed[item.nodeid.partition("[")[0]] > _FOLLOWED_S:
        item.add_marker("no_cover")
