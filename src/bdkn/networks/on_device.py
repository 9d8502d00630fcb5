"""Predictions of networks on a device: chosen for a block of code, used for calls with enough rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bdkn.kernels.gpu.device import PREDICT, Device, upload
from bdkn.networks.activation import ACTIVATIONS
from bdkn.networks.packing import Packing, packing_of, padded
from bdkn.networks.spec import Layer, NetworkSpec
from bdkn.typing import Float32Array, FloatArray

if TYPE_CHECKING:
    from bdkn.networks.compiled import Bins

MAX_LAYERS = 10

_LEAST_PRODUCTS = 1e9
"""Multiplications of a call from which on a device is used: a twenty-fifth of a second on one core."""

_OUTPUTS = 2**26
"""Outputs that are on the device at a time."""

_BATCHES = (64, 32, 16, 8)
"""Rows that a block predicts at a time, as many as there is shared memory for."""

_FORWARD = np.dtype(
    [(name, np.uint64) for name in ("X", "weights", "bins", "bin_columns", "means", "variances")]
    + [("n_rows", np.int64)]
    + [(name, np.int32) for name in ("n_columns", "n_bins", "n_layers", "activation", "size", "batch", "parts")]
    + [("width", np.int32, MAX_LAYERS), ("unused", np.int32)]
)

_device: ContextVar[Device | None] = ContextVar("bdkn device of predictions", default=None)


@contextmanager
def predict_on(device: Device | None) -> Iterator[None]:
    """Let networks predict on a device inside the block, where rows are many; None: on the CPU."""
    token = _device.set(device)
    try:
        yield
    finally:
        _device.reset(token)


def device_for(spec: NetworkSpec, n_networks: int, n_rows: int) -> Device | None:
    """Return the device for a prediction of so many rows, None if the CPU is to be used."""
    device = _device.get()
    if device is None or 1.0 * n_networks * n_rows * spec.n_parameters < _LEAST_PRODUCTS:
        return None
    return device if len(spec.hidden) < MAX_LAYERS and _batch(packing_of(spec), device) is not None else None


def outputs_on(
    device: Device, spec: NetworkSpec, layers: Sequence[Layer], X: ArrayLike, bins: Bins
) -> tuple[FloatArray, FloatArray]:
    """Return the means and variances of rows, each (H, n): the numbers of the CPU up to rounding.

    ``bins`` are those of an encoding; their features are inputs that follow the columns of ``X``.
    """
    rows, packing, n_networks = np.ascontiguousarray(X, dtype=np.float32), packing_of(spec), len(layers[0][0])
    weights = np.zeros((n_networks, packing.size), dtype=np.float32)
    packing.pack(layers, weights)
    place = upload(device, weights)
    numbers, columns = upload(device, bins.numbers), upload(device, bins.columns.astype(np.int32))
    means, variances = np.empty((2, n_networks, len(rows)))
    queue, step = device.queue(), max(1, _OUTPUTS // n_networks)
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        shape = (n_networks, len(part))
        given, found = upload(device, part), [device.allocate(4 * n_networks * len(part)) for _ in range(2)]
        call = _call(device, packing, n_networks, part, len(bins.columns))
        pointers = (given, place, numbers, columns, *found)
        for name, buffer in zip(("X", "weights", "bins", "bin_columns", "means", "variances"), pointers, strict=True):
            call[name] = buffer.address
        blocks, batch = n_networks * int(call["parts"][0]), int(call["batch"][0])
        device.launch(queue, PREDICT, call.tobytes(), blocks, _shared_bytes(packing, batch, device.threads))
        device.wait(queue)
        for into, buffer in zip((means, variances), found, strict=True):
            into[:, start : start + step] = device.download(buffer, np.float32, shape)
    return means, variances


def _call(device: Device, packing: Packing, n_networks: int, rows: Float32Array, n_bins: int) -> np.ndarray:
    """Return the arguments of the program that are not addresses."""
    call, batch, spec = np.zeros(1, dtype=_FORWARD), _batch(packing, device), packing.spec
    assert batch is not None
    parts = min(-(-len(rows) // batch), -(-4 * device.multiprocessors // n_networks))
    call["n_rows"], call["n_columns"], call["n_bins"] = len(rows), rows.shape[1], n_bins
    call["n_layers"], call["activation"] = len(spec.shapes), ACTIVATIONS[spec.activation].code
    call["size"], call["batch"], call["parts"] = packing.size, batch, parts
    call["width"][0, : len(spec.shapes)] = spec.widths[1:]
    return call


def _batch(packing: Packing, device: Device) -> int | None:
    """Return the rows that a block predicts at a time; None if there is too little shared memory for any."""
    fitting = (n for n in _BATCHES if _shared_bytes(packing, n, device.threads) <= device.shared_bytes)
    return next(fitting, None)


def _shared_bytes(packing: Packing, batch: int, threads: int) -> int:
    rows = padded(batch)
    beyond = 8 * max(rows, *(columns for _, _, columns in packing.places))  # tiles of 16 rows may read so far
    return 4 * (packing.size + sum(n for _, n, _ in packing.places) * rows + beyond)
