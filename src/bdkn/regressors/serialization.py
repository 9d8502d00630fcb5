"""Conversion of fitted regressors to arrays and JSON, and back."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from sklearn.base import BaseEstimator

from bdkn.errors import InvalidParameterError, ModelFileError
from bdkn.members import EstimatorMember
from bdkn.members.provenance import is_nested, plain_parameter
from bdkn.persistence import Arrays, Document, pack, unpack, write
from bdkn.persistence.schema import WrongContentError, must
from bdkn.regressors.file_schemas import SCHEMAS
from bdkn.regressors.file_schemas.models import check_attributes, check_document, check_parameters
from bdkn.regressors.file_schemas.saved import SavedModel
from bdkn.regressors.fitted import FittedStack
from bdkn.regressors.former_files import FORMER_TYPES, state_of_attributes, today_parameters

TYPES = tuple(SCHEMAS)
"""Classes that a fitted state may consist of, besides numbers, text and arrays."""


def save_model(model: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted model: the name of its class, its parameters, and every attribute that ends in an underscore."""
    if not is_own(model):
        raise InvalidParameterError(
            "save writes the regressors of bdkn, which bdkn.load can make again; got a "
            f"{type(model).__name__} of your own: pickle it, or save a regressor of bdkn and wrap it after loading"
        )
    arrays: Arrays = {}
    saved = _to_saved(model)
    document = {
        "model": saved.model,
        "bdkn": version("bdkn"),
        "parameters": saved.parameters,
        "fitted": {name: pack(value, TYPES, arrays, name) for name, value in saved.fitted.items()},
    }
    write(path, arrays, document)


def is_own(model: Any) -> bool:
    """Return whether the class of a model is defined in this library."""
    return isinstance(model, BaseEstimator) and type(model).__module__.partition(".")[0] == "bdkn"


def check_savable(stack: FittedStack) -> None:
    """Raise unless all members of a stack, and those of stacks among them, can be written to a file."""
    fitted = [(member.name, model) for member in stack.members for model in member.models]
    for name, model in [*stack.candidates, *fitted]:
        if not (is_own(model) or isinstance(model, str)):
            raise InvalidParameterError(
                f"save writes regressors of bdkn and nothing else; member {name!r} is a {type(model).__name__}: "
                "write the whole stack with joblib.dump, pickle or skops.io.dump, or save its members one by one"
            )
        if isinstance(state := getattr(model, "fitted_", None), FittedStack):
            check_savable(state)


def restore_model(classes: Mapping[str, type[BaseEstimator]], arrays: Arrays, document: Document) -> Any:
    """Return the model that ``save_model`` wrote; it and its members are of one of these classes.

    Everything is checked before anything computes with it; raise ``ModelFileError`` if something is wrong.
    """

    def restored(value: Any) -> Any:
        if not isinstance(value, SavedModel):
            made = _map_parts(restored, value)
            models = made.models if isinstance(made, EstimatorMember) else ()
            must(all("fitted_" in vars(model) for model in models), "a member is not fitted")
            return made
        must(value.model in classes, f"there is no regressor {value.model!r:.80}")
        cls, parameters = classes[value.model], today_parameters(value.model, _with_tuples(value.parameters))
        check_parameters(cls, parameters)
        attributes = state_of_attributes(value.model, parameters, value.fitted)
        check_attributes(cls, attributes)
        model = cls(**parameters)
        vars(model).update({name: restored(part) for name, part in attributes.items()})
        return model

    try:
        check_document(document)
        left, fitted = dict(arrays), {}
        for name, tree in document["fitted"].items():
            fitted[name] = unpack(tree, TYPES, left, FORMER_TYPES, schemas=SCHEMAS, name=name)
        must(not left, f"the array {next(iter(left), '')!r:.80} belongs nowhere")
        model = restored(SavedModel(document["model"], document["parameters"], fitted))
        must("fitted_" in vars(model), "the model is not fitted")
        return model
    except WrongContentError as error:
        raise ModelFileError(str(error)) from error


def _with_tuples(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in parameters.items()}


def _to_saved(value: Any) -> Any:
    """Return the value with each regressor in it as a ``SavedModel``.

    Parameters that hold regressors or arrays, such as row numbers to leave out, are written with the fitted attributes.
    """
    if not isinstance(value, BaseEstimator):
        return _map_parts(_to_saved, value)
    names = value.get_params(deep=False)
    nested = {name for name in names if name == "estimators" or is_nested(getattr(value, name))}
    fitted = {name for name in vars(value) if name.endswith("_") and not name.startswith("_")}
    return SavedModel(
        type(value).__name__,
        {name: plain_parameter(value, name) for name in names if name not in nested},
        {name: _to_saved(part) for name, part in vars(value).items() if name in nested | fitted},
    )


def _map_parts(change: Callable[[Any], Any], value: Any) -> Any:
    """Return the value with ``change`` applied to those parts that can contain regressors."""
    if isinstance(value, list | tuple):
        return type(value)(change(part) for part in value)
    if isinstance(value, FittedStack):
        members, candidates = (change(part) for part in (value.members, value.candidates))
        return replace(value, members=members, candidates=candidates)
    return replace(value, models=change(value.models)) if isinstance(value, EstimatorMember) else value
