"""Regressors in a file: the name of the class, parameters and fitted attributes; and their schema."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from bdkn.members import EstimatorMember
from bdkn.persistence.schema import (
    Either,
    Items,
    Number,
    Pair,
    Part,
    Plain,
    Schema,
    Sizes,
    Text,
    WrongContentError,
    must,
)
from bdkn.regressors.file_schemas.links import LINKS


@dataclass(frozen=True)
class SavedModel:
    """A regressor in a file: the name of its class, its parameters, and its fitted attributes."""

    model: str
    parameters: dict[str, Any]
    fitted: dict[str, Any]


class _Named:
    """Values by name."""

    def check(self, value: Any, sizes: Sizes) -> None:
        must(type(value) is dict, f"must have names and values; got a {type(value).__name__}")


class _PlainNamed(_Named):
    """Plain values by name."""

    def check(self, value: Any, sizes: Sizes) -> None:
        super().check(value, sizes)
        Plain().check(value, sizes)


NAMED, PLAIN_NAMED = _Named(), _PlainNamed()

ESTIMATORS = Items(Pair(Text(), Either(str, Text(), Part(SavedModel))), container=list)
"""Names and regressors, or what stands for one."""

_ANNOTATED: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "bool": (bool,),
    "None": (type(None),),
    "int or None": (int, type(None)),
}
_FORMS = {"Seed": "int or None", "Engine": "str"}
"""What stands in a file for parameters of these types."""


def check_parameter(kind: type, name: str, value: Any) -> None:
    """Raise unless a value is of the type that a parameter of a class has by its annotation."""
    declared = _declared(kind)
    must(name in declared, f"{kind.__name__} has no parameter {name!r:.80}")
    allowed = declared[name]
    if "Any" not in allowed and not any(_conforms(value, each) for each in allowed):
        raise WrongContentError(f"{name} must be {' or '.join(allowed)}; got {value!r:.80}")


@cache
def _declared(kind: type) -> dict[str, tuple[str, ...]]:
    """Return the types that each parameter of a class may have, in a file."""
    annotations = {name: str(each.annotation) for name, each in inspect.signature(kind).parameters.items()}
    return {name: tuple(_FORMS.get(part, part) for part in text.split(" | ")) for name, text in annotations.items()}


def _conforms(value: Any, annotation: str) -> bool:
    if annotation.startswith(("Sequence[", "list[", "tuple[")):
        inner = annotation.partition("[")[2].removesuffix("]").split(",")[0]
        return isinstance(value, list | tuple) and all(_conforms(part, inner) for part in value)
    return type(value) in _ANNOTATED.get(annotation, ())


SCHEMAS = (
    Schema(SavedModel, {"model": Text(), "parameters": PLAIN_NAMED, "fitted": NAMED}),
    Schema(
        EstimatorMember,
        {
            "name": Text(),
            "models": Items(Part(SavedModel), least=1),
            "std_factor": Number(low=0.0, nan=True),
            "link": Part(*LINKS),
        },
    ),
)
