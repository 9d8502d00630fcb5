"""Engines that train networks."""

from bdkn.training.config import OBJECTIVES, SCHEDULES, TrainingConfig
from bdkn.training.engines import ENGINES, get_engine
from bdkn.training.job import Engine, EpochReport, Hook, Job, Trained

__all__ = [
    "ENGINES",
    "OBJECTIVES",
    "SCHEDULES",
    "Engine",
    "EpochReport",
    "Hook",
    "Job",
    "Trained",
    "TrainingConfig",
    "get_engine",
]
