"""A batch of rows as a monitor sees it: predictions, probability integral transforms, distance from training rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bdkn.data.training_rows import check_targets
from bdkn.errors import InvalidParameterError, no_extrapolation_warnings
from bdkn.estimators.combining_model import CombiningModel
from bdkn.estimators.value_prediction import ValuePrediction
from bdkn.metrics import Monitor, MonitorReport
from bdkn.predictive import Predictive
from bdkn.typing import FloatArray


def watch_batch(model: CombiningModel, X: Any, y: ArrayLike, monitor: Monitor) -> MonitorReport:
    """Add a batch to a monitor; return its report."""
    targets, rows = check_targets(y), model._rows(X)
    if rows.shape[0] != len(targets):
        raise InvalidParameterError(
            f"y must hold one target for each of the {rows.shape[0]} rows of X; got {len(targets)}"
        )
    with no_extrapolation_warnings():
        prediction = model._prediction(rows)
        dist = prediction.dist()
    if model._combined.values is None:
        pit = dist.cdf(targets)
    else:
        pit = _randomized_pit(ValuePrediction.of(prediction), targets, np.random.default_rng(monitor.n))
    return monitor.add(targets, dist, pit=pit, outside=_outside(model, X))


def _outside(model: CombiningModel, X: Any) -> float:
    """Return the share of rows outside of the training rows, nan if the model does not know where these lie."""
    if model._combined.widening is None:
        return float("nan")
    return float(np.mean(model.support(X).status != "inside"))


def _randomized_pit(predicted: ValuePrediction, y: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Return P(Y < y) plus a random share of P(Y = y), which is uniform if predictions of values are calibrated."""
    shares, found = np.exp(predicted.logs), predicted.model.found.values
    numbers = predicted.model.numbers(y, predicted.combined.targets)
    is_value = numbers < len(found)
    own = np.where(is_value, found[np.minimum(numbers, len(found) - 1)], y)
    below = np.sum(shares[:, : len(found)] * (found < own[:, None]), axis=1)
    at = np.where(is_value, shares[np.arange(len(y)), np.minimum(numbers, len(found) - 1)], 0.0)
    below = below + _rest(predicted.rest, shares, own)
    return np.asarray(np.clip(below + generator.uniform(size=len(y)) * at, 0.0, 1.0))


def _rest(rest: Predictive | None, shares: FloatArray, y: FloatArray) -> FloatArray | float:
    """Return the probability of a smaller value without a point mass."""
    return 0.0 if rest is None else shares[:, -1] * rest.cdf(y)
