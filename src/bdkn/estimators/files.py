"""Model files: fitted regressors as arrays and JSON."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Annotated, Any

from sklearn.base import BaseEstimator

from bdkn.ensemble.copied_models import CopiedModel
from bdkn.ensemble.estimators import EstimatorMember, EstimatorMembers
from bdkn.ensemble.provenance import OPTIONS, is_nested, plain_parameter
from bdkn.errors import InvalidParameterError
from bdkn.model.fitted import FittedEnsemble, FittedModel
from bdkn.storage.archive import Arrays, pack, write
from bdkn.storage.fields import Content, Instance, Items, Maybe, Named, Number, Plain, Text, must, stored, with_place

_FACTS: dict[str, Content] = {
    "when": Text(),
    "data": Text(),
    "target": Text(),
    "rows": Number(low=0, whole=True),
    "estimate": Named(Plain()),
    "versions": Named(Plain()),
    "absorbed": Items(Text(), list),
}
"""Schema of ``made_``: entries of a model file in which the command line records data and versions of the fit."""


@stored
@dataclass(frozen=True)
class SavedModel:
    """A regressor as stored in a file: class name, parameters, fitted model and, in ``made``, the model's origin.

    ``objects`` are the parameters that JSON cannot hold: options, members, and arrays of row numbers.
    """

    model: str
    parameters: Annotated[dict[str, Any], Named(Plain())]
    objects: Annotated[dict[str, Any], Named()]
    fitted: Annotated[FittedModel | FittedEnsemble | None, Maybe(Instance(FittedModel, FittedEnsemble))] = None
    made: Annotated[dict[str, Any], Named(Plain())] | None = None

    def check(self) -> None:
        """Raise unless the entries of ``made``, such as rows and versions, have the types that commands expect."""
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
        """Number of columns that the regressor expects; None if it is not fitted."""
        return None if self.fitted is None else self.fitted.reader.n_columns


def save_model(model: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted regressor of this library to a file; raise an error for other models."""
    if not _is_own(model):
        raise InvalidParameterError(
            "save writes the regressors of bdkn, which bdkn.load can make again; got a "
            f"{type(model).__name__} of your own: pickle it, or save a regressor of bdkn and wrap it after loading"
        )
    arrays: Arrays = {}
    saved = _to_saved(model)
    write(path, arrays, {"model": saved.model, "bdkn": version("bdkn"), "saved": pack(saved, arrays, "saved")})


def _is_own(model: Any) -> bool:
    """Return whether the class of a model is defined in this library."""
    return isinstance(model, BaseEstimator) and type(model).__module__.partition(".")[0] == "bdkn"


def _to_saved(value: Any) -> Any:
    """Return the value with each regressor replaced by a ``SavedModel``; raise if a model in it cannot be saved."""
    if isinstance(value, EstimatorMembers):
        members = tuple(
            replace(member, models=tuple(_saved_member(member.name, model) for model in member.models), originals=None)
            for member in value.members
        )
        return replace(value, members=members, candidates=_saved_pairs(value.candidates))
    if not _is_own(value):
        return map_parts(_to_saved, value)
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
    """Return the form in which a member's fitted model is saved; raise if it cannot be saved as numbers."""
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
    """Return (name, estimator) pairs in the form for a file: own regressors as ``SavedModel``, others as text."""
    return [
        (name, model if isinstance(model, str) else _to_saved(model) if _is_own(model) else repr(model))
        for name, model in pairs
    ]


def map_parts(change: Callable[[Any], Any], value: Any) -> Any:
    """Return a copy of the value, with ``change`` applied to its parts that can contain regressors, such as members."""
    if isinstance(value, list | tuple):
        return type(value)(change(part) for part in value)
    if isinstance(value, FittedModel):
        return replace(value, members=change(value.members))
    if isinstance(value, EstimatorMembers):
        members, candidates = (change(part) for part in (value.members, value.candidates))
        return replace(value, members=members, candidates=candidates)
    return replace(value, models=change(value.models)) if isinstance(value, EstimatorMember) else value
