"""Adam on the parameters of one network, line by line.

An update waits for the divider, a square root and a division per number, while the rest of the processor is idle. Some
lines at a time, it can run beside work that does not divide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types

from bdkn.kernels.compiled import compiled, inlined, intrinsic
from bdkn.networks.compiled import CACHE_LINE, Floats, Table
from bdkn.training.config import BETA_1, BETA_2, EPSILON
from bdkn.training.fused.layout import N_PARAMETERS

f4 = np.float32

_TINY = 1e-30
"""Moments below it are set to zero: otherwise they would become denormal numbers, which are slow."""

_F32, _I64 = ir.FloatType(), ir.IntType(64)
_LINE = ir.VectorType(_F32, CACHE_LINE)


class Update(NamedTuple):
    """A step of Adam: the number of parameters, padding included, and factors that change from step to step."""

    n_parameters: int
    rate: f4
    epsilon: f4
    decay: f4


NO_UPDATE = Update(0, f4(0), f4(0), f4(0))


@compiled
def update_at(places: Table, step: int, rate: float, weight_decay: float) -> Update:
    """Return the update of step ``step`` (from 1); its bias corrections are folded into the rate and epsilon."""
    root = np.sqrt(1 - BETA_2**step)
    scaled, epsilon = f4(-rate * root / (1 - BETA_1**step)), f4(EPSILON * root)
    return Update(places[N_PARAMETERS], scaled, epsilon, f4(1 - rate * weight_decay))


def _constant(value: float) -> ir.Constant:
    return ir.Constant(_LINE, [ir.Constant(_F32, float(f4(value)))] * CACHE_LINE)


def _broadcast(b: ir.IRBuilder, scalar: ir.Value) -> ir.Value:
    undefined, zeros = ir.Constant(_LINE, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), CACHE_LINE), None)
    return b.shuffle_vector(b.insert_element(undefined, scalar, ir.Constant(ir.IntType(32), 0)), undefined, zeros)


def _call(b: ir.IRBuilder, name: str, *operands: ir.Value) -> ir.Value:
    """Return the result of LLVM's function of that name."""
    full = f"llvm.{name}.v{CACHE_LINE}f32"
    kind = ir.FunctionType(_LINE, [_LINE] * len(operands))
    return b.call(b.module.globals.get(full) or ir.Function(b.module, kind, full), operands)


def _without_tiny(b: ir.IRBuilder, moment: ir.Value, size: ir.Value) -> ir.Value:
    return b.select(b.fcmp_ordered("<", size, _constant(_TINY)), _constant(0), moment)


def _emit(b: ir.IRBuilder, lines: Sequence[ir.Value], rate: ir.Value, epsilon: ir.Value, decay: ir.Value) -> None:
    """Emit the update of a line; ``lines`` are the places of parameters, first and second moments, and gradients."""
    p, m, v, g = (b.load(line, align=4, typ=_LINE) for line in lines)
    first = _call(b, "fmuladd", _constant(BETA_1), m, b.fmul(_constant(1 - BETA_1), g))
    second = _call(b, "fmuladd", _constant(BETA_2), v, b.fmul(_constant(1 - BETA_2), b.fmul(g, g)))
    change = b.fmul(rate, b.fdiv(first, b.fadd(_call(b, "sqrt", second), epsilon)))
    moments = (_without_tiny(b, first, _call(b, "fabs", first)), _without_tiny(b, second, second))
    for line, value in zip(lines[:3], (_call(b, "fmuladd", p, decay, change), *moments), strict=True):
        b.store(value, line, align=4)


@intrinsic
def _update_line(typing: Any, mem: Any, start: Any, n: Any, rate: Any, epsilon: Any, decay: Any) -> Any:
    """Update the line of parameters at ``start``; the moments and the gradient of a number follow at distances of n."""

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, b, args[0]).data
        offsets = [b.add(args[1], b.mul(args[2], ir.Constant(_I64, i))) for i in range(4)]
        lines = [b.bitcast(b.gep(data, [o], inbounds=True, source_etype=_F32), _LINE.as_pointer()) for o in offsets]
        _emit(b, lines, *(_broadcast(b, factor) for factor in args[3:]))
        return context.get_dummy_value()

    return types.void(mem, types.int64, types.int64, *[types.float32] * 3), codegen


@inlined
def update_lines(mem: Floats, update: Update, first: int, stop: int) -> int:
    """Update the parameters from ``first`` to ``stop``, in whole lines; return where the next line begins."""
    while first < stop:
        _update_line(mem, first, update.n_parameters, update.rate, update.epsilon, update.decay)
        first += CACHE_LINE
    return first
