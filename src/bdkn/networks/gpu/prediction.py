"""Prediction by networks on a GPU, and the layout of their weights in its memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from bdkn.networks.gpu.cuda import PREDICT, Cuda, upload
from bdkn.networks.spec import ACTIVATIONS, Bins, Layer, NetworkSpec, Packing
from bdkn.typing import Float32Array, FloatArray

MAX_LAYERS = 10
"""Maximum number of layers of a network in the GPU programs, including the output layer."""

_MIN_PRODUCTS = 1e9
"""Minimum number of multiplications of a prediction to use the GPU; one CPU core needs about 0.04 seconds for them."""

_MAX_OUTPUTS = 2**26
"""Maximum number of predictions (rows times networks) that are in GPU memory at a time."""

_BATCH_SIZES = (64, 32, 16, 8)
"""Possible numbers of rows per block of GPU threads; the largest that fits into shared memory is used."""

_ARGUMENTS = np.dtype(
    [(name, np.uint64) for name in ("X", "weights", "bins", "bin_columns", "means", "variances")]
    + [("n_rows", np.int64)]
    + [(name, np.int32) for name in ("n_columns", "n_bins", "n_layers", "activation", "size", "batch", "parts")]
    + [("width", np.int32, MAX_LAYERS), ("unused", np.int32)]
)
"""Memory layout of the arguments of the GPU program that predicts: the struct ``Forward`` in kernel.cu."""


def padded(n: int) -> int:
    """Round n up to a multiple of eight, since matrix products are computed in tiles of eight numbers."""
    return (n + 7) & ~7


@lru_cache(maxsize=256)
def gpu_packing_of(spec: NetworkSpec) -> Packing:
    """Return the layout of a network's weights in GPU memory: for each layer the transpose of [W, b], padded."""
    return Packing.of(spec, lambda n_out, columns: (padded(columns), padded(n_out)), transposed=True)


def can_predict(device: Cuda, spec: NetworkSpec, n_networks: int, n_rows: int) -> bool:
    """Return whether the GPU can predict with these networks, and there are enough rows to be faster than the CPU."""
    if 1.0 * n_networks * n_rows * spec.n_parameters < _MIN_PRODUCTS or len(spec.hidden) >= MAX_LAYERS:
        return False
    return _batch_size(gpu_packing_of(spec), device) is not None


def outputs_on(
    device: Cuda, spec: NetworkSpec, layers: Sequence[Layer], rows: Float32Array, bins: Bins
) -> tuple[FloatArray, FloatArray]:
    """Predict rows on a GPU; return means and variances, each (H, n), equal to those of the CPU up to rounding.

    The inputs of the networks are the columns of ``rows``, then the features of ``bins``.
    """
    packing, n_networks = gpu_packing_of(spec), len(layers[0][0])
    batch = _batch_size(packing, device)
    assert batch is not None
    call = np.zeros(1, dtype=_ARGUMENTS)
    call["n_columns"], call["n_bins"] = rows.shape[1], len(bins.columns)
    call["n_layers"], call["activation"] = len(spec.shapes), ACTIVATIONS[spec.activation].code
    call["size"], call["batch"], call["width"][0, : len(spec.shapes)] = packing.size, batch, spec.widths[1:]
    constants = [upload(device, part) for part in (packing.packed(layers), bins.numbers, bins.columns.astype(np.int32))]
    means, variances = np.empty((2, n_networks, len(rows)))
    queue, step = device.queue(), max(1, _MAX_OUTPUTS // n_networks)
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        shape = (n_networks, len(part))
        given, found = upload(device, part), [device.allocate(4 * n_networks * len(part)) for _ in range(2)]
        names = ("X", "weights", "bins", "bin_columns", "means", "variances")
        for name, buffer in zip(names, (given, *constants, *found), strict=True):
            call[name] = buffer.address
        parts = min(-(-len(part) // batch), -(-4 * device.multiprocessors // n_networks))
        call["n_rows"], call["parts"] = len(part), parts
        shared_bytes = _shared_bytes(packing, batch)
        device.launch(queue, PREDICT, call.tobytes(), n_networks * parts, shared_bytes)
        device.wait(queue)
        for into, buffer in zip((means, variances), found, strict=True):
            into[:, start : start + step] = device.download(buffer, np.float32, shape)
    return means, variances


def _batch_size(packing: Packing, device: Cuda) -> int | None:
    """Return the number of rows that a block of GPU threads predicts at a time; None if shared memory is too small."""
    sizes = (n for n in _BATCH_SIZES if _shared_bytes(packing, n) <= device.shared_bytes)
    return next(sizes, None)


def _shared_bytes(packing: Packing, batch: int) -> int:
    rows = padded(batch)
    margin = 8 * max(rows, *(columns for _, _, columns in packing.places))  # tiles of 16 rows may read beyond the end
    return 4 * (packing.size + sum(n for _, n, _ in packing.places) * rows + margin)
