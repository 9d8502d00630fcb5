"""Networks as plain arrays, and the engines that train them.

A network predicts the mean and the variance of each row; an engine is code that trains networks.
"""

from bdkn.networks.job import (
    OBJECTIVES,
    SCHEDULES,
    Engine,
    EpochReport,
    Job,
    Objective,
    Task,
    TrainingConfig,
    get_engine,
)
from bdkn.networks.mlp import (
    EncodedNetworks,
    MixedNetworks,
    Networks,
    PiecewiseLinear,
    Predictor,
    Trained,
    initial_networks,
    join,
    with_encoding,
)
from bdkn.networks.settings import NetworkSettings
from bdkn.networks.spec import ACTIVATIONS, MEAN_VARIANCE, MIN_VARIANCE, Functions, Head, NetworkSpec, softplus

__all__ = [
    "ACTIVATIONS",
    "MEAN_VARIANCE",
    "MIN_VARIANCE",
    "OBJECTIVES",
    "SCHEDULES",
    "EncodedNetworks",
    "Engine",
    "EpochReport",
    "Functions",
    "Head",
    "Job",
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
    "softplus",
    "with_encoding",
]
