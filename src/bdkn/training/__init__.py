"""Engines that turn data into networks."""

from bdkn.training.config import OBJECTIVES, SCHEDULES, TrainingConfig
from bdkn.training.engine import ENGINES, Engine, EpochReport, Hook, Rows, Trained, get_engine, renumbered

__all__ = [
    "ENGINES",
    "OBJECTIVES",
    "SCHEDULES",
    "Engine",
    "EpochReport",
    "Hook",
    "Rows",
    "Trained",
    "TrainingConfig",
    "get_engine",
    "renumbered",
]
