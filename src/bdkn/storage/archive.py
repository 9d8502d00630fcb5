"""Model files: arrays and a JSON document in one safetensors file, checked before any object is created from it.

A model may consist of numbers, text, None, arrays, lists, tuples, dicts with text keys, and objects of classes with the
decorator ``stored``, whose attributes have the names of the arguments of their constructor. Nothing else is created
from a file. So a file cannot contain code, and every field of an object is checked by the rule for it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.errors import ModelFileError
from bdkn.storage.atomic import replace_file
from bdkn.storage.fields import STORED, WrongContentError, schema_of

FORMAT = "bdkn model"
VERSION = 3
"""Version of the format of model files; files of other versions are refused."""

Arrays = dict[str, NDArray[Any]]
Document = dict[str, Any]

_TYPES = {
    "BOOL": "?",
    "I8": "i1",
    "I16": "<i2",
    "I32": "<i4",
    "I64": "<i8",
    "U8": "u1",
    "U16": "<u2",
    "U32": "<u4",
    "U64": "<u8",
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
}
"""Allowed types of arrays: from the type's name in a safetensors file to the NumPy type."""

_MAX_HEADER = 100_000_000
"""Maximum size of the header of a safetensors file, in bytes."""

_MAX_AXES = 8
"""Maximum number of axes of an array in a model file."""

_MAX_LENGTH = 2**40
"""Maximum length of an axis of an array in a model file, also of an empty array such as one of shape (0, 10**30)."""

_MAX_DEPTH = 100
"""Maximum nesting depth of lists, dicts and objects in a model file; a stack of regressors has depth nine."""


def write(path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], document: Document) -> None:
    """Write arrays and a JSON document to a temporary file in the same folder, then rename it to ``path``."""
    replace_file(Path(path), to_bytes(arrays, document))


def read(path: str | os.PathLike[str]) -> tuple[Arrays, Document]:
    """Return the arrays and the JSON document of a model file; raise ``ModelFileError`` if it is damaged."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{os.fspath(path)} is a folder; give the name of a file in it")
    if not target.is_file():
        raise FileNotFoundError(f"there is no file {os.fspath(path)}; check the name and the folder")
    try:
        with open(target, "rb") as file:
            start = file.read(8)
            _check_start(start, os.fstat(file.fileno()).st_size, os.fspath(path))
            return from_bytes(start + file.read(), os.fspath(path))
    except MemoryError as error:
        size = target.stat().st_size
        raise ModelFileError(f"{path} takes {size / 1e9:.3g} GB of memory, which is more than there is") from error


def to_bytes(arrays: Mapping[str, NDArray[Any]], document: Document) -> bytes:
    """Return the bytes of a model file with these arrays and this JSON document."""
    from safetensors.numpy import save

    parts = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    text = json.dumps(document)
    metadata = {"format": FORMAT, "version": str(VERSION), "document": text, "checksum": _checksum(parts, text)}
    content: bytes = save(parts, metadata)
    return content


def from_bytes(content: bytes, path: str) -> tuple[Arrays, Document]:
    """Return the arrays and the JSON document in the bytes of a model file; raise ``ModelFileError`` if damaged.

    The memory used is at most a few times the size of the file, even if the file claims to have larger arrays.
    """
    from safetensors import SafetensorError, deserialize

    try:
        tensors = deserialize(content)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise _damaged(path, str(error)) from error
    metadata = _metadata(content, path)
    _check_format(path, metadata)
    arrays = {name: _array(tensor, path) for name, tensor in tensors}
    text = metadata.get("document", "")
    if metadata.get("checksum") != _checksum(arrays, text):
        raise _damaged(path, "its checksum does not match")
    document = _parse_json(text, path)
    if not isinstance(document, dict):
        raise _damaged(path, "its document does not consist of names and values")
    return arrays, document


def _check_start(start: bytes, size: int, path: str) -> None:
    """Raise if the first bytes of a file are not those of a safetensors file; called before the whole file is read."""
    length = int.from_bytes(start, "little")
    if len(start) < 8 or not 2 <= length <= min(size - 8, _MAX_HEADER):
        raise _damaged(path, "it does not begin as a safetensors file")


def _metadata(content: bytes, path: str) -> dict[str, str]:
    """Return the metadata in the header of a safetensors file, given the bytes of the file."""
    length = int.from_bytes(content[:8], "little")
    header = _parse_json(content[8 : 8 + length].decode("utf-8"), path)
    found: dict[str, str] = header.get("__metadata__") or {}
    return found


def _parse_json(text: str, path: str) -> Any:
    """Parse a JSON text; raise ``ModelFileError`` if it is invalid, repeats a key, or is nested too deeply."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a name occurs twice")
        return found

    try:
        return json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"its document is no JSON: {error}") from error


def _array(tensor: Mapping[str, Any], path: str) -> NDArray[Any]:
    if tensor["dtype"] not in _TYPES:
        raise _damaged(path, f"it has an array of the unknown type {tensor['dtype']}")
    dtype, shape = np.dtype(_TYPES[tensor["dtype"]]), tensor["shape"]
    if len(shape) > _MAX_AXES or max(shape, default=0) > _MAX_LENGTH:
        raise _damaged(path, f"it has an array of the impossible shape {shape}")
    array = np.frombuffer(tensor["data"], dtype=dtype).reshape(shape)
    if dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
        raise _damaged(path, "a truth value is neither 0 nor 1")
    return array.copy()  # aligned and writeable, as compiled code requires


def _check_format(path: str, metadata: dict[str, str]) -> None:
    if metadata.get("format") != FORMAT:
        raise ModelFileError(f"{path} is a safetensors file, but not a bdkn model; load it with its own program")
    version = metadata.get("version", "")
    if not (version.isascii() and version.isdecimal() and len(version) < 10):
        raise _damaged(path, "its version is no number")
    if int(version) != VERSION:
        advice = "run: pip install --upgrade bdkn" if int(version) > VERSION else "fit and save again"
        raise ModelFileError(f"{path} has format version {version}, this bdkn reads version {VERSION} only; {advice}")


def _damaged(path: str, reason: str) -> ModelFileError:
    return ModelFileError(
        f"{path} cannot be read as a bdkn model ({reason}); it is damaged, incomplete or of another kind: "
        "copy it again from its source, or fit and save again"
    )


def _checksum(arrays: Arrays, text: str) -> str:
    """Return a hash of the arrays and the JSON text of a model file, to detect damage; safetensors has no checksum."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def pack(value: object, arrays: Arrays, name: str) -> Any:
    """Convert a value to JSON data; add its arrays to the dict ``arrays``, under names that begin with ``name``."""

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
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ModelFileError(
        f"a model file can contain numbers, text and this library's own networks; {name} is a {type(value).__name__}: "
        "train with hidden_layer_sizes instead of a module of your own, or save the module with PyTorch"
    )


def unpack(tree: Any, arrays: Arrays, name: str) -> Any:
    """Create an object from the JSON data ``tree`` and the arrays of a model file; the inverse of ``pack``.

    The fields of every object are checked before it is created. The name of an array must be its position in the tree;
    arrays are removed from ``arrays`` when they are used. Raise ``ModelFileError`` if a value is not allowed.
    """

    def value(tree: Any, place: str, depth: int) -> Any:
        if tree is None or isinstance(tree, bool | int | float | str):
            return tree
        if depth > _MAX_DEPTH:
            raise _wrong(place, f"more than {_MAX_DEPTH} values are inside one another")
        if not isinstance(tree, dict):
            raise _wrong(place, f"a {type(tree).__name__} stands where a value should be")
        if tree.keys() == {"type", "arguments"}:
            cls = tree["type"]
            if not isinstance(cls, str):
                raise _wrong(place, "the name of a class must be a text")
            if cls not in STORED:
                raise _wrong(place, f"there is no class {cls!r:.80}")
            values = fields(tree["arguments"], place, depth)
            try:
                return schema_of(STORED[cls]).make(values)
            except WrongContentError as error:
                raise _wrong(place, f"{cls}: {error}") from error
        form, content = next(iter(tree.items())) if len(tree) == 1 else (None, None)
        if form == "array":
            if not isinstance(content, str) or content not in arrays:
                raise _wrong(place, f"there is no array {content!r:.80}")
            if content != place:
                raise _wrong(place, f"the array {content!r:.80} belongs elsewhere")
            return arrays.pop(content)
        if form == "texts":
            if not isinstance(content, list) or not all(isinstance(text, str) for text in content):
                raise _wrong(place, "texts must be a list of texts")
            found = np.empty(len(content), dtype=object)
            found[:] = content
            return found
        if form in ("list", "tuple"):
            if not isinstance(content, list):
                raise _wrong(place, f"a {type(content).__name__} stands where a list should be")
            parts = [value(part, f"{place}.{i}", depth + 1) for i, part in enumerate(content)]
            return parts if form == "list" else tuple(parts)
        if form == "dict":
            return fields(content, place, depth)
        raise _wrong(place, f"a value of an unknown kind, {', '.join(map(repr, list(tree)[:3]))}")

    def fields(parts: Any, place: str, depth: int) -> dict[str, Any]:
        if not isinstance(parts, dict):
            raise _wrong(place, f"a {type(parts).__name__} stands where fields should be")
        return {key: value(part, f"{place}.{key}", depth + 1) for key, part in parts.items()}

    return value(tree, name, 0)


def _wrong(place: str, text: str) -> ModelFileError:
    return ModelFileError(f"{place[:200]}: {text}")
