"""What is done with a tile of a product while it is still in registers, as LLVM code.

Without it, the product would be stored and loaded again by a loop of its own, in which the processor waits for the
memory, or for its only divider. Done tile by tile, this runs beside the multiplications of the next tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

F32 = ir.FloatType()

STORE, RELU, WHERE_POSITIVE = range(3)
"""C = S·V; C = relu(S·V); C = S·V where the number of another matrix at a given distance is positive, else zero."""


class Vector:
    """One vector of a finished tile: its place and how it is computed with."""

    def __init__(self, builder: ir.IRBuilder, kind: ir.VectorType, row: ir.Value, start: int) -> None:
        self.b, self.kind, self._row, self._start = builder, kind, row, start

    def place(self, distance: ir.Value | None = None) -> ir.Value:
        """Return the pointer to the vector in C, or to the one so many floats behind it."""
        start = ir.Constant(ir.IntType(64), self._start)
        offset = start if distance is None else self.b.add(start, distance)
        shifted = self.b.gep(self._row, [offset], inbounds=True, source_etype=F32)
        return self.b.bitcast(shifted, self.kind.as_pointer())

    def load(self, distance: ir.Value | None = None) -> ir.Value:
        """Return what lies there."""
        return self.b.load(self.place(distance), align=4, typ=self.kind)

    def store(self, value: ir.Value, distance: ir.Value | None = None) -> None:
        """Write a vector there."""
        self.b.store(value, self.place(distance), align=4)

    def constant(self, value: float) -> ir.Value:
        """Return a vector of one constant."""
        return ir.Constant(self.kind, [ir.Constant(F32, value)] * self.kind.count)


Finish = Callable[[Vector, ir.Value, Sequence[Any]], None]


def _store(at: Vector, sums: ir.Value, extra: Sequence[Any]) -> None:
    at.store(sums)


def _relu(at: Vector, sums: ir.Value, extra: Sequence[Any]) -> None:
    zero = at.constant(0)
    at.store(at.b.select(at.b.fcmp_ordered("<", sums, zero), zero, sums))


def _where_positive(at: Vector, sums: ir.Value, extra: Sequence[Any]) -> None:
    zero = at.constant(0)
    at.store(at.b.select(at.b.fcmp_ordered(">", at.load(extra[0]), zero), sums, zero))


FINISHES: dict[int, Finish] = {STORE: _store, RELU: _relu, WHERE_POSITIVE: _where_positive}
