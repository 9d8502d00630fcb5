"""The engine for GPUs: every network of a call is trained by one program of one launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from bdkn.kernels.compiled import compiled
from bdkn.networks import ACTIVATIONS, MEAN_VARIANCE, Networks, join
from bdkn.rows import Rows
from bdkn.threads import run_on_threads
from bdkn.training.config import BETA_1, BETA_2
from bdkn.training.gpu.device import THREADS, Cuda, Device
from bdkn.training.gpu.layout import JOB, MAX_LAYERS, POINTERS, ROOMS, TABLES, Packing, Room
from bdkn.training.job import EpochReport, Hook, Job, Trained
from bdkn.training.objective import BetaNLL, GaussianNLL, SquaredError
from bdkn.training.rows import JobRows, RowNumbers, TrainingTable, shuffle
from bdkn.typing import Array, Float32Array

_CODES: dict[type, int] = {GaussianNLL: 0, BetaNLL: 1, SquaredError: 2}

_ORDER_BYTES = 128 * 2**20
"""Row numbers that are on the device at a time, of which two such parts are held."""

_FIRST_BYTES = 8 * 2**20
"""Row numbers of the first launch: few, so that the device does not wait for them."""


class GPUEngine:
    """Engine that trains all networks of a call at once on a GPU, in one launch or a handful.

    Networks, batches and their order are those of the other engines, in single precision. Networks that do not fit on a
    multiprocessor, or have an objective or a head of their own, are trained by ``TorchEngine`` on the same device.

    Parameters
    ----------
    device : int, default=0
        Number of the CUDA device.
    """

    def __init__(self, device: int | Device = 0) -> None:
        self._given = device

    def __repr__(self) -> str:
        return f"GPUEngine(device={self._given!r})"

    def train(
        self,
        jobs: Sequence[Job],
        rows: Rows,
        *,
        n_jobs: int | None = None,
        watch: Float32Array | None = None,
        on_epoch: Hook | None = None,
    ) -> Trained:
        """Train one network per job; ``n_jobs`` is not used."""
        device = cuda(self._given) if isinstance(self._given, int) else self._given
        table = TrainingTable.of(rows, jobs)
        rooms = [room_for(job, len(table.y), device.shared_bytes) for job in jobs]
        fitting = [number for number, room in enumerate(rooms) if room is not None]
        others = [number for number, room in enumerate(rooms) if room is None]
        parts = []
        if fitting:
            entries = [Entry(number, jobs[number], room) for number in fitting if (room := rooms[number]) is not None]
            parts.append(Launch(entries, table, device).run(watch, on_epoch))
        if others:
            parts.append(_train_others(device, others, jobs, rows, watch, on_epoch))
        return Trained.join(parts)[np.argsort([*fitting, *others])]


@cache
def cuda(number: int) -> Cuda:
    """Return a GPU, with the program compiled for it once."""
    return Cuda(number)


def room_for(job: Job, n_rows: int, shared_bytes: int) -> Room | None:
    """Return how the network of a job fits on a multiprocessor, or None if it does not."""
    spec, batch = job.spec, batch_of(job, n_rows)
    known = type(job.config.main_objective) in _CODES and spec.head == MEAN_VARIANCE
    if not known or not 1 <= len(spec.hidden) < MAX_LAYERS or batch > THREADS:
        return None
    packing = Packing(spec)
    return next((room for room in ROOMS if packing.shared_bytes(batch, room) <= shared_bytes), None)


def batch_of(job: Job, n_rows: int) -> int:
    """Return the rows of a batch: not more than there are."""
    return min(job.config.batch_size, n_rows if job.rows is None else len(job.rows))


def _train_others(
    device: Device,
    numbers: Sequence[int],
    jobs: Sequence[Job],
    rows: Rows,
    watch: Float32Array | None,
    on_epoch: Hook | None,
) -> Trained:
    """Train the networks that do not fit on a multiprocessor by batched products."""
    from bdkn.training.torch_engine import TorchEngine

    def report(part: EpochReport) -> None:
        assert on_epoch is not None
        on_epoch(replace(part, job=numbers[part.job]))

    hook = None if on_epoch is None else report
    return TorchEngine(device=device.torch_name).train([jobs[n] for n in numbers], rows, watch=watch, on_epoch=hook)


@dataclass(frozen=True, eq=False)
class Entry:
    """A job with its number and how it fits on a multiprocessor."""

    number: int
    job: Job
    room: Room


@compiled
def _orders(own: RowNumbers, state: np.uint64, into: RowNumbers) -> np.uint64:
    """Shuffle the rows of a job once for each row of ``into``, (epochs, n); return the generator's next state."""
    for epoch in range(len(into)):
        state = shuffle(own, state)
        into[epoch] = own
    return state


class Launch:
    """Networks that are trained side by side, with everything they need on the device."""

    def __init__(self, entries: Sequence[Entry], table: TrainingTable, device: Device) -> None:
        self.entries, self.device = entries, device
        self.jobs = [entry.job for entry in entries]
        self.rows = [JobRows.of(job, len(table.y)) for job in self.jobs]
        self._states = [np.uint64(own.streams.order) for own in self.rows]
        self.packings = [Packing(job.spec) for job in self.jobs]
        self.starts = np.cumsum([0, *(packing.size for packing in self.packings)])
        self.epochs = max(job.config.epochs for job in self.jobs)
        self.is_weighted = table.weight is not None
        drawn = [job.spec.initial_layers(own.streams.initial) for job, own in zip(self.jobs, self.rows, strict=True)]
        weights = [packing.pack(layers) for packing, layers in zip(self.packings, drawn, strict=True)]
        flat, curves = np.concatenate(weights), np.zeros((len(entries), self.epochs), dtype=np.float32)
        rates, self._rate_starts = _rates(self.jobs, self.rows)
        arrays: dict[str, Array] = {
            "X": table.X,
            "y": table.y,
            "row_weight": table.weights if self.is_weighted else np.ones(1, dtype=np.float32),
            "rates": rates,
            "held_out": np.concatenate([*(own.validation for own in self.rows), np.zeros(1, dtype=np.int32)]),
            "weights": flat,
            "moments": np.zeros(2 * len(flat), dtype=np.float32),
            "best": flat,
            "score": np.full(len(entries), np.inf, dtype=np.float32),
            "losses": curves,
            "validation_losses": curves,
            "state": np.array([[0, 0, job.config.warmup_epochs - 1] for job in self.jobs], dtype=np.int32),
        }
        self._buffers = {name: device.upload(values) for name, values in arrays.items()}
        self._queue = device.queue()
        self._lines = self._job_lines(table)
        batches = [batch_of(job, len(table.y)) for job in self.jobs]
        triples = zip(self.packings, batches, entries, strict=True)
        self._shared_bytes = max(packing.shared_bytes(batch, entry.room) for packing, batch, entry in triples)

    def run(self, watch: Float32Array | None, on_epoch: Hook | None) -> Trained:
        """Train all networks to their end and return them."""
        per_epoch = sum(len(own.training) for own in self.rows)
        most = 1 if on_epoch is not None else int(max(1, min(self.epochs, _ORDER_BYTES // 4 // per_epoch)))
        places = [self.device.upload(np.empty(most * per_epoch, dtype=np.int32)) for _ in range(2)]
        first, turn, length = 0, 0, min(most, max(1, _FIRST_BYTES // 4 // per_epoch))
        starts = self._fill(places[0], length)
        while first < self.epochs:
            until = min(first + length, self.epochs)
            self._launch(places[turn], starts, first, until)
            length = min(most, self.epochs - until, 4 * length)
            if length:  # the host shuffles while the device trains
                starts = self._fill(places[1 - turn], length)
            self.device.wait(self._queue)
            if on_epoch is not None:
                self._report(first, watch, on_epoch)
            if self._have_ended():
                break
            first, turn = until, 1 - turn
        return self._trained()

    def _fill(self, place: Any, epochs: int) -> Array:
        """Copy the order of the rows in the next epochs to the device; return where each job's begins."""
        starts = np.cumsum([0, *(epochs * len(own.training) for own in self.rows)])
        order = np.empty(starts[-1], dtype=np.int32)

        def shuffle_job(number: int) -> None:
            own, into = self.rows[number].training, order[starts[number] : starts[number + 1]]
            self._states[number] = np.uint64(_orders(own, self._states[number], into.reshape(epochs, len(own))))

        run_on_threads(shuffle_job, range(len(self.rows)))
        self.device.fill(place, order)
        return starts[:-1]

    def _job_lines(self, table: TrainingTable) -> Array:
        held = np.cumsum([0, *(len(own.validation) for own in self.rows)])
        lines = np.zeros(len(self.entries), dtype=JOB)
        for i, (line, entry, own) in enumerate(zip(lines, self.entries, self.rows, strict=True)):
            spec, config = entry.job.spec, entry.job.config
            widths = spec.widths[1:]
            values = {
                "held_out": held[i], "weights": self.starts[i], "rates": self._rate_starts[i], "n_layers": len(widths),
                "inputs": spec.n_inputs, "n_train": len(own.training), "n_val": len(own.validation),
                "epochs": config.epochs, "warmup": config.warmup_epochs, "patience": min(config.patience, 2**31 - 1),
                "activation": ACTIVATIONS[spec.activation].code, "objective": _CODES[type(config.main_objective)],
                "batch": batch_of(entry.job, len(table.y)), "buffers": entry.room.buffers,
                "first_moments_outside": entry.room.first_moments_outside, "tol": config.tol,
                "beta": getattr(config.main_objective, "beta", 0.0),
            }  # fmt: skip
            for name, value in values.items():
                line[name] = value
            line["width"][: len(widths)] = widths
        return lines

    def _launch(self, order: Any, starts: Array, first: int, until: int) -> None:
        self._lines["order"] = starts
        jobs = self.device.upload(self._lines.view(np.uint8))
        self._kept = jobs  # until the programs have ended
        tables = np.zeros(1, dtype=TABLES)
        buffers = {**self._buffers, "order": order, "jobs": jobs}
        for name in POINTERS:
            tables[name] = self.device.address(buffers[name])
        tables["first"], tables["until"] = first, until
        tables["curve"], tables["is_weighted"] = self.epochs, self.is_weighted
        self.device.launch(self._queue, tables.tobytes(), len(self.entries), self._shared_bytes)

    def _get(self, name: str, dtype: Any = np.float32, *shape: int) -> Array:
        return self.device.download(self._buffers[name], dtype, shape)

    def _have_ended(self) -> bool:
        return bool((self._get("state", np.int32, len(self.entries), 3)[:, 0] != 0).all())

    def _networks(self, flat: Float32Array) -> Any:
        """Return the networks of all jobs; those of one shape are unpacked together."""
        groups: dict[Packing, list[int]] = {}
        for number, packing in enumerate(self.packings):
            groups.setdefault(packing, []).append(number)
        stacks = []
        for packing, numbers in groups.items():
            lines = np.stack([flat[self.starts[n] : self.starts[n + 1]] for n in numbers])
            stacks.append(Networks(packing.spec, packing.unpack(lines)))
        return join(stacks)[np.argsort([n for numbers in groups.values() for n in numbers])]

    def _report(self, epoch: int, watch: Float32Array | None, on_epoch: Hook) -> None:
        n, n_weights = len(self.entries), int(self.starts[-1])
        state = self._get("state", np.int32, n, 3)
        losses = self._get("losses", np.float32, n, self.epochs)[:, epoch]
        found = self._get("validation_losses", np.float32, n, self.epochs)[:, epoch]
        means = variances = None
        if watch is not None:
            with np.errstate(all="ignore"):
                means, variances = self._networks(self._get("weights", np.float32, n_weights)).outputs(watch)
        for i, entry in enumerate(self.entries):
            if state[i, 1] != epoch + 1:
                continue
            mean, variance = (None, None) if means is None or variances is None else (means[i], variances[i])
            validation = float(found[i]) if len(self.rows[i].validation) else None
            is_last = bool(state[i, 0]) or epoch == entry.job.config.epochs - 1
            on_epoch(EpochReport(entry.number, epoch, float(losses[i]), validation, mean, variance, is_last))

    def _trained(self) -> Trained:
        n, n_weights = len(self.entries), int(self.starts[-1])
        state, has_best = self._get("state", np.int32, n, 3), np.isfinite(self._get("score", np.float32, n))
        losses = self._get("losses", np.float32, n, self.epochs).astype(np.float64)
        found = self._get("validation_losses", np.float32, n, self.epochs).astype(np.float64)
        flat = self._get("weights", np.float32, n_weights)
        chosen = np.repeat(has_best, [packing.size for packing in self.packings])
        if has_best.any():
            flat = np.where(chosen, self._get("best", np.float32, n_weights), flat)
        epochs = [int(line[1]) for line in state]
        return Trained(
            self._networks(flat),
            tuple(losses[i, :count] for i, count in enumerate(epochs)),
            tuple(found[i, : count if len(self.rows[i].validation) else 0] for i, count in enumerate(epochs)),
            tuple(int(state[i, 2]) if has_best[i] else count - 1 for i, count in enumerate(epochs)),
        )


def _rates(jobs: Sequence[Job], rows: Sequence[JobRows]) -> tuple[Float32Array, list[int]]:
    """Return what Adam needs in every step, for each schedule, and where each job's begins.

    These are the rate over the bias correction of the first moment, one over the root of that of the second, and the
    factor of weight decay.
    """
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
            factors = [rate / (1 - BETA_1 ** (taken + 1)), 1 / np.sqrt(1 - BETA_2 ** (taken + 1))]
            parts.append(np.stack([*factors, 1 - rate * config.weight_decay], axis=-1).astype(np.float32).ravel())
            size += parts[-1].size
        starts.append(known[key])
    return np.concatenate(parts), starts
