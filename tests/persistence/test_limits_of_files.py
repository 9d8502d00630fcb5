"""The exact limits of what is taken for a model file: one step inside is read, one step outside is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from bdkn.errors import ModelFileError
from bdkn.storage import archive
from bdkn.storage.archive import read, write

FILE = "model.bdkn"


@pytest.mark.parametrize("kind", ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"])
def test_arrays_of_every_type_come_back_and_can_be_written_to(tmp_path: Path, kind: str) -> None:
    given = np.array([0, 1, 1], dtype=kind)
    write(tmp_path / FILE, {"some": given, "none": given[:0], "one": given[1].reshape(())}, {})
    arrays, _ = read(tmp_path / FILE)
    for name, expected in (("some", given), ("none", given[:0]), ("one", given[1])):
        np.testing.assert_array_equal(arrays[name], expected, strict=name != "one")
        assert arrays[name].dtype == given.dtype
        assert arrays[name].flags.writeable
        assert arrays[name].flags.aligned


def test_a_file_says_its_format_and_version(tmp_path: Path) -> None:
    write(tmp_path / FILE, {"a": np.ones(1)}, {})
    with safe_open(tmp_path / FILE, "np") as file:
        metadata = file.metadata()
    assert (metadata["format"], metadata["version"], metadata["document"]) == ("bdkn model", "3", "{}")
    assert metadata["checksum"] == archive._checksum({"a": np.ones(1)}, "{}")


def test_the_checksum_is_the_digest_of_the_document_and_of_each_array_by_name() -> None:
    import hashlib

    one, two = np.array([[1.0, 2.0]]), np.array([3], dtype=np.int32)
    text = b"{}" + b"a <f8 (1, 2)" + one.tobytes() + b"b <i4 (1,)" + two.tobytes()
    assert archive._checksum({"b": two, "a": one}, "{}") == hashlib.sha256(text).hexdigest()


def test_a_folder_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file in it"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("length", "size", "holds"),
    [(2, 10, True), (1, 10, False), (3, 10, False), (10**8, 10**9, True), (10**8 + 1, 10**9, False)],
)
def test_a_header_is_as_long_as_it_can_be(length: int, size: int, holds: bool) -> None:
    start = length.to_bytes(8, "little")
    if holds:
        archive._check_start(start, size, FILE)
    else:
        with pytest.raises(ModelFileError, match="it does not begin as a safetensors file"):
            archive._check_start(start, size, FILE)


def test_a_start_of_seven_bytes_is_none() -> None:
    with pytest.raises(ModelFileError, match="it does not begin as a safetensors file"):
        archive._check_start(bytes([2, 0, 0, 0, 0, 0, 0]), 100, FILE)


@pytest.mark.parametrize(
    ("shape", "holds"),
    [([1] * 8, True), ([1] * 9, False), ([0, 2**40], True), ([0, 2**40 + 1], False), ([], True)],
)
def test_shapes_have_eight_axes_and_a_longest_axis(shape: list[int], holds: bool) -> None:
    size = int(np.prod(shape))
    tensor = {"dtype": "F64", "shape": shape, "data": bytes(8 * size)}
    if holds:
        found = archive._array(tensor, FILE)
        np.testing.assert_array_equal(found, np.zeros(shape), strict=True)
        assert found.flags.writeable  # though the bytes of the file are not
    else:
        with pytest.raises(ModelFileError, match="an array of the impossible shape"):
            archive._array(tensor, FILE)


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("9" * 9, "has format version 999999999, this bdkn reads version 3 only; run: pip install"),
        ("9" * 10, "its version is no number"),
        ("4", "has format version 4, this bdkn reads version 3 only; run: pip install"),
        ("2", "has format version 2, this bdkn reads version 3 only; fit and save again"),
        ("0", "has format version 0, this bdkn reads version 3 only; fit and save again"),
        (None, "its version is no number"),
    ],
)
def test_versions(version: str | None, text: str) -> None:
    with pytest.raises(ModelFileError, match=text):
        archive._check_format(FILE, {"format": "bdkn model"} | ({} if version is None else {"version": version}))


def test_a_file_without_a_document_is_refused_as_such(tmp_path: Path) -> None:
    arrays = {"a": np.ones(2)}
    metadata = {"format": "bdkn model", "version": "3", "checksum": archive._checksum(arrays, "")}
    save_file(arrays, tmp_path / FILE, metadata)
    with pytest.raises(ModelFileError, match="its document is no JSON"):
        read(tmp_path / FILE)


def test_a_header_with_a_name_twice_is_refused() -> None:
    text = json.dumps({"__metadata__": {}})[:-1] + ', "__metadata__": {}}'
    content = len(text).to_bytes(8, "little") + text.encode()
    with pytest.raises(ModelFileError, match="a name occurs twice"):
        archive._metadata(content, FILE)
