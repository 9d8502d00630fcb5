"""Activations and their slopes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from bdkn.typing import Array

LEAK = 0.01
"""Slope of leaky_relu below zero, PyTorch's default."""


def _silu_slope(z: Array) -> Array:
    s: Array = expit(z)
    return s * (1 + z * (1 - s))


_VALUE: dict[str, Callable[[Array], Array]] = {
    "relu": lambda z: np.maximum(z, 0),
    "leaky_relu": lambda z: np.where(z > 0, z, z.dtype.type(LEAK) * z),
    "tanh": np.tanh,
    "silu": lambda z: z * expit(z),
}

_SLOPE: dict[str, Callable[[Array], Array]] = {
    "relu": lambda z: (z > 0).astype(z.dtype),
    "leaky_relu": lambda z: np.where(z > 0, z.dtype.type(1), z.dtype.type(LEAK)),
    "tanh": lambda z: 1 - np.tanh(z) ** 2,
    "silu": _silu_slope,
}

ACTIVATIONS = tuple(_VALUE)


def activate(name: str, z: Array) -> Array:
    """Return the activation of pre-activations ``z``."""
    return _VALUE[name](z)


def slope(name: str, z: Array) -> Array:
    """Return the activation's derivative at pre-activations ``z``."""
    return _SLOPE[name](z)
