"""Copies of short rows."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from bdkn.kernels.code_cache import compiled
from bdkn.kernels.dense import copy_row

Floats = np.ndarray


@compiled
def copy(target: Floats, into: int, X: Floats, row: int) -> None:
    copy_row(target, into, X, row)


@pytest.mark.parametrize("n", [*range(1, 14), 32])
def test_copies_a_row_and_nothing_else(n: int) -> None:
    X = np.arange(3 * n, dtype=np.float32).reshape(3, n)
    for row in range(3):
        target = np.full(n + 9, -1, np.float32)
        copy(target, 5, X, row)
        np.testing.assert_array_equal(target, [-1] * 5 + list(X[row]) + [-1] * 4)


def test_rows_that_are_not_contiguous_are_refused() -> None:
    with pytest.raises(TypingError):
        numba.njit(copy.py_func)(np.zeros(9, np.float32), 0, np.zeros((3, 8), np.float32).T, 0)
