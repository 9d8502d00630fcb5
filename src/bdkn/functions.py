"""Predictions of any fitted estimator that ends with a regressor of this library, and of cross-validation.

The estimator may be a regressor, or a pipeline, search, transformed target or other estimator with a regressor inside.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

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
from bdkn.estimators import ProbabilisticRegressor
from bdkn.metrics.estimators import Route, route_of
from bdkn.predictive import Predictive, join
from bdkn.typing import FloatArray, IndexArray

Function = TypeVar("Function", bound=Callable[..., Any])

_ESTIMATOR = """\
estimator : estimator
    A regressor with ``predict_dist``, or a ``Pipeline``, a search such as ``GridSearchCV``, a
    ``TransformedTargetRegressor``, a ``FrozenEstimator`` or ``RFE`` with such a regressor inside, at any depth.
    Predictions are for the target before a transformation, truncated where the transformed target has bounds.
"""

_MODEL = """\
>>> import numpy as np
>>> import bdkn
>>> X = np.linspace(0.0, 1.0, 60)[:, None]
>>> model = bdkn.BayesianStackingRegressor([("line", lambda X: X[:, 0])], random_state=0).fit(X, X[:, 0] ** 3)
"""


def _documented_by(method: Callable[..., Any], example: str) -> Callable[[Function], Function]:
    """Return a decorator that puts the docstring sections of a method, and an example, in place of ``<sections>``."""

    def document(function: Function) -> Function:
        sections = (inspect.getdoc(method) or "").partition("\nParameters\n----------\n")[2]
        for name in inspect.signature(method).parameters.keys() - inspect.signature(function).parameters.keys():
            sections = re.sub(rf"^{name} : .*\n(    .*\n)*", "", sections, flags=re.MULTILINE)
        text = f"Parameters\n----------\n{_ESTIMATOR}{sections}\n\nExamples\n--------\n{_MODEL}{example}"
        function.__doc__ = inspect.cleandoc(function.__doc__ or "").replace("<sections>", text)
        return function

    return document


@_documented_by(
    ProbabilisticRegressor.predict_dist,
    """\
>>> from sklearn.compose import TransformedTargetRegressor
>>> inner = bdkn.BayesianStackingRegressor([("line", lambda X: X[:, 0])], target="identity", random_state=0)
>>> model = TransformedTargetRegressor(inner, func=np.log, inverse_func=np.exp).fit(X, np.exp(X[:, 0] ** 3))
>>> bool((bdkn.predict_dist(model, X).ppf(0.001) > 0.0).all())
True""",
)
def predict_dist(estimator: Any, X: Any) -> Predictive:
    """Predict the distribution of each row with any fitted estimator that contains a regressor of this library.

    <sections>
    """
    return route_of(estimator, X).dist()


def predict_std(estimator: Any, X: Any) -> FloatArray:
    """Predict the standard deviation of each row with any fitted estimator that contains a regressor of this library.

    Parameters
    ----------
    estimator : estimator
        As in ``bdkn.predict_dist``.
    X : array-like or data frame
        Rows to predict.

    Returns
    -------
    std : ndarray of shape (n_samples,)
        Standard deviations, infinite where a distribution has none.

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


@_documented_by(
    ProbabilisticRegressor.predict_interval,
    """\
>>> from sklearn.pipeline import make_pipeline
>>> from sklearn.preprocessing import StandardScaler
>>> model = make_pipeline(StandardScaler(), model).fit(X, X[:, 0] ** 3)
>>> bdkn.predict_interval(model, X, coverage=0.5).shape
(60, 2)""",
)
def predict_interval(estimator: Any, X: Any, coverage: float = 0.9, **options: Any) -> FloatArray:
    """Predict the central interval of each row with any fitted estimator that contains a regressor of this library.

    ``options`` are other parameters of the regressor's own ``predict_interval``.

    <sections>
    """
    route = route_of(estimator, X)
    own = getattr(route.regressor, "predict_interval", None)
    if own is None or (route.maps and not options and not len(_outcome_of(route).values)):
        check_number("coverage", coverage, low=0.0, high=1.0)
        return np.stack(route.dist().interval(coverage), axis=1)
    interval = np.asarray(own(route.X, coverage, **options))
    for transformation in route.maps:
        interval = transformation.inverse(interval)
    return interval


@_documented_by(
    ProbabilisticRegressor.predict_quantiles,
    """\
>>> bdkn.predict_quantiles(model, X).shape
(60, 3)""",
)
def predict_quantiles(estimator: Any, X: Any, quantiles: float | Sequence[float] = (0.05, 0.5, 0.95)) -> FloatArray:
    """Predict quantiles of each row with any fitted estimator that contains a regressor of this library.

    <sections>
    """
    levels = decisions.check_quantiles(quantiles)
    outcome = _outcome_of(route_of(estimator, X))
    if outcome.rest is not None and not len(outcome.values):
        return outcome.rest.ppf(levels)
    return np.stack([outcome.quantiles(np.full(len(outcome), level)) for level in levels], axis=1)


@_documented_by(
    ProbabilisticRegressor.predict_above,
    """\
>>> bdkn.predict_above(model, X, [0.25, 0.5, 0.75]).shape
(60, 3)""",
)
def predict_above(estimator: Any, X: Any, threshold: ArrayLike) -> FloatArray:
    """Predict the probability above a threshold with any fitted estimator that contains a regressor of this library.

    <sections>
    """
    return decisions.probability_above(_outcome_of(route_of(estimator, X)), threshold)


@_documented_by(
    ProbabilisticRegressor.expected_cost,
    """\
>>> linear = bdkn.expected_cost(model, X, (2.0, 1.0), decision=0.5)
>>> cost = lambda y, decision: np.where(y > decision, 2.0 * (y - decision), decision - y)
>>> bool(np.allclose(bdkn.expected_cost(model, X, cost, decision=0.5), linear))
True""",
)
def expected_cost(
    estimator: Any, X: Any, cost: decisions.CostGiven, decision: ArrayLike | None = None, *, tolerance: float = 1e-6
) -> FloatArray:
    """Predict the average of a cost with any fitted estimator that contains a regressor of this library.

    <sections>
    """
    return decisions.expected_cost(_outcome_of(route_of(estimator, X)), cost, decision, tolerance)


@_documented_by(
    ProbabilisticRegressor.optimal_order,
    """\
>>> order = bdkn.optimal_order(model, X, under=3.0, over=1.0)
>>> bool(np.allclose(bdkn.predict_above(model, X, order.quantity), 0.25))
True""",
)
def optimal_order(estimator: Any, X: Any, *, under: ArrayLike, over: ArrayLike) -> decisions.Order:
    """Return the orders with the least average cost by any fitted estimator that contains a regressor of this library.

    <sections>
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
        Number of folds, a splitter of scikit-learn, or pairs of row numbers. Every row must be held out once.
    groups : array-like of shape (n_samples,), optional
        Labels of rows for a splitter such as ``GroupKFold``. ``params={"groups": groups}`` gives them to ``fit``, too.
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
        splits = list(check_cv(cv, targets, classifier=False).split(table, targets, labels))
    except TypeError as error:
        raise InvalidParameterError(
            f"cv must be a number of folds, a splitter, or pairs of row numbers; got {shown(cv)}"
        ) from error
    n = len(targets)
    times = np.bincount(np.concatenate([np.arange(n)[test] for _, test in splits]), minlength=n)
    if not (times == 1).all():
        raise InvalidParameterError(
            f"every one of the {n} rows must be held out once, to be predicted once; with this cv, "
            f"{np.sum(times == 0)} are never held out and {np.sum(times > 1)} more than once: use KFold or GroupKFold, "
            "or predict_dist for each split of your own"
        )

    def predict_fold(train: IndexArray, test: IndexArray) -> Predictive:
        # Parameters with one value per row are divided as the rows are.
        per_row = {
            name: hasattr(value, "__len__") and not isinstance(value, (str, Mapping)) and len(value) == n
            for name, value in (params or {}).items()
        }
        own = {name: take_rows(value, train) if per_row[name] else value for name, value in (params or {}).items()}
        model = clone(estimator).fit(take_rows(table, train), take_rows(targets, train), **own)
        return predict_dist(model, take_rows(table, test))

    parts = Parallel(n_jobs=n_jobs)(delayed(predict_fold)(train, test) for train, test in splits)
    return join(parts, [test for _, test in splits])


def _outcome_of(route: Route) -> Outcome:
    """Return the predicted distribution of the target before any transformation of it."""
    own = getattr(route.regressor, "_outcome", None)
    outcome: Outcome = Outcome.of(route.regressor.predict_dist(route.X)) if own is None else own(route.X)
    for transformation in route.maps:
        outcome = outcome.restored(transformation)
    return outcome
