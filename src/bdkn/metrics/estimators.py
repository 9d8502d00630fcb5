"""The way through pipelines, searches and transformed targets to the regressor inside, which predicts distributions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from bdkn.errors import InvalidParameterError
from bdkn.metrics.target_transformers import target_maps
from bdkn.predictive import Predictive
from bdkn.predictive.target_maps import TargetMap


@dataclass(frozen=True, eq=False)
class Route:
    """A regressor with ``predict_dist``, the rows as it receives them, and what was done to its target.

    ``maps`` are the transformations of the target, the one nearest to the regressor first.
    """

    regressor: Any
    X: Any
    maps: tuple[TargetMap, ...] = ()

    def dist(self) -> Predictive:
        """Return the distributions of the target as the user gave it."""
        dist: Predictive = self.regressor.predict_dist(self.X)
        for transformation in self.maps:
            dist = transformation.restore(dist)
        return dist


def route_of(estimator: Any, X: Any = None, *, rows: bool = True) -> Route:
    """Return the way from a fitted estimator to its regressor; without ``rows``, X is not transformed."""
    if hasattr(estimator, "predict_dist"):
        return Route(estimator, X)
    if hasattr(estimator, "best_estimator_"):
        return route_of(estimator.best_estimator_, X, rows=rows)
    if hasattr(estimator, "steps"):
        for _, step in estimator.steps[:-1] if rows else ():
            X = X if step is None or step == "passthrough" else step.transform(X)
        return route_of(estimator.steps[-1][1], X, rows=rows)
    if hasattr(estimator, "regressor_") and hasattr(estimator, "transformer_"):
        inner = route_of(estimator.regressor_, X, rows=rows)
        return replace(inner, maps=(*inner.maps, *target_maps(estimator.transformer_)))
    if hasattr(estimator, "estimator_"):  # recursive feature elimination transforms rows, RANSAC does not
        X = estimator.transform(X) if rows and hasattr(estimator, "transform") else X
        return route_of(estimator.estimator_, X, rows=rows)
    raise InvalidParameterError(_refusal(estimator))


def _refusal(estimator: Any) -> str:
    kind = type(estimator).__name__
    if hasattr(estimator, "cv_results_"):
        return f"a search must keep its best estimator, refit=True, to predict; got {kind} with refit=False"
    if any(hasattr(estimator, name) for name in ("regressor", "param_grid", "param_distributions")):
        return f"the estimator must be fitted to predict; got {kind}, which is not: call its fit first"
    return f"the estimator must have predict_dist(X), as the regressors of bdkn have; got {kind}"


def regressor_of(estimator: Any) -> Any:
    """Return the regressor with ``predict_dist`` inside a fitted estimator."""
    return route_of(estimator, rows=False).regressor


def plain_route_of(estimator: Any, X: Any) -> Route:
    """Return the way to the regressor; raise if its target is transformed, so that its parts have other units."""
    route = route_of(estimator, X)
    if route.maps:
        raise InvalidParameterError(
            f"predictions of a transformed target are not explained in its units; got {type(estimator).__name__}: fit "
            "the regressor to the target itself, or explain the regressor inside, in units of the transformed target"
        )
    return route
