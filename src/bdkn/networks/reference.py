"""The reference engine: training in plain NumPy. All other engines give the same networks up to rounding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from bdkn.data.rows import Rows
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
    TrainingConfig,
    TrainingTable,
    consecutive,
    train_in_groups,
)
from bdkn.networks.mlp import Networks, Trained, initial_networks
from bdkn.networks.spec import ACTIVATIONS, NUMPY, Layer
from bdkn.typing import Array, BoolArray, Float32Array

Layers = tuple[Layer, ...]

_CHUNK_ROWS = 4096
"""Number of validation rows that are predicted at once."""


@dataclass(frozen=True)
class State:
    """State of training: weights, Adam's moving averages of gradients and of squared gradients, and number of steps."""

    layers: Layers
    m: Layers
    v: Layers
    steps: int = 0

    @classmethod
    def start(cls, layers: Layers) -> State:
        """Return the state of training before the first step, with these initial weights."""
        zeros = tuple((np.zeros_like(W), np.zeros_like(b)) for W, b in layers)
        return cls(layers, zeros, zeros)


def forward(activation: str, layers: Layers, X: Array) -> tuple[list[Array], list[Array]]:
    """Return each layer's x (J, B, n_in) and W·x + b (J, B, n_out) for B rows of J networks; the last is the output."""
    inputs: list[Array] = [X]
    z: list[Array] = []
    for W, b in layers:
        z.append(inputs[-1] @ W.mT + b[:, None])
        inputs.append(ACTIVATIONS[activation].value(z[-1]))
    return inputs[:-1], z


def backward(activation: str, layers: Layers, inputs: Sequence[Array], z: Sequence[Array], d_outputs: Array) -> Layers:
    """Return the gradients with respect to all W and b, given the gradient with respect to the outputs."""
    gradients: list[Layer] = []
    d_z = d_outputs
    for i in reversed(range(len(layers))):
        gradients.append((d_z.mT @ inputs[i], d_z.sum(axis=1)))
        if i > 0:
            d_z = (d_z @ layers[i][0]) * ACTIVATIONS[activation].slope(NUMPY, z[i - 1])
    return tuple(reversed(gradients))


def loss_and_gradients(
    activation: str, layers: Layers, batch: TrainingTable, objective: Objective
) -> tuple[Array, Layers]:
    """Return each network's weighted sum of the losses of a batch (J,), and the gradients of sum / number of rows."""
    inputs, z = forward(activation, layers, batch.X)
    loss, gradient = objective.loss_and_gradient(NUMPY, z[-1], batch.y)
    d_outputs = gradient * (batch.weights / batch.y.shape[1])[..., None]
    return (batch.weights * loss).sum(axis=1), backward(activation, layers, inputs, z, d_outputs)


def adam_step(state: State, gradients: Layers, rate: float, weight_decay: float) -> State:
    """Take a step of Adam (Kingma & Ba, 2015) with decoupled weight decay (Loshchilov & Hutter, 2019)."""
    t = state.steps + 1
    m = _map(lambda m, g: BETA_1 * m + (1 - BETA_1) * g, state.m, gradients)
    v = _map(lambda v, g: BETA_2 * v + (1 - BETA_2) * g * g, state.v, gradients)
    m_hat = _map(lambda m: m / (1 - BETA_1**t), m)
    v_hat = _map(lambda v: v / (1 - BETA_2**t), v)
    layers = _map(
        lambda p, m, v: p * (1 - rate * weight_decay) - rate * m / (np.sqrt(v) + EPSILON), state.layers, m_hat, v_hat
    )
    return State(layers, m, v, t)


@dataclass(frozen=True)
class ReferenceEngine:
    """Engine that trains networks in NumPy, together if they have equal architecture, parameters and number of rows."""

    dtype: DTypeLike = np.float32

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
        table = TrainingTable.of(rows, jobs).astype(self.dtype)

        def train(numbers: Sequence[int]) -> Trained:
            progress = Progress(numbers, jobs[numbers[0]].config, watch, on_epoch)
            return self._train([jobs[number] for number in numbers], table, progress)

        def key(job: Job) -> tuple[object, ...]:
            return job.spec, job.config, len(rows) if job.rows is None else len(job.rows)

        return train_in_groups(jobs, key, train)

    def _train(self, jobs: Sequence[Job], table: TrainingTable, progress: Progress) -> Trained:
        """Train jobs together that differ only in their seeds and row numbers."""
        spec, config, own = jobs[0].spec, jobs[0].config, [JobRows.of(job, len(table.y)) for job in jobs]
        batches = Batches(own, config.batch_size)
        start = initial_networks(spec, [rows.streams.initial for rows in own])
        state = State.start(_map(lambda p: p.astype(self.dtype), start.layers))
        kept = state.layers
        for epoch in progress:
            batches.shuffle()
            state, losses = _epoch(spec.activation, state, table, batches, config, config.objective_in(epoch))
            validation = _validation_loss(spec.activation, state.layers, table, batches.held_out, config)
            improved = progress.record(epoch, losses, validation, Networks(spec, state.layers).outputs)
            kept = chosen_layers(improved, state.layers, kept)
        return progress.trained(Networks(spec, kept))


def chosen_layers(chosen: BoolArray, new: Layers, old: Layers) -> Layers:
    """Return, for each network, the weights of ``new`` if the network is chosen, else the weights of ``old``."""

    def choose(a: Array, b: Array) -> Array:
        return np.where(chosen.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return _map(choose, new, old)


@np.errstate(all="ignore")  # networks that diverge are removed after training
def _epoch(
    activation: str,
    state: State,
    data: TrainingTable,
    batches: Batches,
    config: TrainingConfig,
    objective: Objective,
) -> tuple[State, Array]:
    """Train for one epoch; return the new state and each network's mean loss (J,), computed before each step."""
    total, steps = np.zeros(len(batches.order)), config.epochs * len(batches)
    for rows in batches:
        losses, gradients = loss_and_gradients(activation, state.layers, data[rows], objective)
        rate = config.learning_rate_at(state.steps, steps)
        state = adam_step(state, gradients, float(rate), config.weight_decay)
        total += losses
    mean: Array = total / batches.n_train
    return state, mean


@np.errstate(all="ignore")
def _validation_loss(
    activation: str, layers: Layers, data: TrainingTable, held_out: RowNumbers, config: TrainingConfig
) -> Array | None:
    """Return each network's mean loss on its validation rows, (J,); None if there are no validation rows."""
    if held_out.size == 0:
        return None
    total: Array = np.zeros(len(held_out))
    for rows in consecutive(held_out, _CHUNK_ROWS):
        part = data[rows]
        outputs = forward(activation, layers, part.X)[1][-1]
        loss, _ = config.main_objective.loss_and_gradient(NUMPY, outputs, part.y)
        total += (part.weights * loss).sum(axis=1)
    mean: Array = total / held_out.shape[1]
    return mean


def _map(function: Callable[..., Array], *stacks: Layers) -> Layers:
    """Return layers (W, b) computed by ``function`` from the W, or the b, of this layer in each of ``stacks``."""
    return tuple(
        (function(*(W for W, _ in layer)), function(*(b for _, b in layer))) for layer in zip(*stacks, strict=True)
    )
