"""Schemas of stored classes, derived from their annotations when a file is first read or written.

Plain annotations need no content: numbers (finite), texts, truth values, tuples, lists, stored classes, base classes of
them, literals, and unions of classes.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from bdkn.errors import BDKNError
from bdkn.persistence.fields import (
    MAY_BE_EMPTY,
    STORED,
    Choice,
    Content,
    Fixed,
    Flag,
    Items,
    Maybe,
    Number,
    Part,
    Sized,
    Sizes,
    Text,
    WrongContentError,
    with_place,
)


@dataclass(frozen=True, eq=False)
class Schema:
    """The fields of a stored class, and those of them that have no default."""

    cls: type
    fields: Mapping[str, Content]
    required: frozenset[str]

    def make(self, values: Mapping[str, Any]) -> Any:
        """Return the object with these fields; raise ``WrongContentError`` if they are wrong."""
        if not self.required <= values.keys() <= self.fields.keys():
            unknown, absent = sorted(values.keys() - self.fields.keys()), sorted(self.required - values.keys())
            raise WrongContentError(f"has no field {unknown[0]!r:.80}" if unknown else f"needs the field {absent[0]!r}")
        found: Sizes = {}
        for name, content in self.fields.items():
            if name in values:
                with_place(name, content, values[name], found)
        for symbol, size in found.items():
            if size < 1 and symbol not in MAY_BE_EMPTY[self.cls]:
                raise WrongContentError(f"must have {symbol} >= 1; got {size}")
        try:
            made = self.cls(**values)
            if hasattr(made, "check"):
                made.check()
        except BDKNError as error:  # what the class itself demands
            raise WrongContentError(str(error)) from error
        return made


@cache
def schema_of(cls: type) -> Schema:
    """Return the schema of a stored class, derived from its annotations when it is first used."""
    hints, parameters = get_type_hints(cls, include_extras=True), inspect.signature(cls).parameters
    fields = {}
    for name in parameters:
        try:
            fields[name] = content_of(hints[name])
        except TypeError as error:
            raise TypeError(f"{cls.__name__}.{name} cannot be stored: {error}") from error
    required = frozenset(name for name, each in parameters.items() if each.default is inspect.Parameter.empty)
    return Schema(cls, fields, required)


def content_of(hint: Any) -> Content:
    """Return the content that an annotation stands for."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(*parts)
    if origin in (Union, UnionType):
        return _union(parts)
    if origin is Literal:
        return Choice(parts)
    if origin is list:
        return Items(content_of(parts[0]), list)
    if origin is tuple:
        return Items(content_of(parts[0])) if parts[1:] == (...,) else Fixed(*map(content_of, parts))
    if hint in _PLAIN:
        return _PLAIN[hint]
    kinds = [name for name, cls in STORED.items() if hint in cls.__mro__]
    if not kinds:
        raise TypeError(f"{hint} must be annotated with its content, as in Annotated[FloatArray, floats('n')]")
    return Part(*kinds)


def _annotated(hint: Any, *notes: Any) -> Content:
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    some = tuple(kind for kind in kinds if kind is not NoneType)
    contents: list[Content] = [note for note in notes if not isinstance(note, Sized)]
    content = contents[0] if contents else _union(some)
    if some == (int,) and isinstance(content, Number):
        content = replace(content, whole=True)
    for note in notes:
        if isinstance(note, Sized):
            content = replace(note, content=content)
    return Maybe(content) if NoneType in kinds else content


def _union(hints: tuple[Any, ...]) -> Content:
    if NoneType in hints:
        return Maybe(_union(tuple(hint for hint in hints if hint is not NoneType)))
    contents = list(map(content_of, hints))
    parts = [content for content in contents if isinstance(content, Part)]
    if len(contents) > 1 and len(parts) < len(contents):
        raise TypeError(f"{' | '.join(map(str, hints))} must be annotated with its content")
    return Part(*(name for part in parts for name in part.names)) if parts else contents[0]


_PLAIN: dict[Any, Content] = {
    bool: Flag(),
    int: Number(whole=True),
    float: Number(),
    str: Text(),
}
