"""Training by PyTorch: the networks of this library in batched programs, and modules of the user.

A program trains several networks together, with gradients by formulas, as in ``bdkn.networks.reference``. The bias of
a layer is an additional column of its weight matrix, with an input that is always one.

The networks of a program have the same layers and training parameters, except for activation, weight decay and number
of rows. They are sorted by their number of batches per epoch: in each step, the first ``k`` networks have a batch.
A batch that is smaller than others in the same step is padded with rows of weight zero.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from bdkn.blocks import row_slices
from bdkn.errors import InvalidParameterError
from bdkn.kernels.dense import shuffle
from bdkn.networks.job import (
    BETA_1,
    BETA_2,
    EPSILON,
    Batches,
    Hook,
    Job,
    JobRows,
    Objective,
    Progress,
    RowNumbers,
    TrainingTable,
    adam_factors,
    consecutive,
    train_in_groups,
)
from bdkn.networks.mlp import Predictor, Trained, stacked
from bdkn.networks.spec import ACTIVATIONS, MEAN_VARIANCE, NUMPY, Activation, NetworkSpec, Packing, torch_functions
from bdkn.typing import Array, BoolArray, Float32Array, IndexArray

CHUNK_ROWS = 4096
"""Number of rows that are predicted at once, without gradients."""

_CHUNK_STEPS = 64
"""Maximum number of training steps that are recorded in one CUDA graph."""

Work = Callable[..., None]
"""Type of functions that CUDA graphs record: they get a hashable key and input tensors, and write to other tensors."""


class Graphs:
    """Function on a CUDA device whose calls with the same key are recorded as a CUDA graph and replayed.

    A replay is faster for small networks, whose operations take less time on a GPU than their separate launches. The
    first call with a key is not recorded, since libraries allocate memory in it. After a failure, none is recorded.
    """

    def __init__(self, work: Work, device: torch.device) -> None:
        self._work, self._device, self._seen = work, device, set[Hashable]()
        self._recorded: dict[Hashable, tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...]]] = {}
        self._pool, self._can_record = torch.cuda.graph_pool_handle(), True
        self._stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def __call__(self, key: Hashable, *inputs: Tensor) -> None:
        """Call the function with these inputs, or replay the graph that was recorded for the key."""
        with torch.cuda.device(self._device):
            if key in self._seen and key not in self._recorded and self._can_record:
                self._record(key, inputs)
            if key in self._recorded:
                graph, places = self._recorded[key]
                for place, given in zip(places, inputs, strict=True):
                    place.copy_(given)
                graph.replay()
            else:
                self._stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(self._stream):  # the stream that will record the next call
                    self._work(key, *inputs)
                torch.cuda.current_stream().wait_stream(self._stream)
        self._seen.add(key)

    def _record(self, key: Hashable, inputs: tuple[Tensor, ...]) -> None:
        graph, places = torch.cuda.CUDAGraph(), tuple(given.clone() for given in inputs)
        try:
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
                self._work(key, *places)
        except RuntimeError:
            self._can_record = False
        else:
            self._recorded[key] = graph, places


Factory = Callable[[int], nn.Module]
"""Type of functions of the user that return a new PyTorch module for a number of inputs."""


@dataclass(frozen=True)
class ModuleNetworks:
    """Trained PyTorch modules of the user, which predict means and variances."""

    modules: tuple[nn.Module, ...]

    def __len__(self) -> int:
        return len(self.modules)

    def __getitem__(self, numbers: Sequence[int] | IndexArray) -> ModuleNetworks:
        chosen = np.arange(len(self))[numbers]
        return ModuleNetworks(tuple(self.modules[number] for number in chosen))

    @classmethod
    def concatenate(cls, parts: Sequence[ModuleNetworks]) -> ModuleNetworks:
        """Return the modules of all parts as one object."""
        return cls(tuple(module for part in parts for module in part.modules))

    def is_finite(self) -> BoolArray:
        """Return, for each module, whether all its weights and buffers are finite."""
        states = [module.state_dict().values() for module in self.modules]
        return np.array([all(bool(part.isfinite().all()) for part in state) for state in states])

    def outputs(self, X: ArrayLike) -> tuple[Array, Array]:
        """Return the means and variances that all modules predict for rows, each (H, n)."""
        rows, found = np.asarray(X), []
        for module in self.modules:
            like = next(module.parameters())
            module.eval()
            chunks = [rows[part] for part in row_slices(len(rows), CHUNK_ROWS)]
            with torch.no_grad():
                outputs = [two_columns(module(torch.tensor(chunk).to(like)), len(chunk)) for chunk in chunks]
            found.append(np.concatenate([out.cpu().double().numpy() for out in outputs]))
        means, variances = MEAN_VARIANCE.mean_and_variance(NUMPY, np.stack(found))
        return means, variances


def train_modules(
    make: Factory, table: DeviceTable, jobs: Sequence[Job], watch: Float32Array | None, on_epoch: Hook | None
) -> Trained:
    """Train one PyTorch module per job, made by the user's function ``make``, by automatic differentiation."""
    if any(job.spec.head != MEAN_VARIANCE for job in jobs):
        raise InvalidParameterError(
            "a module of your own has a mean and a raw variance as outputs; got jobs with another head: train them "
            "without module="
        )
    if isinstance(make, nn.Module):
        raise InvalidParameterError(
            "module must be a function that makes a network, since each member needs its own; got a network itself; "
            "try lambda n_inputs: torch.nn.Sequential(torch.nn.Linear(n_inputs, 50), torch.nn.ReLU(), "
            "torch.nn.Linear(50, 2))"
        )
    modules: list[nn.Module] = []
    runs: list[Trained] = []
    for number, job in enumerate(jobs):
        own = JobRows.of(job, len(table.lines))
        # Dropout and similar layers use PyTorch's global generators, which get the seed of the job during its training.
        with torch.random.fork_rng(devices=[table.lines.device] if table.lines.is_cuda else []):
            torch.manual_seed(int(own.streams.initial.integers(2**63)))
            module = make(job.spec.n_inputs)
            if not isinstance(module, nn.Module):
                raise InvalidParameterError(
                    f"module must be a function that returns a torch.nn.Module; it returned {module!r}"
                )
            if any(module is other for other in modules):
                raise InvalidParameterError(
                    "module must be a function that returns a new torch.nn.Module each time; it returned the same one "
                    "twice; make the network inside the function"
                )
            modules.append(module.to(table.lines))
            progress = Progress([number], job.config, watch, on_epoch)
            runs.append(_train_module(modules[-1], job, own, table, progress))
    return Trained.join(runs)


def _train_module(module: nn.Module, job: Job, own: JobRows, table: DeviceTable, progress: Progress) -> Trained:
    config, batches = job.config, Batches([own], job.config.batch_size)
    optimizer = torch.optim.AdamW(module.parameters(), weight_decay=config.weight_decay)
    networks, kept, steps = ModuleNetworks((module,)), copy.deepcopy(module.state_dict()), config.epochs * len(batches)
    for epoch in progress:
        batches.shuffle()
        module.train()
        totals, parts, objective = [], list(batches), config.objective_in(epoch)
        for number, rows in enumerate(parts):
            outputs, losses, gradient = _forward(module, table, rows[0], objective)
            totals.append(losses.sum())
            optimizer.zero_grad()
            torch.autograd.backward(outputs, gradient / rows.shape[1])
            optimizer.param_groups[0]["lr"] = float(config.learning_rate_at(epoch * len(batches) + number, steps))
            optimizer.step()
        loss, validation = _mean(totals, parts), None
        if batches.held_out.size:
            module.eval()
            parts = list(consecutive(batches.held_out, CHUNK_ROWS))
            with torch.no_grad():
                totals = [_forward(module, table, rows[0], config.main_objective)[1].sum() for rows in parts]
            validation = _mean(totals, parts)
        if progress.record(epoch, loss, validation, networks.outputs).any():
            kept = copy.deepcopy(module.state_dict())
    module.load_state_dict(kept)
    return progress.trained(networks)


def _forward(
    module: nn.Module, table: DeviceTable, rows: RowNumbers, objective: Objective
) -> tuple[Tensor, Tensor, Tensor]:
    """Return, for B rows, outputs (B, 2), weighted losses (B,), and their gradients for the outputs (B, 2)."""
    x, y, weight = table[torch.tensor(rows, dtype=torch.long, device=table.lines.device)]
    outputs = two_columns(module(x[:, :-1]), len(rows))
    loss, gradient = objective.loss_and_gradient(torch_functions(), outputs.detach(), y)
    return outputs, weight * loss, weight[:, None] * gradient


def _mean(totals: Sequence[Tensor], batches: Sequence[RowNumbers]) -> Array:
    """Return the mean loss (1,) of an epoch from the summed losses of each batch."""
    total = torch.stack(list(totals)).sum(dim=0, keepdim=True).numpy(force=True)
    mean: Array = total / sum(rows.shape[1] for rows in batches)
    return mean


def two_columns(answer: object, n: int) -> Tensor:
    """Return what a module returned for ``n`` rows as one tensor (n, 2); raise if it has another form."""
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


@dataclass(frozen=True)
class DeviceTable:
    """All rows on the device, one line per row: the inputs, a one (the input of biases), the target, the weight."""

    lines: Tensor

    @classmethod
    def of(cls, table: TrainingTable, device: str | torch.device, dtype: str) -> DeviceTable:
        """Copy the training rows to a PyTorch device."""
        try:
            like = torch.empty(0, device=device, dtype=getattr(torch, dtype))
        except (RuntimeError, AssertionError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise InvalidParameterError(
                f"device must be one that this PyTorch can use; got {str(device)!r} ({reason}); try 'cpu'"
            ) from error
        lines = np.column_stack([table.X, np.ones_like(table.y), table.y, table.weights])
        return cls(torch.tensor(lines).to(like))

    def __getitem__(self, numbers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return inputs followed by a one (..., n_inputs + 1), targets (...,) and weights (...,) of the rows."""
        lines = self.lines[numbers]
        return lines[..., :-2], lines[..., -2], lines[..., -1]


class Stack:
    """J networks of P weights each, with the same layers: a tensor (J, P), and each layer's weights as a view of it."""

    def __init__(self, specs: Sequence[NetworkSpec], generators: Sequence[np.random.Generator], like: Tensor) -> None:
        """Draw the initial weights of every network from its generator."""
        self._packings = [Packing.of(spec, lambda n_out, columns: (n_out, columns)) for spec in specs]
        flat = np.empty((len(specs), self._packings[0].size), dtype=np.float32)
        for packing, generator, into in zip(self._packings, generators, flat, strict=True):
            packing.pack(packing.spec.initial_layers(generator), into)
        self.weights = torch.tensor(flat).to(like)
        self.layers = self.views(self.weights)
        lengths = [(name, len(list(same))) for name, same in groupby(spec.activation for spec in specs)]
        ends = [0, *accumulate(length for _, length in lengths)]
        spans = zip(pairwise(ends), lengths, strict=True)
        self._parts = [(slice(*span), ACTIVATIONS[name]) for span, (name, _) in spans]

    def views(self, flat: Tensor) -> list[Tensor]:
        """Return each layer's matrices [W, b] (J, n_out, n_in + 1) as a view of ``flat`` (J, P), all weights."""
        places = self._packings[0].places
        return [flat[:, start : start + rows * columns].view(-1, rows, columns) for start, rows, columns in places]

    def forward(self, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Return each layer's inputs (k, B, n_in + 1) and W·x + b (k, B, n_out), for B rows of the first k networks."""
        inputs, z = [x], [torch.bmm(x, self.layers[0][: len(x)].mT)]
        for W in self.layers[1:]:
            value = z[-1].new_ones(*z[-1].shape[:-1], z[-1].shape[-1] + 1)  # the last column is the input of the biases
            for part, activation in self._parts_of(len(x)):
                value[part, :, :-1] = activation.torch(z[-1][part])
            inputs.append(value)
            z.append(torch.bmm(value, W[: len(x)].mT))
        return inputs, z

    def backward(self, inputs: list[Tensor], z: list[Tensor], d_outputs: Tensor, gradients: list[Tensor]) -> None:
        """Compute ``gradients`` with respect to all weights, given the gradient with respect to the outputs."""
        k, d_z = len(d_outputs), d_outputs
        for i in reversed(range(len(z))):
            torch.bmm(d_z.mT, inputs[i], out=gradients[i][:k])
            if i > 0:
                d_z = torch.bmm(d_z, self.layers[i][:k, :, :-1])
                for part, activation in self._parts_of(k):
                    d_z[part] *= activation.slope(torch_functions(), z[i - 1][part])

    def _parts_of(self, k: int) -> Iterator[tuple[slice, Activation]]:
        """Yield each activation with the slice of networks that have it, among the first k networks."""
        return ((part, activation) for part, activation in self._parts if part.start < k)

    def networks(self, flat: Tensor) -> Predictor:
        """Return the networks as NumPy arrays, with the weights ``flat`` (J, P)."""
        pairs = zip(self._packings, flat.numpy(force=True), strict=True)
        return stacked([packing.spec for packing in self._packings], [packing.unpack(own) for packing, own in pairs])


@torch.no_grad()
def train_programs(
    table: DeviceTable, jobs: Sequence[Job], watch: Float32Array | None, on_epoch: Hook | None
) -> Trained:
    """Train jobs, one program after the other; all jobs that can be trained together are one program."""
    n_rows = len(table.lines)

    def key(job: Job) -> tuple[object, ...]:
        can_validate = (n_rows if job.rows is None else len(job.rows)) > 1
        return job.spec.widths, job.spec.head, replace(job.config, weight_decay=0.0), can_validate

    def train(numbers: Sequence[int]) -> Trained:
        own = {number: JobRows.of(jobs[number], n_rows) for number in numbers}
        config = jobs[numbers[0]].config

        def place(number: int) -> tuple[int, str]:
            n_batches = -(-len(own[number].training) // config.batch_size)
            return -n_batches, jobs[number].spec.activation

        order = sorted(numbers, key=place)
        program = Program([jobs[number] for number in order], [own[number] for number in order], table)
        progress = Progress(order, config, watch, on_epoch)
        for epoch in progress:
            losses = program.train_epoch(epoch, config.objective_in(epoch))
            validation = program.validation_loss(config.main_objective)
            program.keep(progress.record(epoch, losses, validation, program.outputs))
        return progress.trained(program.kept_networks())[np.argsort(order)]

    return train_in_groups(jobs, key, train)


class _PaddedBatches:
    """Row numbers (J, steps * B) of J jobs in batches of B rows, padded by repeating one row of the job."""

    def __init__(self, rows: Sequence[RowNumbers], size: int) -> None:
        self.lengths, self.size = np.array([len(numbers) for numbers in rows]), size
        self.counts = -(-self.lengths // size)
        self.numbers = np.stack([np.resize(numbers[:1], self.counts.max() * size) for numbers in rows])
        self.own = [padded[: len(numbers)] for padded, numbers in zip(self.numbers, rows, strict=True)]
        for own, numbers in zip(self.own, rows, strict=True):
            own[:] = numbers

    def is_real(self, like: Tensor) -> Tensor:
        """Return a tensor (J, steps, B) with 1 for the rows of a job and 0 for padding."""
        real = np.arange(self.numbers.shape[1]) < self.lengths[:, None]
        return torch.tensor(real.reshape(len(real), -1, self.size)).to(like)

    def to(self, device: torch.device) -> Tensor:
        """Return the row numbers as a tensor (J, steps, B) on the device."""
        return torch.tensor(self.numbers).to(device).long().view(len(self.numbers), -1, self.size)


class Program:
    """Networks that are trained together by batched operations, with all their tensors on the device."""

    def __init__(self, jobs: Sequence[Job], rows: Sequence[JobRows], table: DeviceTable) -> None:
        self._jobs, self._table = jobs, table
        self._stack = Stack([job.spec for job in jobs], [own.streams.initial for own in rows], table.lines)
        weights = self._stack.weights
        self._gradient, self._m, self._v = (torch.zeros_like(weights) for _ in range(3))
        self._gradients, self._kept = self._stack.views(self._gradient), weights.clone()
        self._batches = _PaddedBatches([own.training for own in rows], jobs[0].config.batch_size)
        self._states = [np.uint64(own.streams.order) for own in rows]
        self._is_real = self._batches.is_real(table.lines)
        self._total = table.lines.new_zeros(len(jobs))
        most = max(len(own.validation) for own in rows)
        validation = [own.validation for own in rows]
        self._validation = _PaddedBatches(validation, min(most, CHUNK_ROWS)) if most else None
        self._steps = Graphs(self._run_steps, table.lines.device) if table.lines.is_cuda else self._run_steps

    def train_epoch(self, epoch: int, objective: Objective) -> Array:
        """Train for one epoch; return each network's mean loss (J,), computed before each step."""
        pairs = zip(self._batches.own, self._states, strict=True)
        self._states = [np.uint64(shuffle(own, state)) for own, state in pairs]
        rows, counts = self._batches.to(self._total.device), self._batches.counts
        active = [int((counts > step).sum()) for step in range(counts.max())]
        config, taken = self._jobs[0].config, epoch * counts + np.arange(counts.max())[:, None]
        rate = np.broadcast_to(config.learning_rate_at(taken, config.epochs * counts), taken.shape)
        decays = np.array([job.config.weight_decay for job in self._jobs])
        rates = torch.tensor(adam_factors(rate, taken, decays)).to(self._total)  # (steps, J, 3)
        self._total.zero_()
        for start in range(0, len(active), _CHUNK_STEPS):
            chunk = slice(start, start + _CHUNK_STEPS)
            self._steps((objective, *active[chunk]), rows[:, chunk], self._is_real[:, chunk], rates[chunk])
        mean: Array = self._total.numpy(force=True) / self._batches.lengths
        return mean

    def _run_steps(self, key: tuple[Objective, *tuple[int, ...]], rows: Tensor, is_real: Tensor, rates: Tensor) -> None:
        """Take training steps; ``key`` is the objective and, for each step, the number of jobs that have a batch."""
        objective, *active = key
        for step, k in enumerate(active):
            real = is_real[:k, step]
            x, y, weight = self._table[rows[:k, step]]
            weight = weight * real
            inputs, z = self._stack.forward(x)
            loss, gradient = objective.loss_and_gradient(torch_functions(), z[-1], y)
            self._total[:k] += (weight * loss).sum(dim=1)
            share = weight / real.sum(dim=1, keepdim=True)
            self._stack.backward(inputs, z, gradient * share[..., None], self._gradients)
            self._adam_step(k, *(rates[step, :k, i : i + 1] for i in range(3)))

    def _adam_step(self, k: int, size: Tensor, root: Tensor, decay: Tensor) -> None:
        """Update the first k networks by Adam with decoupled weight decay, given the three ``adam_factors`` (k, 1)."""
        p, m, v, gradient = (part[:k] for part in (self._stack.weights, self._m, self._v, self._gradient))
        m.lerp_(gradient, 1 - BETA_1)
        v.mul_(BETA_2).addcmul_(gradient, gradient, value=1 - BETA_2)
        p.mul_(decay).addcdiv_(m * size, v.sqrt().mul_(root).add_(EPSILON), value=-1)

    def validation_loss(self, objective: Objective) -> Array | None:
        """Return each network's mean loss on its validation rows, (J,); None if there are no validation rows."""
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
        """Return the means and variances that the networks predict for rows with their current weights, each (J, n)."""
        x = torch.tensor(np.column_stack([X, np.ones(len(X), X.dtype)])).to(self._table.lines)
        parts = [
            self._jobs[0].spec.head.mean_and_variance(
                torch_functions(), self._stack.forward(part.expand(len(self._jobs), -1, -1))[1][-1]
            )
            for part in torch.split(x, CHUNK_ROWS)
        ]
        means, variances = (torch.cat(some, dim=1).double().numpy(force=True) for some in zip(*parts, strict=True))
        return means, variances

    def keep(self, chosen: BoolArray) -> None:
        """Keep a copy of the current weights of the chosen networks, as the result of their training."""
        if chosen.any():
            mask = torch.tensor(chosen, device=self._total.device)[:, None]
            self._kept = torch.where(mask, self._stack.weights, self._kept)

    def kept_networks(self) -> Predictor:
        """Return the networks with the weights that ``keep`` has kept."""
        return self._stack.networks(self._kept)
