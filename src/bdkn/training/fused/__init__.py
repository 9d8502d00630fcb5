"""The fused engine: networks trained by compiled vector code, each network from first to last step."""

from bdkn.training.fused.engine import FusedEngine

__all__ = ["FusedEngine"]
