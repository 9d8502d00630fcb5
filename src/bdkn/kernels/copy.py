"""Copies of short rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from bdkn.kernels.compiled import inlined, intrinsic

_FEW = 4
_F32 = ir.FloatType()
_VECTOR = ir.VectorType(_F32, _FEW)


@intrinsic
def _copy_few(typing: Any, target: Any, into: Any, source: Any, start: Any) -> Any:
    if source.layout != "C":
        return None

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        def place(array: int) -> ir.Value:
            data = context.make_array(signature.args[array])(context, b, args[array]).data
            shifted = b.gep(data, [args[array + 1]], inbounds=True, source_etype=_F32)
            return b.bitcast(shifted, _VECTOR.as_pointer())

        b.store(b.load(place(2), align=4, typ=_VECTOR), place(0), align=4)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64), codegen


@inlined
def copy_row(target: NDArray[np.float32], into: int, X: NDArray[np.float32], row: int) -> None:
    """Copy a row of X, whose rows are contiguous, to ``into``.

    From a plain loop the compiler makes one that checks for overlap, and copies fewer numbers than are in a vector one
    by one; with AVX-512 most rows have fewer.
    """
    n = X.shape[1]
    if n >= _FEW:
        for k in range(0, n - _FEW, _FEW):
            _copy_few(target, into + k, X, row * n + k)
        _copy_few(target, into + n - _FEW, X, row * n + n - _FEW)
    else:
        for k in range(n):
            target[into + k] = X[row, k]
