"""Engines that train networks."""

from bdkn.training.config import SCHEDULES, TrainingConfig
from bdkn.training.engines import ENGINES, get_engine
from bdkn.training.job import Engine, EpochReport, Hook, Job, Trained
from bdkn.training.objective import OBJECTIVES, Objective

__all__ = [
    "ENGINES",
    "OBJECTIVES",
    "SCHEDULES",
    "Engine",
    "EpochReport",
    "Hook",
    "Job",
    "Objective",
    "Trained",
    "TrainingConfig",
    "get_engine",
]
