"""Elementary functions under the same names for NumPy arrays and PyTorch tensors.

A formula that takes its functions from here, as an argument ``fn``, serves every engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import expit

from bdkn.typing import Array

Values = Any
"""A NumPy array or a PyTorch tensor."""

_IS_LINEAR = 40
"""From here on PyTorch takes softplus for the identity; its default of 20 would show in double precision."""


@dataclass(frozen=True, kw_only=True)
class Functions:
    """Functions of arrays, element by element; ``stack`` joins arrays along a new last axis."""

    abs: Callable[[Values], Values]
    exp: Callable[[Values], Values]
    log: Callable[[Values], Values]
    log1p: Callable[[Values], Values]
    sign: Callable[[Values], Values]
    sqrt: Callable[[Values], Values]
    tanh: Callable[[Values], Values]
    sigmoid: Callable[[Values], Values]
    softplus: Callable[[Values], Values]
    where: Callable[[Values, Values, Values], Values]
    ones_like: Callable[[Values], Values]
    zeros_like: Callable[[Values], Values]
    stack: Callable[[list[Values]], Values]


def softplus(raw: Array) -> Array:
    """Return log(1 + exp(raw)) without overflow."""
    return np.logaddexp(raw, raw.dtype.type(0))


_SHARED = ("abs", "exp", "log", "log1p", "sign", "sqrt", "tanh", "where", "ones_like", "zeros_like")
"""Functions that NumPy and PyTorch both have, under these names."""

NUMPY = Functions(
    **{name: getattr(np, name) for name in _SHARED},
    sigmoid=expit,
    softplus=softplus,
    stack=lambda parts: np.stack(parts, axis=-1),
)


@cache
def torch_functions() -> Functions:
    """Return the functions of PyTorch tensors; imports PyTorch."""
    import torch

    return Functions(
        **{name: getattr(torch, name) for name in _SHARED},
        sigmoid=torch.sigmoid,
        softplus=lambda raw: torch.nn.functional.softplus(raw, threshold=_IS_LINEAR),
        stack=lambda parts: torch.stack(parts, dim=-1),
    )
