"""The settings of the paper's experiments.

Inputs are standardised on the training rows, targets are not, and no rows are held out: with targets standardised the
paper's tables do not come out.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from bdkn.errors import InvalidParameterError

SETTINGS = MappingProxyType({1: {"learning_rate": 0.1, "epochs": 40}, 2: {"learning_rate": 1e-3, "epochs": 500}})
"""What the two settings differ in."""

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
        "early_stopping": False,
        "standardize_y": False,
    }
)
"""What they have in common; the optimiser is Adam, as everywhere in this library."""


def paper_parameters(setting: int) -> dict[str, Any]:
    """Return the ensemble parameters of a setting."""
    if not isinstance(setting, int) or setting not in SETTINGS:
        raise InvalidParameterError(
            f"setting must be 1 (rate 0.1, 40 epochs) or 2 (rate 0.001, 500 epochs); got {setting!r}"
        )
    return {**SHARED, **SETTINGS[setting]}
