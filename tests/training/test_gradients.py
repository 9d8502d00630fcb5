"""Backpropagation and Adam against slow computations and PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from make_jobs import start_networks
from numpy.typing import NDArray

from bdkn.networks import ACTIVATIONS, OBJECTIVES, NetworkSpec
from bdkn.networks.job import TrainingTable, get_objective
from bdkn.networks.reference import Layers, State, adam_step, loss_and_gradients
from bdkn.networks.spec import NUMPY

Array = NDArray[np.float64]
MEMBERS, BETA = 2, 0.7

PLAIN: dict[str, Callable[[Array], Array]] = {
    "relu": lambda z: (z + abs(z)) / 2,
    "leaky_relu": lambda z: np.where(z < 0, z / 100, z),
    "tanh": lambda z: 1 - 2 / (np.exp(2 * z) + 1),
    "silu": lambda z: z / (1 + np.exp(-z)),
}


def problem(spec: NetworkSpec, rows: int, weighted: bool = True) -> tuple[Layers, TrainingTable]:
    rng = np.random.default_rng(11)
    networks, _ = start_networks(spec, np.random.SeedSequence(1).spawn(MEMBERS))
    layers = tuple((W.astype(float), b.astype(float)) for W, b in networks.layers)
    weight = rng.uniform(0.1, 3, (MEMBERS, rows)) if weighted else np.ones((MEMBERS, rows))
    return layers, TrainingTable(
        rng.normal(size=(MEMBERS, rows, spec.n_inputs)), rng.normal(size=(MEMBERS, rows)), weight
    )


def outputs(activation: str, layers: Layers, h: int, x: Array) -> tuple[float, float]:
    """Return the mean and the variance of one row."""
    value = x
    for W, b in layers[:-1]:
        value = PLAIN[activation](W[h] @ value + b[h])
    mean, raw = layers[-1][0][h] @ value + layers[-1][1][h]
    return mean, np.log(1 + np.exp(raw)) + 1e-6


def batch_loss(activation: str, layers: Layers, batch: TrainingTable, objective: str, held: Layers) -> Array:
    """Return Σ w l / B of each member, row by row; ``held`` gives the constant factor of beta_nll."""
    total = np.zeros(MEMBERS)
    for h in range(MEMBERS):
        for x, y, w in zip(batch.X[h], batch.y[h], batch.weights[h], strict=True):
            mean, v = outputs(activation, layers, h, x)
            loss = {"mse": (y - mean) ** 2 / 2}.get(objective, np.log(v) / 2 + (y - mean) ** 2 / (2 * v))
            factor = outputs(activation, held, h, x)[1] ** BETA if objective == "beta_nll" else 1
            total[h] += w * loss * factor / len(batch.y[h])
    return total


def central_differences(
    activation: str, layers: Layers, batch: TrainingTable, objective: str, step: float = 1e-6
) -> Layers:
    """Return central differences; a parameter is changed in all members at once, since they share none."""
    moved = tuple((W.copy(), b.copy()) for W, b in layers)
    gradients = tuple((np.empty_like(W), np.empty_like(b)) for W, b in layers)
    for parts, slopes in zip(moved, gradients, strict=True):
        for part, into in zip(parts, slopes, strict=True):
            for index in np.ndindex(part.shape[1:]):
                at = (slice(None), *index)
                centre = part[at].copy()
                part[at] = centre + step
                above = batch_loss(activation, moved, batch, objective, layers)
                part[at] = centre - step
                into[at] = (above - batch_loss(activation, moved, batch, objective, layers)) / (2 * step)
                part[at] = centre
    return gradients


def check(spec: NetworkSpec, objective: str, rows: int, weighted: bool = True) -> None:
    layers, batch = problem(spec, rows, weighted)
    losses, gradients = loss_and_gradients(spec.activation, layers, batch, get_objective(objective, BETA))
    expected = batch_loss(spec.activation, layers, batch, objective, layers)
    np.testing.assert_allclose(losses / rows, expected, rtol=1e-12)
    slow = central_differences(spec.activation, layers, batch, objective)
    for (W, b), (W_slow, b_slow) in zip(gradients, slow, strict=True):
        np.testing.assert_allclose(W, W_slow, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(b, b_slow, rtol=1e-6, atol=1e-8)
    assert max(abs(W).max() for W, _ in gradients) > 1e-2


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradients_are_central_differences(activation: str, objective: str) -> None:
    check(NetworkSpec(n_inputs=3, hidden=(4, 3), activation=activation), objective, rows=5)


@pytest.mark.parametrize("hidden", [(), (4,), (4, 3), (4, 3, 4)])
def test_gradients_at_every_depth(hidden: tuple[int, ...]) -> None:
    check(NetworkSpec(n_inputs=2, hidden=hidden, activation="tanh"), "nll", rows=4)


@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_of_every_batch_size(rows: int, weighted: bool) -> None:
    check(NetworkSpec(n_inputs=2, hidden=(3,), activation="silu"), "beta_nll", rows, weighted)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_objective_is_what_torch_differentiates(objective: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    y = rng.normal(size=200)
    mean, raw = (torch.tensor(rng.normal(size=200) * spread, requires_grad=True) for spread in (1, 8))
    v = torch.logaddexp(raw, torch.zeros_like(raw)) + 1e-6
    if objective == "mse":
        loss = 0.5 * (mean - torch.tensor(y)) ** 2 + 0 * raw
    else:
        # Without its constant log √2π.
        loss = -torch.distributions.Normal(mean, v.sqrt()).log_prob(torch.tensor(y)) - 0.5 * np.log(2 * np.pi)
    if objective == "beta_nll":
        loss = loss * v.detach() ** BETA
    loss.sum().backward()
    outputs = torch.stack([mean, raw], dim=-1).detach().numpy()
    ours = get_objective(objective, BETA).loss_and_gradient(NUMPY, outputs, y)
    for mine, theirs in zip(ours, (loss.detach(), torch.stack([mean.grad, raw.grad], dim=-1)), strict=True):
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_are_those_of_torch(activation: str, dtype: type[np.floating]) -> None:
    torch = pytest.importorskip("torch")
    layers, batch = problem(NetworkSpec(n_inputs=5, hidden=(20, 20), activation=activation), rows=32)
    layers = tuple((W.astype(dtype), b.astype(dtype)) for W, b in layers)
    batch = TrainingTable(batch.X.astype(dtype), batch.y.astype(dtype), batch.weights.astype(dtype))
    _, gradients = loss_and_gradients(activation, layers, batch, get_objective("nll", BETA))
    assert all(part.dtype == dtype for layer in gradients for part in layer)
    for h in range(MEMBERS):
        leaves = [[torch.tensor(part[h], requires_grad=True) for part in layer] for layer in layers]
        value = torch.tensor(batch.X[h])
        for i, (W, b) in enumerate(leaves):
            value = torch.nn.functional.linear(value, W, b)
            value = getattr(torch.nn.functional, activation)(value) if i < 2 else value
        variance = torch.nn.functional.softplus(value[:, 1]) + 1e-6
        loss = torch.nn.functional.gaussian_nll_loss(
            value[:, 0], torch.tensor(batch.y[h]), variance, reduction="none", eps=1e-9
        )
        (torch.tensor(batch.weights[h]) * loss).mean().backward()
        tolerance = 2e-5 if dtype == np.float32 else 1e-12
        for layer, theirs in zip(gradients, leaves, strict=True):
            for mine, leaf in zip(layer, theirs, strict=True):
                np.testing.assert_allclose(mine[h], leaf.grad.numpy(), rtol=tolerance, atol=tolerance / 10)


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_adam_steps_are_those_of_torch(weight_decay: float, dtype: type[np.floating]) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    state = State.start(((rng.normal(size=(2, 3, 4)).astype(dtype), rng.normal(size=(2, 3)).astype(dtype)),))
    leaves = [torch.tensor(part) for part in state.layers[0]]
    optimizer = torch.optim.AdamW(leaves, weight_decay=weight_decay) if weight_decay else torch.optim.Adam(leaves)
    for _ in range(60):
        rate, size = rng.uniform(1e-4, 1e-2), 10 ** rng.uniform(-9, 3)
        W, b = (np.asarray(size * rng.normal(size=part.shape), dtype=dtype) for part in state.layers[0])
        state = adam_step(state, ((W, b),), rate, weight_decay)
        leaves[0].grad, leaves[1].grad = torch.tensor(W), torch.tensor(b)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
    assert state.steps == 60
    for mine, theirs in zip(state.layers[0], leaves, strict=True):
        assert mine.dtype == dtype
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-5 if dtype == np.float32 else 1e-12, atol=1e-6)
