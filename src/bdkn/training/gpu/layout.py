"""Jobs as ``kernel.cu`` takes them, and the shared memory that they need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bdkn.kernels.gpu.device import Device, Program
from bdkn.networks import MEAN_VARIANCE, NetworkSpec
from bdkn.networks.packing import Packing, packing_of, padded
from bdkn.training.job import Job
from bdkn.training.objective import BetaNLL, GaussianNLL, SquaredError

MAX_LAYERS = 10

OBJECTIVES: dict[type, int] = {GaussianNLL: 0, BetaNLL: 1, SquaredError: 2}
"""The objectives that the programs know, by their number there."""

PRECISIONS = {"float32": 0, "tf32": 1}
"""The precisions of products, and whether they are computed without dividing operands."""

_WIDTHS, _BATCH = (28, 36, 50), 32
"""Widths of hidden layers and rows of a batch that have programs of their own: those of the defaults and the paper."""

_OWN_BYTES = 2048
"""Shared memory that a block needs for itself."""

JOB = np.dtype(
    [(name, np.uint64) for name in ("X", "y", "row_weight")]
    + [(name, np.int64) for name in ("order", "held_out", "weights", "rates")]
    + [
        (name, np.int32)
        for name in (
            "n_layers", "inputs", "n_train", "n_val", "epochs", "warmup", "patience", "activation", "objective",
            "batch", "first_moments_outside", "buffers",
        )
    ]
    + [("width", np.int32, MAX_LAYERS), ("beta", np.float32), ("tol", np.float32)]
)  # fmt: skip

POINTERS = (
    "rates", "order", "held_out", "weights", "moments", "best", "score", "losses", "validation_losses", "state", "jobs",
)  # fmt: skip

TABLES = np.dtype(
    [(name, np.uint64) for name in POINTERS] + [(n, np.int32) for n in ("first", "until", "curve", "start")]
)


@dataclass(frozen=True)
class Room:
    """How a network lies on a multiprocessor, and the shared memory that it needs.

    ``buffers`` is 2 if the next batch is copied ahead, else 1. ``first_moments_outside``: the moments of the first
    layer are in global memory.
    """

    buffers: int
    first_moments_outside: bool
    shared_bytes: int

    @classmethod
    def of(cls, packing: Packing, batch: int, threads: int, buffers: int, first_moments_outside: bool) -> Room:
        """Return the room with the shared memory that a block of so many threads needs."""
        rows, layers = padded(batch), packing.places
        first = layers[0][1] * layers[0][2]
        moments = 2 * (packing.size - (first if first_moments_outside else 0))
        inputs = sum(n * rows for _, n, _ in layers) + (buffers - 1) * layers[0][1] * rows
        deltas = sum(columns * rows for _, _, columns in layers)
        numbers = packing.size + moments + inputs + deltas + max(7 * rows + threads, 8 * rows)
        return cls(buffers, first_moments_outside, 4 * numbers)


WAYS = ((2, False), (1, False), (2, True), (1, True))
"""Copies of the inputs, and whether moments are outside: from the fastest way to the one that takes least memory."""


def batch_of(job: Job, n_rows: int) -> int:
    """Return the rows of a batch: not more than there are."""
    return min(job.config.batch_size, n_rows if job.rows is None else len(job.rows))


def room_for(job: Job, n_rows: int, device: Device) -> Room | str:
    """Return how the network of a job fits on a multiprocessor, or why it does not."""
    if type(job.config.main_objective) not in OBJECTIVES:
        return "the objective is not one of the library's own"
    return _room_for(job.spec, batch_of(job, n_rows), device.threads, device.shared_bytes)


def program_for(job: Job, batch: int, precision: str, threads: int) -> Program:
    """Return the program by which so many threads train a network."""
    macros, hidden = [f"TF32={PRECISIONS[precision]}"], set(job.spec.hidden)
    if batch == _BATCH and len(hidden) == 1 and hidden <= set(_WIDTHS):
        macros += [f"WIDTH={hidden.pop()}", f"BATCH={batch}"]
    return Program("train", tuple(macros), threads)


def threads_for(room: Room, n_networks: int, device: Device) -> int:
    """Return the threads of a block: half of them if two networks have to share a multiprocessor, and can."""
    together = 2 * (room.shared_bytes + _OWN_BYTES) <= device.shared_bytes
    return device.threads // 2 if n_networks > device.multiprocessors and together else device.threads


@lru_cache(maxsize=256)
def _room_for(spec: NetworkSpec, batch: int, threads: int, available: int) -> Room | str:
    if spec.head != MEAN_VARIANCE:
        return "the head is not the library's own"
    if len(spec.hidden) >= MAX_LAYERS:
        return f"a network has {len(spec.hidden)} hidden layers, the programs allow {MAX_LAYERS - 1}"
    rooms = [Room.of(packing_of(spec), batch, threads, *way) for way in WAYS]
    found = next((room for room in rooms if room.shared_bytes <= available), None)
    if found is not None:
        return found
    least, shape = min(room.shared_bytes for room in rooms), "-".join(map(str, spec.widths))
    return (
        f"a network {shape} with batches of {batch} rows needs {least / 1024:,.0f} KB on a multiprocessor, which has "
        f"{available / 1024:.0f} KB"
    )
