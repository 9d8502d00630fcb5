"""Conversion of fitted regressors to arrays and JSON, and back, with a check of all that a file holds."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from typing import Annotated, Any

import numpy as np
from sklearn.base import BaseEstimator

from bdkn.data.encoder import TableEncoder
from bdkn.ensemble.estimators import EstimatorMember
from bdkn.ensemble.provenance import is_nested, plain_parameter
from bdkn.errors import InvalidParameterError, ModelFileError
from bdkn.estimators.fitted import ESTIMATORS, Combined, FittedBDKN, FittedNetworks, FittedStack
from bdkn.storage.archive import Arrays, Document, pack, unpack, write
from bdkn.storage.fields import (
    Array,
    Content,
    Items,
    Maybe,
    Named,
    Number,
    Part,
    Plain,
    Text,
    WrongContentError,
    must,
    schema_of,
    stored,
    with_place,
)


def without_rows(state: Any) -> Any:
    """Return a state that predicts the same, without targets of training rows; raise if predictions need them."""
    if isinstance(state, FittedStack):
        raise InvalidParameterError(
            "save(..., without_rows=True) needs a model that predicts without its training rows; a stack computes the "
            "noise of its members from rows that were left out: save it with its rows, or fit a BDKNRegressor"
        )
    if not isinstance(state, FittedBDKN):
        return state
    if state.combined.density is not None:
        raise InvalidParameterError(
            "save(..., without_rows=True) needs a model that predicts without its training rows; this one has learned "
            "the shape of its predictions from their targets: save model.without_shape(), which predicts Student-t "
            "distributions"
        )
    return replace(state, combined=replace(state.combined, held_out=None, updates=None, left_out=None))


def check_has_rows(combined: Combined) -> None:
    """Raise if a model was saved without the rows that were left out of its fit."""
    if combined.held_out is None and combined.provenance is not None:
        raise InvalidParameterError(
            "this takes the predictions for rows that were left out of the fit, and their targets; the model is from a "
            "file that was saved with without_rows=True: load one with the rows, or fit again"
        )


STATES: Mapping[str, type] = {
    "BDKNRegressor": FittedBDKN,
    "DeepEnsembleRegressor": FittedNetworks,
    "BayesianStackingRegressor": FittedStack,
}
"""The class of the fitted state of each regressor."""

_ATTRIBUTES: dict[str, Content] = {
    **{f"{name} fitted_": Part(state) for name, state in STATES.items()},
    "estimators": Maybe(ESTIMATORS),
    "n_features_in_": Number(low=1, whole=True),
    "feature_names_in_": Array(("*",), ("O",)),
    "table_": Maybe(Part(TableEncoder)),
    "made_": Named(Plain()),
}
"""Contents of attributes, and of parameters that hold regressors."""

_MADE: dict[str, Content] = {
    "when": Text(),
    "data": Text(),
    "target": Text(),
    "rows": Number(low=0, whole=True),
    "estimate": Named(Plain()),
    "versions": Named(Plain()),
    "absorbed": Items(Text(), list),
}
"""Contents of the facts that commands write and read about the origin of a model; any others are plain."""


@stored
@dataclass(frozen=True)
class SavedModel:
    """A regressor in a file: the name of its class, its parameters, and its fitted attributes."""

    model: str
    parameters: Annotated[dict[str, Any], Named(Plain())]
    fitted: Annotated[dict[str, Any], Named()]


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
        "fitted": {name: pack(value, arrays, name) for name, value in saved.fitted.items()},
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
        cls, parameters = classes[value.model], _with_tuples(value.parameters)
        for name, parameter in parameters.items():
            _check_parameter(cls, name, parameter)
        _check_attributes(cls, value.fitted)
        model = cls(**parameters)
        vars(model).update({name: restored(part) for name, part in value.fitted.items()})
        return model

    try:
        with_place("bdkn", Text(), document.get("bdkn"), {})
        saved = schema_of(SavedModel).make({name: part for name, part in document.items() if name != "bdkn"})
        left = dict(arrays)
        fitted = {name: unpack(tree, left, name) for name, tree in saved.fitted.items()}
        must(not left, f"the array {next(iter(left), '')!r:.80} belongs nowhere")
        model = restored(replace(saved, fitted=fitted))
        must("fitted_" in vars(model), "the model is not fitted")
        return model
    except WrongContentError as error:
        raise ModelFileError(str(error)) from error


def _with_tuples(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in parameters.items()}


def _to_saved(value: Any) -> Any:
    """Return the value with each regressor in it as a ``SavedModel``.

    Parameters that hold regressors or arrays, such as row numbers to hold out, are written with the fitted attributes.
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


def _check_attributes(cls: type, attributes: Mapping[str, Any]) -> None:
    """Raise unless a regressor of a class can have these attributes, and all are of the same columns."""
    for name, value in attributes.items():
        content = _ATTRIBUTES.get(f"{cls.__name__} fitted_" if name == "fitted_" else name)
        if content is not None:
            with_place(name, content, value, {})
        else:
            must(not name.endswith("_"), f"{cls.__name__} has no attribute {name!r:.80}")
            _check_parameter(cls, name, ())
            _check_numbers(name, value)
    _check_made(attributes.get("made_", {}))
    if "fitted_" in attributes:
        _check_columns(attributes)


def _check_numbers(name: str, value: Any) -> None:
    """Raise unless a parameter consists of numbers, text and arrays, such as pairs of row numbers."""
    if isinstance(value, list | tuple):
        for part in value:
            _check_numbers(name, part)
    else:
        plain = value is None or isinstance(value, bool | int | float | str | np.ndarray)
        must(plain, f"{name} must hold numbers; got a {type(value).__name__}")


def _check_made(facts: Mapping[str, Any]) -> None:
    """Raise unless facts about the origin of a model are as commands read them."""
    for name, content in _MADE.items():
        if name in facts:
            with_place(f"made_ {name}", content, facts[name], {})
    must("rows" in facts or "data" not in facts, "made_ data must have a number of rows")
    if estimate := facts.get("estimate"):
        for name in ("rmse", "r2"):
            with_place(f"made_ {name}", Number(nan=True, infinite=True), estimate.get(name), {})


def _check_columns(attributes: Mapping[str, Any]) -> None:
    """Raise unless all parts of a fitted regressor expect the columns that its table has."""
    must("n_features_in_" in attributes, "n_features_in_ is missing")
    n, table, names = (attributes.get(name) for name in ("n_features_in_", "table_", "feature_names_in_"))
    must(names is None or len(names) == n, f"must have the names of {n} columns")
    must(table is None or len(table.columns) == n, f"the table must have {n} columns")
    must(table is None or names is None or list(map(str, table.names)) == list(names), "the table must have the names")
    inputs, state = n if table is None else len(table.features), attributes["fitted_"]
    found = set(state.input_sizes)
    for member in state.members if isinstance(state, FittedStack) else ():
        own = [model.fitted.get("n_features_in_") for model in member.models]
        must(all(type(size) is int for size in own), "a member must have the number of its columns")
        found.update(own)
    must(found <= {inputs}, f"all parts must take {inputs} inputs; got {sorted(found)}")


_ANNOTATED: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "bool": (bool,),
    "None": (type(None),),
    "int or None": (int, type(None)),
}
_FORMS = {"Seed": "int or None", "Engine": "str"}
"""Types of parameters in a file that have other types in the constructor."""


def _check_parameter(cls: type, name: str, value: Any) -> None:
    """Raise unless a value is of the type that a parameter of a class has by its annotation."""
    declared = _declared(cls)
    must(name in declared, f"{cls.__name__} has no parameter {name!r:.80}")
    allowed = declared[name]
    if "Any" not in allowed and not any(_conforms(value, each) for each in allowed):
        raise WrongContentError(f"{name} must be {' or '.join(allowed)}; got {value!r:.80}")


@cache
def _declared(cls: type) -> dict[str, tuple[str, ...]]:
    """Return the types that each parameter of a class may have, in a file."""
    annotations = {name: str(each.annotation) for name, each in inspect.signature(cls).parameters.items()}
    return {name: tuple(_FORMS.get(part, part) for part in text.split(" | ")) for name, text in annotations.items()}


def _conforms(value: Any, annotation: str) -> bool:
    if annotation.startswith(("Sequence[", "list[", "tuple[")):
        inner = annotation.partition("[")[2].removesuffix("]").split(",")[0]
        return isinstance(value, list | tuple) and all(_conforms(part, inner) for part in value)
    return type(value) in _ANNOTATED.get(annotation, ())
