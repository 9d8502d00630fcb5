"""The engines by name."""

from __future__ import annotations

from bdkn.errors import check_choice
from bdkn.training.job import Engine

ENGINES = ("fused", "reference", "torch")


def get_engine(engine: str | Engine) -> Engine:
    """Return the engine of that name, or the engine itself; what an engine needs is imported when it is first used."""
    if not isinstance(engine, str):
        return engine
    check_choice("engine", engine, ENGINES)
    if engine == "reference":
        from bdkn.training.reference import ReferenceEngine

        return ReferenceEngine()
    if engine == "torch":
        from bdkn.training.torch_engine import TorchEngine

        return TorchEngine()
    from bdkn.training.fused.engine import FusedEngine

    return FusedEngine()
