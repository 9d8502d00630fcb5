"""Matrix products, computed tile by tile."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bdkn.kernels.compiled import compiled
from bdkn.kernels.tile import BLOCK, HEIGHTS, WIDTHS, tile

_HEIGHTS = np.array(HEIGHTS)
_KINDS = len(WIDTHS)
_WIDTH_OF_REST = np.array([min(i for i, w in enumerate(WIDTHS) if sum(w) >= rest) for rest in range(BLOCK + 1)])
"""By number of remaining columns, the index of the narrowest tile width that contains them."""


def main_height(rows: int) -> int:
    """Return the index of the tile height with which the product of ``rows`` rows takes the least time.

    A tile of fewer than four rows takes as long as one of four, as its additions wait for one another.
    """

    def cost(index: int) -> int:
        total, left = 0, rows
        for height in HEIGHTS[index:]:
            tiles, left = divmod(left, height)
            total += tiles * (max(height, 4) + 1)
        return total

    return min(range(len(HEIGHTS)), key=cost)


@compiled
def product(
    mem: NDArray[np.float32],
    c: int, ldc: int,
    source: NDArray[np.float32], s: int, row: int, step: int,
    v: int, ldv: int,
    rows: int, tallest: int, columns: int, count: int,
) -> None:  # fmt: skip
    """Compute C[rows, columns] = S[rows, count] · V[count, columns]; ``tallest`` is ``main_height(rows)``.

    See ``tile`` for the operands and ``padded`` for the number of columns that are written.
    """
    n = 0
    while n < columns:
        width = _WIDTH_OF_REST[min(columns - n, BLOCK)]
        j = 0
        which = tallest
        while j < rows:
            while _HEIGHTS[which] > rows - j:
                which += 1
            tile(mem, which * _KINDS + width, c + j * ldc + n, ldc, source, s + j * row, row, step, v + n, ldv, count)
            j += _HEIGHTS[which]
        n += BLOCK
