"""Distributions of regressors inside pipelines, searches and transformed targets, and of cross-validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils.validation import indexable

from bdkn.analysis import decisions
from bdkn.analysis.decisions import Outcome
from bdkn.data.rows import take_rows
from bdkn.errors import InvalidParameterError, check_number, shown
from bdkn.metrics.estimators import Route, route_of
from bdkn.predictive import Predictive, join
from bdkn.typing import FloatArray, IndexArray


def predict_dist(estimator: Any, X: Any) -> Predictive:
    """Predict the distribution of each row by any fitted estimator that ends with a regressor of this library.

    Parameters
    ----------
    estimator : estimator
        A regressor with ``predict_dist``, or a ``Pipeline``, a search such as ``GridSearchCV``, a
        ``TransformedTargetRegressor``, a ``FrozenEstimator`` or ``RFE`` with one inside, also one in another.
    X : array-like or data frame
        Rows to predict.

    Returns
    -------
    dist : Predictive
        One distribution per row. The target of a ``TransformedTargetRegressor`` is the one before the transformation:
        its distribution is carried back, truncated where the transformed target has bounds.

    Examples
    --------
    >>> import numpy as np
    >>> import bdkn
    >>> from sklearn.compose import TransformedTargetRegressor
    >>> X = np.linspace(0.0, 1.0, 60)[:, None]
    >>> inner = bdkn.BayesianStackingRegressor([("line", lambda X: X[:, 0])], target="identity", random_state=0)
    >>> model = TransformedTargetRegressor(inner, func=np.log, inverse_func=np.exp).fit(X, np.exp(X[:, 0] ** 3))
    >>> bool((bdkn.predict_dist(model, X).ppf(0.001) > 0.0).all())
    True
    """
    return route_of(estimator, X).dist()


def predict_std(estimator: Any, X: Any) -> FloatArray:
    """Predict the standard deviation of each row by any fitted estimator that ends with a regressor of this library.

    Parameters
    ----------
    estimator : estimator
        As in ``bdkn.predict_dist``.
    X : array-like or data frame
        Rows to predict.

    Returns
    -------
    std : ndarray of shape (n_samples,)
        Standard deviations, infinite where there is none.

    Examples
    --------
    >>> import numpy as np
    >>> import bdkn
    >>> X = np.linspace(0.0, 1.0, 60)[:, None]
    >>> model = bdkn.BayesianStackingRegressor([("line", lambda X: X[:, 0])], random_state=0).fit(X, X[:, 0] ** 3)
    >>> bdkn.predict_std(model, X).shape
    (60,)
    """
    return predict_dist(estimator, X).std()


def predict_interval(estimator: Any, X: Any, coverage: float = 0.9, **options: Any) -> FloatArray:
    """Predict the central interval of each row by any fitted estimator that ends with a regressor of this library.

    Parameters
    ----------
    estimator : estimator
        As in ``bdkn.predict_dist``.
    X : array-like or data frame
        Rows to predict.
    coverage : float, default=0.9
        Probability that each interval contains.
    **options
        Other parameters of the regressor's own ``predict_interval``.

    Returns
    -------
    interval : ndarray of shape (n_samples, 2)
        Lower and upper ends.

    Examples
    --------
    >>> import numpy as np
    >>> import bdkn
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X = np.linspace(0.0, 1.0, 60)[:, None]
    >>> inner = bdkn.BayesianStackingRegressor([("line", lambda X: X[:, 0])], random_state=0)
    >>> model = make_pipeline(StandardScaler(), inner).fit(X, X[:, 0] ** 3)
    >>> bdkn.predict_interval(model, X, coverage=0.5).shape
    (60, 2)
    """
    route = route_of(estimator, X)
    own = getattr(route.regressor, "predict_interval", None)
    if own is None or (route.maps and not options and not len(_outcome_of(route).values)):
        check_number("coverage", coverage, low=0.0, high=1.0)
        return np.stack(route.dist().interval(coverage), axis=1)
    return _restored(route, np.asarray(own(route.X, coverage, **options)))


def predict_quantiles(estimator: Any, X: Any, quantiles: float | Sequence[float] = (0.05, 0.5, 0.95)) -> FloatArray:
    """Predict quantiles of each row by any fitted estimator that ends with a regressor of this library.

    Parameters
    ----------
    estimator : estimator
        As in ``bdkn.predict_dist``.
    X : array-like or data frame
        Rows to predict.
    quantiles : float or sequence of float, default=(0.05, 0.5, 0.95)
        Quantile levels, between 0 and 1.

    Returns
    -------
    values : ndarray of shape (n_samples, n_levels)
        The quantiles.

    Examples
    --------
    >>> import numpy as np
    >>> import bdkn
    >>> X = np.linspace(0.0, 1.0, 60)[:, None]
    >>> model = bdkn.BayesianStackingRegressor([("line", lambda X: X[:, 0])], random_state=0).fit(X, X[:, 0] ** 3)
    >>> bdkn.predict_quantiles(model, X).shape
    (60, 3)
    """
    levels = decisions.check_quantiles(quantiles)
    outcome = _outcome_of(route_of(estimator, X))
    if outcome.rest is not None and not len(outcome.values):
        return outcome.rest.ppf(levels)
    return np.stack([outcome.quantiles(np.full(len(outcome), level)) for level in levels], axis=1)


def predict_above(estimator: Any, X: Any, threshold: ArrayLike) -> FloatArray:
    """Predict the probability of a target above a threshold by any fitted estimator that ends with a regressor of ours.

    Parameters
    ----------
    estimator : estimator
        As in ``bdkn.predict_dist``.
    X : array-like or data frame
        Rows to predict.
    threshold : float or array-like
        A number, an array with one for each row, or several: a list, or an array of shape (1, k) or (n_samples, k).

    Returns
    -------
    probability : ndarray of shape (n_samples,) or (n_samples, k)
        Probabilities of a target greater than the threshold.

    Examples
    --------
    >>> import numpy as np
    >>> import bdkn
    >>> X = np.linspace(0.0, 1.0, 60)[:, None]
    >>> model = bdkn.BayesianStackingRegressor([("line", lambda X: X[:, 0])], random_state=0).fit(X, X[:, 0] ** 3)
    >>> bdkn.predict_above(model, X, [0.25, 0.5, 0.75]).shape
    (60, 3)
    """
    return decisions.probability_above(_outcome_of(route_of(estimator, X)), threshold)


def expected_cost(
    estimator: Any, X: Any, cost: decisions.CostGiven, decision: ArrayLike | None = None, *, tolerance: float = 1e-6
) -> FloatArray:
    """Predict the average of a cost by any fitted estimator that ends with a regressor of this library.

    Parameters
    ----------
    estimator : estimator
        As in ``bdkn.predict_dist``.
    X : array-like or data frame
        Rows to predict.
    cost : callable or (under, over)
        A function ``cost(y)`` or ``cost(y, decision)``, or the costs of each unit by which the target is above the
        decision and below it.
    decision : float or array-like, optional
        What was decided: a number, one for each row, or several, in the shapes of ``threshold`` in ``predict_above``.
    tolerance : float, default=1e-6
        Error of the average of a function, relative to the average of its absolute value.

    Returns
    -------
    cost : ndarray of shape (n_samples,) or (n_samples, k)
        Average costs.

    Examples
    --------
    >>> import numpy as np
    >>> import bdkn
    >>> X = np.linspace(0.0, 1.0, 60)[:, None]
    >>> model = bdkn.BayesianStackingRegressor([("line", lambda X: X[:, 0])], random_state=0).fit(X, X[:, 0] ** 3)
    >>> linear = bdkn.expected_cost(model, X, (2.0, 1.0), decision=0.5)
    >>> cost = lambda y, decision: np.where(y > decision, 2.0 * (y - decision), decision - y)
    >>> bool(np.allclose(bdkn.expected_cost(model, X, cost, decision=0.5), linear))
    True
    """
    return decisions.expected_cost(_outcome_of(route_of(estimator, X)), cost, decision, tolerance)


def optimal_order(estimator: Any, X: Any, *, under: ArrayLike, over: ArrayLike) -> decisions.Order:
    """Return the orders with the least average cost by any fitted estimator that ends with a regressor of this library.

    Parameters
    ----------
    estimator : estimator
        As in ``bdkn.predict_dist``.
    X : array-like or data frame
        Rows to predict.
    under : float or array of shape (n_samples,)
        Cost of each unit by which the target is above the order.
    over : float or array of shape (n_samples,)
        Cost of each unit by which it is below.

    Returns
    -------
    order : Order
        ``quantity``, average ``cost`` and ``level`` of each row.

    Examples
    --------
    >>> import numpy as np
    >>> import bdkn
    >>> X = np.linspace(0.0, 1.0, 60)[:, None]
    >>> model = bdkn.BayesianStackingRegressor([("line", lambda X: X[:, 0])], random_state=0).fit(X, X[:, 0] ** 3)
    >>> order = bdkn.optimal_order(model, X, under=3.0, over=1.0)
    >>> bool(np.allclose(bdkn.predict_above(model, X, order.quantity), 0.25))
    True
    """
    return decisions.optimal_order(_outcome_of(route_of(estimator, X)), under, over)


def cross_val_predict_dist(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    *,
    cv: Any = 5,
    groups: ArrayLike | None = None,
    n_jobs: int | None = None,
    params: Mapping[str, Any] | None = None,
) -> Predictive:
    """Predict the distribution of every row by a model that was fitted without it.

    Parameters
    ----------
    estimator : estimator
        A regressor of this library, or an estimator that ends with one, as in ``bdkn.predict_dist``. It is not changed:
        copies are fitted.
    X : array-like or data frame of shape (n_samples, n_features)
        Rows.
    y : array-like of shape (n_samples,)
        Targets.
    cv : int, splitter or iterable, default=5
        Number of folds, a splitter of scikit-learn, or pairs of row numbers. Every row must be left out once.
    groups : array-like of shape (n_samples,), optional
        Labels of rows for a splitter such as ``GroupKFold``. To tell ``fit``, too, give ``params={"groups": groups}``.
    n_jobs : int, optional
        Number of folds that are fitted at the same time.
    params : dict, optional
        Parameters of ``fit``; those with one value per row are divided as the rows are.

    Returns
    -------
    dist : Predictive
        One distribution for each row, in the order of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> import bdkn
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(60, 1))
    >>> y = X[:, 0] + rng.normal(0.0, 0.1, 60)
    >>> model = bdkn.BayesianStackingRegressor([("line", lambda X: X[:, 0])], random_state=0)
    >>> dist = bdkn.cross_val_predict_dist(model, X, y, cv=3)
    >>> len(dist), bool(bdkn.coverage(y, dist, 0.9) > 0.8)
    (60, True)
    """
    table, targets, labels = indexable(X, y, groups)
    try:
        splits = [
            (train, test) for train, test in check_cv(cv, targets, classifier=False).split(table, targets, labels)
        ]
    except TypeError as error:
        raise InvalidParameterError(
            f"cv must be a number of folds, a splitter, or pairs of row numbers; got {shown(cv)}"
        ) from error
    n = len(targets)
    times = np.bincount(np.concatenate([np.arange(n)[test] for _, test in splits]), minlength=n)
    if not (times == 1).all():
        raise InvalidParameterError(
            f"every one of the {n} rows must be left out once, to be predicted once; with this cv, "
            f"{np.sum(times == 0)} are never left out and {np.sum(times > 1)} more than once: use KFold or GroupKFold, "
            "or predict_dist for each split of your own"
        )
    fit = delayed(_fit_and_predict)
    parts = Parallel(n_jobs=n_jobs)(
        fit(clone(estimator), table, targets, train, test, _params_of(params, train, n)) for train, test in splits
    )
    return join(parts, [test for _, test in splits])


def _fit_and_predict(
    estimator: Any, X: Any, y: Any, train: IndexArray, test: IndexArray, params: dict[str, Any]
) -> Predictive:
    model = estimator.fit(take_rows(X, train), take_rows(y, train), **params)
    return predict_dist(model, take_rows(X, test))


def _params_of(params: Mapping[str, Any] | None, rows: IndexArray, n: int) -> dict[str, Any]:
    """Return the parameters of ``fit`` for some rows."""
    given = dict(params or {})
    return {name: take_rows(value, rows) if _is_per_row(value, n) else value for name, value in given.items()}


def _is_per_row(value: Any, n: int) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, (str, Mapping)) and len(value) == n


def _outcome_of(route: Route) -> Outcome:
    """Return the distribution of the target as the user gave it."""
    own = getattr(route.regressor, "_outcome", None)
    outcome: Outcome = Outcome.of(route.regressor.predict_dist(route.X)) if own is None else own(route.X)
    for transformation in route.maps:
        outcome = outcome.restored(transformation)
    return outcome


def _restored(route: Route, numbers: FloatArray) -> FloatArray:
    """Return numbers in the units of the target as the user gave it."""
    for transformation in route.maps:
        numbers = transformation.inverse(numbers)
    return numbers
