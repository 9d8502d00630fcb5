"""Work ahead in a thread: its result, its errors, its context and its end."""

from __future__ import annotations

import threading
from contextvars import ContextVar

import pytest

from bdkn.threads import Ahead, run_on_threads


def test_work_that_was_not_begun_has_no_result():
    with Ahead(lambda: pytest.fail("it must not be done")) as ahead:
        assert ahead.result() is None


def test_work_ahead_is_done_in_another_thread_with_the_context_of_its_owner():
    setting = ContextVar("setting", default="none")
    token = setting.set("of the owner")
    with Ahead(lambda: (threading.get_ident(), setting.get())) as ahead:
        ahead.start()
        setting.reset(token)
        thread, seen = ahead.result()
    assert thread != threading.get_ident()
    assert seen == "of the owner"


def test_errors_of_work_ahead_are_raised_with_its_result():
    with Ahead(lambda: 1 // 0) as ahead:
        ahead.start()
        with pytest.raises(ZeroDivisionError):
            ahead.result()


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_work_ahead_stops_at_the_next_part_once_nobody_waits_for_it(n_jobs):
    begun, left, done, ended = threading.Event(), threading.Event(), [], threading.Event()

    def part(number):
        begun.set()
        assert left.wait(10.0)
        done.append(number)

    def work():
        try:
            run_on_threads(part, range(50), n_jobs)
        finally:
            ended.set()

    with pytest.raises(KeyboardInterrupt), Ahead(work) as ahead:  # noqa: PT012
        ahead.start()
        assert begun.wait(10.0)
        raise KeyboardInterrupt
    left.set()
    assert ended.wait(10.0)
    assert len(done) <= n_jobs
    run_on_threads(done.append, range(10), n_jobs)  # other work goes on
    assert len(done) >= 10
