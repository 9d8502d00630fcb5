"""Conversion of fitted values to JSON and arrays, and back.

A value may consist of numbers, text, None, arrays, lists, tuples, dicts with text keys, and objects of the classes in
``types``, whose attributes have the names of their constructor's arguments. Nothing else is created from a file, so
that a file cannot contain code.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bdkn.errors import ModelFileError
from bdkn.persistence.archive import Arrays


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


def unpack(tree: Any, types: Iterable[type], arrays: Arrays, former: FormerTypes | None = None) -> Any:
    """Return the value that ``pack`` converted to ``tree`` and ``arrays``; ``former`` has names of earlier versions."""
    known, renamed = {cls.__name__: cls for cls in types}, former or {}

    def value(tree: Any) -> Any:
        match tree:
            case {"array": name}:
                return arrays[name]
            case {"texts": texts}:
                return np.array(texts, dtype=object)
            case {"list": parts}:
                return [value(part) for part in parts]
            case {"tuple": parts}:
                return tuple(value(part) for part in parts)
            case {"dict": parts}:
                return {key: value(part) for key, part in parts.items()}
            case {"type": kind, "arguments": arguments}:
                name, keys = renamed.get(kind, (kind, {}))
                return known[name](**{keys.get(key, key): value(part) for key, part in arguments.items()})
        return tree

    return value(tree)


def _plain(value: object, name: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ModelFileError(
        f"a model file can contain numbers, text and this library's own networks; {name} is a {type(value).__name__}: "
        "train with hidden_layer_sizes instead of a module of your own, or save the module with PyTorch"
    )
