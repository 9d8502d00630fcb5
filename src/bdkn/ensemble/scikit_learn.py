"""Copies of fitted scikit-learn regressors as arrays.

Only this module reads attributes of scikit-learn's estimators, some of them private. An estimator is not copied if it
has other attributes in the installed version.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.ensemble import copied_models as copied
from bdkn.ensemble.copied_models import CopiedModel, Linear, Scale, Trees
from bdkn.errors import ModelFileError
from bdkn.storage.archive import Arrays, pack, unpack
from bdkn.typing import FloatArray, IndexArray

_MAX_FACTORS = 1 << 20
"""Maximum size of the array ``factors`` in a copy of ``PolynomialFeatures``; larger ones are not copied."""


class _NotCopiedError(Exception):
    """Error inside this module: an estimator, or a part of it, cannot be copied."""


def copy_estimator(estimator: Any) -> CopiedModel | None:
    """Copy a fitted regressor with one target to a model of arrays; return None if it cannot be copied.

    The copy predicts the same numbers up to rounding. The following classes of scikit-learn, but not their subclasses,
    can be copied: boosted trees, forests, extra trees, single trees, bagging and voting, linear models, Gaussian
    processes with common kernels, support vector machines, nearest neighbors; pipelines of scalers, ``SimpleImputer``
    or ``PolynomialFeatures`` and one of these models; transformed targets and searches. So can estimators of a user's
    own class with the methods of ``StorableEstimator``.
    """
    try:
        model = _copy(estimator)
    except (_NotCopiedError, AttributeError, LookupError):  # attributes differ in other versions
        return None
    arrays: Arrays = {}
    try:
        unpack(pack(model, arrays, "model"), arrays, "model")  # files are checked, for finite numbers too
    except ModelFileError:
        return None
    return model


def _copy(estimator: Any) -> CopiedModel:
    if _is_scikit_learn(estimator):
        return _COPIES[type(estimator).__name__](estimator)
    _require(isinstance(estimator, copied.StorableEstimator) and not isinstance(estimator, type))
    return copied.UserModel.of(estimator)


def _is_scikit_learn(estimator: Any) -> bool:
    """Return whether scikit-learn itself defines the estimator's class; a user's subclass may predict differently."""
    return type(estimator).__module__.partition(".")[0] == "sklearn"


def _require(holds: bool | np.bool_) -> None:
    if not holds:
        raise _NotCopiedError


def _doubles(values: Any) -> FloatArray:
    """Return a copy of numbers as an array in double precision."""
    return np.array(values, dtype=np.float64, order="C")


# Linear models


def _copy_linear(estimator: Any) -> CopiedModel:
    _require(np.ndim(estimator.coef_) == 1 and np.size(estimator.intercept_) == 1)
    linear = Linear(_doubles(estimator.coef_), float(np.ravel(estimator.intercept_)[0]))
    loss = getattr(estimator, "_base_loss", None)
    return linear if loss is None else _inverse_link(linear, loss)


def _inverse_link(model: CopiedModel, loss: Any) -> CopiedModel:
    """Return the model with its output mapped by the inverse link function of a loss of scikit-learn."""
    output = {"IdentityLink": "identity", "LogLink": "exp"}[type(loss.link).__name__]
    return model if output == "identity" else copied.Composed(model, inverse=output)


def _copy_bayesian(estimator: Any) -> Linear:
    _require(np.ndim(estimator.coef_) == 1)
    n_columns, is_selective = len(estimator.coef_), type(estimator).__name__ == "ARDRegression"
    used = estimator.lambda_ < estimator.threshold_lambda if is_selective else np.ones(n_columns, dtype=np.bool_)
    noise_variance = float(1.0 / estimator.alpha_)
    # Earlier versions of scikit-learn do not center rows. The standard deviation at the mean row shows which do.
    mean_sample = np.broadcast_to(estimator.X_offset_, (1, n_columns))
    without_names = copy.copy(estimator)
    vars(without_names).pop("feature_names_in_", None)  # scikit-learn would warn of columns without names
    variance = without_names.predict(mean_sample, return_std=True)[1][0] ** 2
    is_centered = np.isclose(variance, noise_variance, rtol=1e-9, atol=0.0)
    posterior = copied.GaussianWeights(
        np.flatnonzero(used).astype(np.int64),
        _doubles(mean_sample[0] if is_centered else np.zeros(n_columns))[used],
        _doubles(estimator.sigma_),
        noise_variance,
    )
    return Linear(_doubles(estimator.coef_), float(estimator.intercept_), posterior)


# Trees


def _copy_forest(estimator: Any) -> Trees:
    trees = getattr(estimator, "estimators_", [estimator])
    # Versions differ in whether trees with monotonic constraints predict rows with missing values
    allow_nan = bool(trees[0]._support_missing_values(np.empty((1, 1))))
    return _join([tree.tree_ for tree in trees], estimator, average=True, allow_nan=allow_nan)


def _copy_boosting(estimator: Any) -> Trees:
    init = estimator.init_
    is_constant = _is_scikit_learn(init) and type(init).__name__ == "DummyRegressor"
    _require(is_constant or (isinstance(init, str) and init == "zero"))
    base = float(np.ravel(init.constant_)[0]) if is_constant else 0.0
    trees = [tree.tree_ for tree in estimator.estimators_[:, 0]]
    return _join(trees, estimator, base=base, factor=estimator.learning_rate)


def _join(trees: Sequence[Any], estimator: Any, factor: float = 1.0, **fields: Any) -> Trees:
    """Return trees of scikit-learn as one ``Trees`` object; values of leaves are multiplied by ``factor``."""
    _require(getattr(estimator, "n_outputs_", 1) == 1)
    nodes = [
        (
            tree.children_left,
            tree.children_right,
            tree.feature,
            np.where(tree.children_left < 0, factor * tree.value[:, 0, 0], tree.threshold),
            tree.missing_go_to_left,
        )
        for tree in trees
    ]
    return Trees(estimator.n_features_in_, **_depth_first(nodes), single=True, **fields)


def _copy_hist_boosting(estimator: Any) -> CopiedModel:
    """Copy histogram-based boosted trees; in their splits, categorical columns have the first column numbers."""
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
        left = np.where(is_leaf, -1, found["left"].astype(np.int64))
        feature = order[found["feature_idx"].astype(np.int64)]
        number = np.where(is_leaf, found["value"], number)
        nodes.append((left, found["right"].astype(np.int64), feature, number, found["missing_go_to_left"]))
        first_row += len(tree.raw_left_cat_bitsets)
    sets = [np.ascontiguousarray(tree.raw_left_cat_bitsets, dtype="<u4") for tree in trees]
    model = Trees(
        estimator.n_features_in_,
        **_depth_first(nodes),
        base=float(np.ravel(estimator._baseline_prediction)[0]),
        allow_nan=True,
        categorical=np.flatnonzero(is_categorical).astype(np.int32),
        categories=_categories(estimator) if is_categorical.any() else (),
        bitsets=np.concatenate(sets).reshape(-1, copied.MAX_CATEGORIES // 32).view(np.uint8),
    )
    return _inverse_link(model, estimator._loss)


def _categories(estimator: Any) -> tuple[FloatArray, ...]:
    """Return the categories of each categorical column; raise if they are not numbers."""
    found = estimator._preprocessor.named_transformers_["encoder"].categories_
    _require(all(values.dtype.kind in "biuf" for values in found))
    return tuple(_doubles(values[~np.isnan(values)]) for values in map(_doubles, found))


def _depth_first(trees: Sequence[tuple[NDArray[Any], ...]]) -> dict[str, Any]:
    """Return the fields of ``Trees`` with the nodes of all trees in depth-first order, and the roots.

    A tree is a tuple of arrays: left (-1 at a leaf) and right children, ``feature``, ``number`` and ``missing_left``.
    """
    first = np.cumsum([0, *(len(tree[0]) for tree in trees)])
    _require(0 < first[-1] < copied.MAX_NODES)
    roots, (left, right, feature, number, missing_left) = first[:-1], map(np.concatenate, zip(*trees, strict=True))
    tree_of = np.repeat(np.arange(len(trees)), np.diff(first))
    splits = np.flatnonzero(left >= 0)
    left[splits] += roots[tree_of[splits]]
    right[splits] += roots[tree_of[splits]]
    place = np.arange(first[-1])
    if not np.array_equal(left[splits], splits + 1):  # the trees were grown best split first, not depth first
        place = _places(left, right, roots)
    order = np.empty_like(place)
    order[place] = np.arange(len(place))
    is_split = left[order] >= 0
    return {
        "feature": np.where(is_split, feature[order], -1).astype(np.int32),
        "number": number[order],
        "right": np.where(is_split, place[right[order]], 0).astype(np.int32),
        "missing_left": is_split & (missing_left[order] != 0),
        "roots": roots.astype(np.int32),
    }


def _places(left: IndexArray, right: IndexArray, roots: IndexArray) -> IndexArray:
    """Return the position of each node in depth-first order, computed level by level for all trees at once."""
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


def _copy_process(estimator: Any) -> copied.KernelModel:
    _require(np.ndim(estimator.alpha_) == 1 or np.shape(estimator.alpha_)[1] == 1)
    return copied.KernelModel(
        _copy_kernel(estimator.kernel_, type(estimator.kernel_).__name__),
        _doubles(estimator.X_train_),
        _doubles(np.ravel(estimator.alpha_)),
        float(np.ravel(estimator._y_train_mean)[0]),
        float(np.ravel(estimator._y_train_std)[0]),
        _doubles(np.tril(estimator.L_)),
    )


def _copy_kernel(owner: Any, name: str) -> copied.Kernel:
    """Copy the kernel of this name, whose parameters are attributes of ``owner``, an object of scikit-learn."""
    _require(_is_scikit_learn(owner))
    given = {parameter: getattr(owner, parameter) for parameter in copied.KERNELS[name]}
    parts = [given.pop(parameter) for parameter in copied.KERNEL_PARTS if parameter in given]
    return copied.Kernel(
        name,
        _doubles(np.concatenate([np.empty(0), *map(np.ravel, given.values())])),
        tuple(_copy_kernel(part, type(part).__name__) for part in parts),
    )


def _copy_support_vectors(estimator: Any) -> copied.KernelModel:
    _require(isinstance(estimator.kernel, str) and not estimator._sparse)
    kernel, vectors = _copy_kernel(estimator, estimator.kernel), _doubles(estimator.support_vectors_)
    return copied.KernelModel(kernel, vectors, _doubles(np.ravel(estimator.dual_coef_)), float(estimator.intercept_[0]))


def _copy_neighbors(estimator: Any) -> copied.NearestNeighbors:
    plain = isinstance(estimator._fit_X, np.ndarray) and estimator._fit_X.dtype.kind in "biuf"
    _require(plain and np.ndim(estimator._y) == 1 and not estimator.metric_params)
    _require(
        isinstance(estimator.weights, str) and isinstance(estimator.metric, str) and estimator.metric in copied.METRICS
    )
    return copied.NearestNeighbors(
        _doubles(estimator._fit_X),
        _doubles(estimator._y),
        int(estimator.n_neighbors),
        estimator.weights,
        estimator.metric,
        float(estimator.p),
        estimator.algorithm,
        int(estimator.leaf_size),
    )


# Pipelines, transformed targets, averages of models


def _copy_pipeline(estimator: Any) -> CopiedModel:
    *steps, (_, last) = estimator.steps
    used = [step for _, step in steps if not (step is None or isinstance(step, str))]
    transforms = tuple(_copy_transform(step) for step in used)
    model = _copy(last)
    return copied.Composed(model, transforms) if transforms else model


def _copy_transform(step: Any) -> copied.Transform:
    _require(_is_scikit_learn(step))
    return _TRANSFORMS[type(step).__name__](step)


def _scale(n: int, **parts: Any) -> Scale:
    """Return a ``Scale`` for n columns with the fields ``parts``; a field that is None or missing has no effect."""
    given: dict[str, Any] = {"center": 0.0, "divisor": 1.0, "factor": 1.0, "offset": 0.0}
    given |= {name: part for name, part in parts.items() if part is not None}
    for name, part in given.items():
        given[name] = float(part) if name in ("low", "high") else _doubles(np.broadcast_to(part, n))
    return Scale(**given)


def _min_max(step: Any) -> Scale:
    limits = dict(zip(("low", "high"), step.feature_range, strict=True)) if step.clip else {}
    return _scale(step.n_features_in_, factor=step.scale_, offset=step.min_, **limits)


def _impute(step: Any) -> Scale:
    is_missing_nan = isinstance(step.missing_values, float) and np.isnan(step.missing_values)
    _require(is_missing_nan and not step.add_indicator and step.statistics_.dtype.kind == "f")
    _require(not np.isnan(step.statistics_).any())  # scikit-learn drops a column without values, or makes it zero
    return _scale(len(step.statistics_), fill=step.statistics_)


def _products(step: Any) -> copied.Products:
    powers = np.asarray(step.powers_)
    degree = int(powers.sum(axis=1).max())
    _require(len(powers) * degree <= _MAX_FACTORS)
    factors = np.full((len(powers), degree), -1, dtype=np.int32)
    for own, power in zip(factors, powers, strict=True):
        own[: power.sum()] = np.repeat(np.arange(powers.shape[1]), power)
    return copied.Products(powers.shape[1], factors)


def _copy_transformed_target(estimator: Any) -> copied.Composed:
    _require(estimator._training_dim == 1)
    model, transformer = _copy(estimator.regressor_), estimator.transformer_
    _require(_is_scikit_learn(transformer))
    if type(transformer).__name__ != "FunctionTransformer":
        scale = _copy_transform(transformer)
        if not isinstance(scale, Scale) or scale.fill is not None:
            raise _NotCopiedError
        inverse = Scale(center=scale.offset, divisor=scale.factor, factor=scale.divisor, offset=scale.center)
        return copied.Composed(model, inverse=inverse)
    if transformer.inverse_func is None:  # scikit-learn then uses the identity
        return copied.Composed(model, inverse="identity")
    names = [name for name, function in copied.OUTPUT_FUNCTIONS.items() if function is transformer.inverse_func]
    return copied.Composed(model, inverse=names[0])


def _copy_bagging(estimator: Any) -> copied.Average:
    parts = []
    for model, columns in zip(estimator.estimators_, estimator.estimators_features_, strict=True):
        chosen = copied.Products(estimator.n_features_in_, np.array(columns, dtype=np.int32)[:, None])
        parts.append(copied.Composed(_copy(model), (chosen,)))
    return copied.Average(tuple(parts), np.ones(len(parts)))


def _copy_voting(estimator: Any) -> copied.Average:
    models, weights = tuple(map(_copy, estimator.estimators_)), estimator._weights_not_none
    return copied.Average(models, np.ones(len(models)) if weights is None else _doubles(weights))


_LINEAR = (
    *("LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV", "LassoLars", "LassoLarsCV", "LassoLarsIC"),
    *("Lars", "LarsCV", "ElasticNet", "ElasticNetCV", "OrthogonalMatchingPursuit", "OrthogonalMatchingPursuitCV"),
    *("HuberRegressor", "TheilSenRegressor", "QuantileRegressor", "SGDRegressor", "PassiveAggressiveRegressor"),
    *("LinearSVR", "PoissonRegressor", "GammaRegressor", "TweedieRegressor"),
)
"""Names of scikit-learn's classes of linear models that can be copied, some with a link function."""

_COPIES: Mapping[str, Callable[[Any], CopiedModel]] = {
    **dict.fromkeys(_LINEAR, _copy_linear),
    **dict.fromkeys(("BayesianRidge", "ARDRegression"), _copy_bayesian),
    **dict.fromkeys(
        ("DecisionTreeRegressor", "ExtraTreeRegressor", "RandomForestRegressor", "ExtraTreesRegressor"), _copy_forest
    ),
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
"""Functions that copy a fitted regressor, by the name of its class in scikit-learn."""

_TRANSFORMS: Mapping[str, Callable[[Any], copied.Transform]] = {
    "StandardScaler": lambda step: _scale(
        step.n_features_in_, center=step.mean_ if step.with_mean else None, divisor=step.scale_
    ),
    "RobustScaler": lambda step: _scale(step.n_features_in_, center=step.center_, divisor=step.scale_),
    "MaxAbsScaler": lambda step: _scale(step.n_features_in_, divisor=step.scale_),
    "MinMaxScaler": _min_max,
    "SimpleImputer": _impute,
    "PolynomialFeatures": _products,
}
"""Functions that copy a fitted transformer of columns, by the name of its class in scikit-learn."""
