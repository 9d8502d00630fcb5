"""The settings of PyTorch during a fit: random numbers, threads and device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import RLock

import numpy as np
import torch
from joblib import effective_n_jobs

from bdkn.errors import InvalidParameterError
from bdkn.threads import openmp_threads, settle_torch

WORTH_THREADS = 1e8
"""Multiplications per step from which on several threads are faster: about ten milliseconds of one core."""

_ONE_AT_A_TIME = RLock()
"""Held by a fit, since PyTorch's generator and threads belong to the whole process, and seeds must have an effect."""


@contextmanager
def session(seed: np.random.SeedSequence, threads: int, device: str) -> Iterator[None]:
    """Seed PyTorch's generators, set its threads, and restore both afterwards; other sessions wait until then."""
    with _ONE_AT_A_TIME:
        settle_torch()
        before = torch.get_num_threads()
        try:
            torch.set_num_threads(openmp_threads(threads))
            with own_draws(device):
                torch.manual_seed(int(seed.generate_state(1, np.uint64)[0] >> 1))
                yield
        finally:
            torch.set_num_threads(before)


def threads_for(n_jobs: int | None, work: float) -> int:
    """Return the number of threads; with ``n_jobs=None``, more than one only if a step has enough work for them."""
    if n_jobs is not None:
        return int(effective_n_jobs(n_jobs))
    return torch.get_num_threads() if work > WORTH_THREADS else 1


def own_draws(device: str) -> AbstractContextManager[None]:
    """Restore the state of PyTorch's random numbers, on the CPU and on the device, afterwards."""
    chosen = torch.device(device)
    forked: AbstractContextManager[None] = torch.random.fork_rng([chosen.index or 0] if chosen.type == "cuda" else [])
    return forked


def check_device(device: str) -> None:
    """Raise unless PyTorch can compute on this device."""
    try:
        torch.ones((), device=torch.device(device)).item()
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidParameterError(
            f"device must be one PyTorch can use here, such as 'cpu' or 'cuda'; got {device!r} ({reason})"
        ) from error
