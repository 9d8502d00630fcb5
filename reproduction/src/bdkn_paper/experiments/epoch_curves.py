"""Test scores that a method would have if training had stopped after each epoch, from a single training run.

For an ensemble, the outputs of the networks for training and test rows are kept after every epoch. The regressor is
then fitted again for each epoch with an engine that trains nothing and returns networks with the outputs kept.
Regressors that PyTorch trains can be evaluated after each epoch themselves.
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

from bdkn.data.rows import Rows
from bdkn.data.scaling import Standardizer
from bdkn.errors import DivergedError, InvalidParameterError
from bdkn.metrics import nll, rmse
from bdkn.networks import EpochReport, Trained, get_engine
from bdkn.typing import Array, FloatArray
from bdkn_paper.baselines import TorchRegressor

DIGITS = 6
"""Significant digits of the points of a curve: more than a figure shows, few enough to keep records small."""


@dataclass(frozen=True, eq=False)
class RecordedNetworks:
    """Networks that know their means and variances (H, n) for certain scaled rows only, found by their bytes."""

    rows: Mapping[bytes, int]
    means: Array
    variances: Array

    def __len__(self) -> int:
        return len(self.means)

    def __getitem__(self, members: Sequence[int] | NDArray[np.intp]) -> RecordedNetworks:
        return RecordedNetworks(self.rows, self.means[members], self.variances[members])

    @classmethod
    def concatenate(cls, parts: Sequence[RecordedNetworks]) -> RecordedNetworks:
        """Return the networks of all parts, which must know the same rows."""
        means, variances = (np.concatenate([getattr(part, name) for part in parts]) for name in ("means", "variances"))
        return cls(parts[0].rows, means, variances)

    def is_finite(self) -> NDArray[np.bool_]:
        """Return True for every network: weights are not known here, and outputs are checked elsewhere."""
        return np.ones(len(self), dtype=np.bool_)

    def outputs(self, X: Array) -> tuple[Array, Array]:
        """Return the recorded means and variances of these rows."""
        known = [self.rows[row.tobytes()] for row in X]
        return self.means[:, known].astype(np.float64), self.variances[:, known].astype(np.float64)


@dataclass(frozen=True, eq=False)
class ReplayEngine:
    """An engine that trains nothing and returns the networks it was given."""

    networks: RecordedNetworks

    def train(
        self, jobs: Any, rows: Any, *, n_jobs: int | None = None, watch: Any = None, on_epoch: Any = None
    ) -> Trained:
        """Return the networks."""
        H, nothing = len(self.networks), np.zeros(1)
        return Trained(self.networks, (nothing,) * H, (nothing[:0],) * H, (0,) * H)


class RecordingEngine:
    """An engine that trains with another engine and records the networks' outputs for some rows after every epoch."""

    def __init__(self, engine: Any, rows: NDArray[np.float32]) -> None:
        self._engine, self._rows = engine, rows
        self._means = self._variances = np.empty((0, 0, 0), np.float32)

    def train(self, jobs: Any, rows: Any, *, n_jobs: int | None = None, watch: Any = None, on_epoch: Any = None) -> Any:
        """Train one network per job."""
        shape = jobs[0].config.epochs, len(jobs), len(self._rows)
        self._means, self._variances = np.empty(shape, np.float32), np.empty(shape, np.float32)
        return self._engine.train(jobs, rows, n_jobs=n_jobs, watch=self._rows, on_epoch=self._record)

    def epochs(self) -> Iterator[RecordedNetworks]:
        """Yield the networks as they were after each epoch."""
        numbers = {row.tobytes(): number for number, row in enumerate(self._rows)}  # equal rows have equal outputs
        for means, variances in zip(self._means, self._variances, strict=True):
            yield RecordedNetworks(numbers, means, variances)

    def _record(self, report: EpochReport) -> None:
        self._means[report.epoch, report.job] = report.mean
        self._variances[report.epoch, report.job] = report.variance


def check_curves(model: Any) -> None:
    """Raise unless every network of the model is trained for the same epochs on the same rows."""
    if _stops_early(model):
        raise InvalidParameterError(
            "kind 'curves' needs networks that all run every epoch; got a "
            f"{type(model).__name__} that stops early or has no epochs: set early_stopping = false"
        )
    if getattr(model, "design", "in-sample") != "in-sample":
        raise InvalidParameterError(
            "kind 'curves' needs networks that are all trained on the same rows; "
            f"got design = {model.design!r}: set design = 'in-sample'"
        )


def _stops_early(model: Any) -> bool:
    """Return whether networks may stop before the last epoch, or there are no epochs."""
    if hasattr(model, "training"):
        return bool(model.training is not None and model.training.early_stopping)
    return bool(getattr(model, "early_stopping", not isinstance(model, TorchRegressor)))


@contextmanager
def watched(model: Any, X: FloatArray, X_test: FloatArray) -> Iterator[RecordingEngine]:
    """Record the networks' outputs for both sets of rows, scaled as the fit scales them, during a fit in the block."""
    inputs, engine = Standardizer.fit(Rows(X, X[:, 0])), model.engine
    recording = RecordingEngine(get_engine(engine), np.concatenate([inputs.transform(X), inputs.transform(X_test)]))
    model.engine = recording
    try:
        yield recording
    finally:
        model.engine = engine


def torch_curves(
    model: TorchRegressor, train: tuple[FloatArray, FloatArray], test: tuple[FloatArray, FloatArray]
) -> dict[str, list[float]]:
    """Return RMSE and NLL on the test rows after each epoch of another fit of a model that PyTorch trains.

    If the fit stops early, the last scores are repeated for the remaining epochs.
    """
    scores: list[tuple[float, float]] = []

    def watch(then: TorchRegressor) -> None:
        dist = then.predict_dist(test[0])
        scores.append((rmse(test[1], dist), nll(test[1], dist)))

    model.fit_watched(*train, watch)
    return _points(scores + scores[-1:] * (model.epochs - len(scores)))


def epoch_curves(
    model: Any, recording: RecordingEngine, train: tuple[FloatArray, FloatArray], test: tuple[FloatArray, FloatArray]
) -> dict[str, list[float]]:
    """Return RMSE and NLL on the test rows after each epoch."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # about networks that diverged in between; the fit itself has warned about the final ones
        scores = [_scores(model, epoch, networks, train, test) for epoch, networks in enumerate(recording.epochs(), 1)]
    return _points(scores)


def _points(scores: Sequence[tuple[float, float]]) -> dict[str, list[float]]:
    points = {name: [float(f"{score[i]:.{DIGITS}g}") for score in scores] for i, name in enumerate(("rmse", "nll"))}
    return {"epoch": list(range(1, len(scores) + 1)), **points}


def _scores(
    model: Any,
    epoch: int,
    networks: RecordedNetworks,
    train: tuple[FloatArray, FloatArray],
    test: tuple[FloatArray, FloatArray],
) -> tuple[float, float]:
    then = copy.copy(model).set_params(engine=ReplayEngine(networks), epochs=epoch)
    try:
        dist = then.fit(*train).predict_dist(test[0])
    except DivergedError:
        return float("nan"), float("nan")
    return rmse(test[1], dist), nll(test[1], dist)
