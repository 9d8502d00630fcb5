"""Learning rates, epochs and hidden layers of the baselines in the paper's two settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bdkn.errors import InvalidParameterError, check_choice
from bdkn.estimators.parameters import SETS, SETTINGS

_EPOCHS = {
    "bll": (3000, 3000, 8000, 3000, 8000, 5000, 2000, 30000, 500, 1000, 8000),
    "ldbll": (4000, 4000, 10000, 5000, 10000, 5000, 5000, 30000, None, 1000, 10000),
    "mfvi": (10000, 15000, 30000, 20000, 100000, 20000, 30000, 10000, 500, 20000, 20000),
    "gp": (1000, 1000, 2000, 1000, 3000, 1000, None, None, None, 1000, 2000),
    "dkl": (500,) * len(SETS),
    "vbll": (500,) * len(SETS),
}
"""The most epochs of setting 2 on each of ``SETS``; None where the paper has no number."""

_RATE = {"gp": 1e-2}
_RATES = {
    ("bll", "sarcos"): 2e-4,
    ("ldbll", "sarcos"): 2e-4,
    ("mfvi", "sarcos"): 5e-3,
    ("bll", "wine"): 1e-4,
    ("ldbll", "wine"): 1e-4,
    ("mfvi", "wine"): 1e-4,
    ("gp", "naval"): 1e-3,
}
"""Exceptions from the learning rates of setting 2, which are 1e-3, and 1e-2 for a Gaussian process."""

_WIDER = {("bll", "sarcos"), ("ldbll", "sarcos"), ("mfvi", "sarcos")}
"""Methods and data sets for which setting 2 has three hidden layers."""


def baseline_parameters(method: str, setting: int, dataset: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return learning rate, epochs and hidden layers of a method other than BDKN and the deep ensemble.

    Parameters that are ``given`` may be missing in the paper.
    """
    if not isinstance(setting, int) or setting not in SETTINGS:
        raise InvalidParameterError(f"setting must be 1 (rate 0.1, 40 epochs) or 2 (rates of its own); got {setting!r}")
    name = dataset.removesuffix("-clean") if isinstance(dataset, str) else dataset
    if name is not None:
        check_choice("dataset", name, SETS)
    found = dict(SETTINGS[1]) if setting == 1 else _setting_2(method, name)
    if not {"learning_rate", "epochs"} <= found.keys() | given.keys():
        known = [each for each in SETS if _setting_2(method, each)]
        raise InvalidParameterError(
            f"setting 2 differs between data sets: dataset must be one of {', '.join(known)}; got {dataset!r}: "
            "name one of them, or give learning_rate and epochs"
        )
    wide = setting == 2 and (method, name) in _WIDER
    return found if method == "gp" else {**found, "hidden_layer_sizes": (50, 200, 200) if wide else (50, 50)}


def _setting_2(method: str, name: str | None) -> dict[str, Any]:
    """Return learning rate and epochs of a data set, or of all if they are equal; empty if the paper has none."""
    listed = dict(zip(SETS, _EPOCHS[method], strict=True))
    epochs = listed[name] if name else _EPOCHS[method][0] if len({*_EPOCHS[method]}) == 1 else None
    if epochs is None:
        return {}
    return {"learning_rate": _RATES.get((method, name or ""), _RATE.get(method, 1e-3)), "epochs": epochs}
