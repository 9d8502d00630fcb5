"""Parameters that regressors share: documentation, allowed values, and values in the paper's experiments."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import inf
from types import MappingProxyType
from typing import Any

from bdkn.data.folds import DESIGNS
from bdkn.ensemble.selection import CombinationOptions
from bdkn.errors import (
    Constraint,
    InvalidParameterError,
    check_bound,
    check_choice,
    check_each,
    check_flag,
    check_layers,
    check_n_jobs,
    check_number,
    check_options,
    check_or,
    check_trainer,
    check_verbosity,
)
from bdkn.inference.combination import MAX_TEMPERING
from bdkn.model.target_choice import TARGETS
from bdkn.networks.job import ENGINES, OBJECTIVES, SCHEDULES
from bdkn.networks.settings import EFFORTS, TrainingOptions
from bdkn.networks.spec import ACTIVATIONS

NETWORK_DOCS = """
Parameters
----------
n_members : int or "auto", default="auto"
    Number of members of the ensemble, H. "auto" is 11 and, for more than 4000 rows, 8.
hidden_layer_sizes : int, sequence of int or "auto", default="auto"
    Units of each hidden layer; ``()`` is a linear model. "auto" is two layers of 50 units and, for more than 4000
    rows, five of 36, or of 28 in networks whose inputs are divided into bins.
activation : {"relu", "leaky_relu", "tanh", "silu"} or a sequence of them, default=("silu", "relu")
    Activation of the hidden layers. Members take several values in turn.
objective : {"nll", "beta_nll", "mse"} or Objective, default="nll"
    The loss that a network minimises: the Gaussian negative log likelihood with a variance for each row; the same
    with each row's gradient scaled by its variance to the power ``beta`` of ``training``; or the squared error.
    With "mse" the variance of a network is its mean squared error, the same for every row.
epochs : int or "auto", default="auto"
    Maximum number of passes over the rows. "auto" is 500; for more than 1000 rows, 500 times the square root of
    1000 over their number; for more than 4000, 250 times the fourth root of 4000 over their number.
learning_rate : float, default=0.003
    Learning rate of Adam.
weight_decay : float or sequence of float, default=(0.0, 0.0, 0.3, 0.0, 1.0, 0.0)
    Decoupled weight decay, as in AdamW. Members take several values in turn, each value once with every activation:
    without decay networks fit data nearly free of noise, with much decay they do not fit the noise.
n_bins : int, sequence of int or "auto", default="auto"
    Number of bins into which each column is divided. In addition to the inputs, a network then gets one feature per
    bin, which rises from 0 to 1 within the bin, so that it can bend where the data do. 0: the network gets the
    inputs only. Members take several values in turn, as for ``weight_decay``. "auto" is (0, 4, 0, 8, 0, 16) and,
    for more than 4000 rows, (0, 16, 0, 0). There are fewer bins, or none, if columns are many (the bins of all
    columns add at most 128 inputs and, for more than 4000 rows, 256) or rows few (less than 12 per bin).
training : TrainingOptions or None, default=None
    Options that are rarely set: batch size, learning-rate schedule, early stopping, warm-up, scaling of targets.
    None: their defaults.
engine : {"fused", "auto", "gpu", "reference", "torch"} or Engine, default="fused"
    The code that trains the networks: "fused" is compiled code on the CPU, "gpu" compiled code on a GPU of NVIDIA,
    "reference" plain NumPy, "torch" PyTorch. An object has options of its own: ``bdkn.TorchEngine(device="cuda")``,
    or ``bdkn.TorchEngine(module=factory)`` for your own ``nn.Module``. "auto" is "gpu" if there is a GPU and the fit
    is large, else "fused". "gpu" uses the CPU, with a warning, if no GPU can be used.
n_jobs : int or None, default=-1
    Number of threads for training, -1 for all cores. The result does not depend on it. Inside a parallel search, 1
    is best.
random_state : int, Generator, RandomState or None, default=None
    Seed. With the same integer, a larger ``n_members`` adds networks and does not change the first ones.
verbose : int, default=0
    1 shows a progress bar on standard error.
effort : {"fast", "balanced", "best"}, default="balanced"
    What "auto" means: "balanced" as given above; "fast" a third of the members and half of the epochs, which takes
    about as long as CatBoost; "best" twice as many members. Parameters that are set to numbers are not changed.
"""
"""Text on the parameters of networks, which ``with_inherited_docs`` inserts into docstrings of regressors."""


def _choice(*names: str) -> Constraint:
    return partial(check_choice, allowed=names)


def _number(low: float, high: float = inf, **kind: Any) -> Constraint:
    return partial(check_number, low=low, high=high, **kind)


def _or(*names: str | None, check: Constraint) -> Constraint:
    return partial(check_or, names=names, check=check)


_COUNT = _number(1, whole=True)
"""Check of a parameter that must be a whole number of at least one."""

_TRAINING: Mapping[str, Constraint] = {
    "batch_size": _COUNT,
    "schedule": _choice(*SCHEDULES),
    "beta": _number(0, 1),
    "warmup_epochs": _number(0, whole=True),
    "early_stopping": check_flag,
    "validation_fraction": _number(0, 0.9, strict=True),
    "patience": _COUNT,
    "tol": _number(0),
    "standardize_y": check_flag,
}

_COMBINATION: Mapping[str, Constraint] = {
    "prior_variance": _or("evidence", "paper", check=_number(1e-100, 1e100)),
    "tempering": _or("evidence", check=_number(0.0, MAX_TEMPERING)),
    "tails": _choice("loo", "posterior"),
    "select_members": check_flag,
}

NETWORKS: Mapping[str, Constraint] = {
    "n_members": _or("auto", check=_COUNT),
    "hidden_layer_sizes": _or("auto", check=check_layers),
    "activation": partial(check_each, check=_choice(*ACTIVATIONS)),
    "objective": _or(*OBJECTIVES, check=lambda name, given: None),  # an object is checked where it is used
    "epochs": _or("auto", check=_COUNT),
    "learning_rate": _number(0, strict=True),
    "weight_decay": partial(check_each, check=_number(0)),
    "n_bins": _or("auto", check=partial(check_each, check=_number(0, whole=True), each="each of n_bins")),
    "training": partial(check_options, cls=TrainingOptions, constraints=_TRAINING),
    "engine": _or(*ENGINES, check=check_trainer),
    "n_jobs": check_n_jobs,
    "verbose": check_verbosity,
    "effort": _choice(*EFFORTS),
}
"""Checks of the values of network parameters, by parameter name; ``seed_sequence`` checks ``random_state``."""

COMBINED: Mapping[str, Constraint] = {
    "effort": NETWORKS["effort"],
    "time_limit": _or(None, check=_number(0, strict=True, infinite=True)),
    "design": _choice(*DESIGNS),
    "predict_with": _choice("folds", "refit"),
    "combination": partial(check_options, cls=CombinationOptions, constraints=_COMBINATION),
    "target": _choice(*TARGETS),
    "lower": check_bound,
    "upper": check_bound,
    "density": _choice("auto", "student-t"),
}
"""Checks of parameter values, by parameter name, for regressors that combine networks or other models."""

SETTINGS = MappingProxyType({1: {"learning_rate": 0.1, "epochs": 40}, 2: {"learning_rate": 1e-3, "epochs": 500}})
"""The two settings of the paper's experiments, by number: learning rate of Adam and number of epochs."""

SHARED = MappingProxyType(
    {
        "n_members": 5,
        "hidden_layer_sizes": (50, 50),
        "activation": "relu",
        "objective": "nll",
        "weight_decay": 0.0,
        "n_bins": 0,
        "training": TrainingOptions(schedule="constant", standardize_y=False),
    }
)
"""Parameters that both settings of the paper share; the optimiser is Adam, as everywhere in this library."""

SETS = ("boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "sarcos", "song", "wine", "yacht")


def paper_parameters(setting: int, dataset: str | None = None) -> dict[str, Any]:
    """Return the parameters of BDKN and the deep ensemble in a setting of the paper, the same for every data set."""
    if dataset is not None:
        check_choice("dataset", dataset.removesuffix("-clean"), SETS)
    if not isinstance(setting, int) or setting not in SETTINGS:
        raise InvalidParameterError(
            f"setting must be 1 (rate 0.1, 40 epochs) or 2 (rate 0.001, 500 epochs); got {setting!r}"
        )
    return {**SHARED, **SETTINGS[setting]}
