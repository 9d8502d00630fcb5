"""The fused engine: the whole training of a network in compiled code.

The weights of a network, their gradients and Adam moments, and the activations of one batch share one float32 array of
about 100 KB, which stays in the cache of the core from the first step to the last. The forward pass has the layout of
``bdkn.networks.compiled``.

An update of weights needs a division and a square root per weight, while other units of the processor are idle.
Therefore updates alternate with copies of rows, which do not divide, a few cache lines at a time.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from bdkn.data.rows import Rows
from bdkn.errors import InvalidParameterError
from bdkn.kernels import dense
from bdkn.kernels.code_cache import announce, compiled, compiled_without_counts, inlined, intrinsic
from bdkn.kernels.dense import F32, I64
from bdkn.networks.compiled import (
    CACHE_LINE,
    INPUT,
    LAYER_FIELDS,
    LD_WEIGHTS,
    N_IN,
    N_OUT,
    OUTPUT,
    RELU,
    TALLEST_OUT,
    WEIGHTS,
    Floats,
    Table,
    activate_with_slopes,
    affine,
    forward,
    layer_table,
    outputs_of,
    packing_of,
)
from bdkn.networks.job import (
    BETA_1,
    BETA_2,
    EPSILON,
    OBJECTIVES,
    BetaNLL,
    EpochReport,
    GaussianNLL,
    Hook,
    Job,
    JobRows,
    RowNumbers,
    SquaredError,
    Streams,
    TrainingConfig,
    TrainingTable,
    threads,
)
from bdkn.networks.mlp import Trained, stacked
from bdkn.networks.spec import ACTIVATIONS, MEAN_VARIANCE, MIN_VARIANCE, NetworkSpec, multiple
from bdkn.typing import Array, Float32Array

TRAINING_FIELDS = LAYER_FIELDS + 4
INPUT_T, LD_INPUT_T, DELTA, TALLEST_IN = range(LAYER_FIELDS, TRAINING_FIELDS)
"""Additional columns of the table of layers for the backward pass: offset and row length of the transposed input;
offset of the gradient with respect to the output; index of the fastest tile height for the input gradient."""

PLACE_FIELDS = 8
PARAMETERS, FIRST_MOMENT, SECOND_MOMENT, GRADIENT, TARGETS, ROW_WEIGHTS, LD_BATCH, N_PARAMETERS = range(PLACE_FIELDS)
"""Entries of ``Layout.places``: offsets of arrays in the workspace, padded batch size, number of padded weights."""


class Layout(NamedTuple):
    """Layout of the array (workspace) for training a network: table of layers, other offsets, number of floats."""

    layers: Table
    places: Table
    size: int


@lru_cache(maxsize=16)
def layout_of(spec: NetworkSpec, batch: int) -> Layout:
    """Return the layout of the workspace for training a network in batches of at most ``batch`` rows."""
    n, ld = packing_of(spec).size, multiple(dense.padded(batch), CACHE_LINE)
    places = np.zeros(PLACE_FIELDS, dtype=np.int64)
    places[[PARAMETERS, FIRST_MOMENT, SECOND_MOMENT, GRADIENT]] = np.arange(4) * n
    places[[TARGETS, ROW_WEIGHTS]] = 4 * n + np.arange(2) * ld
    places[[LD_BATCH, N_PARAMETERS]] = ld, n
    layers, end = layer_table(spec, TRAINING_FIELDS), 4 * n + 2 * ld
    for line in layers:
        high = multiple(line[N_IN] + 1, CACHE_LINE)
        line[[INPUT, INPUT_T, LD_INPUT_T]] = end, end + high * ld, high
        line[TALLEST_IN] = dense.main_height(line[N_IN])
        end = line[INPUT_T] + line[LD_INPUT_T] * ld
        line[OUTPUT] = end
    end += CACHE_LINE * ld
    for line in layers:
        line[DELTA] = end
        end += line[N_OUT] * ld
    return Layout(layers, places, int(end))


f4 = np.float32

_TINY = 1e-30
"""Adam's moments below this value are set to zero, since computation with denormal numbers is slow."""

_LINE = ir.VectorType(F32, CACHE_LINE)


class Update(NamedTuple):
    """Parameters of a step of Adam: number of padded weights, learning rate, epsilon, and factor of weight decay."""

    n_parameters: int
    rate: f4
    epsilon: f4
    decay: f4


NO_UPDATE = Update(0, f4(0), f4(0), f4(0))


@compiled
def update_at(places: Table, step: int, rate: float, weight_decay: float) -> Update:
    """Return the parameters of Adam's step ``step`` (from 1); rate and epsilon include the bias corrections."""
    root = np.sqrt(1 - BETA_2**step)
    scaled, epsilon = f4(-rate * root / (1 - BETA_1**step)), f4(EPSILON * root)
    return Update(places[N_PARAMETERS], scaled, epsilon, f4(1 - rate * weight_decay))


@intrinsic
def _update_line(typing: Any, mem: Any, start: Any, n: Any, rate: Any, epsilon: Any, decay: Any) -> Any:
    """Update 16 weights (a cache line) at ``start`` by Adam; their moments and gradients are n, 2n and 3n floats on."""

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        def const(value: float) -> ir.Constant:
            return dense.constant(_LINE, float(f4(value)))

        def call(name: str, *operands: ir.Value) -> ir.Value:
            return dense.call_llvm(b, f"llvm.{name}.v{CACHE_LINE}f32", *operands)

        def without_tiny(moment: ir.Value, size: ir.Value) -> ir.Value:
            return b.select(b.fcmp_ordered("<", size, const(_TINY)), const(0), moment)

        data = context.make_array(signature.args[0])(context, b, args[0]).data
        offsets = [b.add(args[1], b.mul(args[2], ir.Constant(I64, i))) for i in range(4)]
        lines = [b.bitcast(b.gep(data, [o], inbounds=True, source_etype=F32), _LINE.as_pointer()) for o in offsets]
        rate, epsilon, decay = (dense.broadcast(b, factor, _LINE) for factor in args[3:])
        p, m, v, g = (b.load(line, align=4, typ=_LINE) for line in lines)
        first = call("fmuladd", const(BETA_1), m, b.fmul(const(1 - BETA_1), g))
        second = call("fmuladd", const(BETA_2), v, b.fmul(const(1 - BETA_2), b.fmul(g, g)))
        change = b.fmul(rate, b.fdiv(first, b.fadd(call("sqrt", second), epsilon)))
        moments = (without_tiny(first, call("fabs", first)), without_tiny(second, second))
        for line, value in zip(lines[:3], (call("fmuladd", p, decay, change), *moments), strict=True):
            b.store(value, line, align=4)
        return context.get_dummy_value()

    return types.void(mem, types.int64, types.int64, *[types.float32] * 3), codegen


@inlined
def update_lines(mem: Floats, update: Update, first: int, stop: int) -> int:
    """Update the weights from ``first`` to ``stop`` by Adam, in whole cache lines; return where the next one begins."""
    while first < stop:
        _update_line(mem, first, update.n_parameters, update.rate, update.epsilon, update.decay)
        first += CACHE_LINE
    return first


NLL, BETA_NLL, MSE = range(3)
"""Numbers of the objectives (losses) in compiled code."""


@compiled
def forward_for_training(mem: Floats, layers: Table, places: Table, activation: int, rows: int) -> None:
    """Compute the outputs for a batch, and for ``backward`` the transposed inputs and the slopes of activations."""
    ld, last = places[LD_BATCH], len(layers) - 1
    for index in range(last + 1):
        line = layers[index]
        if index < last and activation == RELU:
            dense.relu_product(
                mem, line[OUTPUT], ld, mem, places[PARAMETERS] + line[WEIGHTS], line[LD_WEIGHTS], 1, line[INPUT], ld,
                line[N_OUT], line[TALLEST_OUT], rows, line[N_IN] + 1,
            )  # fmt: skip
        else:
            affine(mem, line, ld, mem, places[PARAMETERS], rows)
            if index < last:
                activate_with_slopes(mem, line[OUTPUT], line[DELTA], line[N_OUT] * ld, activation)
        if index < last:
            after = layers[index + 1]
            dense.transpose(mem, after[INPUT], ld, after[INPUT_T], after[LD_INPUT_T], after[N_IN] + 1, rows)


@compiled
def _sum(values: Floats) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


@compiled
def loss(mem: Floats, layers: Table, places: Table, rows: int, objective: int, beta: float) -> float:
    """Return the weighted sum of the losses of a batch; write the gradient of sum / rows for the network's outputs.

    Each loss overwrites the target of its row; a second loop adds them: compilers do not vectorize a loop with a sum.
    """
    ld, out, delta = places[LD_BATCH], layers[-1, OUTPUT], layers[-1, DELTA]
    mean, raw = mem[out : out + rows], mem[out + ld : out + ld + rows]
    d_mean, d_raw = mem[delta : delta + rows], mem[delta + ld : delta + ld + rows]
    target = mem[places[TARGETS] : places[TARGETS] + rows]
    weight = mem[places[ROW_WEIGHTS] : places[ROW_WEIGHTS] + rows]
    share, power = f4(1 / rows), f4(beta)
    if objective == MSE:
        for i in range(rows):
            error = mean[i] - target[i]
            d_mean[i] = weight[i] * error * share
            d_raw[i] = f4(0)
            target[i] = weight[i] * (error * error) * f4(0.5)
        return _sum(target)
    for i in range(rows):
        error, r = mean[i] - target[i], raw[i]
        t = dense.exp(-abs(r))
        v = max(r, f4(0)) + dense.log1p(t) + f4(MIN_VARIANCE)
        log_v, inverse = dense.log(v), f4(1) / v
        z = error * inverse
        w = weight[i] * (dense.exp(power * log_v) if objective == BETA_NLL else f4(1))
        sigmoid = (f4(1) if r >= f4(0) else t) / (f4(1) + t)
        d_mean[i] = w * z * share
        d_raw[i] = w * (f4(1) - error * z) * inverse * f4(0.5) * sigmoid * share
        target[i] = w * (log_v + error * z) * f4(0.5)
    return _sum(target)


@compiled
def backward(mem: Floats, layers: Table, places: Table, activation: int, rows: int) -> None:
    """Write the gradients with respect to all weights to the workspace; activations are overwritten."""
    ld = places[LD_BATCH]
    for index in range(len(layers) - 1, -1, -1):
        line = layers[index]
        dense.product(
            mem, places[GRADIENT] + line[WEIGHTS], line[LD_WEIGHTS], mem, line[DELTA], ld, 1,
            line[INPUT_T], line[LD_INPUT_T], line[N_OUT], line[TALLEST_OUT], line[N_IN] + 1, rows,
        )  # fmt: skip
        if index > 0 and activation == RELU:
            dense.product_where_positive(
                mem, layers[index - 1, DELTA], ld, mem, places[PARAMETERS] + line[WEIGHTS], 1, line[LD_WEIGHTS],
                line[DELTA], ld, line[N_IN], line[TALLEST_IN], rows, line[N_OUT], line[INPUT],
            )  # fmt: skip
        elif index > 0:
            dense.product(
                mem, line[INPUT], ld, mem, places[PARAMETERS] + line[WEIGHTS], 1, line[LD_WEIGHTS], line[DELTA], ld,
                line[N_IN], line[TALLEST_IN], rows, line[N_OUT],
            )  # fmt: skip
            count, delta = line[N_IN] * ld, layers[index - 1, DELTA]
            slopes, by = mem[delta : delta + count], mem[line[INPUT] : line[INPUT] + count]
            for i in range(count):
                slopes[i] *= by[i]


EPOCH, STEP, BEST_EPOCH, STOPPED = range(4)
"""Entries of ``State.clock``: epochs and steps so far, best epoch, and 1 if training has stopped early."""


class Data(NamedTuple):
    """Rows for one network: the whole table, and the numbers of the network's training rows and validation rows."""

    X: Floats
    y: Floats
    weight: Floats
    order: NDArray[np.int32]
    validation: NDArray[np.int32]


class Settings(NamedTuple):
    """Training parameters of a network as numbers, for compiled code."""

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
    """State of the training of a network, from which training can continue."""

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
    """Update the weights, and copy a batch of rows into the workspace, once row by row and once feature by feature.

    Copies of rows alternate with updates of a few cache lines, since the processor can copy while it divides.
    """
    X, y, given, n = data.X, data.y, data.weight, len(rows)
    n_in, ld, into = layers[0, N_IN], layers[0, LD_INPUT_T], layers[0, INPUT_T]
    target, weight = mem[places[TARGETS] :][:n], mem[places[ROW_WEIGHTS] :][:n]
    first, stop = 0, update.n_parameters
    share = -(-stop // max(n, 1) // CACHE_LINE) * CACHE_LINE
    for b in range(n):
        row = rows[b]
        dense.copy_row(mem, into + b * ld, X, row)
        target[b] = y[row]
        if len(given) > 0:
            weight[b] = given[row]
        first = update_lines(mem, update, first, min(first + share, stop))
    dense.transpose(mem, into, ld, layers[0, INPUT], places[LD_BATCH], n, n_in + 1)
    update_lines(mem, update, first, stop)


@compiled
def epoch_loss(state: State, data: Data, settings: Settings, objective: int) -> float:
    """Train for one epoch, with the rows in a new random order; return the mean loss, computed before each step."""
    state.random[0] = dense.shuffle(data.order, state.random[0])
    mem, layers, places, n, batch = state.mem, state.layers, state.places, len(data.order), settings.batch
    steps = settings.epochs * ((n + batch - 1) // batch)
    total = 0.0
    update_and_load(mem, layers, places, NO_UPDATE, data, data.order[:batch])
    for start in range(0, n, batch):
        rows, rate = min(batch, n - start), settings.rate
        rate *= 0.5 * (1 + np.cos(np.pi * state.clock[STEP] / steps)) if settings.cosine else 1.0
        state.clock[STEP] += 1
        update = update_at(places, state.clock[STEP], rate, settings.weight_decay)
        forward_for_training(mem, layers, places, settings.activation, rows)
        total += loss(mem, layers, places, rows, objective, settings.beta)
        backward(mem, layers, places, settings.activation, rows)
        update_and_load(mem, layers, places, update, data, data.order[start + batch : start + 2 * batch])
    return total / n


@compiled
def validation_loss(state: State, data: Data, settings: Settings) -> float:
    """Return the mean loss of a network on its validation rows."""
    n, total, ld, weights = len(data.validation), 0.0, state.places[LD_BATCH], state.places[PARAMETERS]
    for start in range(0, n, settings.batch):
        rows = data.validation[start : min(start + settings.batch, n)]
        update_and_load(state.mem, state.layers, state.places, NO_UPDATE, data, rows)
        forward(state.mem, state.layers, ld, state.mem, weights, settings.activation, len(rows))
        total += loss(state.mem, state.layers, state.places, len(rows), settings.objective, settings.beta)
    return total / n


@compiled_without_counts
def train(state: State, data: Data, settings: Settings, until: int) -> None:
    """Train a network until epoch ``until``, or until its validation loss has not improved for ``patience`` epochs.

    The weights with the lowest validation loss are kept in ``state.best``.
    """
    while state.clock[EPOCH] < until and state.clock[STOPPED] == 0:
        epoch = state.clock[EPOCH]
        objective = MSE if epoch < settings.warmup else settings.objective
        state.losses[epoch] = epoch_loss(state, data, settings, objective)
        state.clock[EPOCH] += 1
        if len(data.validation) > 0:
            validation = validation_loss(state, data, settings)
            state.validation_losses[epoch] = validation
            if epoch >= settings.warmup and validation < state.score[0] - settings.tol:
                state.score[0], state.clock[BEST_EPOCH] = validation, epoch
                for i in range(state.places[N_PARAMETERS]):
                    state.best[i] = state.mem[i]
            elif epoch >= settings.warmup and epoch - state.clock[BEST_EPOCH] >= settings.patience:
                state.clock[STOPPED] = 1


_CALL_S = 0.01
"""Target time of one call of compiled code, in seconds, short enough to balance threads and to be interrupted."""

_CODES: dict[type, int] = {GaussianNLL: NLL, BetaNLL: BETA_NLL, SquaredError: MSE}
"""Objectives (losses) that the fused engine can train, with their numbers in compiled code."""


class FusedEngine:
    """Engine that trains networks on CPU threads in compiled code; results are identical for any ``n_jobs``."""

    def __repr__(self) -> str:
        return "FusedEngine()"

    def train(
        self,
        jobs: Sequence[Job],
        rows: Rows,
        *,
        n_jobs: int | None = None,
        watch: Float32Array | None = None,
        on_epoch: Hook | None = None,
    ) -> Trained:
        """Train one network per job."""
        prepare()
        for job in jobs:
            objective, head = job.config.main_objective, job.spec.head
            if type(objective) not in _CODES or head != MEAN_VARIANCE:
                raise InvalidParameterError(
                    f"the fused engine trains {', '.join(map(repr, OBJECTIVES))} with a mean and a raw variance as "
                    f"outputs; got the objective {objective.name!r} with the head {head!r}; "
                    "try engine='reference' or engine='torch'"
                )
        workers, table = threads(n_jobs), TrainingTable.of(rows, jobs)
        own = [JobRows.of(job, len(table.y)) for job in jobs]
        runs = [Run.start(job, table, numbers) for job, numbers in zip(jobs, own, strict=True)]
        lock = threading.Lock()

        def report(number: int, run: Run) -> None:
            mean, variance = (None, None) if watch is None else run.outputs(watch)
            loss, validation = float(run.losses()[-1]), run.validation_losses()
            validation_loss = float(validation[-1]) if len(validation) else None
            with lock:
                assert on_epoch is not None
                on_epoch(EpochReport(number, run.epoch - 1, loss, validation_loss, mean, variance, run.is_done()))

        run_all(runs, workers, None if on_epoch is None else report)
        return trained_by(runs)


@dataclass(frozen=True)
class Run:
    """Training of one network in compiled code: its rows and settings, and its current state."""

    spec: NetworkSpec
    data: Data
    settings: Settings
    state: State

    @classmethod
    def start(cls, job: Job, table: TrainingTable, own: JobRows) -> Run:
        """Return the training of a job before its first epoch."""
        batch = min(job.config.batch_size, len(own.training))
        return cls._of(job, table, own.training, own.validation, batch, first_state(job, own.streams, batch))

    @classmethod
    def resume(cls, job: Job, table: TrainingTable, order: RowNumbers, state: State | None) -> Run:
        """Return a training on the rows ``order`` that continues from a copy of ``state`` (None: it starts anew).

        An epoch is a pass over these rows. There are no validation rows.
        """
        batch = job.config.batch_size
        if state is None:
            state = first_state(job, Streams.of(job.seed), batch)
        else:
            copies: list[Any] = [part.copy() for part in state]
            state = State(*copies)
        return cls._of(job, table, order, np.empty(0, dtype=np.int32), batch, state)

    @classmethod
    def _of(
        cls, job: Job, table: TrainingTable, order: RowNumbers, validation: RowNumbers, batch: int, state: State
    ) -> Run:
        config, objective = job.config, job.config.main_objective
        weight = np.empty(0, dtype=np.float32) if table.weight is None else table.weight
        settings = Settings(
            activation=ACTIVATIONS[job.spec.activation].code,
            objective=_CODES[type(objective)],
            beta=float(objective.beta if isinstance(objective, BetaNLL) else 0.0),
            warmup=int(config.warmup_epochs),
            epochs=int(config.epochs),
            batch=int(batch),
            rate=float(config.learning_rate),
            cosine=config.schedule == "cosine",
            weight_decay=float(config.weight_decay),
            patience=int(config.patience),
            tol=float(config.tol),
        )
        return cls(job.spec, Data(table.X, table.y, weight, order, validation), settings, state)

    @property
    def epoch(self) -> int:
        """Number of epochs run so far."""
        return int(self.state.clock[EPOCH])

    def is_done(self) -> bool:
        """Return whether the training has ended, after its last epoch or by early stopping."""
        return self.epoch >= self.settings.epochs or bool(self.state.clock[STOPPED])

    def advance(self, epochs: int) -> None:
        """Train for this number of epochs, or fewer if the training ends before."""
        train(self.state, self.data, self.settings, min(self.epoch + epochs, self.settings.epochs))

    def outputs(self, X: Float32Array) -> tuple[Array, Array]:
        """Return the means and variances that the current weights predict for scaled rows, computed on this thread."""
        means, variances = outputs_of(self.spec, self.state.mem[None, : len(self.state.best)], X, threads=1)
        return means[0], variances[0]

    def losses(self) -> Array:
        """Return the mean training loss of each epoch so far."""
        return self.state.losses[: self.epoch]

    def validation_losses(self) -> Array:
        """Return the mean validation loss of each epoch so far; empty without early stopping."""
        return self.state.validation_losses[: self.epoch if len(self.data.validation) else 0]


def first_state(job: Job, streams: Streams, batch: int) -> State:
    """Return the initial state of the training of a job, in batches of at most ``batch`` rows."""
    layers, places, size = layout_of(job.spec, batch)
    n, ld = places[N_PARAMETERS], places[LD_BATCH]
    buffer = np.zeros(size + CACHE_LINE, dtype=np.float32)
    mem = buffer[-(buffer.ctypes.data // buffer.itemsize) % CACHE_LINE :][:size]  # aligned to a cache line
    packing_of(job.spec).pack(job.spec.initial_layers(streams.initial), mem[:n])
    mem[places[ROW_WEIGHTS] :][:ld] = 1
    for line in layers:  # ones, as the inputs of the biases
        mem[line[INPUT] + line[N_IN] * ld :][:ld] = 1
        mem[line[INPUT_T] + line[N_IN] : line[OUTPUT] : line[LD_INPUT_T]] = 1
    clock = np.zeros(4, dtype=np.int64)
    clock[BEST_EPOCH] = job.config.warmup_epochs - 1  # patience counts from the end of the warm-up
    return State(
        mem=mem,
        layers=layers,
        places=places,
        best=mem[:n].copy(),
        clock=clock,
        random=np.array([streams.order], dtype=np.uint64),
        score=np.array([np.inf]),
        losses=np.empty(job.config.epochs),
        validation_losses=np.empty(job.config.epochs),
    )


def trained_by(runs: Sequence[Run]) -> Trained:
    """Return the networks of all runs, each with its weights of the best epoch (without validation: the last)."""
    losses = tuple(run.losses() for run in runs)
    validation_losses = tuple(run.validation_losses() for run in runs)
    layers, best_epochs = [], []
    for run in runs:
        state, has_best = run.state, np.isfinite(run.state.score[0])
        layers.append(packing_of(run.spec).unpack(state.best if has_best else state.mem[: len(state.best)]))
        best_epochs.append(int(state.clock[BEST_EPOCH]) if has_best else run.epoch - 1)
    return Trained(stacked([run.spec for run in runs], layers), losses, validation_losses, tuple(best_epochs))


class Advancing(Protocol):
    """Interface of the trainings that ``run_all`` runs, such as ``Run``: they train for some epochs per call."""

    @property
    def epoch(self) -> int:
        """Number of epochs run so far."""

    def is_done(self) -> bool:
        """Return whether the training has ended."""

    def advance(self, epochs: int) -> None:
        """Train for this number of epochs, or fewer if the training ends before."""


def run_all(runs: Sequence[Advancing], workers: int, after: Callable[[int, Any], None] | None = None) -> None:
    """Train all runs to their end on ``workers`` threads, including the calling thread.

    A free thread takes the run with the fewest epochs, so that all end together; with one thread per run, five runs on
    two cores would leave a core idle for a sixth of the time. ``after`` (None: no function) is called after every epoch
    of every run, with the number of the run and the run.
    """
    lock, has_failed = threading.Lock(), threading.Event()
    waiting = [(run.epoch, number, 1, run) for number, run in enumerate(runs)]
    heapq.heapify(waiting)

    def work() -> None:
        try:
            while True:
                with lock:
                    if not waiting or has_failed.is_set():
                        return
                    _, number, epochs, run = heapq.heappop(waiting)
                began = time.perf_counter()
                run.advance(epochs)
                if after is not None:
                    after(number, run)
                else:
                    epochs = max(1, int(epochs * min(_CALL_S / (time.perf_counter() - began), 4)))
                if not run.is_done():
                    with lock:
                        heapq.heappush(waiting, (run.epoch, number, epochs, run))
        except BaseException:
            has_failed.set()  # the other threads end after their current call
            raise

    n_others = min(workers, len(runs)) - 1
    with ThreadPoolExecutor(max_workers=max(1, n_others)) as pool:
        others = [pool.submit(work) for _ in range(n_others)]
        try:
            work()
            for other in others:
                other.result()
        except BaseException:
            has_failed.set()
            raise


@cache
def prepare() -> None:
    """Compile the engine for this CPU, or load it from disk, by training a tiny network."""
    announce(train, "the training engine", 10)
    job = Job(NetworkSpec(n_inputs=1, hidden=(1,)), TrainingConfig(epochs=1), np.random.SeedSequence(0))
    rows = Rows(np.ones((2, 1), np.float32), np.ones(2))
    run = Run.start(job, TrainingTable.of(rows, [job]), JobRows.of(job, len(rows)))
    run.advance(1)
    run.outputs(rows.X)
