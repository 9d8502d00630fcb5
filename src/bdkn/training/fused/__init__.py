"""The fused CPU engine: whole training runs as compiled vector code, one member a thread."""

from bdkn.training.fused.engine import FusedEngine

__all__ = ["FusedEngine"]
