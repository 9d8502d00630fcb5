"""Array types that all modules share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
"""Type of NumPy arrays of floating-point numbers, of any precision."""

FloatArray = NDArray[np.float64]
"""Type of NumPy arrays in double precision (float64)."""

Float32Array = NDArray[np.float32]
"""Type of NumPy arrays in single precision (float32), which networks compute with."""

IndexArray = NDArray[np.intp]
"""Type of NumPy arrays of integers that number rows, members or networks, from 0."""

BoolArray = NDArray[np.bool_]
"""Type of NumPy arrays of truth values."""
