"""Training written to be read: plain NumPy, all members stacked. Every other engine equals this one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import DTypeLike

from bdkn.networks import Networks, NetworkSpec
from bdkn.networks.activation import activate, slope
from bdkn.networks.exact import Layer
from bdkn.training.batches import Batches, RowNumbers, consecutive
from bdkn.training.config import BETA_1, BETA_2, EPSILON, TrainingConfig
from bdkn.training.engine import Hook, Rows, Trained, one_by_one, start_networks
from bdkn.training.objective import loss_and_gradient
from bdkn.training.progress import Progress, take_over
from bdkn.training.schedule import learning_rates
from bdkn.typing import Array, Float32Array

Layers = tuple[Layer, ...]

_CHUNK_ROWS = 4096
"""Held-out rows a forward pass takes at once."""


@dataclass(frozen=True)
class Data:
    """All rows in the precision of training, a weight for each."""

    X: Array
    y: Array
    weight: Array

    @classmethod
    def of(cls, rows: Rows, dtype: DTypeLike) -> Data:
        """Convert rows; where they have no weights, each weighs 1."""
        weight = np.ones_like(rows.y) if rows.weight is None else rows.weight
        return cls(rows.X.astype(dtype), rows.y.astype(dtype), weight.astype(dtype))

    def __getitem__(self, rows: RowNumbers) -> Data:
        return Data(self.X[rows], self.y[rows], self.weight[rows])


@dataclass(frozen=True)
class State:
    """The weights of all members, Adam's running mean and mean square of their gradients, and the steps taken."""

    layers: Layers
    m: Layers
    v: Layers
    steps: int = 0

    @classmethod
    def start(cls, layers: Layers) -> State:
        """Begin with moments of zero."""
        zeros = tuple((np.zeros_like(W), np.zeros_like(b)) for W, b in layers)
        return cls(layers, zeros, zeros)


def forward(activation: str, layers: Layers, X: Array) -> tuple[list[Array], list[Array]]:
    """Return the inputs (H, B, n_in) and pre-activations (H, B, n_out) of every layer; the last are the outputs."""
    inputs: list[Array] = [X]
    z: list[Array] = []
    for W, b in layers:
        z.append(inputs[-1] @ W.mT + b[:, None])
        inputs.append(activate(activation, z[-1]))
    return inputs[:-1], z


def backward(activation: str, layers: Layers, inputs: Sequence[Array], z: Sequence[Array], d_outputs: Array) -> Layers:
    """Return the gradient by every W and b, given the gradient by the outputs."""
    gradients: list[Layer] = []
    d_z = d_outputs
    for i in reversed(range(len(layers))):
        gradients.append((d_z.mT @ inputs[i], d_z.sum(axis=1)))
        if i > 0:
            d_z = (d_z @ layers[i][0]) * slope(activation, z[i - 1])
    return tuple(reversed(gradients))


def loss_and_gradients(
    activation: str, layers: Layers, batch: Data, objective: str, beta: float
) -> tuple[Array, Layers]:
    """Return each member's summed loss Σ wᵢ lᵢ (H,), and the gradients of Σ wᵢ lᵢ / B."""
    inputs, z = forward(activation, layers, batch.X)
    loss, d_mean, d_raw = loss_and_gradient(objective, beta, z[-1][..., 0], z[-1][..., 1], batch.y)
    d_outputs = np.stack([d_mean, d_raw], axis=-1) * (batch.weight / batch.y.shape[1])[..., None]
    return (batch.weight * loss).sum(axis=1), backward(activation, layers, inputs, z, d_outputs)


def adam_step(state: State, gradients: Layers, rate: float, weight_decay: float) -> State:
    """Shrink all weights by rate · weight_decay (Loshchilov & Hutter, 2019), then step (Kingma & Ba, 2015)."""
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
    """All members side by side in NumPy, on one core."""

    dtype: DTypeLike = np.float32

    def train(
        self,
        spec: NetworkSpec,
        rows: Rows,
        config: TrainingConfig,
        seeds: Sequence[np.random.SeedSequence],
        *,
        n_jobs: int | None = None,
        watch: Float32Array | None = None,
        on_epoch: Hook | None = None,
    ) -> Trained:
        """Train one network a seed; ``n_jobs`` is not used."""
        return one_by_one(partial(self._train, spec, config, watch), rows, seeds, on_epoch)

    def _train(
        self,
        spec: NetworkSpec,
        config: TrainingConfig,
        watch: Float32Array | None,
        rows: Rows,
        seeds: Sequence[np.random.SeedSequence],
        on_epoch: Hook | None,
    ) -> Trained:
        networks, streams = start_networks(spec, seeds)
        data, batches = Data.of(rows, self.dtype), Batches(streams, len(rows.y), config)
        rates = learning_rates(config, config.epochs * len(batches))
        state = State.start(_map(lambda p: p.astype(self.dtype), networks.layers))
        kept = Networks(spec, state.layers)
        progress = Progress(range(len(seeds)), config, watch, on_epoch)
        for epoch in progress:
            batches.shuffle()
            state, losses = _epoch(spec.activation, state, data, batches, rates, config, config.objective_at(epoch))
            validation = _validation_loss(spec.activation, state.layers, data, batches.held_out, config)
            current = Networks(spec, state.layers)
            kept = take_over(progress.record(epoch, losses, validation, current.outputs), current, kept)
        return progress.trained(kept)


@np.errstate(all="ignore")  # a member that diverges carries its infinities along and is dealt with after training
def _epoch(
    activation: str,
    state: State,
    data: Data,
    batches: Batches,
    rates: Iterator[float],
    config: TrainingConfig,
    objective: str,
) -> tuple[State, Array]:
    """Take one step a batch; return the mean loss of the epoch as it was seen before each step, (H,)."""
    total: Array = np.zeros(len(batches.order))
    for rows in batches:
        losses, gradients = loss_and_gradients(activation, state.layers, data[rows], objective, config.beta)
        state = adam_step(state, gradients, next(rates), config.weight_decay)
        total += losses
    return state, total / batches.n_train


@np.errstate(all="ignore")
def _validation_loss(
    activation: str, layers: Layers, data: Data, held_out: RowNumbers, config: TrainingConfig
) -> Array | None:
    """Return the mean loss of the held-out rows, (H,), or nothing where there are none."""
    if held_out.size == 0:
        return None
    total: Array = np.zeros(len(held_out))
    for rows in consecutive(held_out, _CHUNK_ROWS):
        part = data[rows]
        outputs = forward(activation, layers, part.X)[1][-1]
        loss, *_ = loss_and_gradient(config.objective, config.beta, outputs[..., 0], outputs[..., 1], part.y)
        total += (part.weight * loss).sum(axis=1)
    mean: Array = total / held_out.shape[1]
    return mean


def _map(function: Callable[..., Array], *stacks: Layers) -> Layers:
    """Apply a function to each weight array, taken from all stacks at once."""
    return tuple(
        (function(*(W for W, _ in layer)), function(*(b for _, b in layer))) for layer in zip(*stacks, strict=True)
    )
