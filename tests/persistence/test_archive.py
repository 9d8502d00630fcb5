import contextlib
import json
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from bdkn.errors import ModelFileError
from bdkn.storage.archive import VERSION, read, write

ARRAYS = {
    "vector": np.arange(5.0),
    "number": np.array(3.5),
    "none": np.empty((0, 3), np.float32),
    "transposed": np.arange(6, dtype=np.int64).reshape(2, 3).T,
}
DOCUMENT = {"text": "ν", "numbers": [1, 0.1, float("inf")], "nothing": None}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.bdkn"
    write(path, ARRAYS, DOCUMENT)
    return path


def same(arrays, document):
    return document == DOCUMENT and all(
        np.array_equal(arrays[name], ARRAYS[name]) and arrays[name].dtype == ARRAYS[name].dtype for name in ARRAYS
    )


def test_read_returns_what_write_was_given(path):
    arrays, document = read(path)
    assert set(arrays) == set(ARRAYS)
    assert same(arrays, document)
    assert os.listdir(path.parent) == ["model.bdkn"]


def test_text_paths_work_and_files_are_replaced(path):
    write(str(path), {"a": np.ones(1)}, {})
    arrays, document = read(str(path))
    assert list(arrays) == ["a"]
    assert document == {}


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*gone\.bdkn"):
        read(tmp_path / "gone.bdkn")
    with pytest.raises(FileNotFoundError, match="does not exist; create it first"):
        write(tmp_path / "nowhere" / "model.bdkn", {}, {})


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_changed_byte_never_changes_what_is_read(path, data):
    content = path.read_bytes()
    damaged = bytearray(content)
    damaged[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    copy = path.with_name("damaged.bdkn")
    copy.write_bytes(damaged)
    with contextlib.suppress(ModelFileError):
        assert same(*read(copy))


def test_a_file_cut_short_is_refused_wherever_it_ends(path):
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError, match=r"model\.bdkn cannot be read.*fit and save again"):
            read(path)


def test_a_changed_number_is_noticed(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="its checksum does not match"):
        read(path)


@pytest.mark.parametrize(("name", "other"), [(b'"F64"', b'"I64"'), (b"[3,2]", b"[2,3]"), (b'"vector"', b'"victor"')])
def test_a_changed_type_shape_or_name_is_noticed(path, name, other):
    content = path.read_bytes()
    assert name in content
    path.write_bytes(content.replace(name, other))
    with pytest.raises(ModelFileError, match="its checksum does not match"):
        read(path)


@pytest.mark.parametrize("content", [b"", b"not a model at all, just text", b"\x80\x04\x95" + bytes(100)])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="damaged, incomplete or of another kind"):
        read(path)


def test_a_foreign_safetensors_file_is_named_as_such(tmp_path):
    path = tmp_path / "foreign.safetensors"
    save_file({"a": np.ones(2)}, path)
    with pytest.raises(ModelFileError, match="a safetensors file, but not a bdkn model"):
        read(path)


def test_a_newer_format_is_named_in_the_error(tmp_path):
    path = tmp_path / "newer.bdkn"
    newer = {"format": "bdkn model", "version": str(VERSION + 1), "document": json.dumps({})}
    save_file({"a": np.ones(2)}, path, newer)
    with pytest.raises(ModelFileError, match=rf"format version {VERSION + 1}.*reads version {VERSION}.*--upgrade"):
        read(path)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write(path, {"a": np.ones(1)}, {})
    assert same(*read(path))
    assert os.listdir(path.parent) == ["model.bdkn"]


def test_values_that_json_cannot_represent_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(TypeError, match="not JSON serializable"):
        write(tmp_path / "model.bdkn", {}, {"a": object()})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("start", [bytes(8), b"not a model", (2**40).to_bytes(8, "little"), b"short"])
def test_a_file_of_another_kind_is_not_read_as_a_whole(tmp_path, start, monkeypatch):
    monkeypatch.setattr("bdkn.storage.archive.from_bytes", lambda *_: pytest.fail("it was read"))
    path = tmp_path / "large"
    path.write_bytes(start + b"x" * (0 if start == b"short" else 1000))
    with pytest.raises(ModelFileError, match="it does not begin as a safetensors file"):
        read(path)


def test_a_file_larger_than_memory_is_told(path, monkeypatch):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr("bdkn.storage.archive.from_bytes", fail)
    with pytest.raises(ModelFileError, match=r"takes .* GB of memory, which is more than there is"):
        read(path)


@pytest.mark.parametrize("version", ["", "two", "2.0", "-1", "٢", "9" * 5000])
def test_a_version_that_is_no_number_is_refused(tmp_path, version):
    path = tmp_path / "odd.bdkn"
    save_file({"a": np.ones(2)}, path, {"format": "bdkn model", "version": version, "document": "{}"})
    with pytest.raises(ModelFileError, match="its version is no number"):
        read(path)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[" * 100_000, '{"a": 1, "a": 2}', "1" * 5000, "null", "[]", '"x"'],
    ids=["empty", "open", "deep", "twice", "long", "nothing", "list", "text"],
)
def test_a_document_that_is_none_is_refused(tmp_path, text):
    from bdkn.storage.archive import _checksum

    arrays = {"a": np.ones(2)}
    metadata = {"format": "bdkn model", "version": str(VERSION), "document": text, "checksum": _checksum(arrays, text)}
    save_file(arrays, tmp_path / "odd.bdkn", metadata)
    with pytest.raises(ModelFileError, match=r"its document (is no JSON|does not consist of names and values)"):
        read(tmp_path / "odd.bdkn")


def test_arrays_of_unknown_types_and_impossible_shapes_are_refused(tmp_path):
    def made(name, kind, shape, size):
        header = {name: {"dtype": kind, "shape": shape, "data_offsets": [0, size]}}
        header["__metadata__"] = {"format": "bdkn model", "version": str(VERSION), "document": "{}", "checksum": ""}
        text = json.dumps(header).encode()
        (tmp_path / "odd.bdkn").write_bytes(len(text).to_bytes(8, "little") + text + b"\x02" * size)

    made("a", "BF16", [1], 2)
    with pytest.raises(ModelFileError, match="an array of the unknown type BF16"):
        read(tmp_path / "odd.bdkn")
    for shape in ([0, 2**60], [1] * 40):
        made("a", "U8", shape, int(np.prod(shape)))
        with pytest.raises(ModelFileError, match=r"an array of the impossible shape|cannot be read"):
            read(tmp_path / "odd.bdkn")
    made("a", "BOOL", [1], 1)
    with pytest.raises(ModelFileError, match="a truth value is neither 0 nor 1"):
        read(tmp_path / "odd.bdkn")
