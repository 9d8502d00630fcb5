"""What a model predicts for rows whose targets are known, and how good that is, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from bdkn.lazy import lazy
from bdkn.predictive import Gaussian, Predictive
from bdkn.regressors.aggregation import CombiningRegressor
from bdkn.regressors.support_report import SupportReport
from bdkn.report.table_view import TableView
from bdkn.typing import FloatArray

LEVEL = 0.9
"""Probability of the intervals that the page shows."""

LEVELS = np.round(np.arange(0.05, 0.96, 0.05), 2)
"""Levels of the reliability chart."""

CHANCE = 0.95
"""Probability of the bands of what chance allows."""

_RESAMPLES = 500


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A model, rows and their targets; everything else is computed from these when it is asked for."""

    model: Any
    view: TableView
    y: FloatArray

    @lazy
    def dist(self) -> Predictive:
        """The predictive distribution of each row."""
        found: Predictive = self.model.predict_dist(self.view.table)
        return found

    @lazy
    def mean(self) -> FloatArray:
        """The predicted mean of each row."""
        return self.dist.mean()

    @lazy
    def std(self) -> FloatArray:
        """The predicted standard deviation of each row; the width of intervals where it is infinite."""
        std = self.dist.std()
        return std if np.isfinite(std).all() else np.asarray(self.interval[:, 1] - self.interval[:, 0]) / 3.3

    @lazy
    def interval(self) -> FloatArray:
        """The ends (n, 2) of the 90 % interval of each row."""
        return np.asarray(self.model.predict_interval(self.view.table, LEVEL))

    @lazy
    def half(self) -> FloatArray:
        """The ends (n, 2) of the 50 % interval of each row."""
        return np.stack(self.dist.interval(0.5), axis=1)

    @lazy
    def held(self) -> Any:
        """Whether the 90 % interval of each row holds its target."""
        return (self.interval[:, 0] <= self.y) & (self.y <= self.interval[:, 1])

    @lazy
    def pit(self) -> FloatArray:
        """The probability that is predicted below each target."""
        return self.dist.cdf(self.y)

    @lazy
    def covered(self) -> FloatArray:
        """The share of the targets in central intervals of each of ``LEVELS``."""
        apart = np.abs(2.0 * self.pit - 1.0)
        return np.asarray((apart[:, None] <= LEVELS).mean(axis=0))

    @lazy
    def support(self) -> SupportReport | None:
        """How far the rows are from the training rows; None where the model does not know."""
        known = isinstance(self.model, CombiningRegressor) and self.model._combined.widening is not None
        return self.model.support(self.view.table) if known else None

    @lazy
    def parts(self) -> dict[str, FloatArray]:
        """The parts of the variance of each row; none where the model does not divide it."""
        if not isinstance(self.model, CombiningRegressor):
            return {}
        parts = self.model.predict_var(self.view.table, decompose=True)
        return parts if all(np.isfinite(part).all() for part in parts.values()) else {}

    @lazy
    def baseline(self) -> Gaussian:
        """The same Gaussian for each row: mean and standard deviation of the training targets, if they are known."""
        y = _training_targets(self.model)
        known = self.y if y is None else y
        return Gaussian(np.full(len(self.y), known.mean()), float(known.std()) or 1.0)

    def scores(self, dist: Predictive, held: Any, width: FloatArray) -> dict[str, FloatArray]:
        """Return the score of each row under each measure."""
        error = dist.mean() - self.y
        return {
            "absolute": np.abs(error),
            "squared": error**2,
            "crps": dist.crps(self.y),
            "nll": -dist.logpdf(self.y),
            "held": np.asarray(held, dtype=np.float64),
            "width": width,
        }

    @lazy
    def own_scores(self) -> dict[str, FloatArray]:
        """The scores of the model's predictions."""
        return self.scores(self.dist, self.held, self.interval[:, 1] - self.interval[:, 0])

    @lazy
    def baseline_scores(self) -> dict[str, FloatArray]:
        """The scores of predicting the mean for all rows."""
        lower, upper = self.baseline.interval(LEVEL)
        return self.scores(self.baseline, (lower <= self.y) & (self.y <= upper), upper - lower)


def _training_targets(model: Any) -> FloatArray | None:
    held_out = getattr(model, "held_out_", None)
    return None if held_out is None else model._combined.targets.inverse(held_out.y)


def resample(n: int) -> FloatArray:
    """Return weights (resamples, n) of the bootstrap: how often each row is drawn, over n; always the same."""
    return np.random.default_rng(0).multinomial(n, np.full(n, 1.0 / n), size=_RESAMPLES) / n


def chance_of(n: int, share: float, probability: float = CHANCE) -> tuple[float, float]:
    """Return the range of shares that n rows show by chance, with this probability, if each counts so often."""
    low, high = stats.binom.interval(probability, n, share)
    return float(low / n), float(high / n)
