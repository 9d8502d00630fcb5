"""The device a cell was computed on, and the memory its process used."""

from __future__ import annotations

import sys
from functools import cache


@cache
def accelerator(device: str | None) -> dict[str, str]:
    """Return the name of the device a regressor computes on, if it is not the processor."""
    if device is None or device == "cpu":
        return {}
    import torch

    is_cuda = device.partition(":")[0] == "cuda" and torch.cuda.is_available()
    return {"device": torch.cuda.get_device_name(device) if is_cuda else device}


def peak_memory_mib() -> float | None:
    """Return the largest memory this process ever used, None where the system does not report it."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    # Linux counts kibibytes, macOS bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
