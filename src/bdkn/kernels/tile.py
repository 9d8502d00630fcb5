"""A tile: a block of a matrix product that is computed in vector registers, as LLVM code.

    C[i, :] = Σ_k S[i·row + k·step] · V[k, :]

``S`` is read as scalars, which are broadcast, ``V`` and ``C`` as whole vectors. The sums stay in registers during the
whole loop over k. From plain loops a compiler does not generate such code: it would load and store the sums, and check
for overlap, in every iteration. With different strides of ``S`` the same tile computes the forward product, the input
gradient and the weight gradient.

Operands are given by their offsets: ``C`` and ``V`` in one workspace, ``S`` in an array that may be the same one. A
network in training has its weights in its workspace; threads that predict share one array of weights.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target

from bdkn.kernels.compiled import intrinsic
from bdkn.kernels.finish import FINISHES, Finish, Vector

F32, I32, I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)


def _assembly() -> str:
    """Return the assembly code of Numba's target for the sum of two vectors of 16 floats."""
    triple, cpu, features = cpu_target.target_context.codegen().magic_tuple()
    module = ir.Module()
    vector = ir.VectorType(F32, 16)
    function = ir.Function(module, ir.FunctionType(vector, [vector, vector]), "add")
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(builder.fadd(*function.args))
    target = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features)
    return str(target.emit_assembly(llvm.parse_assembly(str(module))))


def _machine() -> tuple[int, int]:
    """Return the number of floats in a vector register and the number of such registers.

    They are those of the CPU that Numba compiles for, which can be set by NUMBA_CPU_NAME and NUMBA_CPU_FEATURES. LLVM
    has no list of them; they are found by the names of the registers in compiled code.
    """
    assembly = _assembly()
    if "zmm" in assembly:
        return 16, 32
    if "ymm" in assembly:
        return 8, 16
    return 4, 16 if "xmm" in assembly else 32


LANES, REGISTERS = _machine()
BLOCK = 2 * LANES
"""Columns of a full tile: two vectors, so that each broadcast scalar is used twice."""

HEIGHTS = (12, 10, 8, 6, 4, 2, 1) if REGISTERS >= 32 else (6, 5, 4, 3, 2, 1)
"""Numbers of rows that a tile may have; the largest leaves registers for the vectors of V and for broadcasts."""


def _widths() -> tuple[tuple[int, ...], ...]:
    narrow = [w for w in (4, 8) if w < LANES]
    return (*((w,) for w in narrow), (LANES,), *((LANES, w) for w in narrow), (LANES, LANES))


WIDTHS = _widths()
"""Vectors of a row of a tile, narrowest first; remaining columns need not be padded to a whole vector."""


def padded(columns: int) -> int:
    """Return the number of columns that a product of ``columns`` columns writes, padding included."""
    blocks, rest = divmod(columns, BLOCK)
    return blocks * BLOCK + (min(sum(w) for w in WIDTHS if sum(w) >= rest) if rest else 0)


class _Emitter:
    """Emitter of the instructions of one tile."""

    def __init__(self, builder: ir.IRBuilder, height: int, widths: tuple[int, ...], finish: Finish) -> None:
        self.b, self.height, self.widths, self.finish = builder, height, widths, finish
        self.vectors = [ir.VectorType(F32, width) for width in widths]
        self.starts = [sum(widths[:i]) for i in range(len(widths))]

    def at(self, base: ir.Value, offset: ir.Value) -> ir.Value:
        return self.b.gep(base, [offset], inbounds=True, source_etype=F32)

    def vector_at(self, row: ir.Value, part: int) -> ir.Value:
        shifted = self.at(row, ir.Constant(I64, self.starts[part]))
        return self.b.bitcast(shifted, self.vectors[part].as_pointer())

    def broadcast(self, scalar: ir.Value, part: int) -> ir.Value:
        undefined = ir.Constant(self.vectors[part], ir.Undefined)
        zeros = ir.Constant(ir.VectorType(I32, self.widths[part]), None)
        return self.b.shuffle_vector(self.b.insert_element(undefined, scalar, ir.Constant(I32, 0)), undefined, zeros)

    def fma(self, part: int, *operands: ir.Value) -> ir.Value:
        kind = self.vectors[part]
        name = f"llvm.fmuladd.v{self.widths[part]}f32"
        function = self.b.module.globals.get(name) or ir.Function(
            self.b.module, ir.FunctionType(kind, [kind] * 3), name
        )
        return self.b.call(function, operands)

    def emit(self, mem: ir.Value, c: ir.Value, ldc: ir.Value, source: ir.Value, s: ir.Value, row: ir.Value,
             step: ir.Value, v: ir.Value, ldv: ir.Value, count: ir.Value, *extra: ir.Value) -> None:  # fmt: skip
        b, rows, parts = self.b, range(self.height), range(len(self.widths))
        # One pointer is used for three rows of S, at 0, 1 and 2 strides from it: one pointer per row would need too
        # many registers.
        starts = [self.at(mem, v)]
        starts += [self.at(source, b.add(s, b.mul(row, ir.Constant(I64, i)))) for i in rows[::3]]
        strides, offsets = [ldv] + [step] * len(rows[::3]), [ir.Constant(I64, 0), row, b.add(row, row)]
        before, loop, after = b.block, b.append_basic_block("k"), b.append_basic_block("done")
        b.branch(loop)
        b.position_at_end(loop)
        left, pointers = b.phi(I64), [b.phi(start.type) for start in starts]
        sums = [[b.phi(self.vectors[p]) for p in parts] for _ in rows]
        loaded = [b.load(self.vector_at(pointers[0], p), align=4, typ=self.vectors[p]) for p in parts]
        new = []
        for i in rows:  # each scalar is loaded where it is needed: all at once would need too many registers
            scalar = b.load(self.at(pointers[1 + i // 3], offsets[i % 3]), typ=F32)
            new.append([self.fma(p, self.broadcast(scalar, p), loaded[p], sums[i][p]) for p in parts])
        fewer = b.sub(left, ir.Constant(I64, 1))
        left.add_incoming(count, before)
        left.add_incoming(fewer, loop)
        for pointer, start, stride in zip(pointers, starts, strides, strict=True):
            pointer.add_incoming(start, before)
            pointer.add_incoming(self.at(pointer, stride), loop)
        for i in rows:
            for p in parts:
                sums[i][p].add_incoming(ir.Constant(self.vectors[p], None), before)
                sums[i][p].add_incoming(new[i][p], loop)
        b.cbranch(b.icmp_signed(">", fewer, ir.Constant(I64, 0)), loop, after)
        b.position_at_end(after)
        for i in rows:
            line = self.at(mem, b.add(c, b.mul(ldc, ir.Constant(I64, i))))
            for p in parts:
                self.finish(Vector(b, self.vectors[p], line, self.starts[p]), new[i][p], extra)


def _emit_any(builder: ir.IRBuilder, finish: Finish, which: ir.Value, operands: list[ir.Value]) -> None:
    """Emit all kinds of tiles and a switch between them; ``which`` is height index · number of widths + width index."""
    end = builder.append_basic_block("end")
    switch = builder.switch(which, end)
    for index, (height, widths) in enumerate((h, w) for h in HEIGHTS for w in WIDTHS):
        block = builder.append_basic_block(f"tile{height}x{sum(widths)}")
        switch.add_case(ir.Constant(I64, index), block)
        builder.position_at_end(block)
        _Emitter(builder, height, widths, finish).emit(*operands)
        builder.branch(end)
    builder.position_at_end(end)


@intrinsic
def tile(
    typing: Any, finish: Any,
    mem: Any, which: Any, c: Any, ldc: Any, source: Any, s: Any, row: Any, step: Any, v: Any, ldv: Any, count: Any,
    extra: Any,
) -> Any:  # fmt: skip
    """Compute one tile of the given kind; ``count`` must be positive. For use in compiled code.

    ``finish`` is a constant and says what is done with the tile, ``extra`` are its operands: see ``finish``.
    """
    if not isinstance(finish, types.IntegerLiteral):
        return None
    code = finish.literal_value

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = {i: context.make_array(signature.args[i])(context, builder, args[i]).data for i in (1, 5)}
        operands = [data.get(i, args[i]) for i in range(1, len(args) - 1) if i != 2]
        more = [builder.extract_value(args[-1], i) for i in range(len(signature.args[-1]))]
        _emit_any(builder, FINISHES[code], args[2], operands + more)
        return context.get_dummy_value()

    return types.void(finish, mem, *[types.int64] * 3, source, *[types.int64] * 6, extra), codegen
