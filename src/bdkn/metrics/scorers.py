"""Metrics as scikit-learn scorers: callables of (estimator, X, y) for ``scoring=``, where greater is better."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from bdkn.errors import InvalidParameterError
from bdkn.metrics.intervals import coverage
from bdkn.metrics.scores import crps, nll
from bdkn.predictive.base import Predictive


def predictive_of(estimator: Any, X: Any) -> Predictive:
    """Return what ``estimator`` predicts for ``X``; pipelines and searches are followed to the regressor inside."""
    if hasattr(estimator, "predict_dist"):
        dist: Predictive = estimator.predict_dist(X)
        return dist
    if hasattr(estimator, "best_estimator_"):
        return predictive_of(estimator.best_estimator_, X)
    if hasattr(estimator, "steps"):
        for _, step in estimator.steps[:-1]:
            X = X if step is None or step == "passthrough" else step.transform(X)
        return predictive_of(estimator.steps[-1][1], X)
    raise InvalidParameterError(
        f"the estimator must have predict_dist(X), as the regressors of bdkn have; got {type(estimator).__name__}"
    )


def neg_nll(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Return the mean log predictive density of ``y``, the negative of ``nll``."""
    return -nll(y, predictive_of(estimator, X))


def neg_crps(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Return the negative mean continuous ranked probability score of ``y``."""
    return -crps(y, predictive_of(estimator, X))


def neg_coverage_error(estimator: Any, X: Any, y: ArrayLike, level: float = 0.9) -> float:
    """Return minus the gap between ``level`` and the share of ``y`` inside its central interval of that level."""
    return -abs(coverage(y, predictive_of(estimator, X), level) - level)
