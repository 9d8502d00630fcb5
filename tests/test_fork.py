"""Processes made by fork: OpenMP waits for threads that are not there, so one thread is used, and that is said."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="there is no fork on Windows")

START = """
import os, signal, sys, warnings
import numpy as np
import joblib
joblib.cpu_count = lambda *_: 2
from bdkn.threads import _BLAS, bounded_threads, one_blas_thread, openmp_threads, settle_torch

def in_child(work):
    pid = os.fork()
    if pid == 0:
        signal.alarm(120)  # a child that waits for ever ends by this signal
        warnings.simplefilter("error")
        try:
            work()
        except UserWarning as told:
            print(told, flush=True)
            os._exit(7)
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""

BOOSTING = """
from sklearn.ensemble import HistGradientBoostingRegressor
X = np.random.default_rng(0).normal(size=(500, 2))

def fit():
    with warnings.catch_warnings(), bounded_threads(10**6):
        HistGradientBoostingRegressor(max_iter=2).fit(X, X[:, 0])

def quietly():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit()

fit()
print(in_child(fit), in_child(quietly))
"""

TORCH = """
import torch
big = torch.ones(2_000_000)
torch.set_num_threads(2)
assert big.sum() == len(big)

def add():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settle_torch()
    assert big.sum() == len(big)
    assert torch.get_num_threads() == 1

print(in_child(add), in_child(settle_torch))
"""

LOCKED = """
def nothing_else():
    with one_blas_thread():
        assert openmp_threads(1) == 1

with _BLAS.lock:  # as another thread holds it at the moment of the fork
    print(in_child(nothing_else))
"""


def _run(code: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", START + code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_boosting_after_a_fork_uses_one_thread_and_says_so() -> None:
    told = _run(BOOSTING)
    assert "this process was made by fork, in which 2 threads of OpenMP could wait for ever" in told
    assert 'get_context("spawn")' in told
    assert told.endswith("7 0\n")


def test_torch_after_a_fork_uses_one_thread_and_says_so() -> None:
    pytest.importorskip("torch")
    told = _run(TORCH)
    assert "one thread is used instead" in told
    assert told.endswith("0 7\n")


def test_a_lock_of_another_thread_is_not_inherited() -> None:
    assert _run(LOCKED) == "0\n"
