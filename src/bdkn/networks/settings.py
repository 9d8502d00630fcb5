"""Number, sizes and training parameters of the networks of a regressor, and the time limit of their training."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from bdkn.data.folds import RowSelection
from bdkn.data.rows import Rows
from bdkn.errors import warn_user
from bdkn.memory import check_memory
from bdkn.networks.job import (
    Job,
    Task,
    TrainingConfig,
    encoded_rows,
    engine_for,
    renumbered,
    train_tasks,
    training_progress,
)
from bdkn.networks.mlp import PiecewiseLinear, Trained, n_binned_columns, with_encoding
from bdkn.networks.spec import NetworkSpec
from bdkn.stages import stage
from bdkn.storage.fields import stored

EFFORTS = {"fast": (1 / 3, 0.5), "balanced": (1.0, 1.0), "best": (2.0, 1.0)}
"""Values of the parameter ``effort``, with the factors of the default numbers of members and of epochs."""

_SOME_ROWS, _MANY_ROWS = 1000, 4000
"""Numbers of training rows above which fewer epochs suffice, and above which fewer but deeper networks are better."""

_ENOUGH_STEPS_ROWS = 500_000
"""Number of training rows above which the number of optimizer steps, and so the training time, no longer grows."""

_ROWS_PER_BIN = 12
"""Minimum number of training rows per bin of the piecewise-linear encoding of inputs."""

_ADDED_INPUTS, _ADDED_INPUTS_MANY_ROWS = 128, 256
"""Maximum number of inputs that bins add to a network, for small and for large tables; it limits the time of a fit."""

_COPIES, _OBJECTS, _MATRICES = 4, 2048, 4
"""To estimate memory: copies of a network's weights, bytes of its objects, number of (members, members) matrices."""

Seeds = Sequence[np.random.SeedSequence]


class Size(NamedTuple):
    """Size of an ensemble: number of members, widths of hidden layers, training epochs, and bins per column.

    Members take the values of ``n_bins`` in turn (0: no bins). Members with bins have hidden layers ``hidden_encoded``.
    """

    n_members: int
    hidden: tuple[int, ...]
    epochs: int
    n_bins: tuple[int, ...]
    hidden_encoded: tuple[int, ...]


def default_size(n_rows: int) -> Size:
    """Return the default size of an ensemble for a table of ``n_rows`` rows.

    With few rows, many small networks with many epochs are best; with many rows, fewer and deeper networks with fewer
    epochs (but more steps, up to half a million rows). Some members get a piecewise-linear encoding of their inputs.
    """
    if n_rows <= _MANY_ROWS:
        epochs = round(500 * min(1.0, _SOME_ROWS / n_rows) ** 0.5)
        return Size(11, (50, 50), epochs, (0, 4, 0, 8, 0, 16), (50, 50))
    epochs = max(1, round(250 * (_MANY_ROWS / n_rows) ** 0.25 * min(1.0, _ENOUGH_STEPS_ROWS / n_rows) ** 0.75))
    return Size(8, (36,) * 5, epochs, (0, 16, 0, 0), (28,) * 5)


@stored
@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Options of the training of networks that are rarely changed, for the parameter ``training`` of regressors.

    Parameters
    ----------
    batch_size : int, default=32
        Number of rows per step of the optimizer.
    schedule : {"constant", "cosine"}, default="cosine"
        The learning rate during training: constant, or falling to zero along half a cosine wave.
    beta : float, default=0.5
        Exponent between 0 (same as "nll") and 1 (mean trained as by "mse"); only for ``objective="beta_nll"``.
    warmup_epochs : int, default=0
        Number of epochs at the beginning that minimise squared error, for any objective.
    early_stopping : bool, default=False
        True: each network holds out some of its rows for validation, stops when its loss on these rows no longer
        decreases, and keeps the weights of its best epoch.
    validation_fraction : float, default=0.1
        Fraction of the rows that are held out for early stopping.
    patience : int, default=20
        Number of epochs without improvement after which the training of a network stops.
    tol : float, default=0.0001
        Minimum decrease of the loss on held-out rows that counts as an improvement.
    standardize_y : bool, default=True
        True: targets are scaled to mean 0 and standard deviation 1. Inputs are always standardized.

    Examples
    --------
    >>> from bdkn import BDKNRegressor, TrainingOptions
    >>> BDKNRegressor(training=TrainingOptions(early_stopping=True, patience=10)).training.patience
    10
    """

    batch_size: int = 32
    schedule: str = "cosine"
    beta: float = 0.5
    warmup_epochs: int = 0
    early_stopping: bool = False
    validation_fraction: float = 0.1
    patience: int = 20
    tol: float = 1e-4
    standardize_y: bool = True


@dataclass(frozen=True, eq=False)
class NetworkSettings:
    """Parameters of a regressor (``params``) for its networks and their training.

    Each ``NetworkSpec`` and ``TrainingConfig`` checks its own parameters when it is made, before training.
    """

    params: Any
    training: TrainingOptions

    @classmethod
    def of(cls, params: Any) -> Self:
        """Return the network settings of a regressor, whose parameters have been checked."""
        return cls(params, TrainingOptions() if params.training is None else params.training)

    def with_params(self, **changed: Any) -> Self:
        """Return a copy of the settings with other values of some parameters."""
        params = copy.copy(self.params)
        for name, value in changed.items():
            setattr(params, name, value)
        return replace(self, params=params)

    def size(self, n_rows: int) -> Size:
        """Return the size of the ensemble for ``n_rows`` training rows; "auto" parameters get default values."""
        params, default = self.params, default_size(n_rows)
        more_members, more_epochs = EFFORTS[params.effort]
        n_members, epochs, hidden, n_bins = params.n_members, params.epochs, params.hidden_layer_sizes, params.n_bins
        if isinstance(n_members, str):  # "auto": at least two, unless the default is one
            n_members = max(min(2, default.n_members), round(more_members * default.n_members))
        if isinstance(epochs, str):
            epochs = max(1, round(more_epochs * default.epochs))
        n_bins = default.n_bins if isinstance(n_bins, str) else tuple(_in_turn(n_bins))
        if isinstance(hidden, str):
            return Size(n_members, default.hidden, epochs, n_bins, default.hidden_encoded)
        hidden = tuple(np.atleast_1d(np.asarray(hidden)).tolist()) if np.size(hidden) else ()
        return Size(n_members, hidden, epochs, n_bins, hidden)

    def check_memory(self, n_rows: int, n_columns: int, *, n_members: int, fits: int, combined: bool) -> None:
        """Raise if ``n_members`` networks, each trained ``fits`` times, need more memory than is available.

        ``combined`` is True if a linear model combines the members; it needs matrices of shape (members, members).
        """
        size = self.size(n_rows)
        spec = NetworkSpec(n_inputs=n_columns, hidden=size.hidden)
        one = _COPIES * spec.n_parameters * 4 + 8.0 * size.epochs + _OBJECTS
        combination = _MATRICES * 8.0 * n_members**2 if combined else 0.0
        check_memory(
            f"{n_members} members of {spec.n_parameters:,} weights, trained {fits} time{'s' if fits > 1 else ''} each "
            f"for {size.epochs} epochs,",
            n_members * fits * one + 16.0 * n_rows * n_members + combination,
            "use fewer members, smaller hidden layers or fewer epochs; tens of members suffice",
        )

    def train(
        self,
        rows: Rows,
        seeds: Seeds,
        members: Sequence[int],
        row_numbers: Sequence[RowSelection | None] | None = None,
    ) -> Trained:
        """Train one network per seed; networks with the same encoding of the inputs are trained together.

        ``members`` has the number of each network's member, which determines activation, weight decay and encoding.
        ``row_numbers`` has the rows that each network is trained on (None: all rows).
        """
        groups = self.jobs(rows, seeds, members, row_numbers)
        tasks = [Task(jobs, len(rows), partial(encoded_rows, rows, encoding)) for encoding, _, jobs in groups]
        engine, place = engine_for(self.params.engine, tasks, self.params.n_jobs)
        order, epochs = [number for _, numbers, _ in groups for number in numbers], tasks[0].jobs[0].config.epochs
        bar = training_progress(len(seeds), epochs, place=place) if self.params.verbose else nullcontext()
        with bar as on_epoch, stage("train"):
            parts = train_tasks(engine, tasks, n_jobs=self.params.n_jobs, on_epoch=renumbered(on_epoch, order))
            found = [
                part if encoding is None else replace(part, networks=with_encoding(encoding, part.networks))
                for part, (encoding, _, _) in zip(parts, groups, strict=True)
            ]
            return Trained.join(found, order) if len(found) > 1 else found[0]

    def jobs(
        self,
        rows: Rows,
        seeds: Seeds,
        members: Sequence[int],
        row_numbers: Sequence[RowSelection | None] | None = None,
    ) -> list[tuple[PiecewiseLinear | None, list[int], list[Job]]]:
        """Return, for each encoding of the inputs (None: no encoding), the numbers of its networks and their jobs.

        The arguments are explained in ``train``. The encodings are fitted to ``rows``.
        """
        params, training, size = self.params, self.training, self.size(len(rows))
        activations, decays = _in_turn(params.activation), _in_turn(params.weight_decay)

        # Number of bins per column for each member, limited by the number of rows and of added inputs
        bins = {h: size.n_bins[h // len(activations) % len(size.n_bins)] for h in {*members}}
        columns = n_binned_columns(rows.X) if any(bins.values()) else 0
        n_rows = len(rows) if rows.counts is None else int(rows.counts.sum())
        added = _ADDED_INPUTS if n_rows <= _MANY_ROWS else _ADDED_INPUTS_MANY_ROWS
        most = min(n_rows // _ROWS_PER_BIN, added // columns if columns else 0)
        bins = {h: min(k, most) for h, k in bins.items()}
        encodings = {k: PiecewiseLinear.fit(rows.X, k, rows.counts) for k in {*bins.values()} if k > 1}
        numbers_of: dict[PiecewiseLinear | None, list[int]] = {}
        for number, h in enumerate(members):
            numbers_of.setdefault(encodings.get(bins[h]), []).append(number)

        configs = [
            TrainingConfig(
                epochs=size.epochs,
                batch_size=training.batch_size,
                learning_rate=params.learning_rate,
                schedule=training.schedule,
                weight_decay=decay,
                objective=params.objective,
                beta=training.beta,
                warmup_epochs=training.warmup_epochs,
                validation_fraction=training.validation_fraction if training.early_stopping else 0.0,
                patience=training.patience,
                tol=training.tol,
            )
            for decay in decays
        ]
        found = []
        for encoding, numbers in numbers_of.items():
            n_inputs = rows.X.shape[1] + (0 if encoding is None else encoding.columns.size)
            hidden = size.hidden if encoding is None else size.hidden_encoded
            specs = [NetworkSpec(n_inputs=n_inputs, hidden=hidden, activation=name) for name in activations]
            jobs = []
            for number in numbers:
                # The weight decay changes after all activations were used, so that all pairs of both occur.
                turn, activation = divmod(members[number], len(specs))
                own = None if row_numbers is None else row_numbers[number]
                jobs.append(Job(specs[activation], configs[turn % len(configs)], seeds[number], own))
            found.append((encoding, numbers, jobs))
        return found


def _in_turn(given: Any) -> list[Any]:
    """Return, as a list, the values of a parameter that members take in turn; a single value gives a list of one."""
    several = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
    return list(given) if several else [given]


MIN_MEMBERS = 4
"""Minimum number of members that are trained, even after the time limit; all members if there are fewer."""

MIN_EPOCHS = 0.1
"""Minimum fraction of the epochs that are trained, even after the time limit."""

_TRAINING_SHARE = 0.85
"""Fraction of the remaining time of a fit for training; the rest is for held-out predictions and the combination."""

_TRIAL_SHARE = 0.02
"""Duration of the trial training, as a fraction of the time limit; from it the time of all training is estimated."""

_TRIAL_ROWS = 4096
"""Maximum number of rows of the trial training, from which the time of all training is estimated."""


@dataclass(frozen=True)
class Clock:
    """Time limit of a fit: the time when it began, and the seconds that it may take."""

    began: float
    seconds: float

    @classmethod
    def start(cls, seconds: float) -> Clock:
        """Return a time limit of ``seconds`` that starts now."""
        return cls(time.monotonic(), seconds)

    @property
    def left(self) -> float:
        """Seconds that remain until the time limit; negative after it."""
        return self.began + self.seconds - time.monotonic()

    def share(self, train: Callable[[int], object], epochs: int, work: float) -> float:
        """Return the fraction of the whole training that the remaining time allows; above 1 if time would remain.

        ``train(n)`` trains for n epochs. The whole training takes ``work`` times as long as ``train(epochs)``.
        """

        def seconds(epochs: int) -> float:
            began = time.monotonic()
            train(epochs)
            return time.monotonic() - began

        seconds(1)  # loads compiled code; not measured
        piece = 1
        while (took := seconds(piece)) < _TRIAL_SHARE * self.seconds and 8 * piece < epochs:
            piece = min(4 * piece, math.ceil(epochs / 8))
        return max(0.0, _TRAINING_SHARE * self.left) / max(work * epochs * took / piece, 1e-9)


def reduced(n_members: int, epochs: int, share: float) -> tuple[int, int]:
    """Return the numbers of members and epochs, reduced so that training takes the fraction ``share`` of its time.

    Members are reduced first. At least ``MIN_MEMBERS`` members and the fraction ``MIN_EPOCHS`` of the epochs remain.
    """
    if share >= 1:
        return n_members, epochs
    members = max(min(MIN_MEMBERS, n_members), math.floor(share * n_members))
    left = min(1.0, share * n_members / members)
    return members, max(1, math.ceil(MIN_EPOCHS * epochs), math.floor(left * epochs))


def within_limit(settings: NetworkSettings, rows: Rows, clock: Clock, rows_per_member: float) -> NetworkSettings:
    """Return the settings, with fewer members or epochs if the time limit requires it; warn in this case.

    The training time is estimated from a short training of one network per member. ``rows_per_member`` is the sum of
    the numbers of training rows of all networks of a member.
    """
    if clock.seconds == math.inf:
        return settings
    size, part = settings.size(len(rows)), np.arange(min(len(rows), _TRIAL_ROWS))
    seeds = np.random.SeedSequence(0).spawn(size.n_members)
    options = replace(settings.training, early_stopping=False, warmup_epochs=0)

    def train(epochs: int) -> None:
        short = replace(settings.with_params(epochs=epochs, verbose=0), training=options)
        short.train(rows, seeds, range(size.n_members), [part] * size.n_members)

    share = clock.share(train, size.epochs, rows_per_member / len(part))
    if share >= 1:
        return settings
    n_members, epochs = reduced(size.n_members, size.epochs, share)
    warn_user(
        f"time_limit={clock.seconds:g}: {n_members} of {size.n_members} members are trained, for "
        f"{epochs} of {size.epochs} epochs; results depend on the machine's speed",
        UserWarning,
    )
    return settings.with_params(n_members=n_members, epochs=epochs)
