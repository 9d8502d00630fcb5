"""Predictions of the values that many targets share: those of a lattice, or point masses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bdkn.analysis.decisions import Outcome
from bdkn.errors import InvalidParameterError
from bdkn.estimators.fitted import Combined
from bdkn.estimators.prediction import Prediction
from bdkn.model.value_model import ValueModel
from bdkn.predictive import Predictive, Transformed
from bdkn.typing import FloatArray


def require_values(combined: Combined) -> ValueModel:
    """Return the model of the probabilities of values; raise if there is none."""
    if combined.values is None:
        raise InvalidParameterError(
            "probabilities of values need targets on a lattice, or a value that many of them share, and rows left "
            "out of training; there are none: use predict_dist, predict_interval or predict_quantiles"
        )
    return combined.values


@dataclass(frozen=True, eq=False)
class ValuePrediction:
    """Log probabilities (n, k) of values for rows and, with point masses, of any other.

    ``rest`` is the distribution of targets without a point mass, None for a lattice.
    """

    combined: Combined
    logs: FloatArray
    rest: Predictive | None

    @classmethod
    def of(cls, prediction: Prediction) -> ValuePrediction:
        """Return the prediction of values; raise if many targets share none."""
        combined, forecast = prediction.combined, prediction.forecast
        model, targets = require_values(combined), combined.targets
        logs = model.log_probabilities(combined.combination.predictive(forecast), targets)
        if model.rest is None:
            return cls(combined, logs, None)
        return cls(combined, logs, targets.restore(model.rest.predictive(forecast, targets.scale, targets.mean)))

    @property
    def model(self) -> ValueModel:
        """The model of the probabilities."""
        return require_values(self.combined)

    def probabilities(self) -> dict[float, FloatArray]:
        """Return the probability of each value in each row."""
        shares = np.exp(self.logs)
        return {float(value): shares[:, k] for k, value in enumerate(self.model.found.values)}

    def outcome(self) -> Outcome:
        """Return the distribution of values and of the rest."""
        return Outcome(self.model.found.values, np.exp(self.logs)[:, : len(self.model.found)], self.rest)

    def interval(self, coverage: float) -> FloatArray:
        """Return the ends (n, 2) of the central interval of each row."""
        ends = self.quantiles(np.array([1.0 - coverage, 1.0 + coverage]) / 2.0)
        return np.stack(self.rest.to_bounds(*ends.T), axis=1) if isinstance(self.rest, Transformed) else ends

    def quantiles(self, levels: FloatArray) -> FloatArray:
        """Return the quantiles (n, k) of each row."""
        return self.model.quantiles(levels, self.logs, self.rest)

    def log_score(self, y: FloatArray) -> float:
        """Return the mean log probability of the targets' values."""
        logs, rest, numbers = self.logs, self.rest, self.model.numbers(y, self.combined.targets)
        if rest is None:
            logs = np.hstack([logs, np.full((len(logs), 1), -np.log(1.0 + self.combined.combination.n))])
        scores = logs[np.arange(len(numbers)), numbers]
        others = numbers == len(self.model.found)
        if rest is not None and others.any():
            scores[others] += rest[others].logpdf(y[others])
        return float(scores.mean())
