"""Matrix products, computed tile by tile."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.kernels.compiled import compiled, inlined
from bdkn.kernels.finish import RELU, STORE, WHERE_POSITIVE
from bdkn.kernels.tile import BLOCK, HEIGHTS, WIDTHS, tile

Floats = NDArray[np.float32]

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


@inlined
def _tiles(
    finish: int, extra: Any,
    mem: Floats,
    c: int, ldc: int,
    source: Floats, s: int, row: int, step: int,
    v: int, ldv: int,
    rows: int, tallest: int, columns: int, count: int,
) -> None:  # fmt: skip
    """Compute all tiles of a product, and with each what ``finish`` says."""
    n = 0
    while n < columns:
        width = _WIDTH_OF_REST[min(columns - n, BLOCK)]
        j = 0
        which = tallest
        while j < rows:
            while _HEIGHTS[which] > rows - j:
                which += 1
            kind = which * _KINDS + width
            tile(finish, mem, kind, c + j * ldc + n, ldc, source, s + j * row, row, step, v + n, ldv, count, extra)
            j += _HEIGHTS[which]
        n += BLOCK


@compiled
def product(
    mem: Floats,
    c: int, ldc: int,
    source: Floats, s: int, row: int, step: int,
    v: int, ldv: int,
    rows: int, tallest: int, columns: int, count: int,
) -> None:  # fmt: skip
    """Compute C[rows, columns] = S[rows, count] · V[count, columns]; ``tallest`` is ``main_height(rows)``.

    See ``tile`` for the operands and ``padded`` for the number of columns that are written.
    """
    _tiles(STORE, (), mem, c, ldc, source, s, row, step, v, ldv, rows, tallest, columns, count)


@compiled
def relu_product(
    mem: Floats,
    c: int, ldc: int,
    source: Floats, s: int, row: int, step: int,
    v: int, ldv: int,
    rows: int, tallest: int, columns: int, count: int,
) -> None:  # fmt: skip
    """Compute C = relu(S · V), with the operands of ``product``."""
    _tiles(RELU, (), mem, c, ldc, source, s, row, step, v, ldv, rows, tallest, columns, count)


@compiled
def product_where_positive(
    mem: Floats,
    c: int, ldc: int,
    source: Floats, s: int, row: int, step: int,
    v: int, ldv: int,
    rows: int, tallest: int, columns: int, count: int,
    other: int,
) -> None:  # fmt: skip
    """Compute C = S · V, with the operands of ``product``, and zero where the matrix at ``other`` is not positive."""
    _tiles(WHERE_POSITIVE, (other - c,), mem, c, ldc, source, s, row, step, v, ldv, rows, tallest, columns, count)
