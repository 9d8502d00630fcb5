"""The forward pass in compiled code, for training and for prediction.

Each entry of a product is a sum over k in one order, whatever tile it falls into, and each activation is a function of
one number: a row's answer has the same bits in whatever company the row is asked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bdkn.kernels import elementary
from bdkn.kernels.compiled import compiled, inlined
from bdkn.kernels.product import product
from bdkn.networks.activation import ACTIVATIONS, LEAK
from bdkn.networks.layout import INPUT, LD_WEIGHTS, N_IN, N_OUT, OUTPUT, TALLEST_OUT, WEIGHTS

RELU, LEAKY_RELU, TANH, SILU = map(ACTIVATIONS.index, ("relu", "leaky_relu", "tanh", "silu"))

f4 = np.float32
Floats = NDArray[np.float32]
Table = NDArray[np.int64]
Line = NDArray[np.int64]


@inlined
def relu(z: f4) -> tuple[f4, f4]:
    """Value and slope.

    The sum with 0 changes nothing that a product sees. Without it, LLVM stores zeros under a mask into the place z came
    from, and AVX2's stores under a mask are slow on AMD processors: six times as long for the whole activation.
    """
    return max(z, f4(0)) + f4(0), f4(1) if z > f4(0) else f4(0)


@inlined
def leaky_relu(z: f4) -> tuple[f4, f4]:
    """Value and slope."""
    slope = f4(1) if z > f4(0) else f4(LEAK)
    return z * slope, slope


@inlined
def tanh(z: f4) -> tuple[f4, f4]:
    """Value and slope."""
    t = elementary.tanh(z)
    return t, f4(1) - t * t


@inlined
def silu(z: f4) -> tuple[f4, f4]:
    """Value and slope."""
    s = elementary.sigmoid(z)
    return z * s, s * (f4(1) + z * (f4(1) - s))


@compiled
def activate(mem: Floats, start: int, count: int, activation: int) -> None:
    """Turn pre-activations into activations in place."""
    a = mem[start : start + count]
    if activation == RELU:
        for i in range(count):
            a[i] = relu(a[i])[0]
    elif activation == LEAKY_RELU:
        for i in range(count):
            a[i] = leaky_relu(a[i])[0]
    elif activation == TANH:
        for i in range(count):
            a[i] = tanh(a[i])[0]
    else:
        for i in range(count):
            a[i] = silu(a[i])[0]


@compiled
def affine(mem: Floats, line: Line, ld: int, weights: Floats, start: int, rows: int) -> None:
    """Leave W·x + b of a batch in the layer's output, for the network whose weights start there."""
    product(
        mem, line[OUTPUT], ld, weights, start + line[WEIGHTS], line[LD_WEIGHTS], 1, line[INPUT], ld,
        line[N_OUT], line[TALLEST_OUT], rows, line[N_IN] + 1,
    )  # fmt: skip


@compiled
def forward(mem: Floats, layers: Table, ld: int, weights: Floats, start: int, activation: int, rows: int) -> None:
    """Run the batch that lies in the first layer's input."""
    last = len(layers) - 1
    for index in range(last + 1):
        affine(mem, layers[index], ld, weights, start, rows)
        if index < last:
            activate(mem, layers[index, OUTPUT], layers[index, N_OUT] * ld, activation)
