"""The engine for GPUs: training and prediction by programs in CUDA C++."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bdkn.networks.gpu.cuda import Cuda

DEVICE_OF_PREDICTIONS: ContextVar[Cuda | None] = ContextVar("bdkn device of predictions", default=None)
"""The device of the enclosing ``predict_on``; None: the CPU."""


@contextmanager
def predict_on(device: Cuda | None) -> Iterator[None]:
    """Let networks predict on a device inside the block, if there are enough rows; None: on the CPU."""
    token = DEVICE_OF_PREDICTIONS.set(device)
    try:
        yield
    finally:
        DEVICE_OF_PREDICTIONS.reset(token)
