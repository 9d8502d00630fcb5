"""Training by PyTorch; imported when it is first used.

Gradients are written out, as in ``bdkn.networks.reference``; a bias is one more column of its layer's weight matrix,
whose input is one.

The jobs of a program have the same layers and settings. They may differ in activation, weight decay and number of rows.
Jobs are sorted by their number of batches per epoch, so that the jobs that take part in a step are the first ``k``. A
batch that is smaller than others in the same step is filled up with rows of weight zero.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from bdkn.errors import InvalidParameterError
from bdkn.networks.job import (
    BETA_1,
    BETA_2,
    EPSILON,
    Batches,
    Hook,
    Job,
    JobRows,
    Progress,
    RowNumbers,
    Trained,
    TrainingTable,
    consecutive,
    shuffle,
)
from bdkn.networks.mlp import (
    ACTIVATIONS,
    MEAN_VARIANCE,
    NUMPY,
    Activation,
    Networks,
    NetworkSpec,
    Predictor,
    join,
    torch_functions,
)
from bdkn.networks.objective import Objective
from bdkn.typing import Array, BoolArray, Float32Array, IndexArray

Work = Callable[..., None]
"""Called with a hashable kind of work and tensors; reads these tensors and writes to others that stay in place."""


class Graphs:
    """Runs work on a CUDA device; each kind of work is recorded as a CUDA graph at its second run and replayed later.

    A small network keeps a GPU busy for less time than it takes to launch its operations one by one. The first run of a
    kind is an ordinary one, in which libraries allocate what they need. Work that cannot be recorded stays ordinary.
    """

    def __init__(self, work: Work, device: torch.device) -> None:
        self._work, self._device, self._seen = work, device, set[Hashable]()
        self._recorded: dict[Hashable, tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...]]] = {}
        self._pool, self._can_record = torch.cuda.graph_pool_handle(), True
        self._stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def __call__(self, kind: Hashable, *inputs: Tensor) -> None:
        """Run the work, or replay it with these inputs."""
        with torch.cuda.device(self._device):
            if kind in self._seen and kind not in self._recorded and self._can_record:
                self._record(kind, inputs)
            if kind in self._recorded:
                self._replay(kind, inputs)
            else:
                self._run(kind, inputs)
        self._seen.add(kind)

    def _run(self, kind: Hashable, inputs: tuple[Tensor, ...]) -> None:
        """Run the work on the stream that will record it."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            self._work(kind, *inputs)
        torch.cuda.current_stream().wait_stream(self._stream)

    def _record(self, kind: Hashable, inputs: tuple[Tensor, ...]) -> None:
        graph, places = torch.cuda.CUDAGraph(), tuple(given.clone() for given in inputs)
        try:
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
                self._work(kind, *places)
        except RuntimeError:
            self._can_record = False
        else:
            self._recorded[kind] = graph, places

    def _replay(self, kind: Hashable, inputs: tuple[Tensor, ...]) -> None:
        graph, places = self._recorded[kind]
        for place, given in zip(places, inputs, strict=True):
            place.copy_(given)
        graph.replay()


Factory = Callable[[int], nn.Module]
"""Takes the number of inputs and returns a new module."""


@dataclass(frozen=True)
class ModuleNetworks:
    """Trained modules as networks."""

    modules: tuple[nn.Module, ...]

    def __len__(self) -> int:
        return len(self.modules)

    def __getitem__(self, numbers: Sequence[int] | IndexArray) -> ModuleNetworks:
        chosen = np.arange(len(self))[numbers]
        return ModuleNetworks(tuple(self.modules[number] for number in chosen))

    @classmethod
    def concatenate(cls, parts: Sequence[ModuleNetworks]) -> ModuleNetworks:
        """Return the modules of all parts."""
        return cls(tuple(module for part in parts for module in part.modules))

    def is_finite(self) -> BoolArray:
        """Return, for each module, whether all its weights and buffers are finite."""
        states = [module.state_dict().values() for module in self.modules]
        return np.array([all(bool(part.isfinite().all()) for part in state) for state in states])

    def outputs(self, X: ArrayLike) -> tuple[Array, Array]:
        """Return the means and variances of rows, each (H, n)."""
        rows = np.asarray(X)
        means, variances = MEAN_VARIANCE.mean_and_variance(NUMPY, np.stack([_evaluate(m, rows) for m in self.modules]))
        return means, variances


def train_modules(
    make: Factory, table: DeviceTable, jobs: Sequence[Job], watch: Float32Array | None, on_epoch: Hook | None
) -> Trained:
    """Train one module per job."""
    modules: list[nn.Module] = []
    runs: list[Trained] = []
    for number, job in enumerate(jobs):
        own = JobRows.of(job, len(table.lines))
        # Dropout and the like draw from PyTorch's global generators: while a job trains, these are seeded by the job.
        with torch.random.fork_rng(devices=[table.lines.device] if table.lines.is_cuda else []):
            torch.manual_seed(int(own.streams.initial.integers(2**63)))
            modules.append(_make(make, job.spec.n_inputs, table.lines, modules))
            progress = Progress([number], job.config, watch, on_epoch)
            runs.append(_train(modules[-1], job, own, table, progress))
    return Trained.join(runs)


def _make(make: Factory, n_inputs: int, like: Tensor, earlier: Sequence[nn.Module]) -> nn.Module:
    if isinstance(make, nn.Module):
        raise InvalidParameterError(
            "module must be a function that makes a network, since each member needs its own; got a network itself; "
            "try lambda n_inputs: torch.nn.Sequential(torch.nn.Linear(n_inputs, 50), torch.nn.ReLU(), "
            "torch.nn.Linear(50, 2))"
        )
    module = make(n_inputs)
    if not isinstance(module, nn.Module):
        raise InvalidParameterError(f"module must be a function that returns a torch.nn.Module; it returned {module!r}")
    if any(module is other for other in earlier):
        raise InvalidParameterError(
            "module must be a function that returns a new torch.nn.Module each time; it returned the same one twice; "
            "make the network inside the function"
        )
    return module.to(like)


def _train(module: nn.Module, job: Job, own: JobRows, table: DeviceTable, progress: Progress) -> Trained:
    config, batches = job.config, Batches([own], job.config.batch_size)
    optimizer = torch.optim.AdamW(module.parameters(), weight_decay=config.weight_decay)
    networks, kept, steps = ModuleNetworks((module,)), copy.deepcopy(module.state_dict()), config.epochs * len(batches)
    for epoch in progress:
        batches.shuffle()
        rates = [config.learning_rate_at(epoch * len(batches) + i, steps) for i in range(len(batches))]
        loss = _train_epoch(module, optimizer, rates, table, list(batches), config.objective_in(epoch))
        validation = _validation_loss(module, table, batches.held_out, config.main_objective)
        if progress.record(epoch, loss, validation, networks.outputs).any():
            kept = copy.deepcopy(module.state_dict())
    module.load_state_dict(kept)
    return progress.trained(networks)


def _train_epoch(
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    rates: Sequence[float],
    table: DeviceTable,
    batches: Sequence[RowNumbers],
    objective: Objective,
) -> Array:
    """Take one step per batch; return the mean loss (1,) of the epoch, that of each batch before its step."""
    module.train()
    totals = []
    for rate, rows in zip(rates, batches, strict=True):
        outputs, loss, gradient = _forward(module, table, rows[0], objective)
        totals.append(loss.sum())
        optimizer.zero_grad()
        torch.autograd.backward(outputs, gradient / rows.shape[1])
        optimizer.param_groups[0]["lr"] = float(rate)
        optimizer.step()
    return _mean(totals, batches)


@torch.no_grad()
def _validation_loss(module: nn.Module, table: DeviceTable, held_out: RowNumbers, objective: Objective) -> Array | None:
    """Return the mean loss (1,) on the validation rows, or None where there are none."""
    if held_out.size == 0:
        return None
    module.eval()
    parts = list(consecutive(held_out, CHUNK_ROWS))
    return _mean([_forward(module, table, rows[0], objective)[1].sum() for rows in parts], parts)


def _forward(
    module: nn.Module, table: DeviceTable, rows: RowNumbers, objective: Objective
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the outputs (B, 2) of rows, their weighted losses (B,), and the losses' gradient (B, 2) by the outputs."""
    x, y, weight = table[torch.tensor(rows, dtype=torch.long, device=table.lines.device)]
    outputs = two_columns(module(x[:, :-1]), len(rows))
    loss, gradient = objective.loss_and_gradient(torch_functions(), outputs.detach(), y)
    return outputs, weight * loss, weight[:, None] * gradient


def _mean(totals: Sequence[Tensor], batches: Sequence[RowNumbers]) -> Array:
    total = torch.stack(list(totals)).sum(dim=0, keepdim=True).numpy(force=True)
    mean: Array = total / sum(rows.shape[1] for rows in batches)
    return mean


def two_columns(answer: object, n: int) -> Tensor:
    """Return what a module gave for ``n`` rows as a tensor of shape (n, 2)."""
    if isinstance(answer, Tensor) and answer.shape == (n, 2):
        return answer
    parts = list(answer) if isinstance(answer, tuple | list) else [answer]
    columns = [part.reshape(n) for part in parts if isinstance(part, Tensor) and part.shape in ((n,), (n, 1))]
    if len(columns) == len(parts) == 2:
        return torch.stack(columns, dim=1)
    shapes = ", ".join(str(tuple(part.shape)) if isinstance(part, Tensor) else repr(part) for part in parts)
    raise InvalidParameterError(
        "a network made by `module` must return a mean and a raw variance for each of B rows: two tensors of shape "
        f"(B,) or (B, 1), or one of shape (B, 2); got {type(answer).__name__} with {shapes} for B = {n}; "
        "try torch.nn.Linear(width, 2) as its last layer"
    )


@torch.no_grad()
def _evaluate(module: nn.Module, rows: Array) -> Array:
    like = next(module.parameters())
    module.eval()
    parts = [rows[start : start + CHUNK_ROWS] for start in range(0, len(rows), CHUNK_ROWS)]
    outputs = [two_columns(module(torch.tensor(part).to(like)), len(part)) for part in parts]
    return np.concatenate([out.cpu().double().numpy() for out in outputs])


CHUNK_ROWS = 4096
"""Rows per forward pass without gradients."""


@dataclass(frozen=True)
class DeviceTable:
    """All rows on the device, one line per row: the inputs, a one that biases multiply, the target, the weight."""

    lines: Tensor

    @classmethod
    def of(cls, table: TrainingTable, device: str | torch.device, dtype: str) -> DeviceTable:
        """Copy rows to the device."""
        like = _empty(device, getattr(torch, dtype))
        lines = np.column_stack([table.X, np.ones_like(table.y), table.y, table.weights])
        return cls(torch.tensor(lines).to(like))

    def __getitem__(self, numbers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the inputs with their one (..., n_inputs + 1), the targets (...,) and the weights (...,) of rows."""
        lines = self.lines[numbers]
        return lines[..., :-2], lines[..., -2], lines[..., -1]


def _empty(device: str | torch.device, dtype: torch.dtype) -> Tensor:
    """Return an empty tensor of that device and dtype, for others to be made like it."""
    try:
        return torch.empty(0, device=device, dtype=dtype)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidParameterError(
            f"device must be one that this PyTorch can use; got {str(device)!r} ({reason}); try 'cpu'"
        ) from error


class Stack:
    """J networks with the same layers: all weights as one tensor (J, P), and each layer's as a view of it."""

    def __init__(self, specs: Sequence[NetworkSpec], weights: Tensor) -> None:
        self.specs, self.weights = specs, weights
        self.layers = self.views(weights)
        names = [spec.activation for spec in specs]
        runs = [(name, len(list(same))) for name, same in groupby(names)]
        ends = [0, *accumulate(length for _, length in runs)]
        self._parts = [(slice(*span), ACTIVATIONS[name]) for span, (name, _) in zip(pairwise(ends), runs, strict=True)]

    @classmethod
    def start(cls, specs: Sequence[NetworkSpec], generators: Sequence[np.random.Generator], like: Tensor) -> Stack:
        """Draw the initial weights of every network from its generator."""
        drawn = [spec.initial_layers(generator) for spec, generator in zip(specs, generators, strict=True)]
        flat = [np.concatenate([np.column_stack(layer).ravel() for layer in layers]) for layers in drawn]
        return cls(specs, torch.tensor(np.stack(flat)).to(like))

    def views(self, flat: Tensor) -> list[Tensor]:
        """Return each layer's part (J, n_out, n_in + 1) of a tensor (J, P)."""
        shapes = [(n_out, n_in + 1) for n_out, n_in in self.specs[0].shapes]
        ends = [0, *accumulate(rows * columns for rows, columns in shapes)]
        spans = zip(pairwise(ends), shapes, strict=True)
        return [flat[:, start:stop].view(-1, *shape) for (start, stop), shape in spans]

    def forward(self, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Return inputs (k, B, n_in + 1) and pre-activations (k, B, n_out) of every layer, for the first k networks."""
        inputs, z = [x], [torch.bmm(x, self.layers[0][: len(x)].mT)]
        for W in self.layers[1:]:
            inputs.append(self._activated(z[-1]))
            z.append(torch.bmm(inputs[-1], W[: len(x)].mT))
        return inputs, z

    def backward(self, inputs: list[Tensor], z: list[Tensor], d_outputs: Tensor, gradients: list[Tensor]) -> None:
        """Write the gradient by every layer's weights to ``gradients``, given the gradient by the outputs."""
        k, d_z = len(d_outputs), d_outputs
        for i in reversed(range(len(z))):
            torch.bmm(d_z.mT, inputs[i], out=gradients[i][:k])
            if i > 0:
                d_z = torch.bmm(d_z, self.layers[i][:k, :, :-1])
                for part, activation in self._parts_of(k):
                    d_z[part] *= activation.slope(torch_functions(), z[i - 1][part])

    def outputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the means and variances (J, B) of inputs (J, B, n_in + 1)."""
        return self.specs[0].head.mean_and_variance(torch_functions(), self.forward(x)[1][-1])

    def networks(self, flat: Tensor) -> Predictor:
        """Return the networks with the weights (J, P)."""
        layers = [view.numpy(force=True).copy() for view in self.views(flat)]
        one_by_one = [tuple((layer[[h], :, :-1], layer[[h], :, -1]) for layer in layers) for h in range(len(flat))]
        return join([Networks(spec, own) for spec, own in zip(self.specs, one_by_one, strict=True)])

    def _activated(self, z: Tensor) -> Tensor:
        """Return the activations (k, B, n + 1) with their one."""
        value = z.new_ones(*z.shape[:-1], z.shape[-1] + 1)
        for part, activation in self._parts_of(len(z)):
            value[part, :, :-1] = activation.torch(z[part])
        return value

    def _parts_of(self, k: int) -> Iterator[tuple[slice, Activation]]:
        """Yield the networks with the same activation among the first k."""
        return ((part, activation) for part, activation in self._parts if part.start < k)


class Adam:
    """Adam with decoupled weight decay on stacked weights, each network with rates of its own."""

    def __init__(self, weights: Tensor) -> None:
        self._weights, self._m, self._v = weights, torch.zeros_like(weights), torch.zeros_like(weights)

    def step(self, gradient: Tensor, rates: Tensor) -> None:
        """Move the first k networks, given gradient (k, P) and rates (k, 3) as ``adam_rates`` computes them."""
        k = len(gradient)
        p, m, v = self._weights[:k], self._m[:k], self._v[:k]
        size, root, decay = rates[:, 0:1], rates[:, 1:2], rates[:, 2:3]
        m.lerp_(gradient, 1 - BETA_1)
        v.mul_(BETA_2).addcmul_(gradient, gradient, value=1 - BETA_2)
        p.mul_(decay).addcdiv_(m * size, v.sqrt().mul_(root).add_(EPSILON), value=-1)


def adam_rates(jobs: Sequence[Job], n_batches: Array, epoch: int) -> Array:
    """Return what Adam needs in each step of an epoch, (steps, J, 3).

    These are the rate divided by the bias correction of the first moment, one over the root of that of the second, and
    the factor of weight decay. The numbers of jobs in steps in which they do not take part have no meaning.
    """
    config, step = jobs[0].config, np.arange(n_batches.max())[:, None]
    taken = epoch * n_batches + step
    rate = np.broadcast_to(config.learning_rate_at(taken, config.epochs * n_batches), taken.shape)
    decay = 1 - rate * np.array([job.config.weight_decay for job in jobs])
    return np.stack([rate / (1 - BETA_1 ** (taken + 1)), 1 / np.sqrt(1 - BETA_2 ** (taken + 1)), decay], axis=-1)


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
