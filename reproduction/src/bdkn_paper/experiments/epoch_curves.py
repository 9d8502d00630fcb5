"""What a method would score had training stopped after each epoch, from one training.

Of an ensemble, what the networks say about training and test rows is kept after every epoch while they train. The
regressor is then fitted anew for each epoch, by an engine that trains nothing and returns networks that say what was
kept. What PyTorch trains can be asked itself.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.errors import DivergedError, InvalidParameterError
from bdkn.members import Standardizer
from bdkn.metrics import nll, rmse
from bdkn.regressors import TorchRegressor
from bdkn.rows import Rows
from bdkn.training import EpochReport, Trained, get_engine
from bdkn.typing import Array, FloatArray

DIGITS = 6
"""Significant digits of a curve's points: more than a figure shows, and a record stays small."""


@dataclass(frozen=True, eq=False)
class Remembered:
    """Networks that know some scaled rows only, by their bytes, and what to say about them: means, variances (H, n)."""

    rows: Mapping[bytes, int]
    means: Array
    variances: Array

    def __len__(self) -> int:
        return len(self.means)

    def __getitem__(self, members: Sequence[int] | NDArray[np.intp]) -> Remembered:
        return Remembered(self.rows, self.means[members], self.variances[members])

    @classmethod
    def concatenate(cls, parts: Sequence[Remembered]) -> Remembered:
        """Return the networks of all parts, which know the same rows."""
        means, variances = (np.concatenate([getattr(part, name) for part in parts]) for name in ("means", "variances"))
        return cls(parts[0].rows, means, variances)

    def is_finite(self) -> NDArray[np.bool_]:
        """Tell of no network that it diverged: its weights are not known, and what it says is looked at anyway."""
        return np.ones(len(self), dtype=np.bool_)

    def outputs(self, X: Array) -> tuple[Array, Array]:
        """Return what was said about these rows."""
        known = [self.rows[row.tobytes()] for row in X]
        return self.means[:, known].astype(np.float64), self.variances[:, known].astype(np.float64)


@dataclass(frozen=True, eq=False)
class Replay:
    """An engine that returns the networks it is given."""

    networks: Remembered

    def train(self, jobs: Any, rows: Any, *, n_jobs: int | None = None, on_epoch: Any = None) -> Trained:
        """Train nothing."""
        H, nothing = len(self.networks), np.zeros(1)
        return Trained(self.networks, (nothing,) * H, (nothing[:0],) * H, (0,) * H)


class Watching:
    """An engine that trains as another does and keeps what the networks say about rows after every epoch."""

    def __init__(self, engine: Any, rows: NDArray[np.float32]) -> None:
        self._engine, self._rows = engine, rows
        self._means = self._variances = np.empty((0, 0, 0), np.float32)

    def train(self, jobs: Any, rows: Any, *, n_jobs: int | None = None, on_epoch: Any = None) -> Any:
        """Train one network per job."""
        shape = jobs[0].config.epochs, len(jobs), len(self._rows)
        self._means, self._variances = np.empty(shape, np.float32), np.empty(shape, np.float32)
        return self._engine.train(jobs, rows, n_jobs=n_jobs, watch=self._rows, on_epoch=self._keep)

    def epochs(self) -> Iterator[Remembered]:
        """Yield what the networks said after each epoch."""
        numbers = {row.tobytes(): number for number, row in enumerate(self._rows)}  # equal rows are answered equally
        for means, variances in zip(self._means, self._variances, strict=True):
            yield Remembered(numbers, means, variances)

    def _keep(self, report: EpochReport) -> None:
        self._means[report.epoch, report.job] = report.mean
        self._variances[report.epoch, report.job] = report.variance


def check_curves(model: Any) -> None:
    """Raise unless every network of the model runs the same epochs."""
    if getattr(model, "early_stopping", not isinstance(model, TorchRegressor)):
        raise InvalidParameterError(
            "kind 'curves' needs networks that all run every epoch; got a "
            f"{type(model).__name__} that stops early or has no epochs: set early_stopping = false"
        )
    if getattr(model, "design", "in-sample") != "in-sample":
        raise InvalidParameterError(
            "kind 'curves' needs networks that are all trained on the same rows; "
            f"got design = {model.design!r}: set design = 'in-sample'"
        )


@contextmanager
def watched(model: Any, X: FloatArray, X_test: FloatArray) -> Iterator[Watching]:
    """Let a fit in the block keep what the networks say about both sets of rows, scaled as the fit scales them."""
    inputs, engine = Standardizer.fit(Rows(X, X[:, 0])), model.engine
    watching = Watching(get_engine(engine), np.concatenate([inputs.transform(X), inputs.transform(X_test)]))
    model.engine = watching
    try:
        yield watching
    finally:
        model.engine = engine


def torch_curves(
    model: TorchRegressor, train: tuple[FloatArray, FloatArray], test: tuple[FloatArray, FloatArray]
) -> dict[str, list[float]]:
    """Return RMSE and NLL on the test rows after each epoch of another fit of a model that PyTorch trains.

    One that stops before its last epoch stays as it is.
    """
    scores: list[tuple[float, float]] = []

    def watch(then: TorchRegressor) -> None:
        dist = then.predict_dist(test[0])
        scores.append((rmse(test[1], dist), nll(test[1], dist)))

    model.fit_watched(*train, watch)
    return _points(scores + scores[-1:] * (model.epochs - len(scores)))


def epoch_curves(
    model: Any, seen: Watching, train: tuple[FloatArray, FloatArray], test: tuple[FloatArray, FloatArray]
) -> dict[str, list[float]]:
    """Return RMSE and NLL on the test rows after each epoch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what diverged on the way; the fit itself has warned of what still does
        scores = [_scores(model, epoch, said, train, test) for epoch, said in enumerate(seen.epochs(), 1)]
    return _points(scores)


def _points(scores: Sequence[tuple[float, float]]) -> dict[str, list[float]]:
    points = {name: [float(f"{score[i]:.{DIGITS}g}") for score in scores] for i, name in enumerate(("rmse", "nll"))}
    return {"epoch": list(range(1, len(scores) + 1)), **points}


def _scores(
    model: Any,
    epoch: int,
    networks: Remembered,
    train: tuple[FloatArray, FloatArray],
    test: tuple[FloatArray, FloatArray],
) -> tuple[float, float]:
    then = copy.copy(model).set_params(engine=Replay(networks), epochs=epoch)
    try:
        dist = then.fit(*train).predict_dist(test[0])
    except DivergedError:
        return float("nan"), float("nan")
    return rmse(test[1], dist), nll(test[1], dist)
