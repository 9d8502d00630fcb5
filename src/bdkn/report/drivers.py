"""What drives the mean and the spread of predictions: how much they change when a column is shuffled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bdkn.members.widening import as_a_member
from bdkn.regressors.aggregation import CombiningRegressor
from bdkn.report.evaluation import Evaluation
from bdkn.typing import FloatArray

_MOST_ROWS = 400
"""Rows on which columns are shuffled."""

_SHUFFLES = 3


@dataclass(frozen=True)
class Driver:
    """How much a column drives predictions.

    ``mean`` is the share of the variance of the predicted means that goes when the column is not known: half the mean
    squared change by shuffling it, over that variance. ``spread`` is the rms relative change of the standard
    deviation.
    """

    name: Any
    mean: float
    spread: float


def drivers_of(evaluation: Evaluation) -> list[Driver]:
    """Return how much each column drives predictions, the strongest first; of many rows, some are used."""
    model = fast_model(evaluation.model)
    rng = np.random.default_rng(0)
    view = evaluation.view.rows(np.sort(rng.permutation(len(evaluation.y))[:_MOST_ROWS]))
    with as_a_member():
        mean, width = _moments(model, view.table)
        total = float(mean.var()) or 1.0
        found = []
        for name in view.names:
            shuffles = [rng.permutation(len(view)) for _ in range(_SHUFFLES)]
            changed = [_moments(model, view.with_column_of(name, order)) for order in shuffles]
            moved = np.mean([(other - mean) ** 2 for other, _ in changed]) / 2.0
            spread = np.sqrt(np.mean([np.log(other / width) ** 2 for _, other in changed]) / 2.0)
            found.append(Driver(name, float(moved / total), float(spread)))
    return sorted(found, key=lambda driver: -driver.mean)


def fast_model(model: Any) -> Any:
    """Return the model without densities of neighbours, which predicts faster."""
    return model.without_shape() if isinstance(model, CombiningRegressor) and model.density_ is not None else model


def _moments(model: Any, table: Any) -> tuple[FloatArray, FloatArray]:
    dist = model.predict_dist(table)
    lower, upper = dist.interval(0.9)
    return dist.median(), np.maximum(upper - lower, 1e-300)
