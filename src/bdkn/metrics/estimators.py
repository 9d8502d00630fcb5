"""Predicted distributions of estimators that contain a regressor: pipelines, searches and transformed targets.

Transformers are recognised by class name, attributes and functions, so that scikit-learn need not be imported.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from bdkn.errors import InvalidParameterError
from bdkn.metrics.scores import coverage, crps, nll
from bdkn.predictive import LogitLink, LogLink, Predictive, YeoJohnsonLink
from bdkn.predictive.links import AsinhLink, BoxCoxLink, QuantileLink
from bdkn.predictive.transformed import TargetMap

_LN2, _LN10 = float(np.log(2.0)), float(np.log(10.0))

_FUNCTIONS: dict[Any, TargetMap] = {
    None: TargetMap(),
    np.positive: TargetMap(),
    np.log: TargetMap(LogLink()),
    np.log1p: TargetMap(LogLink(-1.0)),
    np.log2: TargetMap(LogLink(), unit=_LN2),
    np.log10: TargetMap(LogLink(), unit=_LN10),
    np.sqrt: TargetMap(BoxCoxLink(0.5), unit=2.0, shift=-2.0),
    np.square: TargetMap(BoxCoxLink(2.0), unit=0.5, shift=-0.5),
    np.arcsinh: TargetMap(AsinhLink()),
    logit: TargetMap(LogitLink()),
}
"""Increasing functions by which a target may be transformed, and the ``TargetMap`` that inverts each."""

_POINTS = np.array([0.125, 0.5, 0.875])
"""Test values: a user's inverse function must return them from the transformed values."""


def _number(value: Any, default: float) -> float:
    return default if value is None else float(np.ravel(value)[0])


_SCALERS = {
    # A StandardScaler has ``mean_`` even if it does not subtract it.
    "StandardScaler": lambda t: TargetMap(
        unit=_number(t.scale_, 1.0), shift=_number(t.mean_ if t.with_mean else None, 0.0)
    ),
    "RobustScaler": lambda t: TargetMap(unit=_number(t.scale_, 1.0), shift=_number(t.center_, 0.0)),
    "MaxAbsScaler": lambda t: TargetMap(unit=_number(t.scale_, 1.0)),
    "MinMaxScaler": lambda t: TargetMap(
        unit=1.0 / _number(t.scale_, 1.0), shift=-_number(t.min_, 0.0) / _number(t.scale_, 1.0)
    ),
}
"""For each scaler class of scikit-learn, a function that returns the ``TargetMap`` to undo a fitted scaler."""

_KNOWN = (
    "np.log, np.log1p, np.log2, np.log10, np.sqrt, np.square, np.arcsinh or scipy.special.logit with their inverses, "
    "StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, PowerTransformer, QuantileTransformer, or a pipeline "
    "of them"
)


def target_maps(transformer: Any) -> tuple[TargetMap, ...]:
    """Return, for each step of a fitted target transformer, the ``TargetMap`` that undoes it; the last step first."""
    if hasattr(transformer, "steps"):
        steps = [step for _, step in transformer.steps if step is not None and step != "passthrough"]
        return tuple(map_ for step in reversed(steps) for map_ in target_maps(step))
    kind = type(transformer).__name__
    if hasattr(transformer, "inverse_func"):
        return (_function_map(transformer.func, transformer.inverse_func),)
    if kind == "PowerTransformer":
        power = float(transformer.lambdas_[0])
        link = BoxCoxLink(power) if transformer.method == "box-cox" else YeoJohnsonLink(power)
        scaler = _SCALERS["StandardScaler"](transformer._scaler) if transformer.standardize else TargetMap()
        return (TargetMap(link, scaler.unit, scaler.shift),)
    if kind == "QuantileTransformer":
        quantiles = np.asarray(transformer.quantiles_[:, 0], dtype=np.float64)
        repeated = int(np.sum(np.diff(quantiles) <= 0.0))
        if repeated:
            raise InvalidParameterError(
                "a QuantileTransformer of the target has a density only if its quantiles differ; here "
                f"{repeated} of {len(quantiles)} repeat the one before: use fewer n_quantiles, or a PowerTransformer"
            )
        is_normal = transformer.output_distribution == "normal"
        return (TargetMap(QuantileLink(quantiles, transformer.references_, is_normal)),)
    if kind in _SCALERS:
        return (_SCALERS[kind](transformer),)
    raise InvalidParameterError(
        f"the distribution of a transformed target needs a transformer that is known to increase: {_KNOWN}; got {kind}."
        " Or fit the regressor to the target itself: its target='auto' chooses a transformation"
    )


def _function_map(func: Any, inverse: Any) -> TargetMap:
    """Return the ``TargetMap`` that undoes ``func``; raise an error unless it is a known function with this inverse."""
    try:
        found = _FUNCTIONS.get(func)
    except TypeError:  # a function that cannot be hashed
        found = None
    if func is None or inverse is None:
        is_inverse = func is None and inverse is None
    else:
        is_inverse = found is not None and (func is not logit or inverse is expit)
        is_inverse = is_inverse and np.allclose(inverse(func(_POINTS)), _POINTS, rtol=1e-10)
    if found is None or not is_inverse:
        names = tuple(getattr(f, "__name__", str(f)) for f in (func, inverse))
        raise InvalidParameterError(
            "the distribution of a transformed target needs a function that is known to increase, and its inverse: "
            f"{_KNOWN}; got func={names[0]}, inverse_func={names[1]}"
        )
    return found


@dataclass(frozen=True, eq=False)
class Route:
    """The regressor inside a pipeline or search, its transformed rows ``X``, and the transformations of its target.

    ``maps`` are the transformations of the target; the innermost one, nearest to the regressor, is first.
    """

    regressor: Any
    X: Any
    maps: tuple[TargetMap, ...] = ()

    def dist(self) -> Predictive:
        """Return the predicted distributions of the target in its original units."""
        dist: Predictive = self.regressor.predict_dist(self.X)
        for transformation in self.maps:
            dist = transformation.restore(dist)
        return dist


def route_of(estimator: Any, X: Any = None, *, rows: bool = True) -> Route:
    """Return the regressor inside a pipeline or search, and X as it receives it; X is transformed only if ``rows``."""
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
    kind = type(estimator).__name__
    message = f"the estimator must have predict_dist(X), as the regressors of bdkn have; got {kind}"
    if hasattr(estimator, "cv_results_"):
        message = f"a search must keep its best estimator, refit=True, to predict; got {kind} with refit=False"
    elif any(hasattr(estimator, name) for name in ("regressor", "param_grid", "param_distributions")):
        message = f"the estimator must be fitted to predict; got {kind}, which is not: call its fit first"
    raise InvalidParameterError(message)


def plain_route_of(estimator: Any, X: Any) -> Route:
    """Return the regressor inside an estimator, and X as it receives it; raise an error if targets are transformed."""
    route = route_of(estimator, X)
    if route.maps:
        raise InvalidParameterError(
            f"predictions of a transformed target are not explained in its units; got {type(estimator).__name__}: fit "
            "the regressor to the target itself, or explain the regressor inside, in units of the transformed target"
        )
    return route


def predictive_of(estimator: Any, X: Any) -> Predictive:
    """Return the predicted distributions of a fitted estimator, also inside a pipeline, search or transformed target.

    Parameters
    ----------
    estimator : estimator
        A fitted regressor with ``predict_dist``, or a pipeline, search or transformed target that ends with one.
    X : array-like or data frame
        Rows to predict.

    Returns
    -------
    Predictive
        One distribution per row.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bdkn import BDKNRegressor
    >>> from bdkn.metrics import predictive_of
    >>> X = np.linspace(0.0, 1.0, 40)[:, None]
    >>> model = make_pipeline(StandardScaler(), BDKNRegressor(n_members=2, epochs=2, random_state=0)).fit(X, X[:, 0])
    >>> len(predictive_of(model, X))
    40
    """
    return route_of(estimator, X).dist()


def neg_nll(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Return the mean log predictive density, the negative of ``nll``.

    Parameters
    ----------
    estimator : estimator
        A fitted regressor with ``predict_dist``, or a pipeline, search or transformed target that ends with one.
    X : array-like or data frame
        Rows.
    y : array-like (n,)
        Observed targets.

    Returns
    -------
    float
        The score in nats per row; greater is better.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from bdkn import BDKNRegressor
    >>> from bdkn.metrics import neg_nll
    >>> X = np.random.default_rng(0).uniform(size=(60, 1))
    >>> model = BDKNRegressor(n_members=2, epochs=2, random_state=0)
    >>> cross_val_score(model, X, X[:, 0], scoring=neg_nll, cv=3).shape
    (3,)
    """
    return -nll(y, predictive_of(estimator, X))


def neg_crps(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Return the negative mean continuous ranked probability score.

    Parameters
    ----------
    estimator : estimator
        A fitted regressor with ``predict_dist``, or a pipeline, search or transformed target that ends with one.
    X : array-like or data frame
        Rows.
    y : array-like (n,)
        Observed targets.

    Returns
    -------
    float
        The score in the units of ``y``; greater is better.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from bdkn import BDKNRegressor
    >>> from bdkn.metrics import neg_crps
    >>> X = np.random.default_rng(0).uniform(size=(60, 1))
    >>> model = BDKNRegressor(n_members=2, epochs=2, random_state=0)
    >>> cross_val_score(model, X, X[:, 0], scoring=neg_crps, cv=3).shape
    (3,)
    """
    return -crps(y, predictive_of(estimator, X))


def neg_coverage_error(estimator: Any, X: Any, y: ArrayLike, level: float = 0.9) -> float:
    """Return the negative absolute difference between nominal and observed coverage of central intervals.

    Parameters
    ----------
    estimator : estimator
        A fitted regressor with ``predict_dist``, or a pipeline, search or transformed target that ends with one.
    X : array-like or data frame
        Rows.
    y : array-like (n,)
        Observed targets.
    level : float, default=0.9
        Nominal coverage: the probability of the interval.

    Returns
    -------
    float
        The negative error, from -1 to 0; greater is better.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import BDKNRegressor
    >>> from bdkn.metrics import neg_coverage_error
    >>> X = np.linspace(0.0, 1.0, 60)[:, None]
    >>> model = BDKNRegressor(n_members=2, epochs=2, random_state=0).fit(X, X[:, 0])
    >>> -1.0 <= neg_coverage_error(model, X, X[:, 0]) <= 0.0
    True
    """
    return -abs(coverage(y, predictive_of(estimator, X), level) - level)
