"""Transposition in registers: the weight gradient sums over rows and needs transposed activations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from bdkn.kernels.compiled import compiled, intrinsic

EDGE = 8
"""Number of rows and of columns of a block."""

F32, I32, I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_LINE = ir.VectorType(F32, EDGE)
_HALF = ir.VectorType(F32, EDGE // 2)


def _shuffle(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, indices: Sequence[int]) -> ir.Value:
    mask = ir.Constant(ir.VectorType(I32, len(indices)), [ir.Constant(I32, i) for i in indices])
    return builder.shuffle_vector(a, b, mask)


def _in_halves(builder: ir.IRBuilder, low: list[int], a: ir.Value, b: ir.Value) -> ir.Value:
    """Do the same with both halves of a and b, as one instruction does; ``low`` are indices of the lower ones."""
    return _shuffle(builder, a, b, low + [i + EDGE // 2 for i in low])


def _transposed_halves(builder: ir.IRBuilder, lines: Sequence[ir.Value]) -> list[ir.Value]:
    """Transpose the 4 x 4 numbers in the lower halves of four lines, and those in the upper halves."""
    single = [[0, EDGE, 1, EDGE + 1], [2, EDGE + 2, 3, EDGE + 3]]
    double = [[0, 1, EDGE, EDGE + 1], [2, 3, EDGE + 2, EDGE + 3]]
    ab, cd = ([_in_halves(builder, low, *pair) for low in single] for pair in (lines[:2], lines[2:]))
    return [_in_halves(builder, low, *pair) for pair in zip(ab, cd, strict=True) for low in double]


@intrinsic
def _transpose_block(typing: Any, mem: Any, source: Any, lds: Any, target: Any, ldt: Any) -> Any:
    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, b, args[0]).data

        def place(kind: ir.VectorType, start: ir.Value, stride: ir.Value, i: int, j: int) -> ir.Value:
            offset = b.add(b.add(start, b.mul(stride, ir.Constant(I64, i))), ir.Constant(I64, j))
            return b.bitcast(b.gep(data, [offset], inbounds=True, source_etype=F32), kind.as_pointer())

        def halves(i: int, j: int) -> ir.Value:
            """Load half a line of row i, and of row i + 4: joined while loaded, they need no instruction later."""
            half, other = (b.load(place(_HALF, args[1], args[2], k, j), align=4, typ=_HALF) for k in (i, i + 4))
            return _shuffle(b, half, other, range(EDGE))

        lines = [line for j in (0, 4) for line in _transposed_halves(b, [halves(i, j) for i in range(4)])]
        for i, line in enumerate(lines):
            b.store(line, place(_LINE, args[3], args[4], i, 0), align=4)
        return context.get_dummy_value()

    return types.void(mem, *[types.int64] * 4), codegen


@compiled
def transpose(mem: NDArray[np.float32], source: int, lds: int, target: int, ldt: int, rows: int, columns: int) -> None:
    """Compute T[column, row] = S[row, column] in whole blocks; both matrices need space for multiples of ``EDGE``."""
    for i in range(0, rows, EDGE):
        for j in range(0, columns, EDGE):
            _transpose_block(mem, source + i * lds + j, lds, target + j * ldt + i, ldt)
