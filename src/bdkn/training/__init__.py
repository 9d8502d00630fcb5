"""Engines that train networks."""

from bdkn.training.config import SCHEDULES, TrainingConfig
from bdkn.training.engines import ENGINES, get_engine
from bdkn.training.job import Engine, EpochReport, Hook, Job, Task, Trained
from bdkn.training.objective import OBJECTIVES, Objective
from bdkn.training.settings import NetworkSettings

__all__ = [
    "ENGINES",
    "OBJECTIVES",
    "SCHEDULES",
    "Engine",
    "EpochReport",
    "Hook",
    "Job",
    "NetworkSettings",
    "Objective",
    "Task",
    "Trained",
    "TrainingConfig",
    "get_engine",
]
