"""The loop in which PyTorch trains. Imported once torch is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from bdkn.errors import InvalidParameterError
from bdkn.networks import MIN_VARIANCE, initial_networks
from bdkn.training.job import Hook, Job, Trained
from bdkn.training.progress import Progress
from bdkn.training.rows import Batches, RowNumbers, Streams, TrainingTable
from bdkn.training.torch_models import CHUNK_ROWS, Model, ModuleModel, StackedModel
from bdkn.typing import Array, Float32Array

Loss = Callable[[Tensor, Tensor], Tensor]
"""Outputs and targets to the loss of each row."""


@dataclass(frozen=True)
class Table:
    """All rows on the device, a weight for each."""

    X: Tensor
    y: Tensor
    weight: Tensor

    @classmethod
    def of(cls, rows: TrainingTable, device: str | torch.device, dtype: str) -> Table:
        """Bring rows to the device; where they have no weights, each weighs 1."""
        like = _probe(device, getattr(torch, dtype))
        X, y, w = (torch.tensor(array).to(like) for array in (rows.X, rows.y, rows.weights))
        return cls(X, y, w)

    def __getitem__(self, rows: Tensor) -> Table:
        return Table(self.X[rows], self.y[rows], self.weight[rows])

    def row_numbers(self, rows: RowNumbers) -> Tensor:
        """Bring row numbers to the device."""
        return torch.tensor(rows, dtype=torch.long, device=self.y.device)


def train_stacked(jobs: Sequence[Job], table: Table, progress: Progress) -> Trained:
    """Train the library's networks side by side."""
    streams = [Streams.of(job.seed) for job in jobs]
    networks = initial_networks(jobs[0].spec, [stream.initial for stream in streams])
    return _fit(StackedModel(networks, table.y), table, jobs, streams, progress)


def train_modules(
    make: Callable[[int], nn.Module],
    table: Table,
    jobs: Sequence[Job],
    watch: Float32Array | None,
    on_epoch: Hook | None,
) -> Trained:
    """Train modules of the user's one after the other."""
    modules: list[nn.Module] = []
    runs: list[Trained] = []
    for number, job in enumerate(jobs):
        stream = Streams.of(job.seed)
        # Dropout and the like draw from torch's global generators, so these are the member's own while it trains.
        with torch.random.fork_rng(devices=[table.y.device] if table.y.is_cuda else []):
            torch.manual_seed(int(stream.initial.integers(2**63)))
            modules.append(_make(make, table, modules))
            progress = Progress([number], job.config, watch, on_epoch)
            runs.append(_fit(ModuleModel(modules[-1]), table, [job], [stream], progress))
    return Trained.join(runs)


def row_losses(objective: str, beta: float, outputs: Tensor, y: Tensor) -> Tensor:
    """Return the loss of each row; the formulas are those of ``bdkn.training.objective``."""
    mean, raw = outputs.unbind(-1)
    squared = (mean - y) ** 2
    if objective == "mse":
        return squared / 2
    # Above its threshold torch takes softplus for the identity; its default of 20 would show in double precision.
    v = functional.softplus(raw, threshold=40) + MIN_VARIANCE
    loss = (v.log() + squared / v) / 2
    return loss if objective == "nll" else loss * v.detach() ** beta


def _fit(model: Model, table: Table, jobs: Sequence[Job], streams: Sequence[Streams], progress: Progress) -> Trained:
    config, batches = jobs[0].config, Batches(jobs, streams, len(table.y))
    rates = config.learning_rates(config.epochs * len(batches))
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=config.weight_decay)
    held_out = table.row_numbers(batches.held_out)
    for epoch in progress:
        batches.shuffle()
        loss = partial(row_losses, config.objective_at(epoch), config.beta)
        order = torch.split(table.row_numbers(batches.order), config.batch_size, 1)
        losses = _epoch(model, optimizer, rates, table, order, loss)
        validation = _validation_loss(model, table, held_out, partial(row_losses, config.objective, config.beta))
        keep = progress.record(epoch, losses, validation, model.outputs)
        if keep.any():
            model.remember(keep)
    return progress.trained(model.remembered())


def _epoch(
    model: Model,
    optimizer: torch.optim.Optimizer,
    rates: Iterator[float],
    table: Table,
    batches: Sequence[Tensor],
    loss: Loss,
) -> Array:
    """Take one step a batch; return the mean loss of the epoch as it was seen before each step, (H,)."""
    model.train(True)
    totals = []
    for rows in batches:
        batch = table[rows]
        total = (batch.weight * loss(model.forward(batch.X), batch.y)).sum(dim=1)
        optimizer.zero_grad()
        # Members share no weights, so the gradient of the sum is each member's own.
        torch.autograd.backward(total.sum() / rows.shape[1])
        optimizer.param_groups[0]["lr"] = next(rates)
        optimizer.step()
        totals.append(total.detach())
    return _mean(totals, batches)


@torch.no_grad()
def _validation_loss(model: Model, table: Table, held_out: Tensor, loss: Loss) -> Array | None:
    """Return the mean loss of the held-out rows, (H,), or nothing where there are none."""
    if held_out.numel() == 0:
        return None
    model.train(False)
    chunks = torch.split(held_out, CHUNK_ROWS, 1)
    parts = (table[rows] for rows in chunks)
    return _mean([(part.weight * loss(model.forward(part.X), part.y)).sum(dim=1) for part in parts], chunks)


def _mean(totals: Sequence[Tensor], batches: Sequence[Tensor]) -> Array:
    mean: Array = torch.stack(list(totals)).sum(dim=0).numpy(force=True) / sum(rows.shape[1] for rows in batches)
    return mean


def _make(make: Callable[[int], nn.Module], table: Table, earlier: Sequence[nn.Module]) -> nn.Module:
    if isinstance(make, nn.Module):
        raise InvalidParameterError(
            "module must be a function that makes a network, since each member needs its own; got a network itself; "
            "try lambda n_inputs: torch.nn.Sequential(torch.nn.Linear(n_inputs, 50), torch.nn.ReLU(), "
            "torch.nn.Linear(50, 2))"
        )
    module = make(table.X.shape[1])
    if not isinstance(module, nn.Module):
        raise InvalidParameterError(f"module must be a function that returns a torch.nn.Module; it returned {module!r}")
    if any(module is other for other in earlier):
        raise InvalidParameterError(
            "module must be a function that returns a new torch.nn.Module each time; it returned the same one twice; "
            "make the network inside the function"
        )
    return module.to(table.y)


def _probe(device: str | torch.device, dtype: torch.dtype) -> Tensor:
    """Return an empty tensor of that device and dtype, for others to be made like it."""
    try:
        return torch.empty(0, device=device, dtype=dtype)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidParameterError(
            f"device must be one that this PyTorch can use; got {str(device)!r} ({reason}); try 'cpu'"
        ) from error
