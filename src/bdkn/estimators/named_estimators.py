"""Named estimators as a parameter: a list of (name, estimator) pairs, in which "drop" stands for no estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sklearn import get_config
from sklearn.base import is_classifier
from sklearn.utils import Bunch, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import has_fit_parameter

from bdkn.ensemble.estimators import Pair, check_model, is_refitted
from bdkn.errors import InvalidParameterError, shown
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
