"""What drives the mean and the variance of predictions: Shapley values of some rows, as ``explain`` returns them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bdkn.regressors.aggregation import CombiningRegressor
from bdkn.report.evaluation import Evaluation
from bdkn.typing import FloatArray

_MOST_ROWS = 100
"""Rows that are explained."""


@dataclass(frozen=True)
class Driver:
    """How much a column drives predictions, on average over rows, with standard errors.

    ``mean`` is how much it moves the mean, in units of the target; ``variance`` how much it moves the variance, as a
    share of the average variance.
    """

    name: Any
    mean: float = 0.0
    mean_error: float = 0.0
    variance: float = 0.0
    variance_error: float = 0.0


def drivers_of(evaluation: Evaluation) -> list[Driver]:
    """Return how much each column drives predictions, the strongest first; zeros if the model cannot explain them."""
    names = evaluation.view.names
    if not hasattr(evaluation.model, "explain"):
        return [Driver(name) for name in names]
    found = fast_model(evaluation.model).explain(evaluation.view.table, max_rows=_MOST_ROWS)
    value, error = _known(found.importance()), _known(found.importance_error())
    mean, variance = found.number_of("mean"), found.number_of("variance")
    unit = float(_known(found.base[variance : variance + 1])[0]) or 1.0
    given = {str(name): name for name in names}
    drivers = [
        Driver(
            given.get(column, names[j]),
            float(value[j, mean]),
            float(error[j, mean]),
            float(value[j, variance] / unit),
            float(error[j, variance] / unit),
        )
        for j, column in enumerate(found.columns)
    ]
    return sorted(drivers, key=lambda driver: -driver.mean)


def fast_model(model: Any) -> Any:
    """Return the model without densities of neighbours, which predicts faster."""
    return model.without_shape() if isinstance(model, CombiningRegressor) and model.density_ is not None else model


def _known(values: FloatArray) -> FloatArray:
    """Return values, with 0 in place of what is not finite: variances of few degrees of freedom are infinite."""
    return np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
