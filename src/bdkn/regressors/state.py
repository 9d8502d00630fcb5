"""A fitted regressor as arrays and JSON."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from bdkn.errors import InvalidParameterError
from bdkn.inference import Posterior, Prior
from bdkn.members import InSample, NetworkEnsemble, Standardizer, TargetScaler
from bdkn.networks import Networks, NetworkSpec
from bdkn.persistence import Arrays, Document, pack, unpack, write

TYPES = (InSample, NetworkEnsemble, NetworkSpec, Networks, Posterior, Prior, Standardizer, TargetScaler)
"""What a fitted attribute may be made of, besides numbers, text and arrays."""

_ENGINE_NAMES = {"FusedEngine": "fused", "ReferenceEngine": "reference", "TorchEngine": "torch"}

Model = TypeVar("Model", bound=BaseEstimator)


def save_model(model: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted model: the name of its class, its parameters, and every attribute that ends in an underscore."""
    if type(model).__module__.partition(".")[0] != "bdkn":
        raise InvalidParameterError(
            "save writes the regressors of bdkn, which bdkn.load can make again; got a "
            f"{type(model).__name__} of your own: pickle it, or save a regressor of bdkn and wrap it after loading"
        )
    arrays: Arrays = {}
    fitted = {name: value for name, value in vars(model).items() if name.endswith("_") and not name.startswith("_")}
    document = {
        "model": type(model).__name__,
        "bdkn": version("bdkn"),
        "parameters": {name: _parameter(model, name) for name in model.get_params(deep=False)},
        "fitted": {name: pack(value, TYPES, arrays, name) for name, value in fitted.items()},
    }
    write(path, arrays, document)


def restore_model(cls: type[Model], arrays: Arrays, document: Document) -> Model:
    """Return the model that ``save_model`` wrote."""
    parameters = {name: tuple(v) if isinstance(v, list) else v for name, v in document["parameters"].items()}
    model: Model = cls(**parameters)
    vars(model).update({name: unpack(tree, TYPES, arrays) for name, tree in document["fitted"].items()})
    return model


def _parameter(model: BaseEstimator, name: str) -> Any:
    """Return a parameter as JSON: an engine as its name, what has no such form as the default."""
    value = getattr(model, name)
    if isinstance(value, np.ndarray | np.generic | Sequence) and not isinstance(value, str):
        return np.asarray(value).tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    default = inspect.signature(type(model)).parameters[name].default
    return _ENGINE_NAMES.get(type(value).__name__, default)
