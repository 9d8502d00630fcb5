"""Array types that all modules share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
"""Floating-point numbers of any precision."""

FloatArray = NDArray[np.float64]
"""Numbers in double precision."""

Float32Array = NDArray[np.float32]
"""Numbers in single precision, as networks compute with them."""

IndexArray = NDArray[np.intp]
"""Numbers of rows, members or networks, from 0."""

BoolArray = NDArray[np.bool_]
"""Truth values."""
