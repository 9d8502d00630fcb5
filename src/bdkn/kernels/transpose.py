"""Transposition in registers: the weight gradient sums over rows and needs transposed activations."""

from __future__ import annotations

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


def _interleave(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, distance: int) -> tuple[ir.Value, ir.Value]:
    """Exchange the entries of a whose index has the bit ``distance`` with those of b whose index has not."""
    low = [i if not i & distance else EDGE + (i ^ distance) for i in range(EDGE)]
    high = [i | distance if not i & distance else EDGE + i for i in range(EDGE)]
    masks = [ir.Constant(ir.VectorType(I32, EDGE), [ir.Constant(I32, i) for i in mask]) for mask in (low, high)]
    first, second = (builder.shuffle_vector(a, b, mask) for mask in masks)
    return first, second


@intrinsic
def _transpose_block(typing: Any, mem: Any, source: Any, lds: Any, target: Any, ldt: Any) -> Any:
    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, b, args[0]).data

        def line(start: ir.Value, stride: ir.Value, i: int) -> ir.Value:
            offset = b.add(start, b.mul(stride, ir.Constant(I64, i)))
            return b.bitcast(b.gep(data, [offset], inbounds=True, source_etype=F32), _LINE.as_pointer())

        lines = [b.load(line(args[1], args[2], i), align=4, typ=_LINE) for i in range(EDGE)]
        for distance in (4, 2, 1):
            for i in range(EDGE):
                if not i & distance:
                    lines[i], lines[i | distance] = _interleave(b, lines[i], lines[i | distance], distance)
        for i in range(EDGE):
            b.store(lines[i], line(args[3], args[4], i), align=4)
        return context.get_dummy_value()

    return types.void(mem, *[types.int64] * 4), codegen


@compiled
def transpose(mem: NDArray[np.float32], source: int, lds: int, target: int, ldt: int, rows: int, columns: int) -> None:
    """Compute T[column, row] = S[row, column] in whole blocks; both matrices need space for multiples of ``EDGE``."""
    for i in range(0, rows, EDGE):
        for j in range(0, columns, EDGE):
            _transpose_block(mem, source + i * lds + j, lds, target + j * ldt + i, ldt)
