"""Compiled products of small matrices, elementary functions, copies and transposition, in single precision.

Functions are accurate to a few units in the last place in the range that occurs in training. A multiplication and an
addition are fused only by ``fma``: if the compiler chose, the choice would depend on what it inlines, and the same seed
must give the same bits whether the code was just compiled or loaded from disk.

A product is C[i, :] = Σ_k S[i·row + k·step] · V[k, :]. ``S`` is read as scalars, which are broadcast; ``V`` and ``C``
are read and written as vectors. The sums of a tile of C stay in registers during the loop over k; a compiler would load
and store them in every iteration of plain loops. Depending on the strides of ``S``, the same tile computes the forward
product, the input gradient and the weight gradient.

Operands are given by their offsets: ``C`` and ``V`` in one workspace, ``S`` in an array that may be this workspace. In
training, the weights of a network are in its workspace; in prediction, threads share one array of weights.

An activation is applied to a tile while it is in registers: this runs in parallel with the products of the next tile,
while a separate loop would wait for memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target
from numpy.typing import NDArray

from bdkn.kernels.code_cache import compiled, inlined, intrinsic

f4 = np.float32
Floats = NDArray[np.float32]
F32, I32, I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)


def call_llvm(builder: ir.IRBuilder, name: str, *operands: ir.Value) -> ir.Value:
    """Emit a call of an LLVM intrinsic function, such as ``llvm.fmuladd.f32``; all operands have the same type."""
    number = operands[0].type
    function_type = ir.FunctionType(number, [number] * len(operands))
    return builder.call(builder.module.globals.get(name) or ir.Function(builder.module, function_type, name), operands)


def broadcast(builder: ir.IRBuilder, scalar: ir.Value, vector: ir.VectorType) -> ir.Value:
    """Emit LLVM code for a vector in which every element is ``scalar``."""
    undefined, zeros = ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(I32, vector.count), None)
    return builder.shuffle_vector(builder.insert_element(undefined, scalar, ir.Constant(I32, 0)), undefined, zeros)


def constant(vector: ir.VectorType, value: float) -> ir.Constant:
    """Return a constant LLVM vector in which every element is ``value``."""
    return ir.Constant(vector, [ir.Constant(F32, value)] * vector.count)


_FEW = 4
"""Number of floats that ``copy_row`` copies by one instruction."""
_VECTOR = ir.VectorType(F32, _FEW)


@intrinsic
def _copy_few(typing: Any, target: Any, into: Any, source: Any, start: Any) -> Any:
    """Copy ``_FEW`` floats from index ``start`` of ``source`` to index ``into`` of ``target``."""
    if source.layout != "C":
        return None

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        def place(array: int) -> ir.Value:
            data = context.make_array(signature.args[array])(context, b, args[array]).data
            shifted = b.gep(data, [args[array + 1]], inbounds=True, source_etype=F32)
            return b.bitcast(shifted, _VECTOR.as_pointer())

        b.store(b.load(place(2), align=4, typ=_VECTOR), place(0), align=4)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64), codegen


@inlined
def copy_row(target: Floats, into: int, X: Floats, row: int) -> None:
    """Copy a row of the C-contiguous matrix X to ``target``, beginning at index ``into``.

    A plain loop would be slower: its compiled code checks whether the arrays overlap, and copies single numbers if a
    row is shorter than a vector register, as the rows of most tables are with AVX-512.
    """
    n = X.shape[1]
    if n >= _FEW:
        for k in range(0, n - _FEW, _FEW):
            _copy_few(target, into + k, X, row * n + k)
        _copy_few(target, into + n - _FEW, X, row * n + n - _FEW)
    else:
        for k in range(n):
            target[into + k] = X[row, k]


EDGE = 8
"""Number of rows, and of columns, of the square blocks in which ``transpose`` works."""

_LINE = ir.VectorType(F32, EDGE)
_HALF = ir.VectorType(F32, EDGE // 2)


def _shuffle(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, indices: Sequence[int]) -> ir.Value:
    mask = ir.Constant(ir.VectorType(I32, len(indices)), [ir.Constant(I32, i) for i in indices])
    return builder.shuffle_vector(a, b, mask)


def _in_halves(builder: ir.IRBuilder, low: list[int], a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit one shuffle of vectors a, b: indices ``low`` for the lower half of the result, ``low`` + 4 for the upper."""
    return _shuffle(builder, a, b, low + [i + EDGE // 2 for i in low])


def _transposed_halves(builder: ir.IRBuilder, lines: Sequence[ir.Value]) -> list[ir.Value]:
    """Emit two transpositions of 4 x 4 numbers: of the lower halves of four vectors, and of the upper halves."""
    single = [[0, EDGE, 1, EDGE + 1], [2, EDGE + 2, 3, EDGE + 3]]
    double = [[0, 1, EDGE, EDGE + 1], [2, 3, EDGE + 2, EDGE + 3]]
    ab, cd = ([_in_halves(builder, low, *pair) for low in single] for pair in (lines[:2], lines[2:]))
    return [_in_halves(builder, low, *pair) for pair in zip(ab, cd, strict=True) for low in double]


@intrinsic
def _transpose_block(typing: Any, mem: Any, source: Any, lds: Any, target: Any, ldt: Any) -> Any:
    """Transpose one block of 8 x 8 numbers between two offsets in ``mem``; ``lds``, ``ldt`` are row strides."""

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, b, args[0]).data

        def place(line_type: ir.VectorType, start: ir.Value, stride: ir.Value, i: int, j: int) -> ir.Value:
            offset = b.add(b.add(start, b.mul(stride, ir.Constant(I64, i))), ir.Constant(I64, j))
            return b.bitcast(b.gep(data, [offset], inbounds=True, source_etype=F32), line_type.as_pointer())

        def halves(i: int, j: int) -> ir.Value:
            """Load four numbers of row i and of row i + 4 as one vector, which needs no extra instruction."""
            half, other = (b.load(place(_HALF, args[1], args[2], k, j), align=4, typ=_HALF) for k in (i, i + 4))
            return _shuffle(b, half, other, range(EDGE))

        lines = [line for j in (0, 4) for line in _transposed_halves(b, [halves(i, j) for i in range(4)])]
        for i, line in enumerate(lines):
            b.store(line, place(_LINE, args[3], args[4], i, 0), align=4)
        return context.get_dummy_value()

    return types.void(mem, *[types.int64] * 4), codegen


@compiled
def transpose(mem: Floats, source: int, lds: int, target: int, ldt: int, rows: int, columns: int) -> None:
    """Transpose a matrix at offset ``source`` of ``mem`` to ``target``; both need space for multiples of ``EDGE``."""
    for i in range(0, rows, EDGE):
        for j in range(0, columns, EDGE):
            _transpose_block(mem, source + i * lds + j, lds, target + j * ldt + i, ldt)


_LOG2_E = f4(1.4426950408889634)
_LN2_HIGH, _LN2_LOW = f4(0.693359375), f4(-2.1219444005469057e-4)
"""ln 2 as a sum of two numbers; the product of an exponent n and the first number is exact."""

_SQRT_HALF = f4(0.7071067811865476)
_MANTISSA, _EXPONENT_OF_HALF = np.int32(0x007FFFFF), np.int32(0x3F000000)


@intrinsic
def _bits(typing: Any, x: Any) -> Any:
    """Return the bits of the float32 number x as an int32."""
    return types.int32(types.float32), lambda context, b, sig, args: b.bitcast(args[0], I32)


@intrinsic
def _from_bits(typing: Any, i: Any) -> Any:
    """Return the float32 number that has the bits of the int32 ``i``."""
    return types.float32(types.int32), lambda context, b, sig, args: b.bitcast(args[0], F32)


@intrinsic
def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a · b + c, with a single rounding if the CPU has an instruction for it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return call_llvm(builder, "llvm.fmuladd.f32", *args)

    return types.float32(*[types.float32] * 3), codegen


@inlined
def exp(x: f4) -> f4:
    """Return e^x = 2^n · e^r with |r| ≤ ½ ln 2 and Taylor's series for e^r; x is clipped, so that nothing overflows."""
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
    """Return log x = e·ln 2 + log m of a normal x = m·2^e > 0, with √½ ≤ m < √2 and log m = 2 artanh((m-1)/(m+1))."""
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
    """Return log(1 + t) for 0 ≤ t ≤ 1, as log u · t/(u - 1), where u is 1 + t rounded: rounding errors cancel."""
    u = f4(1) + t
    d = u - f4(1)
    return t if d == f4(0) else log(u) * (t / d)


@inlined
def sigmoid(x: f4) -> f4:
    """Return the logistic function 1/(1 + e^-x)."""
    t = exp(-abs(x))
    return (f4(1) if x >= f4(0) else t) / (f4(1) + t)


@inlined
def softplus(x: f4) -> f4:
    """Return the softplus function log(1 + e^x)."""
    return max(x, f4(0)) + log1p(exp(-abs(x)))


@inlined
def tanh(x: f4) -> f4:
    """Return tanh x by exponentials; near zero by its Taylor series, which is more accurate there."""
    t = exp(f4(-2) * abs(x))
    far = (f4(1) - t) / (f4(1) + t)
    q = x * x
    p = fma(f4(62 / 2835), q, f4(-17 / 315))
    p = fma(p, q, f4(2 / 15))
    p = fma(p, q, f4(-1 / 3))
    near = fma(x * q, p, x)
    return near if abs(x) < f4(0.2) else (far if x > f4(0) else -far)


def _machine() -> tuple[int, int]:
    """Return the number of floats in a vector register and the number of such registers.

    The CPU is the one that Numba compiles for, which can be set by NUMBA_CPU_NAME and NUMBA_CPU_FEATURES. LLVM has no
    list of registers; they are recognized by their names in the assembly code for the sum of two vectors of 16 floats.
    """
    triple, cpu, features = cpu_target.target_context.codegen().magic_tuple()
    module = ir.Module()
    vector = ir.VectorType(F32, 16)
    function = ir.Function(module, ir.FunctionType(vector, [vector, vector]), "add")
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(builder.fadd(*function.args))
    target = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features)
    assembly = str(target.emit_assembly(llvm.parse_assembly(str(module))))
    if "zmm" in assembly:
        return 16, 32
    if "ymm" in assembly:
        return 8, 16
    return 4, 16 if "xmm" in assembly else 32


LANES, REGISTERS = _machine()
BLOCK = 2 * LANES
"""Number of columns of a full tile of a matrix product: two vectors, so that each broadcast scalar is used twice."""

HEIGHTS = (12, 10, 8, 6, 4, 2, 1) if REGISTERS >= 32 else (6, 5, 4, 3, 2, 1)
"""Possible numbers of rows of a tile of a matrix product; the tallest tile just fits into the vector registers."""


_NARROW = [w for w in (4, 8) if w < LANES]
WIDTHS = (*((w,) for w in _NARROW), (LANES,), *((LANES, w) for w in _NARROW), (LANES, LANES))
"""Possible widths of a tile of a matrix product, each as the lengths of its vectors; narrow tiles need less padding."""


def padded(columns: int) -> int:
    """Return the number of columns that a matrix product writes for ``columns`` columns, including padding."""
    blocks, rest = divmod(columns, BLOCK)
    return blocks * BLOCK + (min(sum(w) for w in WIDTHS if sum(w) >= rest) if rest else 0)


STORE, RELU, WHERE_POSITIVE = range(3)
"""Operation applied to a tile of a matrix product: none; relu(x); x where another matrix is positive, else zero."""


def _emit_tile(
    b: ir.IRBuilder, height: int, widths: tuple[int, ...], finish: int,
    mem: ir.Value, c: ir.Value, ldc: ir.Value, source: ir.Value, s: ir.Value, row: ir.Value, step: ir.Value,
    v: ir.Value, ldv: ir.Value, count: ir.Value, *distance: ir.Value,
) -> None:  # fmt: skip
    """Emit LLVM code for one tile of a matrix product C; ``distance`` is from C to the matrix of WHERE_POSITIVE."""
    rows, parts = range(height), range(len(widths))
    vectors = [ir.VectorType(F32, width) for width in widths]
    firsts = [sum(widths[:i]) for i in parts]

    def at(base: ir.Value, offset: ir.Value) -> ir.Value:
        return b.gep(base, [offset], inbounds=True, source_etype=F32)

    def vector_at(start: ir.Value, part: int) -> ir.Value:
        return b.bitcast(at(start, ir.Constant(I64, firsts[part])), vectors[part].as_pointer())

    def fma(part: int, scalar: ir.Value, *others: ir.Value) -> ir.Value:
        factor = broadcast(b, scalar, vectors[part])
        return call_llvm(b, f"llvm.fmuladd.v{widths[part]}f32", factor, *others)

    # One pointer serves three rows of S, at distances of 0, 1 and 2 strides, since one pointer per row would need
    # too many registers.
    starts = [at(mem, v)]
    starts += [at(source, b.add(s, b.mul(row, ir.Constant(I64, i)))) for i in rows[::3]]
    strides, offsets = [ldv] + [step] * len(rows[::3]), [ir.Constant(I64, 0), row, b.add(row, row)]
    before, loop, after = b.block, b.append_basic_block("k"), b.append_basic_block("done")
    b.branch(loop)
    b.position_at_end(loop)
    left, pointers = b.phi(I64), [b.phi(start.type) for start in starts]
    sums = [[b.phi(vectors[p]) for p in parts] for _ in rows]
    loaded = [b.load(vector_at(pointers[0], p), align=4, typ=vectors[p]) for p in parts]
    new = []
    for i in rows:  # each scalar is loaded immediately before its use, to save registers
        scalar = b.load(at(pointers[1 + i // 3], offsets[i % 3]), typ=F32)
        new.append([fma(p, scalar, loaded[p], sums[i][p]) for p in parts])
    fewer = b.sub(left, ir.Constant(I64, 1))
    left.add_incoming(count, before)
    left.add_incoming(fewer, loop)
    for pointer, start, stride in zip(pointers, starts, strides, strict=True):
        pointer.add_incoming(start, before)
        pointer.add_incoming(at(pointer, stride), loop)
    for i in rows:
        for p in parts:
            sums[i][p].add_incoming(ir.Constant(vectors[p], None), before)
            sums[i][p].add_incoming(new[i][p], loop)
    b.cbranch(b.icmp_signed(">", fewer, ir.Constant(I64, 0)), loop, after)
    b.position_at_end(after)
    for i in rows:
        line = at(mem, b.add(c, b.mul(ldc, ir.Constant(I64, i))))
        for p in parts:
            value, zero = new[i][p], constant(vectors[p], 0)
            if finish == RELU:
                value = b.select(b.fcmp_ordered("<", value, zero), zero, value)
            elif finish == WHERE_POSITIVE:
                other = b.load(vector_at(at(line, *distance), p), align=4, typ=vectors[p])
                value = b.select(b.fcmp_ordered(">", other, zero), value, zero)
            b.store(value, vector_at(line, p), align=4)


def _emit_any(builder: ir.IRBuilder, finish: int, which: ir.Value, operands: list[ir.Value]) -> None:
    """Emit LLVM code for all tile sizes; ``which`` selects one: index of height · number of widths + index of width."""
    end = builder.append_basic_block("end")
    switch = builder.switch(which, end)
    for index, (height, widths) in enumerate((h, w) for h in HEIGHTS for w in WIDTHS):
        block = builder.append_basic_block(f"tile{height}x{sum(widths)}")
        switch.add_case(ir.Constant(I64, index), block)
        builder.position_at_end(block)
        _emit_tile(builder, height, widths, finish, *operands)
        builder.branch(end)
    builder.position_at_end(end)


@intrinsic
def tile(
    typing: Any, finish: Any,
    mem: Any, which: Any, c: Any, ldc: Any, source: Any, s: Any, row: Any, step: Any, v: Any, ldv: Any, count: Any,
    extra: Any,
) -> Any:  # fmt: skip
    """Compute one tile of a matrix product (see the docstring of the module), for use in compiled code.

    ``which`` is its size, numbered as in ``_emit_any``; ``count`` > 0 is the number of terms of each sum. ``finish``, a
    constant such as RELU, is the operation that is applied to the tile, and ``extra`` are its operands.
    """
    if not isinstance(finish, types.IntegerLiteral):
        return None
    code = finish.literal_value

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = {i: context.make_array(signature.args[i])(context, builder, args[i]).data for i in (1, 5)}
        operands = [data.get(i, args[i]) for i in range(1, len(args) - 1) if i != 2]
        more = [builder.extract_value(args[-1], i) for i in range(len(signature.args[-1]))]
        _emit_any(builder, code, args[2], operands + more)
        return context.get_dummy_value()

    return types.void(finish, mem, *[types.int64] * 3, source, *[types.int64] * 6, extra), codegen


_HEIGHTS = np.array(HEIGHTS)
_N_WIDTHS = len(WIDTHS)
_WIDTH_OF_REST = np.array([min(i for i, w in enumerate(WIDTHS) if sum(w) >= rest) for rest in range(BLOCK + 1)])
"""For each number of remaining columns, the index in ``WIDTHS`` of the narrowest tile that contains them."""


def main_height(rows: int) -> int:
    """Return the index in ``HEIGHTS`` of the tile height to begin with, so that ``rows`` rows take the least time.

    A tile of fewer than four rows takes as long as a tile of four, since each addition waits for the one before.
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
    """Compute a matrix product tile by tile; the operation ``finish``, such as RELU, is applied to each tile."""
    n = 0
    while n < columns:
        width = _WIDTH_OF_REST[min(columns - n, BLOCK)]
        j = 0
        which = tallest
        while j < rows:
            while _HEIGHTS[which] > rows - j:
                which += 1
            size = which * _N_WIDTHS + width
            tile(finish, mem, size, c + j * ldc + n, ldc, source, s + j * row, row, step, v + n, ldv, count, extra)
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
    """Compute C[rows, columns] = S[rows, count] · V[count, columns], with ``tallest`` = ``main_height(rows)``.

    ``c``, ``s``, ``v`` are offsets; ``ldc``, ``row``, ``ldv`` row strides; ``step`` is the column stride of S. C is
    padded to ``padded(columns)`` columns.
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
    """Compute C = relu(S · V), where negative entries become zero; arguments are as in ``product``."""
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
    """Compute C = S · V where the matrix at offset ``other`` is positive, else zero; arguments as in ``product``."""
    _tiles(WHERE_POSITIVE, (other - c,), mem, c, ldc, source, s, row, step, v, ldv, rows, tallest, columns, count)


@compiled
def shuffle(order: NDArray[np.int32], state: np.uint64) -> np.uint64:
    """Shuffle ``order`` in place (Fisher-Yates, with the generator SplitMix64); return the generator's next state."""
    for i in range(len(order) - 1, 0, -1):
        state = state + np.uint64(0x9E3779B97F4A7C15)
        z = state
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        high = (z ^ (z >> np.uint64(31))) >> np.uint64(32)
        j = np.int64((high * np.uint64(i + 1)) >> np.uint64(32))
        order[i], order[j] = order[j], order[i]
    return state
