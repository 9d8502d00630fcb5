"""Changes of a model file: of shapes, types, values, names, fields, places of arrays, JSON text and header."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
from safetensors.numpy import save

from bdkn.estimators.registry import REGRESSORS
from bdkn.storage.archive import FORMAT, VERSION, _checksum
from bdkn.storage.fields import STORED

NUMBERS = (0, 1, -1, 2, 0.5, -0.0, math.nan, math.inf, -math.inf, 1e-300, 5e-324, 1e30, -1e30, 1e300, 1.7e308, 2**31,
           2**62, 2**63, 2**64, 10**30, 10**400, 1e-8, 3.7, 30000)  # fmt: skip
OTHERS = (None, True, False, "", "nan", "a text", [], {}, [1], {"a": 1}, {"array": "x"}, {"list": 3}, {"tuple": {}},
          {"texts": [1]}, {"dict": []}, {"type": "Posterior"}, {"type": "Forest", "arguments": {}},
          {"type": [], "arguments": []}, {"list": []}, {"dict": {}})  # fmt: skip
KINDS = ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u1", "?")
NAMES = ("", "x", "root", "mean", "__class__", "__init__", "self", "model_", "type", "arguments", "\x00", "ν" * 300)


class Content:
    """Arrays and document of a file, copied so that they can be changed, and how the file is made of them."""

    def __init__(self, arrays: dict[str, Any], document: str) -> None:
        self.arrays = dict(arrays)
        self.document: Any = json.loads(document)
        self.text: str | None = None
        self.version = str(VERSION)
        self.format = FORMAT
        self.edit: Callable[[bytes], bytes] = bytes
        self.is_extreme = False
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Remember what was done."""
        self.notes.append(text[:300])


def container(changed: Content) -> bytes:
    """Return the bytes of a file, with a correct checksum."""
    text = json.dumps(changed.document) if changed.text is None else changed.text
    parts = {name: np.ascontiguousarray(array).reshape(np.shape(array)) for name, array in changed.arrays.items()}
    metadata = {"format": changed.format, "version": changed.version, "document": text}
    return changed.edit(save(parts, {**metadata, "checksum": _checksum(parts, text)}))


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Return the container and the key of everything inside of a tree, from top to bottom."""
    found: list[tuple[Any, Any]] = []
    level = [tree]
    while level:
        inside = [(at, key, value) for at in level for key, value in _items(at)]
        found += [(at, key) for at, key, _ in inside]
        level = [value for _, _, value in inside if isinstance(value, dict | list)]
    return found


def _items(tree: Any) -> Any:
    return tree.items() if isinstance(tree, dict) else enumerate(tree)


def _scalars(changed: Content) -> list[tuple[Any, Any]]:
    return [(at, key) for at, key in places(changed.document) if not isinstance(at[key], dict | list)]


def _objects(changed: Content) -> list[dict[str, Any]]:
    return [at[key] for at, key in places(changed.document) if isinstance(at[key], dict) and "arguments" in at[key]]


def _some_array(changed: Content, chance: Random) -> str:
    return chance.choice(sorted(changed.arrays) or [""])


def _number(changed: Content, chance: Random) -> Any:
    number = chance.choice(NUMBERS)
    size = abs(number) if not (isinstance(number, float) and math.isnan(number)) else 0
    changed.is_extreme |= not (size == 0 or 1e-30 < size < 1e29)
    return number


def change_shape(changed: Content, chance: Random) -> None:
    """Give an array another shape."""
    name = _some_array(changed, chance)
    array = changed.arrays.get(name, np.zeros(1))
    ways: list[Callable[[], Any]] = [
        lambda: array[..., :-1] if array.ndim else array,
        lambda: array[1:] if array.ndim else array,
        lambda: np.concatenate([array, array[:1]]) if array.ndim else array,
        lambda: array[None],
        lambda: array.ravel(),
        lambda: array.T,
        lambda: np.zeros((2, 2), array.dtype),
        lambda: np.zeros((0, *array.shape[1:]), array.dtype),
        lambda: np.zeros((), array.dtype),
        lambda: np.zeros(array.shape[:-1], array.dtype),
        lambda: np.ones((*array.shape, 1), array.dtype),
        lambda: np.repeat(array, 2, axis=0) if array.ndim else array,
        lambda: array.reshape(array.shape[::-1]),
        lambda: np.ones((1,) * 40, array.dtype),
    ]
    changed.arrays[name] = chance.choice(ways)()
    changed.note(f"{name}: {array.shape} -> {changed.arrays[name].shape}")


def change_type(changed: Content, chance: Random) -> None:
    """Give an array another type."""
    name = _some_array(changed, chance)
    with np.errstate(all="ignore"):
        changed.arrays[name] = changed.arrays.get(name, np.zeros(1)).astype(chance.choice(KINDS))
    changed.note(f"{name}: {changed.arrays[name].dtype}")


def change_value(changed: Content, chance: Random) -> None:
    """Change a number of an array."""
    name = _some_array(changed, chance)
    array = changed.arrays.get(name, np.zeros(1)).copy()
    if not array.size:
        return
    at = np.unravel_index(chance.randrange(array.size), array.shape)
    old = array[at].item()
    new: Any = True if array.dtype == bool else chance.choice((old * 1.01, -old, old + 1, None))
    new = _number(changed, chance) if new is None else new
    with np.errstate(all="ignore"):
        try:
            array[at] = new
        except (OverflowError, ValueError):  # NaN is no whole number
            array[at] = np.iinfo(array.dtype).max if array.dtype.kind in "iu" else np.inf
            changed.is_extreme = True
    changed.arrays[name] = array
    changed.note(f"{name}{at}: {new}")


def change_order(changed: Content, chance: Random) -> None:
    """Put the entries of an array into another order."""
    name = _some_array(changed, chance)
    array = changed.arrays.get(name, np.zeros(1))
    order = np.array(chance.sample(range(array.size), array.size), dtype=np.intp)
    ways = (lambda: array.ravel()[order].reshape(array.shape), lambda: array[::-1], lambda: np.sort(array, axis=None))
    changed.arrays[name] = np.asarray(chance.choice(ways)()).reshape(array.shape) if array.ndim else array
    changed.note(f"{name}: another order")


def change_number(changed: Content, chance: Random) -> None:
    """Change a number or a text of the document."""
    at, key = chance.choice(_scalars(changed))
    value = at[key]
    if isinstance(value, int | float) and not isinstance(value, bool) and chance.random() < 0.3:
        at[key] = chance.choice((value + 1, -value, 1.01 * min(value, 10**300)))
    else:
        at[key] = _number(changed, chance)
    changed.note(f"{key}: {value!r} -> {at[key]!r}")


def change_kind(changed: Content, chance: Random) -> None:
    """Put something of another kind in a place of the document."""
    at, key = chance.choice(places(changed.document))
    changed.note(f"{key}: {str(at[key])[:80]}")
    at[key] = json.loads(json.dumps(chance.choice(OTHERS)))
    changed.note(f" -> {at[key]!r}")


def change_name(changed: Content, chance: Random) -> None:
    """Rename a field, a class, a parameter, an array, or a part of the document."""
    names = [(at, key) for at, key in places(changed.document) if isinstance(at, dict)]
    classes = [*STORED, *REGRESSORS]
    found = chance.choice(_objects(changed) or [{}])
    if chance.random() < 0.4 and found:
        found["type"] = chance.choice((*classes, *NAMES))
        changed.note(f"class {found['type']}")
    elif chance.random() < 0.2 and changed.arrays:
        old, new = _some_array(changed, chance), chance.choice((*NAMES, *sorted(changed.arrays)))
        changed.arrays[new or "y"] = changed.arrays.pop(old)
        changed.note(f"array {old} is now {new}")
    else:
        at, key = chance.choice(names)
        new = chance.choice((*NAMES, *[name for _, name in chance.sample(names, min(3, len(names)))]))
        at[new] = at.pop(key)
        changed.note(f"{key} is now {new}")


def change_fields(changed: Content, chance: Random) -> None:
    """Take a field or an entry away, or add one."""
    at, key = chance.choice(places(changed.document))
    if chance.random() < 0.6:
        changed.note(f"{key} is taken away: {str(at[key])[:80]}")
        del at[key]
    elif isinstance(at, list):
        at.insert(key, json.loads(json.dumps(at[chance.randrange(len(at))])))
        changed.note(f"an entry of {len(at)} is there twice")
    else:
        at[chance.choice(NAMES)] = json.loads(json.dumps(at[key]))
        changed.note(f"{key} is there under another name, too")


def change_places(changed: Content, chance: Random) -> None:
    """Exchange arrays, or parts of the document; or leave an array out."""
    one, two = _some_array(changed, chance), _some_array(changed, chance)
    if chance.random() < 0.4 and one:
        changed.arrays[one], changed.arrays[two] = changed.arrays[two], changed.arrays[one]
        changed.note(f"{one} and {two} are exchanged")
    elif chance.random() < 0.2 and one:
        del changed.arrays[one]
        changed.note(f"{one} is gone")
    elif chance.random() < 0.2:
        changed.arrays["more"] = np.zeros(3)
    else:
        (a, i), (b, j) = (chance.choice(places(changed.document)) for _ in range(2))
        a[i] = json.loads(json.dumps(b[j]))
        changed.note(f"{str(b[j])[:80]} is in the place of {i}")


def change_text(changed: Content, chance: Random) -> None:
    """Change the JSON text of the document."""
    text = json.dumps(changed.document)
    at = chance.randrange(len(text))
    deep = chance.choice((50, 200, 5000, 100_000))
    changed.text = chance.choice(
        (
            text[:at],
            text[:at] + chance.choice('{}[]",:0e-Nn\\ \x00') + text[at:],
            text[:at] + text[at + 1 :],
            text[:-1] + ', "saved": {}}',
            "[" * deep + "]" * deep,
            '{"model": "BDKNRegressor", "bdkn": "1", "saved": {"model_": '
            + '{"list": [' * deep + "]}" * deep + "}}",
            '{"a":' * deep + "1" + "}" * deep,
            text.replace("0.", "0" * deep + ".", 1),
            text.replace(": 1", ": " + "1" * deep, 1),
            text.replace('"type"', '"type": "Forest", "type"', 1),
            chance.choice(("", "null", "3", "[]", '"x"', "{}", "NaN", "\ufeff{}", '{"model": {}}', '{"model": []}')),
            text.replace("true", "1").replace("null", "NaN"),
            text.replace('"', "'"),
            text.replace("0", "\\ud800", 1),
        )
    )  # fmt: skip
    changed.note(f"text {changed.text[:100]}")


def change_header(changed: Content, chance: Random) -> None:
    """Change the version, the format or bytes of the file."""
    way = chance.randrange(5)
    if way == 0:
        changed.version = chance.choice(("", "0", "1", "3", "-1", "2.0", "٢", "9" * 5000, "two", "1e1", " 2", "2\n"))
        changed.note(f"version {changed.version[:20]!r}")
    elif way == 1:
        changed.format = chance.choice(("", "bdkn", "pt"))
    else:
        places_, values = [chance.random() for _ in range(way)], [chance.randrange(256) for _ in range(way)]
        cut = chance.random() if chance.random() < 0.3 else 1.0

        def edit(content: bytes) -> bytes:
            edited = bytearray(content)
            for place, value in zip(places_, values, strict=True):
                edited[int(place**4 * len(edited))] = value
            return bytes(edited[: int(cut * len(edited)) + 1])

        changed.edit = edit
        changed.note(f"{way} bytes changed, cut to {cut:.2f}")


def change_parameters(changed: Content, chance: Random) -> None:
    """Change a parameter of the regressor."""
    parameters = changed.document.get("saved", {}).get("arguments", {}).get("parameters", {}).get("dict")
    if not isinstance(parameters, dict) or not parameters:
        return
    name = chance.choice(sorted(parameters))
    parameters[name] = chance.choice((_number(changed, chance), *OTHERS, "another", [1, 2], [[1]], -1))
    changed.note(f"{name} = {parameters[name]!r}")


CHANGES: dict[str, Callable[[Content, Random], None]] = {
    "shapes": change_shape,
    "types": change_type,
    "values of arrays": change_value,
    "order of arrays": change_order,
    "numbers and texts": change_number,
    "kinds of values": change_kind,
    "names": change_name,
    "fields": change_fields,
    "places": change_places,
    "JSON text": change_text,
    "header and bytes": change_header,
    "parameters": change_parameters,
}
