"""The settings of the paper's experiments.

Inputs are standardised on the training rows. For BDKN and the deep ensemble targets are not, and no rows are held out:
with targets standardised the paper's tables do not come out.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from bdkn.errors import InvalidParameterError, check_choice

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


_EVERYWHERE = (
    "boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "sarcos", "song", "wine", "yacht",
)  # fmt: skip

_ALIKE = dict.fromkeys(_EVERYWHERE, (1e-3, 500))

RATES: Mapping[str, Mapping[str, tuple[float, int]]] = MappingProxyType(
    {
        "bll": {
            **{"boston": (1e-3, 3000), "concrete": (1e-3, 3000), "energy": (1e-3, 8000), "kin8nm": (1e-3, 3000)},
            **{"naval": (1e-3, 8000), "power": (1e-3, 5000), "protein": (1e-3, 2000), "sarcos": (2e-4, 30000)},
            **{"song": (1e-3, 500), "wine": (1e-4, 1000), "yacht": (1e-3, 8000)},
        },
        "ldbll": {
            **{"boston": (1e-3, 4000), "concrete": (1e-3, 4000), "energy": (1e-3, 10000), "kin8nm": (1e-3, 5000)},
            **{"naval": (1e-3, 10000), "power": (1e-3, 5000), "protein": (1e-3, 5000), "sarcos": (2e-4, 30000)},
            **{"wine": (1e-4, 1000), "yacht": (1e-3, 10000)},
        },
        "mfvi": {
            **{"boston": (1e-3, 10000), "concrete": (1e-3, 15000), "energy": (1e-3, 30000), "kin8nm": (1e-3, 20000)},
            **{"naval": (1e-3, 100000), "power": (1e-3, 20000), "protein": (1e-3, 30000), "sarcos": (5e-3, 10000)},
            **{"song": (1e-3, 500), "wine": (1e-4, 20000), "yacht": (1e-3, 20000)},
        },
        "gp": {
            **{"boston": (1e-2, 1000), "concrete": (1e-2, 1000), "energy": (1e-2, 2000), "kin8nm": (1e-2, 1000)},
            **{"naval": (1e-3, 3000), "power": (1e-2, 1000), "wine": (1e-2, 1000), "yacht": (1e-2, 2000)},
        },
        "dkl": _ALIKE,
        "vbll": _ALIKE,
    }
)
"""Learning rate and most epochs of each method on each set in setting 2; a set that is missing has no number there."""

_WIDER = {("bll", "sarcos"), ("ldbll", "sarcos"), ("mfvi", "sarcos")}
"""Where setting 2 has three hidden layers."""


def baseline_parameters(
    method: str, setting: int, dataset: str | None, overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """Return learning rate, epochs and hidden layers of a method other than BDKN and the deep ensemble."""
    if not isinstance(setting, int) or setting not in SETTINGS:
        raise InvalidParameterError(f"setting must be 1 (rate 0.1, 40 epochs) or 2 (rates of its own); got {setting!r}")
    known, name = RATES[method], None if dataset is None else dataset.removesuffix("-clean")
    if name is not None:
        check_choice("dataset", name, _EVERYWHERE)
    hidden = {} if method == "gp" else {"hidden_layer_sizes": (50, 50)}
    if setting == 1:
        return {**SETTINGS[1], **hidden}
    if (method, name) in _WIDER:
        hidden = {"hidden_layer_sizes": (50, 200, 200)}
    if name in known or {"learning_rate", "epochs"} <= overrides.keys():
        rate, epochs = known.get(name or "", (overrides.get("learning_rate"), overrides.get("epochs")))
        return {"learning_rate": rate, "epochs": epochs, **hidden}
    if len({*known.values()}) == 1 and name is None:
        return {**dict(zip(("learning_rate", "epochs"), next(iter(known.values())), strict=True)), **hidden}
    raise InvalidParameterError(
        f"setting 2 has rates of its own for each data set: dataset must be one of {', '.join(known)}; got {dataset!r}: "
        "name one of them, or give learning_rate and epochs"
    )
