"""One safetensors file of arrays and a JSON document, written completely or not at all, and checked when read."""

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
from bdkn.persistence.atomic import replace_file

FORMAT = "bdkn model"
VERSION = 2
"""Version of the format. Version 2 has one fitted state per model; version 1, still read, has its attributes."""

Arrays = dict[str, NDArray[Any]]
Document = dict[str, Any]


def write(path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], document: Document) -> None:
    """Write arrays and document to a temporary file in the same folder, then rename it to ``path``."""
    from safetensors.numpy import save

    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; give the name of a file in it")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist; create it first, or choose another")
    parts = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    text = json.dumps(document)
    metadata = {"format": FORMAT, "version": str(VERSION), "document": text, "checksum": _checksum(parts, text)}
    replace_file(target, save(parts, metadata))


def read(path: str | os.PathLike[str]) -> tuple[Arrays, Document]:
    """Read the arrays and the document of a file that ``write`` wrote."""
    from safetensors import SafetensorError, safe_open

    if Path(path).is_dir():
        raise IsADirectoryError(f"{os.fspath(path)} is a folder; give the name of a file in it")
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {os.fspath(path)}")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            _check_format(path, metadata)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise _damaged(path, str(error)) from error
    text = metadata.get("document", "")
    if metadata.get("checksum") != _checksum(arrays, text):
        raise _damaged(path, "its checksum does not match")
    document: Document = json.loads(text)
    return arrays, document


def _check_format(path: str | os.PathLike[str], metadata: dict[str, str]) -> None:
    if metadata.get("format") != FORMAT:
        raise ModelFileError(f"{path} is a safetensors file, but not a bdkn model; load it with its own program")
    version = metadata.get("version", "")
    if version.isdecimal() and int(version) > VERSION:
        raise ModelFileError(
            f"{path} has format version {version}, this bdkn reads up to version {VERSION}; run: pip install --upgrade "
            "bdkn"
        )


def _damaged(path: str | os.PathLike[str], why: str) -> ModelFileError:
    return ModelFileError(
        f"{path} cannot be read as a bdkn model ({why}); it is damaged, incomplete or of another kind: "
        "copy it again from its source, or fit and save again"
    )


def _checksum(arrays: Arrays, text: str) -> str:
    """Return a digest of arrays and document; safetensors itself does not detect a changed number."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
