"""Networks that are trained side by side on a device, with everything that they need in its memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bdkn.kernels.gpu.device import Buffer, Device, Program, upload
from bdkn.networks import ACTIVATIONS, Networks, Predictor, join
from bdkn.networks.packing import Packing, packing_of
from bdkn.training.gpu.layout import JOB, OBJECTIVES, POINTERS, TABLES, Room, batch_of, program_for, threads_for
from bdkn.training.gpu.schedule import Orders, adam_factors
from bdkn.training.job import EpochReport, Hook, Job, Trained
from bdkn.training.rows import JobRows, TrainingTable
from bdkn.typing import Array, Float32Array

_ORDER_BYTES = 128 * 2**20
"""Row numbers that are on the device at a time, of which two such parts are held."""

_FIRST_BYTES = 8 * 2**20
"""Row numbers of the first launch: few, so that the device does not wait for them."""

_LAUNCH_FLOPS = 1.5e10
"""Work of one multiprocessor in one launch: about a third of a second, after which a user can interrupt."""

_BLOCK_ROWS = 2**16
"""Rows that are copied to the device at a time."""

_MOST = 2**31 - 1
"""The largest integer of 32 bits."""

_REPORTS = 50
"""In so many parts, at least, epochs are reported."""


@dataclass(frozen=True, eq=False)
class DeviceTable:
    """The rows of jobs on a device."""

    X: Buffer
    y: Buffer
    weight: Buffer | None
    n_rows: int

    @classmethod
    def of(cls, table: TrainingTable, device: Device) -> DeviceTable:
        """Copy rows to a device."""
        weight = None if table.weight is None else upload(device, table.weight)
        return cls(_upload_inputs(table.X, device), upload(device, table.y), weight, len(table.y))


def _upload_inputs(X: Float32Array, device: Device) -> Buffer:
    """Copy inputs to a device: a one, which biases multiply, and zeros follow each row up to a multiple of four."""
    n, inputs = X.shape
    length = (inputs + 4) & ~3
    buffer, block = device.allocate(4 * n * length), np.zeros((min(n, _BLOCK_ROWS), length), dtype=np.float32)
    block[:, inputs] = 1
    for start in range(0, n, _BLOCK_ROWS):
        part = X[start : start + _BLOCK_ROWS]
        block[: len(part), :inputs] = part
        device.fill(buffer, block[: len(part)], 4 * start * length)
    return buffer


@dataclass(frozen=True, eq=False)
class Entry:
    """A job with its number among all jobs, its table, and how it fits on a multiprocessor."""

    number: int
    job: Job
    table: DeviceTable
    room: Room

    @property
    def batch(self) -> int:
        """Rows of a batch."""
        return batch_of(self.job, self.table.n_rows)


class Launch:
    """Jobs that are trained side by side; all memory is taken at the beginning."""

    def __init__(
        self, entries: Sequence[Entry], device: Device, precision: str, *, reported: bool, watched: bool
    ) -> None:
        self.device = device
        calls = [_Call(-entry.room.shared_bytes, self._program(entry, len(entries), precision)) for entry in entries]
        order = sorted(range(len(calls)), key=lambda i: calls[i])  # the largest first, equal ones side by side
        self.entries = [entries[i] for i in order]
        self.jobs = [entry.job for entry in self.entries]
        self.rows = [JobRows.of(entry.job, entry.table.n_rows) for entry in self.entries]
        self.packings = [packing_of(job.spec) for job in self.jobs]
        self.starts = np.cumsum([0, *(packing.size for packing in self.packings)])
        self.epochs = max(job.config.epochs for job in self.jobs)
        self._has_validation = any(len(own.validation) for own in self.rows)
        self._orders = Orders(self.rows, device)
        self._most = self._epochs_per_launch(reported=reported, watched=watched)
        self._buffers = {name: upload(device, values) for name, values in self._arrays().items()}
        self._order_places = [device.allocate(4 * self._most * len(self._orders)) for _ in range(2)]
        self._lines = self._job_lines()
        self._groups = _runs([calls[i] for i in order])
        self._queues = [device.queue() for _ in self._groups]

    def _program(self, entry: Entry, n_networks: int, precision: str) -> Program:
        return program_for(entry.job, entry.batch, precision, threads_for(entry.room, n_networks, self.device))

    def _epochs_per_launch(self, *, reported: bool, watched: bool) -> int:
        """Return how many epochs one launch runs at most."""
        if watched:
            return 1
        pairs = zip(self.jobs, self.rows, strict=True)
        flops = sum(6.0 * job.spec.n_parameters * (len(own.training) + len(own.validation)) for job, own in pairs)
        by_time = _LAUNCH_FLOPS * min(len(self.jobs), self.device.multiprocessors) / flops
        limits = [self.epochs, by_time, _ORDER_BYTES / 4 / len(self._orders)]
        return max(1, int(min([*limits, self.epochs / _REPORTS] if reported else limits)))

    def _arrays(self) -> dict[str, Array]:
        """Return everything that is copied to the device once."""
        n, flat = len(self.entries), np.zeros(self.starts[-1], dtype=np.float32)
        for i, packing in enumerate(self.packings):
            layers = self.jobs[i].spec.initial_layers(self.rows[i].streams.initial)
            packing.pack(layers, flat[self.starts[i] : self.starts[i + 1]])
        rates, self._rate_starts = adam_factors(self.jobs, self.rows)
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
            "state": np.array([[0, 0, min(job.config.warmup_epochs, _MOST) - 1] for job in self.jobs], dtype=np.int32),
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
            "warmup": [min(config.warmup_epochs, _MOST) for config in configs],
            "patience": [min(config.patience, _MOST) for config in configs],
            "activation": [ACTIVATIONS[spec.activation].code for spec in specs],
            "objective": [OBJECTIVES[type(config.main_objective)] for config in configs],
            "batch": [entry.batch for entry in entries],
            "buffers": [entry.room.buffers for entry in entries],
            "first_moments_outside": [entry.room.first_moments_outside for entry in entries],
            "beta": [getattr(config.main_objective, "beta", 0.0) for config in configs],
            "tol": [config.tol for config in configs],
        }
        for name, values in columns.items():
            lines[name] = values
        for line, spec in zip(lines, specs, strict=True):
            line["width"][: len(spec.shapes)] = spec.widths[1:]
        return lines

    def run(self, watch: Float32Array | None, on_epoch: Hook | None) -> Trained:
        """Train all networks to their end and return them in the order of their entries' numbers."""
        try:
            self._run(watch, on_epoch)
        finally:  # nothing is freed that a program still uses
            self._wait()
        order = np.argsort([entry.number for entry in self.entries])
        trained = self._trained()
        return trained if (order == np.arange(len(order))).all() else trained[order]

    def _run(self, watch: Float32Array | None, on_epoch: Hook | None) -> None:
        first, turn = 0, 0
        length = min(self._most, max(1, _FIRST_BYTES // 4 // len(self._orders)))
        self.device.fill(self._order_places[0], self._orders.next(length))
        while first < self.epochs:
            until = min(first + length, self.epochs)
            self._launch(self._order_places[turn], first, until, length)
            length = min(self._most, self.epochs - until, 4 * length)
            if length:  # the host shuffles while the device trains
                self.device.fill(self._order_places[1 - turn], self._orders.next(length))
            self._wait()
            if on_epoch is not None:
                self._report(first, until, watch, on_epoch)
            if self._has_validation and self._have_ended():
                break
            first, turn = until, 1 - turn

    def _launch(self, order: Buffer, first: int, until: int, length: int) -> None:
        self._lines["order"] = length * self._orders.starts[:-1]
        jobs = upload(self.device, self._lines.view(np.uint8))
        self._kept = order, jobs  # until the programs have ended
        tables, buffers = np.zeros(1, dtype=TABLES), {**self._buffers, "order": order, "jobs": jobs}
        for name in POINTERS:
            tables[name] = buffers[name].address
        tables["first"], tables["until"], tables["curve"] = first, until, self.epochs
        for queue, (start, stop, call) in zip(self._queues, self._groups, strict=True):
            tables["start"] = start
            self.device.launch(queue, call.program, tables.tobytes(), stop - start, -call.less_bytes)

    def _wait(self) -> None:
        for queue in self._queues:
            self.device.wait(queue)

    def _get(self, name: str, dtype: Any, *shape: int) -> NDArray[Any]:
        return self.device.download(self._buffers[name], dtype, shape)

    def _states(self) -> NDArray[Any]:
        """Return whether each job has stopped, its epochs so far, and its best epoch."""
        return self._get("state", np.int32, len(self.entries), 3)

    def _have_ended(self) -> bool:
        return bool((self._states()[:, 0] != 0).all())

    def _networks(self, flat: Float32Array) -> Predictor:
        """Return the networks of all jobs; those of one shape are unpacked together."""
        groups: dict[Packing, list[int]] = {}
        for number, packing in enumerate(self.packings):
            groups.setdefault(packing, []).append(number)
        stacks = []
        for packing, numbers in groups.items():
            lines = np.stack([flat[self.starts[n] : self.starts[n + 1]] for n in numbers])
            stacks.append(Networks(packing.spec, packing.unpack(lines)))
        if len(stacks) == 1:
            return stacks[0]
        return join(stacks)[np.argsort([n for numbers in groups.values() for n in numbers])]

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


class _Call(NamedTuple):
    """The shared memory of a network, negative, so that the largest is the first, and the program that trains it."""

    less_bytes: int
    program: Program


def _runs(values: Sequence[_Call]) -> list[tuple[int, int, _Call]]:
    """Return where equal values that follow one another begin and end, and the value."""
    starts = [i for i, value in enumerate(values) if not i or value != values[i - 1]]
    return [(start, stop, values[start]) for start, stop in zip(starts, [*starts[1:], len(values)], strict=True)]
