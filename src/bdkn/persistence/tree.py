"""Conversion of fitted values to JSON and arrays, and back.

A value may consist of numbers, text, None, arrays, lists, tuples, dicts with text keys, and objects of stored classes,
whose attributes have the names of their constructor's arguments. Nothing else is created from a file, so that a file
cannot contain code, and an object only if its fields are as its schema demands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bdkn.errors import ModelFileError
from bdkn.persistence.archive import Arrays
from bdkn.persistence.fields import STORED, WrongContentError
from bdkn.persistence.schema import schema_of

_DEEPEST = 100
"""Values inside one another; a stack of regressors takes nine."""


def pack(value: object, arrays: Arrays, name: str) -> Any:
    """Return ``value`` as JSON; its arrays are added to ``arrays`` under names that begin with ``name``."""

    def inner(part: object, key: object) -> Any:
        return pack(part, arrays, f"{name}.{key}")

    if isinstance(value, np.ndarray) and value.dtype != object:
        arrays[name] = value
        return {"array": name}
    if isinstance(value, np.ndarray):
        return {"texts": [str(text) for text in value]}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [inner(part, i) for i, part in enumerate(value)]}
    if isinstance(value, dict):
        return {"dict": {key: inner(part, key) for key, part in value.items()}}
    cls = STORED.get(type(value).__name__)
    if cls is not None and isinstance(value, cls):
        arguments = {key: inner(getattr(value, key), key) for key in schema_of(cls).fields}
        return {"type": cls.__name__, "arguments": arguments}
    return _plain(value, name)


def unpack(tree: Any, arrays: Arrays, name: str) -> Any:
    """Return the value that ``pack`` converted to ``tree`` and ``arrays`` under that name.

    Every object is checked before it is made, every array must have the name of its place, and is taken out of
    ``arrays``. Raise ``ModelFileError`` if something is wrong.
    """
    return _Unpacking(arrays).value(tree, name, 0)


class _Unpacking:
    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.readers: dict[str, Callable[[Any, str, int], Any]] = {
            "array": self._array,
            "texts": self._texts,
            "list": self._list,
            "tuple": self._tuple,
            "dict": self._dict,
        }

    def value(self, tree: Any, place: str, depth: int) -> Any:
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

    def _array(self, name: Any, place: str, _: int) -> Any:
        if not isinstance(name, str) or name not in self.arrays:
            raise _wrong(place, f"there is no array {name!r:.80}")
        if name != place:
            raise _wrong(place, f"the array {name!r:.80} belongs elsewhere")
        return self.arrays.pop(name)

    def _texts(self, texts: Any, place: str, _: int) -> Any:
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise _wrong(place, "texts must be a list of texts")
        found = np.empty(len(texts), dtype=object)
        found[:] = texts
        return found

    def _list(self, parts: Any, place: str, depth: int) -> list[Any]:
        if not isinstance(parts, list):
            raise _wrong(place, f"a {type(parts).__name__} stands where a list should be")
        return [self.value(part, f"{place}.{i}", depth + 1) for i, part in enumerate(parts)]

    def _tuple(self, parts: Any, place: str, depth: int) -> tuple[Any, ...]:
        return tuple(self._list(parts, place, depth))

    def _dict(self, parts: Any, place: str, depth: int) -> dict[str, Any]:
        if not isinstance(parts, dict):
            raise _wrong(place, f"a {type(parts).__name__} stands where fields should be")
        return {key: self.value(part, f"{place}.{key}", depth + 1) for key, part in parts.items()}

    def _object(self, kind: Any, arguments: Any, place: str, depth: int) -> Any:
        if not isinstance(kind, str):
            raise _wrong(place, "the name of a class must be a text")
        if kind not in STORED:
            raise _wrong(place, f"there is no class {kind!r:.80}")
        values = self._dict(arguments, place, depth)
        try:
            return schema_of(STORED[kind]).make(values)
        except WrongContentError as error:
            raise _wrong(place, f"{kind}: {error}") from error


def _wrong(place: str, text: str) -> ModelFileError:
    return ModelFileError(f"{place[:200]}: {text}")


def _plain(value: object, name: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ModelFileError(
        f"a model file can contain numbers, text and this library's own networks; {name} is a {type(value).__name__}: "
        "train with hidden_layer_sizes instead of a module of your own, or save the module with PyTorch"
    )
