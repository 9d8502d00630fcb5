"""Modules of the user's own, trained by PyTorch one after the other."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from bdkn.errors import InvalidParameterError
from bdkn.networks import MEAN_VARIANCE
from bdkn.networks.functions import NUMPY, torch_functions
from bdkn.training.job import Hook, Job, Trained
from bdkn.training.objective import Objective
from bdkn.training.progress import Progress
from bdkn.training.rows import Batches, JobRows, RowNumbers, consecutive
from bdkn.training.torch_stack import CHUNK_ROWS, DeviceTable
from bdkn.typing import Array, BoolArray, Float32Array, IndexArray

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
