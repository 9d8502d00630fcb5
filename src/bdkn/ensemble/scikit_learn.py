"""Copies of fitted scikit-learn regressors as arrays.

Attributes of scikit-learn, some of them private, are read in this module only. An estimator that has others, in another
version, is not copied.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.ensemble.copied_models import (
    KERNEL_PARTS,
    KERNELS,
    METRICS,
    MOST_CATEGORIES,
    MOST_NODES,
    OUTPUT_FUNCTIONS,
    Average,
    BayesianLinear,
    CopiedModel,
    GaussianProcess,
    Impute,
    Kernel,
    Linear,
    NearestNeighbors,
    Products,
    Scale,
    Steps,
    StorableEstimator,
    SupportVectors,
    Transform,
    TransformedTarget,
    Trees,
    UserModel,
    is_storable,
)
from bdkn.typing import FloatArray, IndexArray

_MOST_FACTORS = 1 << 20
"""Entries of the table of factors of a polynomial, at most: a larger one is not copied."""


class _NotCopiedError(Exception):
    """An estimator, or a part of it, has no copy."""


def copy_estimator(estimator: Any) -> CopiedModel | None:
    """Copy a fitted regressor into arrays.

    Copied are, by their exact class, scikit-learn's boosted trees, forests, extra trees, single trees, bagging and
    voting, linear models, Gaussian processes with common kernels, support vectors, nearest neighbors, pipelines with
    scalers, ``SimpleImputer`` or ``PolynomialFeatures`` before one of these, transformed targets and searches; and
    estimators of a user's own class with the methods of ``StorableEstimator``.

    Parameters
    ----------
    estimator : object
        A fitted regressor with one target.

    Returns
    -------
    model : CopiedModel or None
        The copy, whose predictions are those of the estimator up to rounding; None if there is none.
    """
    try:
        model = _copy(estimator)
    except (_NotCopiedError, AttributeError, LookupError):  # the latter: attributes of another version
        return None
    return model if is_storable(model) else None


def _copy(estimator: Any) -> CopiedModel:
    if _is_scikit_learn(estimator):
        return _COPIES[type(estimator).__name__](estimator)
    _require(isinstance(estimator, StorableEstimator) and not isinstance(estimator, type))
    return UserModel.of(estimator)


def _is_scikit_learn(estimator: Any) -> bool:
    """Return whether scikit-learn itself defines the class: a user's subclass may predict otherwise."""
    return type(estimator).__module__.partition(".")[0] == "sklearn"


def _require(holds: bool | np.bool_) -> None:
    if not holds:
        raise _NotCopiedError


def _doubles(values: Any) -> FloatArray:
    """Return a copy in double precision."""
    return np.array(values, dtype=np.float64, order="C")


def _output(loss: Any) -> str:
    """Return the name of the inverse link of a loss."""
    return {"IdentityLink": "identity", "LogLink": "exp"}[type(loss.link).__name__]


# Linear models


def _copy_linear(estimator: Any) -> Linear:
    _require(np.ndim(estimator.coef_) == 1 and np.size(estimator.intercept_) == 1)
    loss = getattr(estimator, "_base_loss", None)
    output = "identity" if loss is None else _output(loss)
    return Linear(_doubles(estimator.coef_), float(np.ravel(estimator.intercept_)[0]), output)


def _copy_bayesian(estimator: Any) -> BayesianLinear:
    linear = _copy_linear(estimator)
    used = np.ones(linear.n_features, dtype=np.bool_)
    if type(estimator).__name__ == "ARDRegression":
        used = estimator.lambda_ < estimator.threshold_lambda
    columns, noise_variance = np.flatnonzero(used).astype(np.int64), float(1.0 / estimator.alpha_)
    center, covariance = _doubles(np.broadcast_to(estimator.X_offset_, used.shape))[used], _doubles(estimator.sigma_)
    centered = BayesianLinear(linear.coefficients, linear.intercept, columns, center, covariance, noise_variance)
    # Earlier versions do not center the samples. The standard deviation of the mean sample shows which this one does.
    mean_sample = np.broadcast_to(estimator.X_offset_, (1, len(used)))
    without_names = copy.copy(estimator)
    vars(without_names).pop("feature_names_in_", None)  # scikit-learn would warn of samples without names
    variance = without_names.predict(mean_sample, return_std=True)[1][0] ** 2
    if np.isclose(variance, noise_variance, rtol=1e-9, atol=0.0):
        return centered
    return BayesianLinear(
        linear.coefficients, linear.intercept, columns, np.zeros_like(center), covariance, noise_variance
    )


# Trees


def _copy_tree(estimator: Any) -> Trees:
    return _join([estimator.tree_], estimator, allow_nan=_allows_nan(estimator))


def _copy_forest(estimator: Any) -> Trees:
    trees = [tree.tree_ for tree in estimator.estimators_]
    return _join(trees, estimator, average=True, allow_nan=_allows_nan(estimator.estimators_[0]))


def _copy_boosting(estimator: Any) -> Trees:
    init = estimator.init_
    is_constant = _is_scikit_learn(init) and type(init).__name__ == "DummyRegressor"
    _require(is_constant or (isinstance(init, str) and init == "zero"))
    base = float(np.ravel(init.constant_)[0]) if is_constant else 0.0
    trees = [tree.tree_ for tree in estimator.estimators_[:, 0]]
    return _join(trees, estimator, base=base, factor=estimator.learning_rate)


def _allows_nan(tree: Any) -> bool:
    """Return whether a tree predicts samples with missing values; versions differ for monotonic constraints."""
    return bool(tree._support_missing_values(np.empty((1, 1))))


def _join(
    trees: Sequence[Any],
    estimator: Any,
    *,
    factor: float = 1.0,
    base: float = 0.0,
    average: bool = False,
    allow_nan: bool = False,
) -> Trees:
    """Return trees as one set of arrays; values of leaves are multiplied by ``factor``."""
    _require(getattr(estimator, "n_outputs_", 1) == 1)
    nodes = [
        {
            "left": tree.children_left,
            "right": tree.children_right,
            "feature": tree.feature,
            "number": np.where(tree.children_left < 0, factor * tree.value[:, 0, 0], tree.threshold),
            "missing_left": tree.missing_go_to_left,
        }
        for tree in trees
    ]
    return Trees(
        estimator.n_features_in_,
        **_depth_first(nodes),
        base=base,
        average=average,
        single=True,
        allow_nan=allow_nan,
    )


def _copy_hist_boosting(estimator: Any) -> Trees:
    """Copy boosted trees of binned columns; at its splits, a categorical column comes before all others."""
    trees = [tree for (tree,) in estimator._predictors]
    is_categorical = estimator.is_categorical_
    if is_categorical is None:
        is_categorical = np.zeros(estimator.n_features_in_, dtype=np.bool_)
    order, first_row, nodes = np.argsort(~is_categorical, kind="stable"), 0, []
    for tree in trees:
        found = tree.nodes
        is_leaf, of_category = found["is_leaf"] != 0, found["is_categorical"] != 0
        number = np.where(
            of_category, -1.0 - first_row - found["bitset_idx"].astype(np.float64), found["num_threshold"]
        )
        nodes.append(
            {
                "left": np.where(is_leaf, -1, found["left"].astype(np.int64)),
                "right": found["right"].astype(np.int64),
                "feature": order[found["feature_idx"].astype(np.int64)],
                "number": np.where(is_leaf, found["value"], number),
                "missing_left": found["missing_go_to_left"] != 0,
            }
        )
        first_row += len(tree.raw_left_cat_bitsets)
    sets = [np.ascontiguousarray(tree.raw_left_cat_bitsets, dtype="<u4") for tree in trees]
    return Trees(
        estimator.n_features_in_,
        **_depth_first(nodes),
        base=float(np.ravel(estimator._baseline_prediction)[0]),
        average=False,
        single=False,
        allow_nan=True,
        output=_output(estimator._loss),
        categorical=np.flatnonzero(is_categorical).astype(np.int32),
        categories=_categories(estimator) if is_categorical.any() else (),
        bitsets=np.concatenate(sets).reshape(-1, MOST_CATEGORIES // 32).view(np.uint8),
    )


def _categories(estimator: Any) -> tuple[FloatArray, ...]:
    """Return the categories of each categorical column; only numbers are copied."""
    found = estimator._preprocessor.named_transformers_["encoder"].categories_
    _require(all(values.dtype.kind in "biuf" for values in found))
    return tuple(_doubles(values[~np.isnan(values)]) for values in map(_doubles, found))


def _depth_first(trees: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, Any]:
    """Return arrays over the nodes of all trees in depth-first order, and the roots.

    A tree has left (-1 at a leaf) and right children, features, numbers, and the side of missing values.
    """
    first = np.cumsum([0, *(len(tree["left"]) for tree in trees)])
    _require(0 < first[-1] < MOST_NODES)
    roots, (left, right, feature, number, missing_left) = (
        first[:-1],
        (
            np.concatenate([tree[name] for tree in trees])
            for name in ("left", "right", "feature", "number", "missing_left")
        ),
    )
    tree_of = np.repeat(np.arange(len(trees)), np.diff(first))
    splits = np.flatnonzero(left >= 0)
    left[splits] += roots[tree_of[splits]]
    right[splits] += roots[tree_of[splits]]
    place = np.arange(first[-1])
    if not np.array_equal(left[splits], splits + 1):  # trees that were grown best split first
        place = _places(left, right, roots)
    out = {
        "feature": np.full(first[-1], -1, dtype=np.int32),
        "number": np.empty(first[-1]),
        "right": np.zeros(first[-1], dtype=np.int32),
        "missing_left": np.zeros(first[-1], dtype=np.bool_),
    }
    out["number"][place] = number
    out["feature"][place[splits]] = feature[splits]
    out["right"][place[splits]] = place[right[splits]]
    out["missing_left"][place[splits]] = missing_left[splits] != 0
    return {**out, "roots": roots.astype(np.int32)}


def _places(left: IndexArray, right: IndexArray, roots: IndexArray) -> IndexArray:
    """Return the place of each node in depth-first order, level by level of all trees."""
    levels, nodes = [], roots
    while len(nodes):
        splits = nodes[left[nodes] >= 0]
        levels.append(splits)
        nodes = np.concatenate([left[splits], right[splits]])
    size = np.ones(len(left), dtype=np.intp)
    for splits in reversed(levels):
        size[splits] += size[left[splits]] + size[right[splits]]
    place = np.zeros(len(left), dtype=np.intp)
    place[roots] = roots
    for splits in levels:
        place[left[splits]] = place[splits] + 1
        place[right[splits]] = place[splits] + 1 + size[left[splits]]
    return place


# Kernels


def _copy_process(estimator: Any) -> GaussianProcess:
    _require(np.ndim(estimator.alpha_) == 1 or np.shape(estimator.alpha_)[1] == 1)
    return GaussianProcess(
        _copy_kernel(estimator.kernel_),
        _doubles(estimator.X_train_),
        _doubles(np.ravel(estimator.alpha_)),
        _doubles(np.tril(estimator.L_)),
        float(np.ravel(estimator._y_train_mean)[0]),
        float(np.ravel(estimator._y_train_std)[0]),
    )


def _copy_kernel(kernel: Any) -> Kernel:
    name = type(kernel).__name__
    _require(_is_scikit_learn(kernel) and name in KERNELS)
    values = [np.ravel(getattr(kernel, parameter)) for parameter in KERNELS[name]]
    parts = tuple(_copy_kernel(getattr(kernel, part)) for part in KERNEL_PARTS.get(name, ()))
    return Kernel(name, _doubles(np.concatenate([np.empty(0), *values])), parts)


def _copy_support_vectors(estimator: Any) -> SupportVectors:
    _require(isinstance(estimator.kernel, str) and estimator.kernel in ("rbf", "linear", "poly", "sigmoid"))
    _require(not estimator._sparse)
    return SupportVectors(
        estimator.kernel,
        _doubles(estimator.support_vectors_),
        _doubles(np.ravel(estimator.dual_coef_)),
        float(estimator.intercept_[0]),
        float(estimator._gamma),
        float(estimator.coef0),
        int(estimator.degree),
    )


def _copy_neighbors(estimator: Any) -> NearestNeighbors:
    plain = isinstance(estimator._fit_X, np.ndarray) and estimator._fit_X.dtype.kind in "biuf"
    _require(plain and np.ndim(estimator._y) == 1 and not estimator.metric_params)
    _require(isinstance(estimator.weights, str) and isinstance(estimator.metric, str) and estimator.metric in METRICS)
    return NearestNeighbors(
        _doubles(estimator._fit_X),
        _doubles(estimator._y),
        int(estimator.n_neighbors),
        estimator.weights,
        estimator.metric,
        float(estimator.p),
        estimator.algorithm,
        int(estimator.leaf_size),
    )


# Compositions


def _copy_pipeline(estimator: Any) -> CopiedModel:
    *steps, (_, last) = estimator.steps
    used = [step for _, step in steps if not (step is None or isinstance(step, str))]
    transforms = tuple(_copy_transform(step) for step in used)
    model = _copy(last)
    return Steps(transforms, model) if transforms else model


def _copy_transform(step: Any) -> Transform:
    _require(_is_scikit_learn(step))
    return _TRANSFORMS[type(step).__name__](step)


def _scale(n: int, **parts: Any) -> Scale:
    """Return the scaling of n columns; parts that are None change nothing."""
    neutral = {"center": 0.0, "divisor": 1.0, "factor": 1.0, "offset": 0.0}
    given: dict[str, Any] = {name: float(parts[name]) for name in ("low", "high") if name in parts}
    for name, value in neutral.items():
        given[name] = _doubles(np.broadcast_to(value if parts.get(name) is None else parts[name], n))
    return Scale(**given)


def _standard(step: Any) -> Scale:
    return _scale(step.n_features_in_, center=step.mean_ if step.with_mean else None, divisor=step.scale_)


def _robust(step: Any) -> Scale:
    return _scale(step.n_features_in_, center=step.center_, divisor=step.scale_)


def _max_abs(step: Any) -> Scale:
    return _scale(step.n_features_in_, divisor=step.scale_)


def _min_max(step: Any) -> Scale:
    limits = dict(zip(("low", "high"), step.feature_range, strict=True)) if step.clip else {}
    return _scale(step.n_features_in_, factor=step.scale_, offset=step.min_, **limits)


def _impute(step: Any) -> Impute:
    is_missing_nan = isinstance(step.missing_values, float) and np.isnan(step.missing_values)
    _require(is_missing_nan and not step.add_indicator and step.statistics_.dtype.kind == "f")
    _require(not np.isnan(step.statistics_).any())  # columns without a value are dropped, or kept as zeros
    return Impute(_doubles(step.statistics_))


def _products(step: Any) -> Products:
    powers = np.asarray(step.powers_)
    degree = int(powers.sum(axis=1).max())
    _require(len(powers) * degree <= _MOST_FACTORS)
    factors = np.full((len(powers), degree), -1, dtype=np.int32)
    for own, power in zip(factors, powers, strict=True):
        own[: power.sum()] = np.repeat(np.arange(powers.shape[1]), power)
    return Products(powers.shape[1], factors)


def _copy_transformed_target(estimator: Any) -> TransformedTarget:
    _require(estimator._training_dim == 1)
    model, transformer = _copy(estimator.regressor_), estimator.transformer_
    _require(_is_scikit_learn(transformer))
    if type(transformer).__name__ != "FunctionTransformer":
        return TransformedTarget(model, _INVERSES[type(transformer).__name__](transformer))
    if transformer.inverse_func is None:  # scikit-learn then returns what it is given
        return TransformedTarget(model, "identity")
    names = [name for name, function in OUTPUT_FUNCTIONS.items() if function is transformer.inverse_func]
    return TransformedTarget(model, names[0])


def _copy_bagging(estimator: Any) -> Average:
    models = tuple(map(_copy, estimator.estimators_))
    columns = tuple(np.array(own, dtype=np.int64) for own in estimator.estimators_features_)
    return Average(models, np.ones(len(models)), estimator.n_features_in_, columns)


def _copy_voting(estimator: Any) -> Average:
    models = tuple(map(_copy, estimator.estimators_))
    weights = estimator._weights_not_none
    return Average(models, np.ones(len(models)) if weights is None else _doubles(weights))


_COPIES: Mapping[str, Callable[[Any], CopiedModel]] = {
    **dict.fromkeys(
        (
            "LinearRegression",
            "Ridge",
            "RidgeCV",
            "Lasso",
            "LassoCV",
            "LassoLars",
            "LassoLarsCV",
            "LassoLarsIC",
            "Lars",
            "LarsCV",
            "ElasticNet",
            "ElasticNetCV",
            "OrthogonalMatchingPursuit",
            "OrthogonalMatchingPursuitCV",
            "HuberRegressor",
            "TheilSenRegressor",
            "QuantileRegressor",
            "SGDRegressor",
            "PassiveAggressiveRegressor",
            "LinearSVR",
            "PoissonRegressor",
            "GammaRegressor",
            "TweedieRegressor",
        ),
        _copy_linear,
    ),
    **dict.fromkeys(("BayesianRidge", "ARDRegression"), _copy_bayesian),
    **dict.fromkeys(("DecisionTreeRegressor", "ExtraTreeRegressor"), _copy_tree),
    **dict.fromkeys(("RandomForestRegressor", "ExtraTreesRegressor"), _copy_forest),
    "GradientBoostingRegressor": _copy_boosting,
    "HistGradientBoostingRegressor": _copy_hist_boosting,
    "GaussianProcessRegressor": _copy_process,
    **dict.fromkeys(("SVR", "NuSVR"), _copy_support_vectors),
    "KNeighborsRegressor": _copy_neighbors,
    "Pipeline": _copy_pipeline,
    "TransformedTargetRegressor": _copy_transformed_target,
    "BaggingRegressor": _copy_bagging,
    "VotingRegressor": _copy_voting,
    "RANSACRegressor": lambda estimator: _copy(estimator.estimator_),
    **dict.fromkeys(
        ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV"),
        lambda estimator: _copy(estimator.best_estimator_),
    ),
}
"""Copies by the name of the class, which scikit-learn itself must define."""

_TRANSFORMS: Mapping[str, Callable[[Any], Transform]] = {
    "StandardScaler": _standard,
    "RobustScaler": _robust,
    "MaxAbsScaler": _max_abs,
    "MinMaxScaler": _min_max,
    "SimpleImputer": _impute,
    "PolynomialFeatures": _products,
}
"""Transformations of columns by the name of the class."""

_INVERSES: Mapping[str, Callable[[Any], Scale]] = {
    "StandardScaler": lambda step: _scale(1, factor=step.scale_, offset=step.mean_ if step.with_mean else None),
    "RobustScaler": lambda step: _scale(1, factor=step.scale_, offset=step.center_),
    "MaxAbsScaler": lambda step: _scale(1, factor=step.scale_),
    "MinMaxScaler": lambda step: _scale(1, center=step.min_, divisor=step.scale_),
}
"""Inverse transformations of a target by the name of the class."""
