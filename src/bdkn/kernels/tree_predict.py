"""Compiled predictions of an ensemble of regression trees, whose nodes are plain arrays in depth-first order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.kernels.compiled import compiled
from bdkn.typing import FloatArray

NODE = np.dtype([("number", np.float64), ("right", np.int32), ("code", np.int32)])
"""A node in 16 bytes; the left child is the next node.

``code`` is -1 at a leaf, whose ``number`` is its value. At a split it is four times the feature, plus
``MISSING_LEFT`` if missing values go left, plus ``CATEGORICAL`` if the feature is a category; ``number`` is the
threshold up to which samples go left or, of a category, -1 minus the row of ``bitsets``.
"""

MISSING_LEFT, CATEGORICAL = 1, 2
"""Flags in the lowest two bits of a code."""


@compiled
def add_leaf_values(nodes: NDArray[Any], roots: NDArray[np.int32], X: FloatArray, out: FloatArray) -> None:
    """Add to ``out`` (n,) the leaf value of each sample in each tree, tree by tree, if nothing is missing in ``X``.

    Indices are not checked: children must follow their node, inside of its tree. They are unsigned, since signed ones
    would be tested for counting from the end.
    """
    for t in range(len(roots)):
        for i in range(np.uintp(len(X))):
            node = np.uintp(roots[t])
            while True:
                code = nodes[node].code
                if code < 0:
                    break
                if X[i, np.uintp(code >> 2)] <= nodes[node].number:
                    node += np.uintp(1)
                else:
                    node = np.uintp(nodes[node].right)
            out[i] += nodes[node].number


@compiled
def add_leaf_values_of_any(
    nodes: NDArray[Any], roots: NDArray[np.int32], bitsets: NDArray[np.uint8], X: FloatArray, out: FloatArray
) -> None:
    """Add leaf values as ``add_leaf_values`` does, if there are missing values or categories in ``X``.

    Categories are codes from 0 to 255; bit c of a row of ``bitsets`` (.., 32) is set if code c goes left.
    """
    for t in range(len(roots)):
        for i in range(np.uintp(len(X))):
            node = np.uintp(roots[t])
            while True:
                code = nodes[node].code
                if code < 0:
                    break
                x, number = X[i, np.uintp(code >> 2)], nodes[node].number
                if x != x:
                    is_left = code & MISSING_LEFT != 0
                elif code & CATEGORICAL:
                    row, category = np.uintp(-1.0 - number), np.uintp(x)
                    is_left = (bitsets[row, category >> np.uintp(3)] >> (category & np.uintp(7))) & np.uint8(1) != 0
                else:
                    is_left = x <= number
                node = node + np.uintp(1) if is_left else np.uintp(nodes[node].right)
            out[i] += nodes[node].number
