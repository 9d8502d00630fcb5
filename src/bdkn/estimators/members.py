"""Estimators as members: the parameter ``members``, and the default members of a stack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn import get_config
from sklearn.base import is_classifier
from sklearn.utils import Bunch, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import has_fit_parameter

from bdkn.ensemble.estimators import Pair, check_model, is_refitted
from bdkn.errors import InvalidParameterError, shown
from bdkn.estimators.deep_ensemble import DeepEnsembleRegressor
from bdkn.predictive import IdentityLink
from bdkn.predictive.links import Link
from bdkn.typing import FloatArray


def in_use(estimators: Any) -> list[Pair]:
    """Return the pairs that are not dropped."""
    pairs = estimators if isinstance(estimators, list) else []
    return [pair for pair in pairs if not isinstance(pair[1], str)]


def route_metadata(model: Any, pairs: list[Pair], cv: Any) -> MetadataRouter:
    """Return which estimators, and whether ``cv``, request which metadata that ``fit`` of ``model`` receives."""
    router = MetadataRouter(owner=model).add_self_request(model)
    if isinstance(cv, str):
        return router
    for name, estimator in pairs:
        if hasattr(estimator, "get_metadata_routing"):
            router.add(**{name: estimator}, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
    if hasattr(cv, "get_metadata_routing"):
        router.add(cv=cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
    return router


def route_parameters(
    model: Any, pairs: Sequence[Pair], counts: FloatArray | None, groups: Any, metadata: Mapping[str, Any]
) -> Mapping[str, Mapping[str, Any]]:
    """Return what each estimator's ``fit`` and, under "cv", the splitter receives besides rows and targets."""
    if get_config()["enable_metadata_routing"] and isinstance(model.members, list):
        given = {**metadata} if counts is None else {"sample_weight": counts, **metadata}
        if groups is not None and model.get_metadata_routing().consumes("fit", {"groups"}):
            given["groups"] = groups
        if not given:
            return {}
        routed = process_routing(model, "fit", **given)
        return {"cv": routed.get("cv", Bunch(split={})).split} | {
            name: routed[name].fit for name, _ in pairs if name in routed
        }
    if metadata:
        raise InvalidParameterError(
            f"fit can pass {', '.join(metadata)} on only with sklearn.set_config(enable_metadata_routing=True) and "
            "members that request it; got it without"
        )
    if counts is None or isinstance(model.cv, str):
        return {}
    fitted = [(name, estimator) for name, estimator in pairs if is_refitted(estimator)]
    for name, estimator in fitted:
        if not has_fit_parameter(estimator, "sample_weight"):
            raise InvalidParameterError(
                f"every member's fit must take sample_weight; {name!r}, a {type(estimator).__name__}, does not: drop "
                "it, or sklearn.set_config(enable_metadata_routing=True) and request it, or not, for every member and "
                "every step of a Pipeline: set_fit_request(sample_weight=True) or False"
            )
    return {name: {"sample_weight": counts} for name, _ in fitted}


def fixed_member(pairs: Sequence[Pair], cv: Any) -> str | None:
    """Return the name of the first member that is used as it is."""
    return next((name for name, model in pairs if isinstance(cv, str) or not is_refitted(model)), None)


def check_refitted(pairs: Sequence[Pair], cv: Any, link: Link) -> None:
    """Raise if members that are used as they are would have to predict a transformed target."""
    name = fixed_member(pairs, cv)
    if name is not None and not isinstance(link, IdentityLink):
        raise InvalidParameterError(
            f"member {name!r} is used as it is and predicts the target itself, but the members are to predict a "
            "transformed one: use target='identity', or members that fit can fit"
        )


def set_input_tags(tags: Any, pairs: list[Pair]) -> Any:
    """Return scikit-learn's tags: missing values and sparse tables are allowed if all estimators allow them."""
    models = [model for _, model in pairs if hasattr(model, "__sklearn_tags__")]
    inputs = [get_tags(model).input_tags for model in models]
    tags.input_tags.allow_nan = bool(inputs) and all(one.allow_nan for one in inputs)
    tags.input_tags.sparse = bool(inputs) and all(one.sparse for one in inputs)
    return tags


def check_estimators(given: list[Pair] | None, validate_names: Callable[[list[str]], None]) -> None:
    """Raise unless the estimators can be members, each under a name of its own."""
    if given is None:
        return
    pairs = isinstance(given, list) and all(isinstance(p, tuple | list) and len(p) == 2 for p in given)
    if not (pairs and given and all(isinstance(name, str) for name, _ in given)):
        raise InvalidParameterError(
            f"members must be 'networks', 'auto' or a list of (name, estimator) pairs; got {shown(given)}"
        )
    validate_names([name for name, _ in given])
    if all(isinstance(model, str) and model == "drop" for _, model in given):
        raise InvalidParameterError("members must hold one that is not 'drop'; got only such")
    for name, model in given:
        if not (isinstance(model, str) and model == "drop"):
            check_model(model, name)
        if hasattr(model, "__sklearn_tags__") and is_classifier(model):
            raise InvalidParameterError(f"member {name!r} must predict numbers; got the classifier {model!r}")


MOST_ROWS = 500
"""Largest number of rows for which an exact Gaussian process is fast enough to be a member."""

MANY_ROWS = 5000
"""With more rows than this, members have fewer networks or trees, and all boosting bins its columns."""

_MARGIN = 1e-3

Objective = Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]


def default_estimators(n_rows: int, n_features: int, *, weighted: bool = False, effort: str = "balanced") -> list[Pair]:
    """Return members that differ as much as possible: networks, boosting, trees, and a Gaussian process.

    The networks are those of ``BDKNRegressor``: a member for each activation and weight decay, and one for each
    activation whose networks see their inputs through piecewise-linear encodings. The process is used with few rows
    only, as its time grows with the cube of their number, and only without sample weights, which it does not support.
    With ``effort="fast"`` there are two networks for each of two weight decays, one boosting and a third of the trees;
    with "best" twice as many networks and trees, and the process up to twice as many rows.
    """
    few, fast, more = n_rows <= MANY_ROWS, effort == "fast", 2 if effort == "best" else 1
    boosting = _slow_boosting() if few else _fast_boosting()
    networks = _few_networks() if fast else _networks(few, more)
    trees = (300 if few else 100) * more // (3 if fast else 1)
    members = [*networks, *boosting[: 1 if fast else 2], _trees(trees, 0.5 if few else 1.0)]
    if n_rows <= MOST_ROWS * more and not (weighted or fast):
        members.append(("process", _process(n_features)))
    return members


def slowest_last(members: list[Pair]) -> list[Pair]:
    """Return the default members in the order in which they are fitted within a time limit: networks last."""
    return sorted(members, key=lambda pair: isinstance(pair[1], DeepEnsembleRegressor))


def _networks(few_rows: bool, more: int) -> list[Pair]:
    """Return one network per activation and weight decay, and networks whose inputs are divided into bins."""
    decays = {0.0: 2, 0.3: 2, 1.0: 2} if few_rows else {0.0: 2, 0.3: 1}
    bins = (4, 8, 16, 4, 8, 16) if few_rows else (16, 16)
    plain = [
        (f"{activation} {decay}", _ensemble(more * n, activation, weight_decay=decay, n_bins=0))
        for decay, n in decays.items()
        for activation in ("silu", "relu")
    ]
    binned = [
        (f"{activation} bins", _ensemble(more * len(bins), activation, weight_decay=0.0, n_bins=bins))
        for activation in ("silu", "relu")
    ]
    return [*plain, *binned]


def _ensemble(n_members: int, activation: str, **parameters: Any) -> DeepEnsembleRegressor:
    return DeepEnsembleRegressor(n_members=n_members, activation=activation, predictive="gaussian", **parameters)


def _few_networks() -> list[Pair]:
    common: dict[str, Any] = {"activation": ("silu", "relu"), "predictive": "gaussian", "effort": "fast"}
    return [
        (f"networks {decay}", DeepEnsembleRegressor(n_members=2, weight_decay=decay, **common)) for decay in (0.0, 0.3)
    ]


def _slow_boosting() -> list[Pair]:
    """Return two models of boosted small trees, which use part of the columns and, in one model, part of the rows."""
    from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor

    small = {"max_leaf_nodes": 8, "min_samples_leaf": 5, "max_features": 0.3, "l2_regularization": 1.0}
    binned = HistGradientBoostingRegressor(learning_rate=0.05, max_iter=800, **small)
    part = {"max_depth": 4, "min_samples_leaf": 3, "max_features": 0.5, "subsample": 0.7}
    return [
        ("boosting", binned),
        ("stochastic boosting", GradientBoostingRegressor(learning_rate=0.05, n_estimators=800, **part)),
    ]


def _fast_boosting() -> list[Pair]:
    """Return two models of boosted larger trees, for many rows."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    common = {"learning_rate": 0.05, "max_features": 0.5}
    large = {"max_leaf_nodes": 127, "min_samples_leaf": 5, "max_iter": 600}
    return [
        ("boosting", HistGradientBoostingRegressor(max_leaf_nodes=63, max_iter=800, **common)),
        ("deep boosting", HistGradientBoostingRegressor(**large, **common)),
    ]


def _trees(count: int, share_of_columns: float) -> Pair:
    from sklearn.ensemble import ExtraTreesRegressor

    return "trees", ExtraTreesRegressor(n_estimators=count, max_features=share_of_columns)


def _process(n_features: int) -> Any:
    """Return a Gaussian process on standardised columns with one length scale per column."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    smooth = ConstantKernel(1.0, (1e-2, 1e3)) * Matern(np.full(n_features, 2.0), (1e-2, 1e3), nu=2.5)
    kernel = smooth + WhiteKernel(0.1, (1e-5, 1e1))
    return make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True, optimizer=_within))


def _within(
    objective: Objective, start: NDArray[np.float64], bounds: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Minimise within slightly narrower bounds.

    The length scale of a column without influence is at its bound, about which scikit-learn would warn.
    """
    inner = bounds + _MARGIN * np.array([1.0, -1.0])
    found = minimize(objective, start, method="L-BFGS-B", jac=True, bounds=inner)
    return found.x, float(found.fun)
