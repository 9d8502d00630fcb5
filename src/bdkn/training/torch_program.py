"""Many networks trained by PyTorch in one program: their weights are stacked, and every operation serves all of them.

The jobs of a program have the same layers and settings. They may differ in activation, weight decay and number of rows.
Jobs are sorted by their number of batches per epoch, so that the jobs that take part in a step are the first ``k``. A
batch that is smaller than others in the same step is filled up with rows of weight zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from bdkn.networks import Predictor
from bdkn.networks.functions import torch_functions
from bdkn.training.cuda_graphs import Graphs
from bdkn.training.job import Hook, Job, Trained
from bdkn.training.objective import Objective
from bdkn.training.progress import Progress
from bdkn.training.rows import JobRows, RowNumbers, shuffle
from bdkn.training.torch_stack import CHUNK_ROWS, Adam, DeviceTable, Stack, adam_rates
from bdkn.typing import Array, BoolArray, Float32Array

_CHUNK_STEPS = 64
"""Steps that become one CUDA graph."""

"""What is the same in the same steps of two epochs: the objective, and how many jobs take part in each step."""


def group_for_programs(jobs: Sequence[Job], n_rows: int) -> list[list[int]]:
    """Return the numbers of the jobs that can be one program, group by group."""
    groups: dict[object, list[int]] = {}
    for number, job in enumerate(jobs):
        can_validate = (n_rows if job.rows is None else len(job.rows)) > 1
        key = job.spec.widths, job.spec.head, replace(job.config, weight_decay=0.0), can_validate
        groups.setdefault(key, []).append(number)
    return list(groups.values())


@dataclass(frozen=True, eq=False)
class _Entry:
    """A job with its number and its rows."""

    number: int
    job: Job
    rows: JobRows

    @property
    def n_batches(self) -> int:
        return math.ceil(len(self.rows.training) / self.job.config.batch_size)


@torch.no_grad()
def train_program(
    numbers: Sequence[int],
    jobs: Sequence[Job],
    table: DeviceTable,
    watch: Float32Array | None,
    on_epoch: Hook | None,
) -> Trained:
    """Train the jobs of these numbers as one program; return their networks in the order of the numbers."""
    entries = [_Entry(number, jobs[number], JobRows.of(jobs[number], len(table.lines))) for number in numbers]
    entries.sort(key=lambda entry: (-entry.n_batches, entry.job.spec.activation))
    config, program = jobs[numbers[0]].config, Program(entries, table)
    progress = Progress([entry.number for entry in entries], config, watch, on_epoch)
    for epoch in progress:
        losses = program.train_epoch(epoch, config.objective_in(epoch))
        validation = program.validation_loss(config.main_objective)
        program.keep(progress.record(epoch, losses, validation, program.outputs))
    places = {entry.number: place for place, entry in enumerate(entries)}
    return progress.trained(program.kept_networks())[[places[number] for number in numbers]]


class _Batches:
    """The rows of all jobs in batches: row numbers (J, steps, B), and which of them are real."""

    def __init__(self, rows: Sequence[RowNumbers], size: int) -> None:
        self.lengths, self.size = np.array([len(numbers) for numbers in rows]), size
        self.counts = -(-self.lengths // size)
        self.numbers = np.stack([np.resize(numbers[:1], self.counts.max() * size) for numbers in rows])
        self.own = [padded[: len(numbers)] for padded, numbers in zip(self.numbers, rows, strict=True)]
        for own, numbers in zip(self.own, rows, strict=True):
            own[:] = numbers

    def is_real(self, like: Tensor) -> Tensor:
        """Return 1 for the rows of a job and 0 for those that fill up a batch, (J, steps, B)."""
        real = np.arange(self.numbers.shape[1]) < self.lengths[:, None]
        return torch.tensor(real.reshape(len(real), -1, self.size)).to(like)

    def to(self, device: torch.device) -> Tensor:
        """Return the row numbers on the device, (J, steps, B)."""
        return torch.tensor(self.numbers).to(device).long().view(len(self.numbers), -1, self.size)

    def active(self) -> list[int]:
        """Return for each step how many jobs take part in it."""
        return [int((self.counts > step).sum()) for step in range(self.counts.max())]


def _validation_batches(rows: Sequence[RowNumbers]) -> _Batches | None:
    most = max(map(len, rows))
    return _Batches(rows, min(most, CHUNK_ROWS)) if most else None


class Program:
    """Jobs in training, with everything they need on the device."""

    def __init__(self, entries: Sequence[_Entry], table: DeviceTable) -> None:
        self._jobs, self._table = [entry.job for entry in entries], table
        generators = [entry.rows.streams.initial for entry in entries]
        self._stack = Stack.start([job.spec for job in self._jobs], generators, table.lines)
        self._gradient, self._kept = torch.zeros_like(self._stack.weights), self._stack.weights.clone()
        self._gradients, self._adam = self._stack.views(self._gradient), Adam(self._stack.weights)
        self._batches = _Batches([entry.rows.training for entry in entries], self._jobs[0].config.batch_size)
        self._states = [np.uint64(entry.rows.streams.order) for entry in entries]
        self._is_real = self._batches.is_real(table.lines)
        self._total = table.lines.new_zeros(len(entries))
        self._validation = _validation_batches([entry.rows.validation for entry in entries])
        self._steps = Graphs(self._run_steps, table.lines.device) if table.lines.is_cuda else self._run_steps

    def train_epoch(self, epoch: int, objective: Objective) -> Array:
        """Take one step per batch; return the mean loss (J,) of the epoch, that of each batch before its step."""
        pairs = zip(self._batches.own, self._states, strict=True)
        self._states = [np.uint64(shuffle(own, state)) for own, state in pairs]
        rows, active = self._batches.to(self._total.device), self._batches.active()
        rates = torch.tensor(adam_rates(self._jobs, self._batches.counts, epoch)).to(self._total)
        self._total.zero_()
        for start in range(0, len(active), _CHUNK_STEPS):
            chunk = slice(start, start + _CHUNK_STEPS)
            self._steps((objective, *active[chunk]), rows[:, chunk], self._is_real[:, chunk], rates[chunk])
        mean: Array = self._total.numpy(force=True) / self._batches.lengths
        return mean

    def _run_steps(
        self, kind: tuple[Objective, *tuple[int, ...]], rows: Tensor, is_real: Tensor, rates: Tensor
    ) -> None:
        """Take some steps."""
        objective, *active = kind
        for step, k in enumerate(active):
            self._step(objective, rows[:k, step], is_real[:k, step], rates[step, :k])

    def _step(self, objective: Objective, rows: Tensor, is_real: Tensor, rates: Tensor) -> None:
        x, y, weight = self._table[rows]
        weight, k = weight * is_real, len(rows)
        inputs, z = self._stack.forward(x)
        loss, gradient = objective.loss_and_gradient(torch_functions(), z[-1], y)
        self._total[:k] += (weight * loss).sum(dim=1)
        share = weight / is_real.sum(dim=1, keepdim=True)
        self._stack.backward(inputs, z, gradient * share[..., None], self._gradients)
        self._adam.step(self._gradient[:k], rates)

    def validation_loss(self, objective: Objective) -> Array | None:
        """Return the mean loss (J,) on the validation rows, or None where there are none."""
        batches, total = self._validation, torch.zeros_like(self._total)
        if batches is None:
            return None
        rows, is_real = batches.to(total.device), batches.is_real(total)
        for step in range(rows.shape[1]):
            x, y, weight = self._table[rows[:, step]]
            loss, _ = objective.loss_and_gradient(torch_functions(), self._stack.forward(x)[1][-1], y)
            total += (weight * is_real[:, step] * loss).sum(dim=1)
        mean: Array = total.numpy(force=True) / batches.lengths
        return mean

    def outputs(self, X: Array) -> tuple[Array, Array]:
        """Return the means and variances of rows, each (J, n), with the present weights."""
        x = torch.tensor(np.column_stack([X, np.ones(len(X), X.dtype)])).to(self._table.lines)
        parts = [self._stack.outputs(part.expand(len(self._jobs), -1, -1)) for part in torch.split(x, CHUNK_ROWS)]
        means, variances = (torch.cat(some, dim=1).double().numpy(force=True) for some in zip(*parts, strict=True))
        return means, variances

    def keep(self, chosen: BoolArray) -> None:
        """Keep the present weights of the chosen networks."""
        if chosen.any():
            mask = torch.tensor(chosen, device=self._total.device)[:, None]
            self._kept = torch.where(mask, self._stack.weights, self._kept)

    def kept_networks(self) -> Predictor:
        """Return the networks with the weights that were kept."""
        return self._stack.networks(self._kept)
