"""PyTorch for the length of a fit: its own random numbers, its threads, its device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import torch
from joblib import effective_n_jobs

from bdkn.errors import InvalidParameterError


@contextmanager
def session(seed: np.random.SeedSequence, n_jobs: int | None, device: str) -> Iterator[None]:
    """Seed PyTorch's generators and set its threads; afterwards both are as they were."""
    threads = torch.get_num_threads()
    try:
        if n_jobs is not None:
            torch.set_num_threads(effective_n_jobs(n_jobs))
        with own_draws(device):
            torch.manual_seed(int(seed.generate_state(1, np.uint64)[0] >> 1))
            yield
    finally:
        torch.set_num_threads(threads)


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
