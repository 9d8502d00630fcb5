"""Model files: fitted regressors as arrays and JSON, and back, with a check of everything that a file holds."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from typing import Annotated, Any

import numpy as np
from sklearn.base import BaseEstimator

from bdkn.ensemble.copied_models import CopiedModel, make_estimators
from bdkn.ensemble.estimators import PAIRS, EstimatorMember, EstimatorMembers
from bdkn.ensemble.provenance import OPTIONS, is_nested, plain_parameter
from bdkn.ensemble.selection import CombinationOptions
from bdkn.errors import InvalidParameterError, ModelFileError
from bdkn.model.fitted import FittedEnsemble, FittedModel
from bdkn.networks.settings import TrainingOptions
from bdkn.storage.archive import Arrays, Document, pack, unpack, write
from bdkn.storage.fields import (
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
    stored,
    with_place,
)

_FACTS: dict[str, Content] = {
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
    """A regressor in a file: the name of its class, its parameters, the fitted model, and facts about its origin.

    ``objects`` are the parameters that JSON cannot hold: options, members, and arrays of row numbers.
    """

    model: str
    parameters: Annotated[dict[str, Any], Named(Plain())]
    objects: Annotated[dict[str, Any], Named()]
    fitted: Annotated[FittedModel | FittedEnsemble | None, Maybe(Part(FittedModel, FittedEnsemble))] = None
    made: Annotated[dict[str, Any], Named(Plain())] | None = None

    def check(self) -> None:
        """Raise unless facts about the origin are as commands read them."""
        facts = self.made or {}
        for name, content in _FACTS.items():
            if name in facts:
                with_place(f"made {name}", content, facts[name], {})
        must("rows" in facts or "data" not in facts, "made data must have a number of rows")
        if estimate := facts.get("estimate"):
            for name in ("rmse", "r2"):
                with_place(f"made {name}", Number(nan=True, infinite=True), estimate.get(name), {})

    @property
    def n_features_in_(self) -> int | None:
        """The number of columns that the regressor expects."""
        return None if self.fitted is None else self.fitted.reader.n_columns


def save_model(model: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted regressor to one file."""
    if not _is_own(model):
        raise InvalidParameterError(
            "save writes the regressors of bdkn, which bdkn.load can make again; got a "
            f"{type(model).__name__} of your own: pickle it, or save a regressor of bdkn and wrap it after loading"
        )
    arrays: Arrays = {}
    saved = _to_saved(model)
    document = {"model": saved.model, "bdkn": version("bdkn"), "saved": pack(saved, arrays, "saved")}
    write(path, arrays, document)


def restore_model(
    classes: Mapping[str, type[BaseEstimator]],
    arrays: Arrays,
    document: Document,
    member_classes: Sequence[type] = (),
) -> Any:
    """Return the regressor that ``save_model`` wrote; it and its members are of one of these classes.

    Everything is checked before anything computes with it; raise ``ModelFileError`` if something is wrong.
    """

    def restored(value: Any) -> Any:
        if isinstance(value, CopiedModel):
            return make_estimators(value, member_classes)
        if not isinstance(value, SavedModel):
            made = _map_parts(restored, value)
            if isinstance(made, EstimatorMember):
                own = (model for model in made.models if isinstance(model, BaseEstimator))
                must(all("model_" in vars(model) for model in own), "a member is not fitted")
            return made
        must(value.model in classes, f"there is no regressor {value.model!r:.80}")
        cls, parameters = classes[value.model], _with_tuples(value.parameters)
        for name, parameter in parameters.items():
            _check_parameter(cls, name, parameter)
        for name, part in value.objects.items():
            must(name in _declared(cls), f"{value.model} has no parameter {name!r:.80}")  # type: ignore[arg-type]
            options = {"training": TrainingOptions, "combination": CombinationOptions}.get(name)
            if options is not None:
                must(isinstance(part, options), f"{name} must be {options.__name__}")
            elif name == "members":
                with_place(name, PAIRS, [tuple(pair) for pair in part], {})
            else:
                _check_numbers(name, part)
        state = FittedEnsemble if value.model == "DeepEnsembleRegressor" else FittedModel
        must(value.fitted is None or isinstance(value.fitted, state), f"{cls.__name__} has another fitted model")
        model = cls(**parameters, **{name: _map_parts(restored, part) for name, part in value.objects.items()})
        if value.fitted is not None:
            model.model_ = restored(value.fitted)
        if value.made is not None:
            model.made_ = value.made
        return model

    try:
        with_place("bdkn", Text(), document.get("bdkn"), {})
        must(document.keys() == {"model", "bdkn", "saved"}, "must have model, bdkn and saved")
        left = dict(arrays)
        saved = unpack(document["saved"], left, "saved")
        must(not left, f"the array {next(iter(left), '')!r:.80} belongs nowhere")
        must(isinstance(saved, SavedModel) and saved.model == document["model"], "must hold that model")
        model = restored(saved)
        must("model_" in vars(model), "the model is not fitted")
        return model
    except WrongContentError as error:
        raise ModelFileError(str(error)) from error


def _is_own(model: Any) -> bool:
    """Return whether the class of a model is defined in this library."""
    return isinstance(model, BaseEstimator) and type(model).__module__.partition(".")[0] == "bdkn"


def _with_tuples(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in parameters.items()}


def _to_saved(value: Any) -> Any:
    """Return the value with each regressor in it as a ``SavedModel``; raise if another model cannot be written."""
    if isinstance(value, EstimatorMembers):
        members = tuple(
            replace(member, models=tuple(_saved_member(member.name, model) for model in member.models), originals=None)
            for member in value.members
        )
        return replace(value, members=members, candidates=_saved_pairs(value.candidates))
    if not _is_own(value):
        return _map_parts(_to_saved, value)
    names = value.get_params(deep=False)
    given = {name: getattr(value, name) for name in names}
    objects = {name: part for name, part in given.items() if (name in OPTIONS and part is not None) or is_nested(part)}
    fitted = vars(value).get("model_")
    return SavedModel(
        type(value).__name__,
        {name: plain_parameter(value, name) for name in names if name not in objects},
        {name: _saved_pairs(part) if name == "members" else part for name, part in objects.items()},
        None if fitted is None else _to_saved(fitted),
        vars(value).get("made_"),
    )


def _saved_member(name: str, model: Any) -> Any:
    """Return a fitted model of a member as it is written; raise if it cannot be."""
    if _is_own(model):
        return _to_saved(model)
    if isinstance(model, CopiedModel):
        return model
    raise InvalidParameterError(
        f"save writes numbers and no code; member {name!r}, a {type(model).__name__}, cannot be written as numbers: "
        "give its class the methods to_arrays and from_arrays, leave it out with drop_members, or write the whole "
        "regressor with joblib.dump"
    )


def _saved_pairs(pairs: Any) -> list[tuple[str, Any]]:
    """Return named estimators as they are written: regressors of this library, and others as text."""
    return [
        (name, model if isinstance(model, str) else _to_saved(model) if _is_own(model) else repr(model))
        for name, model in pairs
    ]


def _map_parts(change: Callable[[Any], Any], value: Any) -> Any:
    """Return the value with ``change`` applied to those parts that can contain regressors."""
    if isinstance(value, list | tuple):
        return type(value)(change(part) for part in value)
    if isinstance(value, FittedModel):
        return replace(value, members=change(value.members))
    if isinstance(value, EstimatorMembers):
        members, candidates = (change(part) for part in (value.members, value.candidates))
        return replace(value, members=members, candidates=candidates)
    return replace(value, models=change(value.models)) if isinstance(value, EstimatorMember) else value


def _check_numbers(name: str, value: Any) -> None:
    """Raise unless a parameter consists of numbers, text and arrays, such as pairs of row numbers."""
    if isinstance(value, list | tuple):
        for part in value:
            _check_numbers(name, part)
    else:
        plain = value is None or isinstance(value, bool | int | float | str | np.ndarray)
        must(plain, f"{name} must hold numbers; got a {type(value).__name__}")


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
def _declared(cls: Any) -> dict[str, tuple[str, ...]]:
    """Return the types that each parameter of a class may have, in a file."""
    annotations = {name: str(each.annotation) for name, each in inspect.signature(cls).parameters.items()}
    return {name: tuple(_FORMS.get(part, part) for part in text.split(" | ")) for name, text in annotations.items()}


def _conforms(value: Any, annotation: str) -> bool:
    if annotation.startswith(("Sequence[", "list[", "tuple[")):
        inner = annotation.partition("[")[2].removesuffix("]").split(",")[0]
        return isinstance(value, list | tuple) and all(_conforms(part, inner) for part in value)
    return type(value) in _ANNOTATED.get(annotation, ())
