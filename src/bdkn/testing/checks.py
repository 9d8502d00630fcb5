"""Assertions of the conformance suites; they work without pytest and under ``python -O``."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def require(holds: bool, statement: str) -> None:
    """Raise AssertionError unless the statement holds."""
    if not holds:
        raise AssertionError(f"this must hold: {statement}")


def require_equal(found: ArrayLike, expected: ArrayLike, statement: str) -> None:
    """Raise AssertionError unless both arrays are equal to the bit."""
    require(np.array_equal(np.asarray(found), np.asarray(expected), equal_nan=True), statement)


def require_close(
    found: ArrayLike, expected: ArrayLike, statement: str, *, rtol: float = 1e-7, atol: float = 0.0
) -> None:
    """Raise AssertionError unless both arrays are equal within a tolerance."""
    require(np.allclose(np.asarray(found), np.asarray(expected), rtol=rtol, atol=atol, equal_nan=True), statement)
