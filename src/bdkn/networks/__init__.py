"""Networks as plain arrays, and the engines that train them."""

from bdkn.networks.bins import PiecewiseLinear, n_binned_columns
from bdkn.networks.engines import ENGINES, get_engine
from bdkn.networks.job import SCHEDULES, Engine, EpochReport, Hook, Job, Task, Trained, TrainingConfig
from bdkn.networks.mlp import (
    ACTIVATIONS,
    MEAN_VARIANCE,
    MIN_VARIANCE,
    EncodedNetworks,
    Functions,
    Head,
    MeanVarianceHead,
    MixedNetworks,
    Networks,
    NetworkSpec,
    Predictor,
    initial_networks,
    join,
    softplus,
    with_encoding,
)
from bdkn.networks.objective import OBJECTIVES, Objective
from bdkn.networks.settings import NetworkSettings

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
