"""A fitted regressor as arrays and JSON."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from bdkn.errors import InvalidParameterError
from bdkn.inference import Combination, Posterior, Prior, Tails
from bdkn.members import (
    EstimatorMember,
    Folds,
    HeldOut,
    MemberScores,
    NetworkEnsemble,
    OwnFolds,
    Standardizer,
    TargetScaler,
)
from bdkn.networks import FeatureMap, MeanVarianceHead, MixedNetworks, Networks, NetworkSpec
from bdkn.persistence import Arrays, Document, pack, unpack, write
from bdkn.regressors.last_layer import VariationalLastLayer
from bdkn.regressors.origin import Origin
from bdkn.regressors.process import Process


@dataclass(frozen=True)
class SavedModel:
    """A regressor, a member of another or not: the name of its class, its parameters, and what it has learned."""

    model: str
    parameters: dict[str, Any]
    fitted: dict[str, Any]


TYPES = (
    Combination,
    EstimatorMember,
    FeatureMap,
    Folds,
    HeldOut,
    MeanVarianceHead,
    MemberScores,
    MixedNetworks,
    NetworkEnsemble,
    NetworkSpec,
    Networks,
    Origin,
    OwnFolds,
    Posterior,
    Prior,
    Process,
    SavedModel,
    Standardizer,
    Tails,
    TargetScaler,
    VariationalLastLayer,
)
"""What a fitted attribute may be made of, besides numbers, text and arrays."""

_ENGINE_NAMES = {"FusedEngine": "fused", "ReferenceEngine": "reference", "TorchEngine": "torch"}


def save_model(model: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted model: the name of its class, its parameters, and every attribute that ends in an underscore."""
    if not is_own(model):
        raise InvalidParameterError(
            "save writes the regressors of bdkn, which bdkn.load can make again; got a "
            f"{type(model).__name__} of your own: pickle it, or save a regressor of bdkn and wrap it after loading"
        )
    arrays: Arrays = {}
    saved = _laid_down(model)
    document = {
        "model": saved.model,
        "bdkn": version("bdkn"),
        "parameters": saved.parameters,
        "fitted": {name: pack(value, TYPES, arrays, name) for name, value in saved.fitted.items()},
    }
    write(path, arrays, document)


def is_own(model: Any) -> bool:
    """Tell whether a model is one of this library's regressors, and no subclass made elsewhere."""
    return isinstance(model, BaseEstimator) and type(model).__module__.partition(".")[0] == "bdkn"


def restore_model(classes: Mapping[str, type[BaseEstimator]], arrays: Arrays, document: Document) -> Any:
    """Return the model that ``save_model`` wrote, of one of these classes, as its members are."""
    fitted = {name: unpack(tree, TYPES, arrays) for name, tree in document["fitted"].items()}

    def revived(value: Any) -> Any:
        if not isinstance(value, SavedModel):
            return _through(revived, value)
        parameters = {name: tuple(v) if isinstance(v, list) else v for name, v in value.parameters.items()}
        model = classes[value.model](**parameters)
        vars(model).update({name: revived(part) for name, part in value.fitted.items()})
        return model

    return revived(SavedModel(document["model"], document["parameters"], fitted))


def _laid_down(value: Any) -> Any:
    """Return the value with each regressor in it as a ``SavedModel``.

    Parameters that hold regressors or arrays, such as row numbers to leave out, are written beside what is fitted.
    """
    if not isinstance(value, BaseEstimator):
        return _through(_laid_down, value)
    names = value.get_params(deep=False)
    holding = {name for name in names if name == "estimators" or _is_nested(getattr(value, name))}
    fitted = {name for name in vars(value) if name.endswith("_") and not name.startswith("_")}
    return SavedModel(
        type(value).__name__,
        {name: plain_parameter(value, name) for name in names if name not in holding},
        {name: _laid_down(part) for name, part in vars(value).items() if name in holding | fitted},
    )


def _through(change: Callable[[Any], Any], value: Any) -> Any:
    """Return the value with its parts changed, where regressors can be among them."""
    if isinstance(value, list | tuple):
        return type(value)(change(part) for part in value)
    return replace(value, models=change(value.models)) if isinstance(value, EstimatorMember) else value


def _is_nested(value: Any) -> bool:
    """Tell whether a parameter is a list of more than numbers and text."""
    return isinstance(value, list | tuple) and not all(np.isscalar(part) for part in value)


def plain_parameter(model: BaseEstimator, name: str) -> Any:
    """Return a parameter as JSON: an engine as its name, what has no such form as the default."""
    value = getattr(model, name)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple) and not _is_nested(value):
        return np.asarray(value).tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    default = inspect.signature(type(model)).parameters[name].default
    return _ENGINE_NAMES.get(type(value).__name__, default)
