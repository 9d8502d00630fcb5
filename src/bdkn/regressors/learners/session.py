"""PyTorch for the length of a fit: its own random numbers, its threads, its device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import RLock

import numpy as np
import torch
from joblib import effective_n_jobs

from bdkn.errors import InvalidParameterError

WORTH_THREADS = 1e8
"""Multiplications of a step from which on threads pay: some ten milliseconds of one core."""

_ONE_AT_A_TIME = RLock()
"""PyTorch's generator and threads are the whole process's: a fit has them to itself, or seeds would mean nothing."""


@contextmanager
def session(seed: np.random.SeedSequence, threads: int, device: str) -> Iterator[None]:
    """Seed PyTorch's generators and set its threads; afterwards both are as they were. Others wait till then."""
    with _ONE_AT_A_TIME:
        before = torch.get_num_threads()
        try:
            torch.set_num_threads(threads)
            with own_draws(device):
                torch.manual_seed(int(seed.generate_state(1, np.uint64)[0] >> 1))
                yield
        finally:
            torch.set_num_threads(before)


def threads_for(n_jobs: int | None, work: float) -> int:
    """Return how many threads to use; of our own choice more than one only if a step is worth their waking up."""
    if n_jobs is not None:
        return int(effective_n_jobs(n_jobs))
    return torch.get_num_threads() if work > WORTH_THREADS else 1


def own_draws(device: str) -> AbstractContextManager[None]:
    """Leave PyTorch's random numbers, here and on the device, as they were before."""
    chosen = torch.device(device)
    forked: AbstractContextManager[None] = torch.random.fork_rng([chosen.index or 0] if chosen.type == "cuda" else [])
    return forked


def check_device(device: str) -> None:
    """Raise unless PyTorch can compute there."""
    try:
        torch.ones((), device=torch.device(device)).item()
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidParameterError(
            f"device must be one PyTorch can use here, such as 'cpu' or 'cuda'; got {device!r} ({reason})"
        ) from error
