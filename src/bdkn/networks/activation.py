"""The activations. A new one is an entry of the table and a case of ``activate`` and ``activate_with_slopes``.

These two functions are the compiled twins of the table, in ``bdkn.networks.compiled``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.special import expit

from bdkn.lazy import lazy
from bdkn.networks.functions import NUMPY, Functions, Values
from bdkn.typing import Array

LEAK = 0.01
"""Slope of leaky_relu below zero, PyTorch's default."""


@dataclass(frozen=True)
class Activation:
    """An activation: its values in NumPy and in PyTorch, its slope in either, and its number in compiled code."""

    name: str
    code: int
    value: Callable[[Array], Array]
    slope: Callable[[Functions, Values], Values]
    torch_name: str

    @lazy
    def torch(self) -> Callable[[Any], Any]:
        """The function of PyTorch; imports PyTorch."""
        import torch

        found: Any = torch
        for name in self.torch_name.split("."):
            found = getattr(found, name)
        return cast(Callable[[Any], Any], found)


def _silu_slope(fn: Functions, z: Values) -> Values:
    s = fn.sigmoid(z)
    return s * (1 + z * (1 - s))


_TABLE = (
    Activation(
        "relu",
        0,
        lambda z: np.maximum(z, 0),
        lambda fn, z: fn.where(z > 0, fn.ones_like(z), 0.0),
        "relu",
    ),
    Activation(
        "leaky_relu",
        1,
        lambda z: np.where(z > 0, z, LEAK * z),
        lambda fn, z: fn.where(z > 0, fn.ones_like(z), LEAK),
        "nn.functional.leaky_relu",
    ),
    Activation(
        "tanh",
        2,
        np.tanh,
        lambda fn, z: 1 - fn.tanh(z) ** 2,
        "tanh",
    ),
    Activation(
        "silu",
        3,
        lambda z: z * expit(z),
        _silu_slope,
        "nn.functional.silu",
    ),
)

ACTIVATIONS = {activation.name: activation for activation in _TABLE}
"""Every activation by its name."""


def activate(name: str, z: Array) -> Array:
    """Return the activation of pre-activations ``z``."""
    return ACTIVATIONS[name].value(z)


def slope(name: str, z: Array) -> Array:
    """Return the activation's derivative at pre-activations ``z``."""
    found: Array = ACTIVATIONS[name].slope(NUMPY, z)
    return found
