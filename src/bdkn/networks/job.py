"""What all engines share: objectives (losses), jobs (networks to train), batches of rows, progress of training.

All engines get the order of rows from this module, so that they train on the same batches.

An objective is a loss per row and its gradient with respect to the two outputs of a network, the mean μ and a number r.
With the variance v = softplus(r) + 1e-6 and the error e = μ - y of a row, the losses are:

- ``nll``: ½ (log v + e²/v), the Gaussian negative log-likelihood of the paper without its constant;
- ``beta_nll``: ``nll`` times v^β, a constant for the gradient: small variances dominate less (Seitzer et al., 2022);
- ``mse``: ½ e², which does not train the variance.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import joblib
import numpy as np
from numpy.typing import DTypeLike, NDArray

from bdkn.data.folds import RowSelection
from bdkn.data.rows import Rows
from bdkn.errors import InvalidParameterError, check_choice, check_number, require
from bdkn.networks.mlp import PiecewiseLinear, Predictor, Trained
from bdkn.networks.spec import MEAN_VARIANCE, Functions, NetworkSpec, Values
from bdkn.typing import Array, BoolArray, Float32Array

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress

    from bdkn.networks.gpu.cuda import Cuda


class Objective(Protocol):
    """Interface of the losses that networks minimise. Objectives are hashable; equal objectives compare equal."""

    @property
    def name(self) -> str:
        """Name of the objective in messages."""

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a network with this objective."""

    @property
    def trains_variance(self) -> bool:
        """True if this objective trains the variances of networks."""

    def loss_and_gradient(self, fn: Functions, outputs: Values, y: Values) -> tuple[Values, Values]:
        """Return the loss of each row (...,) and its gradient (..., n_outputs) with respect to ``outputs``.

        Arrays are NumPy arrays or PyTorch tensors; ``fn`` has the mathematical functions for them. PyTorch does not
        differentiate this function automatically.
        """


@dataclass(frozen=True)
class GaussianNLL:
    """Gaussian negative log-likelihood of a row with variance v and error e: ½ (log v + e²/v)."""

    name: ClassVar[str] = "nll"
    n_outputs: ClassVar[int] = MEAN_VARIANCE.n_outputs
    trains_variance: ClassVar[bool] = True

    def loss_and_gradient(self, fn: Functions, outputs: Values, y: Values) -> tuple[Values, Values]:
        """Return the loss of each row and its gradient with respect to the outputs."""
        mean, v = MEAN_VARIANCE.mean_and_variance(fn, outputs)
        error = mean - y
        loss = (fn.log(v) + error * error / v) / 2
        d_raw = (1 - error * error / v) / v / 2 * fn.sigmoid(outputs[..., 1])
        return loss, fn.stack([error / v, d_raw])


@dataclass(frozen=True)
class BetaNLL:
    """Gaussian negative log-likelihood of a row times v^β, its variance v to the power β; v^β is not differentiated."""

    beta: float
    name: ClassVar[str] = "beta_nll"
    n_outputs: ClassVar[int] = MEAN_VARIANCE.n_outputs
    trains_variance: ClassVar[bool] = True

    def loss_and_gradient(self, fn: Functions, outputs: Values, y: Values) -> tuple[Values, Values]:
        """Return the loss of each row and its gradient with respect to the outputs."""
        loss, gradient = GaussianNLL().loss_and_gradient(fn, outputs, y)
        factor = MEAN_VARIANCE.mean_and_variance(fn, outputs)[1] ** self.beta
        return loss * factor, gradient * factor[..., None]


@dataclass(frozen=True)
class SquaredError:
    """Half the squared error of the mean, which is the first output of a network."""

    n_outputs: int = MEAN_VARIANCE.n_outputs
    name: ClassVar[str] = "mse"
    trains_variance: ClassVar[bool] = False

    def loss_and_gradient(self, fn: Functions, outputs: Values, y: Values) -> tuple[Values, Values]:
        """Return the loss of each row and its gradient with respect to the outputs."""
        error = outputs[..., 0] - y
        return error * error / 2, fn.stack([error] + [fn.zeros_like(error)] * (self.n_outputs - 1))


_BY_NAME: dict[str, Callable[[float], Objective]] = {
    GaussianNLL.name: lambda beta: GaussianNLL(),
    BetaNLL.name: BetaNLL,
    SquaredError.name: lambda beta: SquaredError(),
}

OBJECTIVES = tuple(_BY_NAME)
"""Names of the losses of this library, for the parameter ``objective``."""


def get_objective(objective: str | Objective, beta: float) -> Objective:
    """Return the objective for a name (``beta`` is for "beta_nll"); check an objective object and return it."""
    if isinstance(objective, str):
        check_choice("objective", objective, OBJECTIVES)
        return _BY_NAME[objective](beta)
    if all(hasattr(objective, name) for name in ("name", "n_outputs", "trains_variance", "loss_and_gradient")):
        return objective
    raise InvalidParameterError(
        f"objective must be one of {', '.join(map(repr, OBJECTIVES))}, or an object with name, n_outputs, "
        f"trains_variance and a method loss_and_gradient; got {objective!r}"
    )


SCHEDULES = ("constant", "cosine")

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
"""Parameters of the optimizer Adam: two decay rates, and a term against division by zero. Defaults of PyTorch."""


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Parameters of the training of a network by the optimizer Adam on mini-batches.

    ``objective`` is a name or an ``Objective``; the first ``warmup_epochs`` epochs use squared error instead.
    ``validation_fraction`` > 0 enables early stopping: a network holds out some of its rows, stops if its loss on these
    rows has not improved by ``tol`` for ``patience`` epochs, and keeps the weights of its best epoch.
    """

    epochs: int = 500
    batch_size: int = 32
    learning_rate: float = 1e-3
    schedule: str = "constant"
    weight_decay: float = 0.0
    objective: str | Objective = "nll"
    beta: float = 0.5
    warmup_epochs: int = 0
    validation_fraction: float = 0.0
    patience: int = 20
    tol: float = 1e-4
    main_objective: Objective = field(init=False, repr=False, compare=False)
    """The objective that is used after the warm-up epochs, and for the validation loss."""

    def __post_init__(self) -> None:
        check_number("epochs", self.epochs, low=1, whole=True)
        check_number("batch_size", self.batch_size, low=1, whole=True)
        check_number("learning_rate", self.learning_rate, low=0, strict=True)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_number("weight_decay", self.weight_decay, low=0)
        check_number("beta", self.beta, low=0, high=1)
        object.__setattr__(self, "main_objective", get_objective(self.objective, self.beta))
        check_number("warmup_epochs", self.warmup_epochs, low=0, whole=True)
        check_number("validation_fraction", self.validation_fraction, low=0, high=0.9)
        check_number("patience", self.patience, low=1, whole=True)
        check_number("tol", self.tol, low=0)

    def objective_in(self, epoch: int) -> Objective:
        """Return the objective of an epoch: squared error in the warm-up epochs, then the main objective."""
        return SquaredError(self.main_objective.n_outputs) if epoch < self.warmup_epochs else self.main_objective

    def learning_rate_at(self, step: Any, steps: Any) -> Any:
        """Return the learning rate at one of ``steps`` steps: constant, or falling to zero along half a cosine wave."""
        share = 1.0 if self.schedule == "constant" else (1 + np.cos(np.pi * step / steps)) / 2
        return self.learning_rate * share


def adam_factors(rate: Array, taken: Any, weight_decay: Any) -> Array:
    """Return the three factors (..., 3) that the optimizer Adam uses in the step after ``taken`` steps.

    These are the learning rate divided by the bias correction of the first moment, one over the square root of the bias
    correction of the second moment, and the factor of weight decay.
    """
    corrected = rate / (1 - BETA_1 ** (taken + 1)), 1 / np.sqrt(1 - BETA_2 ** (taken + 1))
    return np.stack([*corrected, 1 - rate * weight_decay], axis=-1)


@dataclass(frozen=True, eq=False)
class Job:
    """One network to train: its architecture, training parameters, seed, and the numbers of its rows (None: all)."""

    spec: NetworkSpec
    config: TrainingConfig
    seed: np.random.SeedSequence
    rows: RowSelection | None = None


@dataclass(frozen=True)
class EpochReport:
    """Report on the training of one network after an epoch: its losses and predictions.

    ``job`` is the network's number in the list of jobs. ``mean`` and ``variance`` are its predictions for the argument
    ``watch`` of ``Engine.train`` (None if not given). ``is_last`` is True if the training ends with this epoch.
    """

    job: int
    epoch: int
    loss: float
    validation_loss: float | None
    mean: Array | None
    variance: Array | None
    is_last: bool = False


Hook = Callable[[EpochReport], None]
"""Type of functions that an engine calls after every epoch of every network, from one thread at a time."""


class Engine(Protocol):
    """Interface of engines, the code that trains networks, for example on a GPU."""

    def train(
        self,
        jobs: Sequence[Job],
        rows: Rows,
        *,
        n_jobs: int | None = None,
        watch: Float32Array | None = None,
        on_epoch: Hook | None = None,
    ) -> Trained:
        """Train one network per job. The network of a job does not depend on the other jobs.

        Parameters
        ----------
        jobs
            The networks to train, in the order in which they are returned.
        rows
            The table that the jobs' row numbers refer to: ``X`` scaled, C-contiguous, in single precision; ``y``
            scaled; ``counts``, how many times each row counts, or None if every row counts once.
        n_jobs
            Number of threads, as in scikit-learn: None is 1, -1 all cores. The result does not depend on it.
        watch
            Rows, scaled like ``rows.X``, that each network predicts after every epoch, for the reports.
        on_epoch
            Function that is called with a report after every epoch of every job.
        """


@dataclass(frozen=True, eq=False)
class Task:
    """Networks to train (jobs) and their table of ``n_rows`` rows, made by ``rows()`` when needed, to save memory."""

    jobs: Sequence[Job]
    n_rows: int
    rows: Callable[[], Rows]


def encoded_rows(rows: Rows, encoding: PiecewiseLinear | None) -> Rows:
    """Return the rows with their inputs encoded by ``encoding`` (None: unchanged rows)."""
    return rows if encoding is None else replace(rows, X=encoding.transform(rows.X))


def train_tasks(
    engine: Engine,
    tasks: Sequence[Task],
    *,
    n_jobs: int | None = None,
    watch: Float32Array | None = None,
    on_epoch: Hook | None = None,
) -> list[Trained]:
    """Train all tasks: by one call of ``engine.train_many`` if the engine has this method, else one after the other.

    ``train_many`` has the arguments of this function except for ``watch``, which is for a single task. In reports, the
    jobs of all tasks are numbered consecutively.
    """
    if hasattr(engine, "train_many"):
        many: list[Trained] = engine.train_many(tasks, n_jobs=n_jobs, on_epoch=on_epoch)
        return many
    trained, first = [], 0
    for task in tasks:
        hook = renumbered(on_epoch, range(first, first + len(task.jobs)))
        trained.append(engine.train(task.jobs, task.rows(), n_jobs=n_jobs, watch=watch, on_epoch=hook))
        first += len(task.jobs)
    return trained


def renumbered(on_epoch: Hook | None, numbers: Sequence[int]) -> Hook | None:
    """Return a hook that replaces job number i in a report by ``numbers[i]``, and then calls ``on_epoch``."""
    if on_epoch is None:
        return None

    def report(part: EpochReport) -> None:
        on_epoch(replace(part, job=int(numbers[part.job])))

    return report


ENGINE_CLASSES = {
    "fused": "bdkn.networks.fused.FusedEngine",
    "gpu": "bdkn.networks.gpu.engine.GPUEngine",
    "reference": "bdkn.networks.reference.ReferenceEngine",
    "torch": "bdkn.networks.torch_engine.TorchEngine",
}
"""Import paths of the engine classes, by name of the engine; a class is imported on first use."""

ENGINES = ("fused", "auto", "gpu", "reference", "torch")
"""Values of the parameter ``engine``; "auto" chooses between "fused" and "gpu"."""

_CPU_FLOPS = 6e10
"""Approximate speed of the fused engine on one CPU thread, in floating-point operations per second."""

_GPU_FLOPS = 8e10
"""Approximate floating-point operations per second of a GPU multiprocessor with one network; with two, 1.5 times."""

_MIN_CPU_SECONDS = 3.0
"""Minimum estimated training time on the CPU, in seconds, to consider a GPU, which needs a second or two to start."""

_MIN_SPEEDUP = 1.5
"""Minimum ratio of the estimated training times, CPU to GPU, to choose the GPU."""


def get_engine(engine: str | Engine) -> Engine:
    """Return the engine with this name; an engine object is returned unchanged."""
    if not isinstance(engine, str):
        return engine
    check_choice("engine", engine, tuple(ENGINE_CLASSES))
    module, _, name = ENGINE_CLASSES[engine].rpartition(".")
    found: Engine = getattr(importlib.import_module(module), name)()
    return found


def engine_for(engine: str | Engine, tasks: Sequence[Task], n_jobs: int | None) -> tuple[Engine, str]:
    """Return the engine for these tasks and, for "auto", a text for the progress bar that names the device.

    "auto" chooses the GPU if there is one and it is expected to be faster, else the fused engine on the CPU.
    """
    if engine != "auto":
        return get_engine(engine), ""
    n_networks = sum(len(task.jobs) for task in tasks)
    flops = sum(
        # six operations per weight, row and epoch
        6.0 * job.spec.n_parameters * job.config.epochs * (task.n_rows if job.rows is None else len(job.rows))
        for task in tasks
        for job in task.jobs
    )
    cpu_seconds = flops / _CPU_FLOPS / min(threads(n_jobs), n_networks)
    if cpu_seconds < _MIN_CPU_SECONDS:
        return get_engine("fused"), "on the CPU"
    from bdkn.networks.gpu import cuda

    try:
        device = cuda.find_cuda()
    except cuda.NoDeviceError as error:
        return get_engine("fused"), f"on the CPU ({error})"
    gpu_seconds = flops / _GPU_FLOPS / min(n_networks, 1.5 * device.multiprocessors)
    if _MIN_SPEEDUP * gpu_seconds > cpu_seconds:
        return get_engine("fused"), "on the CPU (faster for this size)"
    return get_engine("gpu"), f"on {device.name}"


def threads(n_jobs: int | None) -> int:
    """Return the number of threads for ``n_jobs``, as in scikit-learn: None is 1, -1 all cores, -2 all except one."""
    if n_jobs == 0:
        raise InvalidParameterError("n_jobs must not be 0; got 0; 1 is one thread, -1 one thread per core")
    if n_jobs is None or n_jobs > 0:
        return n_jobs or 1
    return max(1, int(joblib.cpu_count()) + 1 + n_jobs)


def prediction_device(engine: object) -> Cuda | None:
    """Return the GPU on which models with this engine predict many rows, or None for the CPU."""
    if engine == "auto":
        from bdkn.networks.gpu import cuda

        return cuda.known_cuda()  # predictions alone are not worth the initialization of a GPU
    if isinstance(engine, str):
        engine = get_engine(engine) if engine == "gpu" else None
    device: Cuda | None = engine.prediction_device() if hasattr(engine, "prediction_device") else None
    return device


RowNumbers = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """Training rows in the floating-point precision of the engine: inputs, targets and row weights.

    A row's ``weight`` is its sample weight (count) divided by the mean of all rows; None if every row counts once.
    """

    X: Array
    y: Array
    weight: Array | None

    @classmethod
    def of(cls, rows: Rows, jobs: Sequence[Job]) -> TrainingTable:
        """Check rows for these jobs, and convert them to single precision; targets beyond its range become infinite."""
        X = rows.X
        if not (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype == np.float32 and X.flags.c_contiguous):
            given = f"{X.dtype} of shape {X.shape}" if isinstance(X, np.ndarray) else type(X).__name__
            raise InvalidParameterError(
                "an engine needs rows whose X is a C-contiguous float32 array of shape (n, n_inputs); "
                f"got {given}; convert with numpy.ascontiguousarray(X, dtype=numpy.float32)"
            )
        if not len(jobs):
            raise InvalidParameterError("jobs must hold at least one job; got none")
        for number, job in enumerate(jobs):
            if job.spec.n_inputs != X.shape[1]:
                raise InvalidParameterError(
                    f"the network of a job must have one input per column of X, which has {X.shape[1]}; "
                    f"got n_inputs={job.spec.n_inputs} in job {number}"
                )
            objective, head = job.config.main_objective, job.spec.head
            if objective.n_outputs != head.n_outputs:
                raise InvalidParameterError(
                    "the objective and the head of a network must have the same number of outputs; "
                    f"got {objective.n_outputs} for the objective {objective.name!r} and {head.n_outputs} for {head!r}"
                )
        with np.errstate(over="ignore"):
            y = rows.y.astype(np.float32)
        weight = None if rows.counts is None else (rows.counts / rows.counts.mean()).astype(np.float32)
        return cls(X, y, weight)

    def astype(self, dtype: DTypeLike) -> TrainingTable:
        """Return the table in another floating-point precision."""
        weight = None if self.weight is None else self.weight.astype(dtype, copy=False)
        return TrainingTable(self.X.astype(dtype, copy=False), self.y.astype(dtype, copy=False), weight)

    @property
    def weights(self) -> Array:
        """The weight of each row; 1 if every row counts once."""
        return np.ones_like(self.y) if self.weight is None else self.weight

    def __getitem__(self, numbers: RowNumbers) -> TrainingTable:
        return TrainingTable(self.X[numbers], self.y[numbers], None if self.weight is None else self.weight[numbers])


@dataclass(frozen=True)
class Streams:
    """Independent random generators of one job: for initial weights, the validation split, and the order of rows."""

    initial: np.random.Generator
    split: np.random.Generator
    order: int

    @classmethod
    def of(cls, seed: np.random.SeedSequence) -> Streams:
        """Derive the generators from the job's seed; the same seed always gives the same random numbers."""
        initial, split, order = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key).spawn(3)
        state = int(order.generate_state(1, np.uint64)[0])
        return cls(np.random.default_rng(initial), np.random.default_rng(split), state)


@dataclass(frozen=True, eq=False)
class JobRows:
    """Random generators of one job, and the numbers of its training rows and of its validation rows.

    Each job has its own array ``training``, which is shuffled in place before each epoch.
    """

    streams: Streams
    training: RowNumbers
    validation: RowNumbers

    @classmethod
    def of(cls, job: Job, n_rows: int) -> JobRows:
        """Split the rows of a job at random into training and validation rows; the table has ``n_rows`` rows.

        Without early stopping there are no validation rows. With it, both sets have a row if the job has two or more.
        """
        streams, own = Streams.of(job.seed), np.arange(n_rows, dtype=np.int32)
        if job.rows is not None:
            own = np.asarray(job.rows)
            is_valid = own.ndim == 1 and own.size and own.dtype.kind in "iu" and own.min() >= 0 and own.max() < n_rows
            if not is_valid:
                raise InvalidParameterError(
                    f"the rows of a job must be a list of row numbers from 0 to {n_rows - 1}; got {own!r}; "
                    "omit them to train on all rows"
                )
            own = own.astype(np.int32)
        n, fraction = len(own), job.config.validation_fraction
        if fraction == 0 or n < 2:
            return cls(streams, own, own[:0])
        n_validation = min(max(1, round(n * fraction)), n - 1)
        shuffled = streams.split.permutation(n)
        return cls(streams, own[np.sort(shuffled[n_validation:])], own[np.sort(shuffled[:n_validation])])


class Batches:
    """Mini-batches of J jobs with equally many rows: ``order`` (J, n) to train on, ``held_out`` (J, m) to validate."""

    def __init__(self, jobs: Sequence[JobRows], batch_size: int) -> None:
        self.order: RowNumbers = np.stack([job.training for job in jobs])
        self.held_out: RowNumbers = np.stack([job.validation for job in jobs])
        self.n_train: int = self.order.shape[1]
        self._size = batch_size
        self._states = [np.uint64(job.streams.order) for job in jobs]

    def __len__(self) -> int:
        """Return the number of batches per epoch; the last batch may be smaller."""
        return -(-self.n_train // self._size)

    def __iter__(self) -> Iterator[RowNumbers]:
        """Yield the row numbers of each batch, (J, B): B rows for each of J jobs, in the current order."""
        return consecutive(self.order, self._size)

    def shuffle(self) -> None:
        """Shuffle the training rows of every job for its next epoch."""
        from bdkn.kernels.dense import shuffle

        self._states = [np.uint64(shuffle(*pair)) for pair in zip(self.order, self._states, strict=True)]


def consecutive(numbers: RowNumbers, size: int) -> Iterator[RowNumbers]:
    """Split an array of row numbers (J, n) along its last axis; yield blocks with at most ``size`` columns."""
    for start in range(0, numbers.shape[1], size):
        yield numbers[:, start : start + size]


def train_in_groups(
    jobs: Sequence[Job], key: Callable[[Job], object], train: Callable[[Sequence[int]], Trained]
) -> Trained:
    """Train jobs with equal ``key(job)`` by one call of ``train`` with their numbers; return networks in job order."""
    groups: dict[object, list[int]] = {}
    for number, job in enumerate(jobs):
        groups.setdefault(key(job), []).append(number)
    return Trained.join([train(group) for group in groups.values()], [n for group in groups.values() for n in group])


Outputs = Callable[[Float32Array], tuple[Array, Array]]
"""Type of functions by which an engine predicts n rows for reports: means and variances (J, n) of J networks."""


class Progress:
    """Epochs, losses and early stopping of J jobs trained together; ``numbers`` are the jobs' numbers in reports."""

    def __init__(
        self,
        numbers: Sequence[int],
        config: TrainingConfig,
        watch: Float32Array | None = None,
        on_epoch: Hook | None = None,
    ) -> None:
        n = len(numbers)
        self._numbers, self._config, self._watch, self._on_epoch = numbers, config, watch, on_epoch
        self._running = np.ones(n, dtype=bool)
        self._best = np.full(n, np.inf)
        self._best_epoch = np.full(n, config.warmup_epochs - 1)  # patience counts from the end of the warm-up
        self._losses: list[list[float]] = [[] for _ in range(n)]
        self._validation_losses: list[list[float]] = [[] for _ in range(n)]

    def __iter__(self) -> Iterator[int]:
        """Yield the number of each epoch until all jobs have ended."""
        for epoch in range(self._config.epochs):
            if not self._running.any():
                return
            yield epoch

    def record(self, epoch: int, losses: Array, validation: Array | None, outputs: Outputs) -> BoolArray:
        """Record the losses of an epoch; return, for each job, whether its current weights must be kept.

        Weights are kept if the validation loss is the lowest so far. A job without such an epoch keeps its last ones.
        ``outputs`` predicts rows; it is called only if reports contain predictions.
        """
        improved = np.zeros_like(self._running)
        if validation is not None and epoch >= self._config.warmup_epochs:
            improved = self._running & (validation < self._best - self._config.tol)
            self._best[improved] = validation[improved]
            self._best_epoch[improved] = epoch
        ended: BoolArray = self._running & (epoch == self._config.epochs - 1)
        if validation is not None:
            ended |= self._running & ~improved & (epoch - self._best_epoch >= self._config.patience)
        means = variances = None
        if self._on_epoch is not None and self._watch is not None:
            with np.errstate(all="ignore"):
                means, variances = outputs(self._watch)
        for i in np.flatnonzero(self._running).tolist():
            loss, validation_loss = float(losses[i]), None if validation is None else float(validation[i])
            self._losses[i].append(loss)
            if validation_loss is not None:
                self._validation_losses[i].append(validation_loss)
            if self._on_epoch is not None:
                mean, variance = (None, None) if means is None or variances is None else (means[i], variances[i])
                is_last = bool(ended[i])
                self._on_epoch(EpochReport(self._numbers[i], epoch, loss, validation_loss, mean, variance, is_last))
        self._running &= ~ended
        never_improved: BoolArray = ended & np.isinf(self._best)
        return improved | never_improved

    def trained(self, networks: Predictor) -> Trained:
        """Return the networks with the loss curves and best epochs of their training."""
        last = np.array([len(curve) - 1 for curve in self._losses])
        return Trained(
            networks,
            tuple(np.array(curve) for curve in self._losses),
            tuple(np.array(curve) for curve in self._validation_losses),
            tuple(np.where(np.isinf(self._best), last, self._best_epoch).tolist()),
        )


def progress_bar(console: Console | None = None, **options: Any) -> RichProgress:
    """Return a progress bar with elapsed and remaining time, printed to standard error by default."""
    require("rich", extra="progress")
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return RichProgress(*columns, console=console or Console(stderr=True), **options)


@contextmanager
def training_progress(n_networks: int, epochs: int, console: Console | None = None, place: str = "") -> Iterator[Hook]:
    """Show a progress bar for the training of networks, and yield the hook that updates it; ``place`` is the device.

    The bar counts the epochs of all networks; epochs that early stopping saves are subtracted.
    """
    networks = f"{n_networks} networks {place}".rstrip()
    with progress_bar(console) as progress:
        task = progress.add_task(f"training {networks}", total=n_networks * epochs)
        saved = 0

        def on_epoch(report: EpochReport) -> None:
            nonlocal saved
            saved += epochs - report.epoch - 1 if report.is_last else 0
            place = f"network {report.job + 1}/{n_networks}, epoch {report.epoch + 1}/{epochs}"
            description = f"{place}, loss {report.loss:.4g}"
            progress.update(task, advance=1, total=n_networks * epochs - saved, description=description)

        yield on_epoch
        progress.update(task, description=f"trained {networks}")
