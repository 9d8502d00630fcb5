"""Whole epochs of one network in compiled code: no Python, and no lock of its interpreter, between the steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bdkn.kernels.compiled import compiled, compiled_without_counts
from bdkn.kernels.copy import copy_row
from bdkn.kernels.transpose import transpose
from bdkn.networks.compiled import CACHE_LINE, INPUT, N_IN, Floats, Table, forward
from bdkn.training.fused.adam import NO_UPDATE, Update, update_at, update_lines
from bdkn.training.fused.layout import INPUT_T, LD_BATCH, LD_INPUT_T, N_PARAMETERS, PARAMETERS, ROW_WEIGHTS, TARGETS
from bdkn.training.fused.step import MSE, backward, forward_for_training, loss
from bdkn.training.rows import shuffle

EPOCH, STEP, BEST_EPOCH, STOPPED = range(4)


class Data(NamedTuple):
    """The rows of one job: the whole table, and the numbers of the rows for training and for validation."""

    X: Floats
    y: Floats
    weight: Floats
    order: NDArray[np.int32]
    validation: NDArray[np.int32]


class Settings(NamedTuple):
    """The training configuration as numbers."""

    activation: int
    objective: int
    beta: float
    warmup: int
    epochs: int
    batch: int
    rate: float
    cosine: bool
    weight_decay: float
    patience: int
    tol: float


class State(NamedTuple):
    """All that changes while a network trains; training can pause and continue from it."""

    mem: Floats
    layers: Table
    places: Table
    best: Floats
    clock: NDArray[np.int64]
    random: NDArray[np.uint64]
    score: NDArray[np.float64]
    losses: NDArray[np.float64]
    validation_losses: NDArray[np.float64]


@compiled
def update_and_load(
    mem: Floats, layers: Table, places: Table, update: Update, data: Data, rows: NDArray[np.int32]
) -> None:
    """Update the parameters, and copy a batch into the workspace, once row by row and once feature by feature.

    A row is copied beside every few lines of parameters, while the processor divides.
    """
    X, y, given, n = data.X, data.y, data.weight, len(rows)
    n_in, ld, into = layers[0, N_IN], layers[0, LD_INPUT_T], layers[0, INPUT_T]
    target, weight = mem[places[TARGETS] :][:n], mem[places[ROW_WEIGHTS] :][:n]
    first, stop = 0, update.n_parameters
    share = -(-stop // max(n, 1) // CACHE_LINE) * CACHE_LINE
    for b in range(n):
        row = rows[b]
        copy_row(mem, into + b * ld, X, row)
        target[b] = y[row]
        if len(given) > 0:
            weight[b] = given[row]
        first = update_lines(mem, update, first, min(first + share, stop))
    transpose(mem, into, ld, layers[0, INPUT], places[LD_BATCH], n, n_in + 1)
    update_lines(mem, update, first, stop)


@compiled
def rate_at(settings: Settings, step: int, steps: int) -> float:
    """Return the learning rate of a step out of ``steps``."""
    return settings.rate * (0.5 * (1 + np.cos(np.pi * step / steps)) if settings.cosine else 1.0)


@compiled
def epoch_loss(state: State, data: Data, settings: Settings, objective: int) -> float:
    """Take one step per batch, rows in a new order; return the mean loss, that of each batch before its step."""
    state.random[0] = shuffle(data.order, state.random[0])
    mem, layers, places, n, batch = state.mem, state.layers, state.places, len(data.order), settings.batch
    steps = settings.epochs * ((n + batch - 1) // batch)
    total = 0.0
    update_and_load(mem, layers, places, NO_UPDATE, data, data.order[:batch])
    for start in range(0, n, batch):
        rows, rate = min(batch, n - start), rate_at(settings, state.clock[STEP], steps)
        state.clock[STEP] += 1
        update = update_at(places, state.clock[STEP], rate, settings.weight_decay)
        forward_for_training(mem, layers, places, settings.activation, rows)
        total += loss(mem, layers, places, rows, objective, settings.beta)
        backward(mem, layers, places, settings.activation, rows)
        update_and_load(mem, layers, places, update, data, data.order[start + batch : start + 2 * batch])
    return total / n


@compiled
def validation_loss(state: State, data: Data, settings: Settings) -> float:
    """Return the mean loss on the validation rows."""
    n, total, ld, weights = len(data.validation), 0.0, state.places[LD_BATCH], state.places[PARAMETERS]
    for start in range(0, n, settings.batch):
        rows = data.validation[start : min(start + settings.batch, n)]
        update_and_load(state.mem, state.layers, state.places, NO_UPDATE, data, rows)
        forward(state.mem, state.layers, ld, state.mem, weights, settings.activation, len(rows))
        total += loss(state.mem, state.layers, state.places, len(rows), settings.objective, settings.beta)
    return total / n


@compiled
def keep_or_stop(state: State, epoch: int, loss: float, settings: Settings) -> None:
    """Keep the weights if they are the best so far; stop if none has been better for too long."""
    if loss < state.score[0] - settings.tol:
        state.score[0], state.clock[BEST_EPOCH] = loss, epoch
        for i in range(state.places[N_PARAMETERS]):
            state.best[i] = state.mem[i]
    elif epoch - state.clock[BEST_EPOCH] >= settings.patience:
        state.clock[STOPPED] = 1


@compiled_without_counts
def train(state: State, data: Data, settings: Settings, until: int) -> None:
    """Train up to epoch ``until`` or until the validation loss no longer falls."""
    while state.clock[EPOCH] < until and state.clock[STOPPED] == 0:
        epoch = state.clock[EPOCH]
        objective = MSE if epoch < settings.warmup else settings.objective
        state.losses[epoch] = epoch_loss(state, data, settings, objective)
        state.clock[EPOCH] += 1
        if len(data.validation) > 0:
            state.validation_losses[epoch] = validation_loss(state, data, settings)
            if epoch >= settings.warmup:
                keep_or_stop(state, epoch, state.validation_losses[epoch], settings)
