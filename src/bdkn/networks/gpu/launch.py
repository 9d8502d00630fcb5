"""Training on a GPU: layout of networks in shared memory, order of rows, learning rates, and launches of programs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from bdkn.blocks import READ_ROWS, row_slices
from bdkn.kernels.code_cache import compiled
from bdkn.kernels.dense import shuffle
from bdkn.networks.gpu.cuda import Cuda, CudaBuffer, Program, upload
from bdkn.networks.gpu.prediction import MAX_LAYERS, gpu_packing_of, padded
from bdkn.networks.job import (
    BetaNLL,
    EpochReport,
    GaussianNLL,
    Hook,
    Job,
    JobRows,
    RowNumbers,
    SquaredError,
    TrainingTable,
    adam_factors,
)
from bdkn.networks.mlp import Predictor, Trained, stacked
from bdkn.networks.spec import ACTIVATIONS, MEAN_VARIANCE, Packing
from bdkn.threads import run_on_threads
from bdkn.typing import Array, Float32Array, IndexArray

OBJECTIVES: dict[type, int] = {GaussianNLL: 0, BetaNLL: 1, SquaredError: 2}
"""Objectives (losses) that the GPU programs can train, with their numbers in the programs."""

PRECISIONS = {"float32": 0, "tf32": 1}
"""Precisions of matrix products, with the value of the macro ``TF32`` of the GPU programs."""

_WIDTHS, _BATCH = (28, 36, 50), 32
"""Widths of hidden layers and batch size, from defaults and the paper, for which faster GPU programs are compiled."""

_BLOCK_BYTES = 2048
"""Shared memory, in bytes, that a block of GPU threads needs in addition to its network."""

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
"""Memory layout of the parameters of one job in GPU programs: the struct ``Job`` in kernel.cu."""

POINTERS = (
    "rates", "order", "held_out", "weights", "moments", "best", "score", "losses", "validation_losses", "state", "jobs",
)  # fmt: skip

TABLES = np.dtype(
    [(name, np.uint64) for name in POINTERS] + [(n, np.int32) for n in ("first", "until", "curve", "start")]
)
"""Arguments of a launch, the struct ``Tables`` in kernel.cu: pointers to arrays, epochs, number of the first job."""


@dataclass(frozen=True)
class SharedLayout:
    """Layout of a network during training in the shared memory of a GPU multiprocessor, and its size in bytes.

    ``buffers`` is 2 if the next batch is copied during the computation, else 1. ``first_moments_outside`` is True if
    Adam's moments for the first layer are in global memory, which is slower.
    """

    buffers: int
    first_moments_outside: bool
    shared_bytes: int

    @classmethod
    def of(cls, packing: Packing, batch: int, threads: int, buffers: int, first_moments_outside: bool) -> SharedLayout:
        """Return the layout, with the size of shared memory that a block of ``threads`` threads needs."""
        rows, layers = padded(batch), packing.places
        first = layers[0][1] * layers[0][2]
        moments = 2 * (packing.size - (first if first_moments_outside else 0))
        inputs = sum(n * rows for _, n, _ in layers) + (buffers - 1) * layers[0][1] * rows
        deltas = sum(columns * rows for _, _, columns in layers)
        numbers = packing.size + moments + inputs + deltas + max(7 * rows + threads, 8 * rows)
        return cls(buffers, first_moments_outside, 4 * numbers)


LAYOUTS = ((2, False), (1, False), (2, True), (1, True))
"""Pairs ``buffers``, ``first_moments_outside`` of ``SharedLayout``, from the fastest to the one with least memory."""


def batch_of(job: Job, n_rows: int) -> int:
    """Return the batch size of a job, at most its number of rows, which is ``n_rows`` if it trains on all rows."""
    return min(job.config.batch_size, n_rows if job.rows is None else len(job.rows))


def layout_for(job: Job, n_rows: int, device: Cuda) -> SharedLayout | str:
    """Return the fastest layout that fits into shared memory for a job, or the reason why the GPU cannot train it."""
    spec, batch = job.spec, batch_of(job, n_rows)
    if type(job.config.main_objective) not in OBJECTIVES:
        return "the objective is not one of the library's own"
    if spec.head != MEAN_VARIANCE:
        return "the head is not the library's own"
    if len(spec.hidden) >= MAX_LAYERS:
        return f"a network has {len(spec.hidden)} hidden layers, the programs allow {MAX_LAYERS - 1}"
    layouts = [SharedLayout.of(gpu_packing_of(spec), batch, device.threads, *way) for way in LAYOUTS]
    for layout in layouts:
        if layout.shared_bytes <= device.shared_bytes:
            return layout
    least, shape = min(layout.shared_bytes for layout in layouts), "-".join(map(str, spec.widths))
    return (
        f"a network {shape} with batches of {batch} rows needs {least / 1024:,.0f} KB on a multiprocessor, which has "
        f"{device.shared_bytes / 1024:.0f} KB"
    )


def program_for(job: Job, batch: int, precision: str, threads: int) -> Program:
    """Return the GPU program that trains the network of a job by a block of ``threads`` threads."""
    macros, hidden = [f"TF32={PRECISIONS[precision]}"], set(job.spec.hidden)
    if batch == _BATCH and len(hidden) == 1 and hidden <= set(_WIDTHS):
        macros += [f"WIDTH={hidden.pop()}", f"BATCH={batch}"]
    return Program("train", tuple(macros), threads)


def threads_for(layout: SharedLayout, n_networks: int, device: Cuda) -> int:
    """Return the threads per block: half the maximum if there are many networks and two fit on a multiprocessor."""
    together = 2 * (layout.shared_bytes + _BLOCK_BYTES) <= device.shared_bytes
    return device.threads // 2 if n_networks > device.multiprocessors and together else device.threads


@compiled
def _orders(
    numbers: RowNumbers,
    starts: IndexArray,
    states: NDArray[np.uint64],
    epochs: int,
    into: RowNumbers,
    first: int,
    stop: int,
) -> None:
    """Shuffle the row numbers of jobs ``first`` to ``stop`` once per epoch; write them to ``into``, job after job."""
    for job in range(first, stop):
        own, state = numbers[starts[job] : starts[job + 1]], states[job]
        place = epochs * starts[job]
        for _ in range(epochs):
            state = shuffle(own, state)
            into[place : place + len(own)] = own
            place += len(own)
        states[job] = state


class Orders:
    """Random orders of the training rows of all jobs, made by the CPU for the next epochs while the GPU trains."""

    def __init__(self, rows: Sequence[JobRows], device: Cuda) -> None:
        self._device = device
        self.starts = np.cumsum([0, *(len(own.training) for own in rows)])
        self._numbers = np.concatenate([own.training for own in rows])
        self._states = np.array([own.streams.order for own in rows], dtype=np.uint64)
        self._memory = np.empty(0, dtype=np.int32)
        parts = min(len(rows), 4 * int(joblib.cpu_count()))
        ends = np.searchsorted(self.starts[1:], np.linspace(0, self.starts[-1], parts + 1)[1:-1])
        self._ends = [0, *sorted({*ends.tolist()} - {0, len(rows)}), len(rows)]

    def __len__(self) -> int:
        return len(self._numbers)

    def next(self, epochs: int) -> RowNumbers:
        """Return shuffled row numbers for the next epochs, job after job; the next call overwrites the array."""
        if self._memory.size < epochs * len(self):
            self._memory = self._device.host_memory(4 * epochs * len(self)).view(np.int32)
        into = self._memory[: epochs * len(self)]

        def work(part: tuple[int, int]) -> None:
            _orders(self._numbers, self.starts, self._states, epochs, into, *part)

        run_on_threads(work, list(itertools.pairwise(self._ends)))
        return into


def adam_tables(jobs: Sequence[Job], rows: Sequence[JobRows]) -> tuple[Float32Array, list[int]]:
    """Return ``adam_factors`` of all steps in one array, and each job's offset; equal schedules share factors."""
    known: dict[object, int] = {}
    parts: list[Array] = []
    starts, size = [], 0
    for job, own in zip(jobs, rows, strict=True):
        config = job.config
        steps = config.epochs * -(-len(own.training) // min(config.batch_size, len(own.training)))
        key = steps, config.learning_rate, config.schedule, config.weight_decay
        if key not in known:
            known[key] = size
            taken = np.arange(steps)
            rate = np.broadcast_to(config.learning_rate_at(taken, steps), taken.shape)
            parts.append(adam_factors(rate, taken, config.weight_decay).astype(np.float32).ravel())
            size += parts[-1].size
        starts.append(known[key])
    return np.concatenate(parts), starts


_ORDER_BYTES = 128 * 2**20
"""Maximum size, in bytes, of the shuffled row numbers of one launch; the GPU holds the row numbers of two launches."""

_FIRST_BYTES = 8 * 2**20
"""Maximum size, in bytes, of the shuffled row numbers of the first launch; small, since the GPU waits for them."""

_LAUNCH_FLOPS = 1.5e10
"""Maximum floating-point operations per multiprocessor and launch (about 0.3 s); users can interrupt after a launch."""

_MAX_INT = 2**31 - 1
"""Largest signed 32-bit integer, the upper limit of warm-up epochs and patience in GPU programs."""

_MIN_REPORTS = 50
"""Minimum number of launches in a training with progress reports, unless a launch would have less than an epoch."""


@dataclass(frozen=True, eq=False)
class DeviceTable:
    """Training rows in GPU memory: inputs, targets and row weights."""

    X: CudaBuffer
    y: CudaBuffer
    weight: CudaBuffer | None
    n_rows: int

    @classmethod
    def of(cls, table: TrainingTable, device: Cuda) -> DeviceTable:
        """Copy training rows to the memory of a GPU."""
        weight = None if table.weight is None else upload(device, table.weight)
        n, inputs = table.X.shape
        # Each row of inputs is followed by a one, the input of the biases, and zeros up to a multiple of four.
        length = (inputs + 4) & ~3
        X, block = device.allocate(4 * n * length), np.zeros((min(n, READ_ROWS), length), dtype=np.float32)
        block[:, inputs] = 1
        for rows in row_slices(n, READ_ROWS):
            part = table.X[rows]
            block[: len(part), :inputs] = part
            device.fill(X, block[: len(part)], 4 * rows.start * length)
        return cls(X, upload(device, table.y), weight, n)


@dataclass(frozen=True, eq=False)
class Entry:
    """One job for a GPU: its number among all jobs, its training rows in GPU memory, its layout in shared memory."""

    number: int
    job: Job
    table: DeviceTable
    layout: SharedLayout

    @property
    def batch(self) -> int:
        """Number of rows per batch."""
        return batch_of(self.job, self.table.n_rows)


class Launch:
    """Training of several jobs at the same time on a GPU; all memory is allocated at the beginning."""

    def __init__(
        self, entries: Sequence[Entry], device: Cuda, precision: str, *, reported: bool, watched: bool
    ) -> None:
        self.device = device

        def call(entry: Entry) -> tuple[int, Program]:
            """Return the size of shared memory and the GPU program of a job."""
            threads = threads_for(entry.layout, len(entries), device)
            return entry.layout.shared_bytes, program_for(entry.job, entry.batch, precision, threads)

        # Jobs with the most shared memory are first; jobs with equal programs follow one another, for one launch.
        self.entries = sorted(entries, key=lambda entry: (-call(entry)[0], call(entry)[1]))
        self._groups = [(*key, len(list(same))) for key, same in itertools.groupby(self.entries, call)]
        self.jobs = [entry.job for entry in self.entries]
        self.rows = [JobRows.of(entry.job, entry.table.n_rows) for entry in self.entries]
        self.packings = [gpu_packing_of(job.spec) for job in self.jobs]
        self.starts = np.cumsum([0, *(packing.size for packing in self.packings)])
        self.epochs = max(job.config.epochs for job in self.jobs)
        self._warmups = [min(job.config.warmup_epochs, _MAX_INT) for job in self.jobs]
        self._has_validation = any(len(own.validation) for own in self.rows)
        self._orders = Orders(self.rows, device)
        self._most = self._epochs_per_launch(reported=reported, watched=watched)
        self._buffers = {name: upload(device, values) for name, values in self._arrays().items()}
        self._order_places = [device.allocate(4 * self._most * len(self._orders)) for _ in range(2)]
        self._lines = self._job_lines()
        self._queues = [device.queue() for _ in self._groups]

    def _epochs_per_launch(self, *, reported: bool, watched: bool) -> int:
        """Return the maximum number of epochs of one launch; 1 if rows are predicted after each epoch (``watched``)."""
        if watched:
            return 1
        pairs = zip(self.jobs, self.rows, strict=True)
        flops = sum(6.0 * job.spec.n_parameters * (len(own.training) + len(own.validation)) for job, own in pairs)
        by_time = _LAUNCH_FLOPS * min(len(self.jobs), self.device.multiprocessors) / flops
        limits = [self.epochs, by_time, _ORDER_BYTES / 4 / len(self._orders)]
        return max(1, int(min([*limits, self.epochs / _MIN_REPORTS] if reported else limits)))

    def _arrays(self) -> dict[str, Array]:
        """Return the arrays, by name, that are copied to the GPU once, before training."""
        n, flat = len(self.entries), np.zeros(self.starts[-1], dtype=np.float32)
        for i, packing in enumerate(self.packings):
            layers = self.jobs[i].spec.initial_layers(self.rows[i].streams.initial)
            packing.pack(layers, flat[self.starts[i] : self.starts[i + 1]])
        rates, self._rate_starts = adam_tables(self.jobs, self.rows)
        curves = np.zeros((n, self.epochs), dtype=np.float32)
        return {
            "rates": rates,
            "held_out": np.concatenate([own.validation for own in self.rows]),
            "weights": flat,
            "moments": np.zeros(2 * len(flat), dtype=np.float32),
            "best": flat,
            "score": np.full(n, np.inf, dtype=np.float32),
            "losses": curves,
            "validation_losses": curves,
            "state": np.array([[0, 0, warmup - 1] for warmup in self._warmups], dtype=np.int32),
        }

    def _job_lines(self) -> NDArray[Any]:
        lines, entries, rows = np.zeros(len(self.entries), dtype=JOB), self.entries, self.rows
        specs, configs = [job.spec for job in self.jobs], [job.config for job in self.jobs]
        columns: dict[str, Any] = {
            "X": [entry.table.X.address for entry in entries],
            "y": [entry.table.y.address for entry in entries],
            "row_weight": [0 if entry.table.weight is None else entry.table.weight.address for entry in entries],
            "held_out": np.cumsum([0, *(len(own.validation) for own in rows)])[:-1],
            "weights": self.starts[:-1],
            "rates": self._rate_starts,
            "n_layers": [len(spec.shapes) for spec in specs],
            "inputs": [spec.n_inputs for spec in specs],
            "n_train": [len(own.training) for own in rows],
            "n_val": [len(own.validation) for own in rows],
            "epochs": [config.epochs for config in configs],
            "warmup": self._warmups,
            "patience": [min(config.patience, _MAX_INT) for config in configs],
            "activation": [ACTIVATIONS[spec.activation].code for spec in specs],
            "objective": [OBJECTIVES[type(config.main_objective)] for config in configs],
            "batch": [entry.batch for entry in entries],
            "buffers": [entry.layout.buffers for entry in entries],
            "first_moments_outside": [entry.layout.first_moments_outside for entry in entries],
            "beta": [getattr(config.main_objective, "beta", 0.0) for config in configs],
            "tol": [config.tol for config in configs],
        }
        for name, values in columns.items():
            lines[name] = values
        for line, spec in zip(lines, specs, strict=True):
            line["width"][: len(spec.shapes)] = spec.widths[1:]
        return lines

    def run(self, watch: Float32Array | None, on_epoch: Hook | None) -> Trained:
        """Train all networks until their last epochs; return them in the order of the jobs' numbers."""
        try:
            first, turn = 0, 0
            length = min(self._most, max(1, _FIRST_BYTES // 4 // len(self._orders)))
            self.device.fill(self._order_places[0], self._orders.next(length))
            while first < self.epochs:
                until = min(first + length, self.epochs)
                self._launch(self._order_places[turn], first, until, length)
                length = min(self._most, self.epochs - until, 4 * length)
                if length:  # the CPU shuffles while the GPU trains
                    self.device.fill(self._order_places[1 - turn], self._orders.next(length))
                self._wait()
                if on_epoch is not None:
                    self._report(first, until, watch, on_epoch)
                if self._has_validation and (self._states()[:, 0] != 0).all():
                    break
                first, turn = until, 1 - turn
        finally:  # memory must not be freed while a program uses it
            self._wait()
        order = np.argsort([entry.number for entry in self.entries])
        trained = self._trained()
        return trained if (order == np.arange(len(order))).all() else trained[order]

    def _launch(self, order: CudaBuffer, first: int, until: int, length: int) -> None:
        self._lines["order"] = length * self._orders.starts[:-1]
        jobs = upload(self.device, self._lines.view(np.uint8))
        self._kept = order, jobs  # must not be freed until the programs have ended
        tables, buffers = np.zeros(1, dtype=TABLES), {**self._buffers, "order": order, "jobs": jobs}
        for name in POINTERS:
            tables[name] = buffers[name].address
        tables["first"], tables["until"], tables["curve"] = first, until, self.epochs
        start = 0
        for queue, (shared_bytes, program, n_jobs) in zip(self._queues, self._groups, strict=True):
            tables["start"] = start
            self.device.launch(queue, program, tables.tobytes(), n_jobs, shared_bytes)
            start += n_jobs

    def _wait(self) -> None:
        for queue in self._queues:
            self.device.wait(queue)

    def _get(self, name: str, dtype: Any, *shape: int) -> NDArray[Any]:
        return self.device.download(self._buffers[name], dtype, shape)

    def _states(self) -> NDArray[Any]:
        """Return, for each job, whether it has stopped early, its number of epochs so far, and its best epoch."""
        return self._get("state", np.int32, len(self.entries), 3)

    def _networks(self, flat: Float32Array) -> Predictor:
        pairs = zip(self.packings, itertools.pairwise(self.starts), strict=True)
        layers = [packing.unpack(flat[start:stop]) for packing, (start, stop) in pairs]
        return stacked([job.spec for job in self.jobs], layers)

    def _report(self, first: int, until: int, watch: Float32Array | None, on_epoch: Hook) -> None:
        n, state = len(self.entries), self._states()
        losses = self._get("losses", np.float32, n, self.epochs)
        found = self._get("validation_losses", np.float32, n, self.epochs)
        means = variances = None
        if watch is not None:
            with np.errstate(all="ignore"):
                flat = self._get("weights", np.float32, int(self.starts[-1]))
                means, variances = self._networks(flat).outputs(watch)
        for epoch in range(first, until):
            for i in np.flatnonzero(state[:, 1] > epoch).tolist():
                mean, variance = (None, None) if means is None or variances is None else (means[i], variances[i])
                validation = float(found[i, epoch]) if len(self.rows[i].validation) else None
                is_end = bool(state[i, 0]) or state[i, 1] == self.jobs[i].config.epochs
                is_last = is_end and epoch == state[i, 1] - 1
                loss, number = float(losses[i, epoch]), self.entries[i].number
                on_epoch(EpochReport(number, epoch, loss, validation, mean, variance, bool(is_last)))

    def _trained(self) -> Trained:
        n, n_weights = len(self.entries), int(self.starts[-1])
        state, has_best = self._states(), np.isfinite(self._get("score", np.float32, n))
        losses = self._get("losses", np.float32, n, self.epochs).astype(np.float64)
        found = self._get("validation_losses", np.float32, n, self.epochs).astype(np.float64)
        flat = self._get("weights", np.float32, n_weights)
        if has_best.any():
            chosen = np.repeat(has_best, [packing.size for packing in self.packings])
            flat = np.where(chosen, self._get("best", np.float32, n_weights), flat)
        epochs = state[:, 1].tolist()
        return Trained(
            self._networks(flat),
            tuple(losses[i, :count].copy() for i, count in enumerate(epochs)),
            tuple(found[i, : count if len(self.rows[i].validation) else 0].copy() for i, count in enumerate(epochs)),
            tuple(int(state[i, 2]) if has_best[i] else count - 1 for i, count in enumerate(epochs)),
        )
