"""Arrays as JSON: little-endian bytes in base64, under the name of their type."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

_NAMES = {"f4": "f32", "f8": "f64", "i1": "i8", "u1": "u8", "i2": "i16", "u2": "u16", "i4": "i32", "u4": "u32"}


def packed(values: ArrayLike, kind: str) -> dict[str, str]:
    """Return an array of the type ``kind``, such as "f4", as JSON."""
    data = np.ascontiguousarray(values, dtype=f"<{kind}")
    return {_NAMES[kind]: base64.b64encode(data.tobytes()).decode("ascii")}


def smallest(values: ArrayLike) -> dict[str, str]:
    """Return whole numbers, none negative, in the smallest type that holds them."""
    numbers = np.asarray(values)
    most = int(numbers.max(initial=0))
    return packed(numbers, "u1" if most < 1 << 8 else "u2" if most < 1 << 16 else "u4")


def size_of(data: Any) -> int:
    """Return about how many bytes a payload has as JSON."""
    if isinstance(data, dict):
        return sum(size_of(key) + size_of(value) for key, value in data.items())
    if isinstance(data, list | tuple):
        return sum(size_of(part) + 1 for part in data)
    return len(data) + 2 if isinstance(data, str) else 20
