"""Networks in compiled code: the layout of their weights, the forward pass, and prediction on all cores.

The bias of a layer is an additional column of its weight matrix, with an input that is always one. Activations are
stored feature by feature: the values of a feature for all rows of a batch are contiguous. Terms of sums are always
added in the same order, so that the outputs for a row do not depend on the other rows, bit for bit.
"""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.errors import InvalidParameterError
from bdkn.kernels import dense
from bdkn.kernels.code_cache import announce, compiled, inlined
from bdkn.networks.spec import ACTIVATIONS, LEAK, MIN_VARIANCE, NO_BINS, Bins, NetworkSpec, Packing
from bdkn.threads import run_on_threads
from bdkn.typing import FloatArray

f4 = np.float32
Floats = NDArray[np.float32]
Table = NDArray[np.int64]
Line = NDArray[np.int64]

CACHE_LINE = 16
"""Number of float32 values in a cache line of the CPU; parts of arrays begin at multiples of it."""

LAYER_FIELDS = 7
N_IN, N_OUT, WEIGHTS, LD_WEIGHTS, INPUT, OUTPUT, TALLEST_OUT = range(LAYER_FIELDS)
"""Columns of the table of layers: numbers of inputs and outputs; offset and row length of the weights; offsets of the
layer's inputs and outputs; index of the tile height with which their matrix product is fastest."""

RELU, LEAKY_RELU, TANH = (ACTIVATIONS[name].code for name in ("relu", "leaky_relu", "tanh"))

_BATCH = 64
"""Number of rows per forward pass, small enough for activations to fit into the first-level cache."""

_THREAD_PRODUCTS = 1 << 26
"""Minimum number of multiplications that a thread does in one call, about a millisecond of work."""


@lru_cache(maxsize=16)
def packing_of(spec: NetworkSpec) -> Packing:
    """Return the layout of a network's weights in one array, for compiled code."""
    return Packing.of(spec, lambda n_out, columns: (n_out, dense.padded(columns)), align=CACHE_LINE)


def layer_table(spec: NetworkSpec, fields: int = LAYER_FIELDS) -> Table:
    """Return the table of layers: sizes, and offsets of weights, one line per layer; all other columns are zero."""
    table = np.zeros((len(spec.shapes), fields), dtype=np.int64)
    for line, (start, n_out, length), (_, n_in) in zip(table, packing_of(spec).places, spec.shapes, strict=True):
        line[[N_IN, N_OUT, WEIGHTS, LD_WEIGHTS]] = n_in, n_out, start, length
        line[TALLEST_OUT] = dense.main_height(n_out)
    return table


@inlined
def relu(z: f4) -> tuple[f4, f4]:
    """Return relu(z) = max(z, 0) and its derivative.

    The code adds 0, which does not change the value. Without it, the compiler LLVM uses masked stores, which are slow
    with AVX2 on AMD processors: the function would take six times as long.
    """
    return max(z, f4(0)) + f4(0), f4(1) if z > f4(0) else f4(0)


@inlined
def leaky_relu(z: f4) -> tuple[f4, f4]:
    """Return leaky_relu(z), which is z above 0 and 0.01 z below, and its derivative."""
    slope = f4(1) if z > f4(0) else f4(LEAK)
    return z * slope, slope


@inlined
def tanh(z: f4) -> tuple[f4, f4]:
    """Return tanh(z) and its derivative."""
    t = dense.tanh(z)
    return t, f4(1) - t * t


@inlined
def silu(z: f4) -> tuple[f4, f4]:
    """Return silu(z) = z · sigmoid(z) and its derivative."""
    s = dense.sigmoid(z)
    return z * s, s * (f4(1) + z * (f4(1) - s))


@compiled
def activate(mem: Floats, start: int, count: int, activation: int) -> None:
    """Apply the activation function in place to ``count`` numbers of ``mem`` from ``start`` on."""
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
def activate_with_slopes(mem: Floats, value: int, slope: int, count: int, activation: int) -> None:
    """Apply the activation to ``mem`` in place, from index ``value`` on; write its derivatives from ``slope`` on."""
    a, d = mem[value : value + count], mem[slope : slope + count]
    if activation == RELU:
        for i in range(count):
            a[i], d[i] = relu(a[i])
    elif activation == LEAKY_RELU:
        for i in range(count):
            a[i], d[i] = leaky_relu(a[i])
    elif activation == TANH:
        for i in range(count):
            a[i], d[i] = tanh(a[i])
    else:
        for i in range(count):
            a[i], d[i] = silu(a[i])


@compiled
def affine(mem: Floats, line: Line, ld: int, weights: Floats, start: int, rows: int) -> None:
    """Compute the layer's output W·x + b for a batch, with the network whose weights begin at ``start``."""
    dense.product(
        mem, line[OUTPUT], ld, weights, start + line[WEIGHTS], line[LD_WEIGHTS], 1, line[INPUT], ld,
        line[N_OUT], line[TALLEST_OUT], rows, line[N_IN] + 1,
    )  # fmt: skip


@compiled
def forward(mem: Floats, layers: Table, ld: int, weights: Floats, start: int, activation: int, rows: int) -> None:
    """Compute the outputs of a network for the batch of rows that is stored as the first layer's input."""
    last = len(layers) - 1
    for index in range(last + 1):
        affine(mem, layers[index], ld, weights, start, rows)
        if index < last:
            activate(mem, layers[index, OUTPUT], layers[index, N_OUT] * ld, activation)


@compiled
def _workspace(layers: Table, ld: int) -> Floats:
    """Return memory for the activations of a batch, aligned to a cache line, with ones as the inputs of biases."""
    size = (layers[-1, OUTPUT] // ld + layers[-1, N_OUT]) * ld
    buffer = np.zeros(size + CACHE_LINE, dtype=np.float32)
    mem = buffer[-(buffer.ctypes.data // 4) % CACHE_LINE :][:size]
    for line in layers:
        ones = line[INPUT] + line[N_IN] * ld
        mem[ones : ones + ld] = 1
    return mem


@compiled
def _encode(mem: Floats, ld: int, n_columns: int, columns: Line, bins: Floats) -> None:
    """Append the features of the piecewise-linear encoding to a batch, exactly as ``PiecewiseLinear.transform``."""
    for k in range(len(columns)):
        lower, width, mean, scale = bins[0, k], bins[1, k], bins[2, k], bins[3, k]
        x = mem[columns[k] * ld : (columns[k] + 1) * ld]
        feature = mem[(n_columns + k) * ld : (n_columns + k + 1) * ld]
        for b in range(ld):
            share = (x[b] - lower) / width
            share = f4(0) if share < f4(0) else share
            share = f4(1) if share > f4(1) else share
            feature[b] = (share - mean) / scale


@compiled
def _predict(
    X: Floats, columns: Line, bins: Floats, weights: Floats, size: int, layers: Table, ld: int, activation: int,
    first: int, stop: int, means: FloatArray, variances: FloatArray,
) -> None:  # fmt: skip
    """Predict rows ``first`` to ``stop`` by all networks, of ``size`` weights each; write ``means``, ``variances``."""
    mem, out = _workspace(layers, ld), layers[-1, OUTPUT]
    for start in range(first, stop, ld):
        rows = min(ld, stop - start)
        for b in range(rows):
            for k in range(X.shape[1]):
                mem[k * ld + b] = X[start + b, k]
        _encode(mem, ld, X.shape[1], columns, bins)
        for h in range(len(means)):
            forward(mem, layers, ld, weights, h * size, activation, rows)
            for b in range(rows):
                means[h, start + b] = mem[out + b]
                variances[h, start + b] = dense.softplus(mem[out + ld + b]) + MIN_VARIANCE


def outputs_of(
    spec: NetworkSpec, weights: Floats, X: ArrayLike, bins: Bins = NO_BINS, threads: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the means and variances, each (H, n), that H networks with the default output head predict for n rows.

    The inputs of the networks are the columns of ``X``, then the features of ``bins``. At most ``threads`` threads are
    used (None: all cores).
    """
    rows, activation = check_rows(spec, X, bins), ACTIVATIONS[spec.activation].code
    n, (H, size), flat = len(rows), weights.shape, weights.ravel()
    means, variances = np.empty((H, n)), np.empty((H, n))
    ld, layers = _layers_of_batch(spec, min(n, _BATCH) or 1)

    def predict(first: int) -> None:
        stop = min(first + step, n)
        _predict(
            rows, bins.columns, bins.numbers, flat, size, layers, ld, activation, first, stop, means, variances
        )  # fmt: skip

    step = max(1, _THREAD_PRODUCTS // max(1, weights.size) // _BATCH) * _BATCH
    if n <= step:
        predict(0)
    else:
        run_on_threads(predict, range(0, n, step), threads)
    return means, variances


def check_rows(spec: NetworkSpec, X: ArrayLike, bins: Bins) -> Floats:
    """Return rows as float32; raise if their columns or the bins do not fit, since compiled code checks no indices."""
    rows, m = np.ascontiguousarray(X, dtype=np.float32), len(bins.columns)
    n_columns = spec.n_inputs - m
    if m and not (bins.numbers.shape == (4, m) and bins.columns.min() >= 0 and bins.columns.max() < n_columns):
        raise InvalidParameterError(f"bins must be of columns from 0 to {n_columns - 1}")
    if rows.ndim != 2 or rows.shape[1] != n_columns:
        raise InvalidParameterError(f"rows must be of shape (n, {n_columns}); got shape {np.shape(X)}")
    # Numba would compile again for a read-only array.
    return rows if rows.flags.writeable else rows.copy()


@lru_cache(maxsize=64)
def _layers_of_batch(spec: NetworkSpec, batch: int) -> tuple[int, Table]:
    """Return the padded batch size, and the table of layers; a layer's output is stored as the next layer's input."""
    ld, table = dense.padded(batch), layer_table(spec)
    ends = np.cumsum(table[:, N_IN] + 1) * ld
    table[1:, INPUT], table[:, OUTPUT] = ends[:-1], ends
    return ld, table


@cache
def prepare() -> None:
    """Compile prediction for this CPU, or load it from disk, by predicting with a tiny network."""
    announce(_predict, "prediction", 4)
    spec = NetworkSpec(n_inputs=1, hidden=())
    outputs_of(spec, np.zeros((1, packing_of(spec).size), np.float32), np.zeros((1, 1), np.float32))
