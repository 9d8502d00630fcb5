"""Engines that train networks."""

from bdkn.training.config import SCHEDULES, TrainingConfig
from bdkn.training.job import Engine, EpochReport, Hook, Job, Trained
from bdkn.training.objective import OBJECTIVES, Objective
from bdkn.training.settings import ENGINES, NetworkSettings, get_engine

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
    "Trained",
    "TrainingConfig",
    "get_engine",
]
