"""Conversion of fitted values to JSON and arrays, and back.

A value may consist of numbers, text, None, arrays, lists, tuples, dicts with text keys, and objects of the classes in
``types``, whose attributes have the names of their constructor's arguments. Nothing else is created from a file, so
that a file cannot contain code. Where there are schemas, an object is created only if its fields are as they say.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from bdkn.errors import ModelFileError
from bdkn.persistence.archive import Arrays
from bdkn.persistence.schema import Schema, WrongContentError

_DEEPEST = 100
"""Values inside one another; a stack of regressors takes nine."""


def pack(value: object, types: Iterable[type], arrays: Arrays, name: str) -> Any:
    """Return ``value`` as JSON; its arrays are added to ``arrays`` under names that begin with ``name``."""

    def inner(part: object, key: object) -> Any:
        return pack(part, types, arrays, f"{name}.{key}")

    if isinstance(value, np.ndarray) and value.dtype != object:
        arrays[name] = value
        return {"array": name}
    if isinstance(value, np.ndarray):
        return {"texts": [str(text) for text in value]}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [inner(part, i) for i, part in enumerate(value)]}
    if isinstance(value, dict):
        return {"dict": {key: inner(part, key) for key, part in value.items()}}
    if type(value) in types:
        arguments = {key: inner(getattr(value, key), key) for key in inspect.signature(type(value)).parameters}
        return {"type": type(value).__name__, "arguments": arguments}
    return _plain(value, name)


FormerTypes = Mapping[str, tuple[str, Mapping[str, str]]]
"""By name of a class in a file: its name in this version, and the new names of arguments that were renamed."""


def unpack(
    tree: Any,
    types: Iterable[type],
    arrays: Arrays,
    former: FormerTypes | None = None,
    *,
    schemas: Mapping[type, Schema] | None = None,
    name: str | None = None,
) -> Any:
    """Return the value that ``pack`` converted to ``tree`` and ``arrays``; raise ``ModelFileError`` if it is wrong.

    ``former`` has names of earlier versions. With ``schemas``, every object is checked before it is made. With the
    ``name`` that ``pack`` was given, every array must have the name of its place, and is taken out of ``arrays``.
    """
    return _Unpacking({cls.__name__: cls for cls in types}, arrays, former or {}, schemas).value(tree, name, 0)


class _Unpacking:
    def __init__(
        self, known: Mapping[str, type], arrays: Arrays, former: FormerTypes, schemas: Mapping[type, Schema] | None
    ) -> None:
        self.known, self.arrays, self.former, self.schemas = known, arrays, former, schemas
        self.readers: dict[str, Callable[[Any, str | None, int], Any]] = {
            "array": self._array,
            "texts": self._texts,
            "list": self._list,
            "tuple": self._tuple,
            "dict": self._dict,
        }

    def value(self, tree: Any, place: str | None, depth: int) -> Any:
        if tree is None or isinstance(tree, bool | int | float | str):
            return tree
        if depth > _DEEPEST:
            raise _wrong(place, f"more than {_DEEPEST} values are inside one another")
        if not isinstance(tree, dict):
            raise _wrong(place, f"a {type(tree).__name__} stands where a value should be")
        if tree.keys() == {"type", "arguments"}:
            return self._object(tree["type"], tree["arguments"], place, depth)
        if len(tree) == 1:
            ((kind, content),) = tree.items()
            if kind in self.readers:
                return self.readers[kind](content, place, depth)
        raise _wrong(place, f"a value of an unknown kind, {', '.join(map(repr, list(tree)[:3]))}")

    def _array(self, name: Any, place: str | None, _: int) -> Any:
        if not isinstance(name, str) or name not in self.arrays:
            raise _wrong(place, f"there is no array {name!r:.80}")
        if place is None:
            return self.arrays[name]
        if name != place:
            raise _wrong(place, f"the array {name!r:.80} belongs elsewhere")
        return self.arrays.pop(name)

    def _texts(self, texts: Any, place: str | None, _: int) -> Any:
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise _wrong(place, "texts must be a list of texts")
        found = np.empty(len(texts), dtype=object)
        found[:] = texts
        return found

    def _list(self, parts: Any, place: str | None, depth: int) -> list[Any]:
        if not isinstance(parts, list):
            raise _wrong(place, f"a {type(parts).__name__} stands where a list should be")
        return [self.value(part, _inside(place, i), depth + 1) for i, part in enumerate(parts)]

    def _tuple(self, parts: Any, place: str | None, depth: int) -> tuple[Any, ...]:
        return tuple(self._list(parts, place, depth))

    def _dict(self, parts: Any, place: str | None, depth: int) -> dict[str, Any]:
        if not isinstance(parts, dict):
            raise _wrong(place, f"a {type(parts).__name__} stands where fields should be")
        return {key: self.value(part, _inside(place, key), depth + 1) for key, part in parts.items()}

    def _object(self, kind: Any, arguments: Any, place: str | None, depth: int) -> Any:
        if not isinstance(kind, str):
            raise _wrong(place, "the name of a class must be a text")
        name, keys = self.former.get(kind, (kind, {}))
        if name not in self.known:
            raise _wrong(place, f"there is no class {name!r:.80}")
        cls, values = self.known[name], self._dict(arguments, place, depth)
        renamed = {keys.get(key, key): value for key, value in values.items()}
        if len(renamed) < len(values):
            raise _wrong(place, f"a field of {name} is there twice")
        if self.schemas is None:
            return cls(**renamed)
        try:
            return self.schemas[cls].make(renamed)
        except WrongContentError as error:
            raise _wrong(place, f"{name}: {error}") from error


def _inside(place: str | None, key: object) -> str | None:
    return None if place is None else f"{place}.{key}"


def _wrong(place: str | None, text: str) -> ModelFileError:
    return ModelFileError(text if place is None else f"{place[:200]}: {text}")


def _plain(value: object, name: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ModelFileError(
        f"a model file can contain numbers, text and this library's own networks; {name} is a {type(value).__name__}: "
        "train with hidden_layer_sizes instead of a module of your own, or save the module with PyTorch"
    )
