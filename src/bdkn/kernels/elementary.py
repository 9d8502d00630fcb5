"""Elementary functions in single precision without branches or calls, so that loops over them become vector code.

Each is accurate to a few units in the last place over the range that occurs in training. Multiplications and additions
are fused where ``fma`` is written, and nowhere else: the choice of a compiler depends on what it inlines, and the same
seed must give the same bits whether the code was just compiled or loaded from disk.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from bdkn.kernels.compiled import inlined, intrinsic

f4 = np.float32
_LOG2_E = f4(1.4426950408889634)
_LN2_HIGH, _LN2_LOW = f4(0.693359375), f4(-2.1219444005469057e-4)
"""ln 2 in two parts; the first has so few bits that its product with n is exact."""
_SQRT_HALF = f4(0.7071067811865476)
_MANTISSA, _EXPONENT_OF_HALF = np.int32(0x007FFFFF), np.int32(0x3F000000)


@intrinsic
def _bits(typing: Any, x: Any) -> Any:
    """Return the bits of a float32 as an int32."""
    return types.int32(types.float32), lambda context, b, sig, args: b.bitcast(args[0], ir.IntType(32))


@intrinsic
def _from_bits(typing: Any, i: Any) -> Any:
    """Return the float32 with these bits."""
    return types.float32(types.int32), lambda context, b, sig, args: b.bitcast(args[0], ir.FloatType())


@intrinsic
def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a · b + c, rounded once if the CPU has such an instruction."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FloatType()
        function = builder.module.globals.get("llvm.fmuladd.f32") or ir.Function(
            builder.module, ir.FunctionType(kind, [kind] * 3), "llvm.fmuladd.f32"
        )
        return builder.call(function, args)

    return types.float32(*[types.float32] * 3), codegen


@inlined
def exp(x: f4) -> f4:
    """Return e^x as 2^n · e^r with |r| ≤ ½ ln 2 and Taylor's series for e^r; saturates instead of overflowing."""
    x = min(max(x, f4(-87)), f4(88))
    n = np.floor(fma(x, _LOG2_E, f4(0.5)))
    r = fma(n, -_LN2_LOW, fma(n, -_LN2_HIGH, x))
    p = fma(f4(1 / 5040), r, f4(1 / 720))
    p = fma(p, r, f4(1 / 120))
    p = fma(p, r, f4(1 / 24))
    p = fma(p, r, f4(1 / 6))
    p = fma(p, r, f4(0.5))
    p = fma(p * r, r, r) + f4(1)
    return f4(p * _from_bits((np.int32(n) + np.int32(127)) << np.int32(23)))


@inlined
def log(x: f4) -> f4:
    """Return log x of a positive normal x as e·ln 2 + log m with √½ ≤ m < √2 and log m = 2 artanh((m-1)/(m+1))."""
    bits = _bits(x)
    e = f4((bits >> np.int32(23)) - np.int32(126))
    m = _from_bits((bits & _MANTISSA) | _EXPONENT_OF_HALF)
    small = m < _SQRT_HALF
    m = m + m if small else m
    e = e - f4(1) if small else e
    s = (m - f4(1)) / (m + f4(1))
    q = s * s
    p = fma(f4(2 / 11), q, f4(2 / 9))
    p = fma(p, q, f4(2 / 7))
    p = fma(p, q, f4(2 / 5))
    p = fma(p, q, f4(2 / 3))
    return f4(fma(e, _LN2_HIGH, fma(e, _LN2_LOW, fma(p * q, s, s + s))))


@inlined
def log1p(t: f4) -> f4:
    """Return log(1 + t) for 0 ≤ t ≤ 1, as log u · t/(u - 1), where u is 1 + t rounded: this corrects the rounding."""
    u = f4(1) + t
    d = u - f4(1)
    return t if d == f4(0) else log(u) * (t / d)


@inlined
def sigmoid(x: f4) -> f4:
    """Return 1/(1 + e^-x)."""
    t = exp(-abs(x))
    return (f4(1) if x >= f4(0) else t) / (f4(1) + t)


@inlined
def softplus(x: f4) -> f4:
    """Return log(1 + e^x)."""
    return max(x, f4(0)) + log1p(exp(-abs(x)))


@inlined
def tanh(x: f4) -> f4:
    """Return tanh x; by its series near zero, where the quotient would lose digits."""
    t = exp(f4(-2) * abs(x))
    far = (f4(1) - t) / (f4(1) + t)
    q = x * x
    p = fma(f4(62 / 2835), q, f4(-17 / 315))
    p = fma(p, q, f4(2 / 15))
    p = fma(p, q, f4(-1 / 3))
    near = fma(x * q, p, x)
    return near if abs(x) < f4(0.2) else (far if x > f4(0) else -far)
