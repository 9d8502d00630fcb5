"""The paper's experiments, run with ``bdkn``: its six other methods, data sets, records, and pages written from them.

The methods are imported when they are first used, so that ``import bdkn_paper`` is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bdkn_paper.baselines import (
        BLLRegressor,
        DKLRegressor,
        GPRegressor,
        LDBLLRegressor,
        MFVIRegressor,
        VBLLRegressor,
    )

__all__ = ["BLLRegressor", "DKLRegressor", "GPRegressor", "LDBLLRegressor", "MFVIRegressor", "VBLLRegressor"]


def __getattr__(name: str) -> Any:
    """Import a method of the paper."""
    if name not in __all__:
        raise AttributeError(f"module 'bdkn_paper' has no attribute {name!r}; its names are {', '.join(__all__)}")
    from bdkn_paper import baselines

    return getattr(baselines, name)
