"""The settings of the paper's experiments.

Inputs are standardised on the training rows. For BDKN and the deep ensemble, targets are not standardised, and no rows
are held out: with standardised targets the paper's tables cannot be reproduced.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from bdkn.errors import InvalidParameterError, check_choice

SETTINGS = MappingProxyType({1: {"learning_rate": 0.1, "epochs": 40}, 2: {"learning_rate": 1e-3, "epochs": 500}})
"""The parameters in which the two settings differ."""

SHARED = MappingProxyType(
    {
        "n_members": 5,
        "hidden_layer_sizes": (50, 50),
        "activation": "relu",
        "objective": "nll",
        "warmup_epochs": 0,
        "schedule": "constant",
        "batch_size": 32,
        "weight_decay": 0.0,
        "n_bins": 0,
        "early_stopping": False,
        "standardize_y": False,
    }
)
"""The parameters that both settings share; the optimiser is Adam, as everywhere in this library."""


def paper_parameters(setting: int, dataset: str | None = None) -> dict[str, Any]:
    """Return the parameters of BDKN and the deep ensemble in a setting; they are the same for every data set."""
    if dataset is not None:
        check_choice("dataset", dataset.removesuffix("-clean"), SETS)
    if not isinstance(setting, int) or setting not in SETTINGS:
        raise InvalidParameterError(
            f"setting must be 1 (rate 0.1, 40 epochs) or 2 (rate 0.001, 500 epochs); got {setting!r}"
        )
    return {**SHARED, **SETTINGS[setting]}


SETS = ("boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "sarcos", "song", "wine", "yacht")
