"""Networks as plain arrays, and the engines that train them."""

from bdkn.networks.bins import PiecewiseLinear, n_binned_columns
from bdkn.networks.engines import ENGINES, get_engine
from bdkn.networks.job import SCHEDULES, Engine, EpochReport, Hook, Job, Task, Trained, TrainingConfig
from bdkn.networks.mlp import EncodedNetworks, MixedNetworks, Networks, Predictor, initial_networks, join, with_encoding
from bdkn.networks.objective import OBJECTIVES, Objective
from bdkn.networks.settings import NetworkSettings
from bdkn.networks.spec import (
    ACTIVATIONS,
    MEAN_VARIANCE,
    MIN_VARIANCE,
    Functions,
    Head,
    MeanVarianceHead,
    NetworkSpec,
    softplus,
)

__all__ = [
    "ACTIVATIONS",
    "ENGINES",
    "MEAN_VARIANCE",
    "MIN_VARIANCE",
    "OBJECTIVES",
    "SCHEDULES",
    "EncodedNetworks",
    "Engine",
    "EpochReport",
    "Functions",
    "Head",
    "Hook",
    "Job",
    "MeanVarianceHead",
    "MixedNetworks",
    "NetworkSettings",
    "NetworkSpec",
    "Networks",
    "Objective",
    "PiecewiseLinear",
    "Predictor",
    "Task",
    "Trained",
    "TrainingConfig",
    "get_engine",
    "initial_networks",
    "join",
    "n_binned_columns",
    "softplus",
    "with_encoding",
]
