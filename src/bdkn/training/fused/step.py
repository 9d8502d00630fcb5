"""One training step in compiled code: forward, loss, backward."""

from __future__ import annotations

import numpy as np

from bdkn.kernels import elementary
from bdkn.kernels.compiled import compiled
from bdkn.kernels.product import product, product_where_positive, relu_product
from bdkn.kernels.transpose import transpose
from bdkn.networks import MIN_VARIANCE
from bdkn.networks.compiled import (
    INPUT,
    LD_WEIGHTS,
    N_IN,
    N_OUT,
    OUTPUT,
    RELU,
    TALLEST_OUT,
    WEIGHTS,
    Floats,
    Table,
    activate_with_slopes,
    affine,
)
from bdkn.training.fused.layout import (
    DELTA,
    GRADIENT,
    INPUT_T,
    LD_BATCH,
    LD_INPUT_T,
    PARAMETERS,
    ROW_WEIGHTS,
    TALLEST_IN,
    TARGETS,
)

NLL, BETA_NLL, MSE = range(3)
"""The objectives that are compiled, with the formulas of ``bdkn.training.objective``."""

f4 = np.float32


@compiled
def forward_for_training(mem: Floats, layers: Table, places: Table, activation: int, rows: int) -> None:
    """Run the batch that lies in the first layer's input and keep what the backward pass needs."""
    ld, last = places[LD_BATCH], len(layers) - 1
    for index in range(last + 1):
        line = layers[index]
        if index < last and activation == RELU:
            relu_product(
                mem, line[OUTPUT], ld, mem, places[PARAMETERS] + line[WEIGHTS], line[LD_WEIGHTS], 1, line[INPUT], ld,
                line[N_OUT], line[TALLEST_OUT], rows, line[N_IN] + 1,
            )  # fmt: skip
        else:
            affine(mem, line, ld, mem, places[PARAMETERS], rows)
            if index < last:
                activate_with_slopes(mem, line[OUTPUT], line[DELTA], line[N_OUT] * ld, activation)
        if index < last:
            after = layers[index + 1]
            transpose(mem, after[INPUT], ld, after[INPUT_T], after[LD_INPUT_T], after[N_IN] + 1, rows)


@compiled
def _sum(values: Floats) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


@compiled
def loss(mem: Floats, layers: Table, places: Table, rows: int, objective: int, beta: float) -> float:
    """Return Σ w·l over the batch and write the gradient of its mean to the last layer's delta.

    The rows' losses overwrite their targets: with a sum in it the loop would not become vector code.
    """
    ld, out, delta = places[LD_BATCH], layers[-1, OUTPUT], layers[-1, DELTA]
    mean, raw = mem[out : out + rows], mem[out + ld : out + ld + rows]
    d_mean, d_raw = mem[delta : delta + rows], mem[delta + ld : delta + ld + rows]
    target = mem[places[TARGETS] : places[TARGETS] + rows]
    weight = mem[places[ROW_WEIGHTS] : places[ROW_WEIGHTS] + rows]
    share, power = f4(1 / rows), f4(beta)
    if objective == MSE:
        for i in range(rows):
            error = mean[i] - target[i]
            d_mean[i] = weight[i] * error * share
            d_raw[i] = f4(0)
            target[i] = weight[i] * (error * error) * f4(0.5)
        return _sum(target)
    for i in range(rows):
        error, r = mean[i] - target[i], raw[i]
        t = elementary.exp(-abs(r))
        v = max(r, f4(0)) + elementary.log1p(t) + f4(MIN_VARIANCE)
        log_v, inverse = elementary.log(v), f4(1) / v
        z = error * inverse
        w = weight[i] * (elementary.exp(power * log_v) if objective == BETA_NLL else f4(1))
        sigmoid = (f4(1) if r >= f4(0) else t) / (f4(1) + t)
        d_mean[i] = w * z * share
        d_raw[i] = w * (f4(1) - error * z) * inverse * f4(0.5) * sigmoid * share
        target[i] = w * (log_v + error * z) * f4(0.5)
    return _sum(target)


@compiled
def _multiply(mem: Floats, target: int, by: int, count: int) -> None:
    a, b = mem[target : target + count], mem[by : by + count]
    for i in range(count):
        a[i] *= b[i]


@compiled
def backward(mem: Floats, layers: Table, places: Table, activation: int, rows: int) -> None:
    """Write the gradient of every weight to the workspace; overwrites the activations."""
    ld = places[LD_BATCH]
    for index in range(len(layers) - 1, -1, -1):
        line = layers[index]
        product(
            mem, places[GRADIENT] + line[WEIGHTS], line[LD_WEIGHTS], mem, line[DELTA], ld, 1,
            line[INPUT_T], line[LD_INPUT_T], line[N_OUT], line[TALLEST_OUT], line[N_IN] + 1, rows,
        )  # fmt: skip
        if index > 0 and activation == RELU:
            product_where_positive(
                mem, layers[index - 1, DELTA], ld, mem, places[PARAMETERS] + line[WEIGHTS], 1, line[LD_WEIGHTS],
                line[DELTA], ld, line[N_IN], line[TALLEST_IN], rows, line[N_OUT], line[INPUT],
            )  # fmt: skip
        elif index > 0:
            product(
                mem, line[INPUT], ld, mem, places[PARAMETERS] + line[WEIGHTS], 1, line[LD_WEIGHTS], line[DELTA], ld,
                line[N_IN], line[TALLEST_IN], rows, line[N_OUT],
            )  # fmt: skip
            _multiply(mem, layers[index - 1, DELTA], line[INPUT], line[N_IN] * ld)
