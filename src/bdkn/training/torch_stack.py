"""Rows and stacked networks as PyTorch tensors: forward and backward pass, and Adam.

Gradients are written out, as in ``bdkn.training.reference``; a bias is one more column of its layer's weight matrix,
whose input is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise

import numpy as np
import torch
from torch import Tensor

from bdkn.errors import InvalidParameterError
from bdkn.networks import ACTIVATIONS, Networks, NetworkSpec, Predictor, join
from bdkn.networks.activation import Activation
from bdkn.networks.functions import torch_functions
from bdkn.training.config import BETA_1, BETA_2, EPSILON
from bdkn.training.job import Job
from bdkn.training.rows import TrainingTable
from bdkn.typing import Array

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
