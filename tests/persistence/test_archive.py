"""Model files: what is written is read again, and damaged or other files are refused."""

import contextlib
import hashlib
import json
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

from bdkn.errors import ModelFileError
from bdkn.storage import archive
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
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file in it"):
        read(tmp_path)
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


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("9" * 9, "has format version 999999999, this bdkn reads version 3 only; run: pip install --upgrade"),
        (str(VERSION + 1), "has format version 4, this bdkn reads version 3 only; run: pip install --upgrade"),
        ("2", "has format version 2, this bdkn reads version 3 only; fit and save again"),
        ("0", "has format version 0, this bdkn reads version 3 only; fit and save again"),
        *(
            (version, "its version is no number")
            for version in (None, "", "two", "2.0", "-1", "٢", "9" * 10, "9" * 5000)
        ),
    ],
)
def test_other_versions_are_refused(tmp_path, version, message):
    metadata = {"format": "bdkn model", "document": "{}"} | ({} if version is None else {"version": version})
    save_file({"a": np.ones(2)}, tmp_path / "other.bdkn", metadata)
    with pytest.raises(ModelFileError, match=message):
        read(tmp_path / "other.bdkn")


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
def test_other_files_are_not_read_completely(tmp_path, start, monkeypatch):
    monkeypatch.setattr("bdkn.storage.archive.from_bytes", lambda *_: pytest.fail("it was read"))
    path = tmp_path / "large"
    path.write_bytes(start + b"x" * (0 if start == b"short" else 1000))
    with pytest.raises(ModelFileError, match="it does not begin as a safetensors file"):
        read(path)


def test_a_file_larger_than_memory_is_an_error(path, monkeypatch):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr("bdkn.storage.archive.from_bytes", fail)
    with pytest.raises(ModelFileError, match=r"takes .* GB of memory, which is more than there is"):
        read(path)


@pytest.mark.parametrize(
    "text",
    [None, "", "{", "[" * 100_000, '{"a": 1, "a": 2}', "1" * 5000, "null", "[]", '"x"'],
    ids=["absent", "empty", "open", "deep", "twice", "long", "nothing", "list", "text"],
)
def test_invalid_documents_are_refused(tmp_path, text):
    arrays = {"a": np.ones(2)}
    checksum = archive._checksum(arrays, text or "")
    metadata = {"format": "bdkn model", "version": str(VERSION), "checksum": checksum}
    metadata |= {} if text is None else {"document": text}
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


@pytest.mark.parametrize("kind", ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"])
def test_arrays_of_every_type_come_back_and_are_writeable(tmp_path, kind):
    given = np.array([0, 1, 1], dtype=kind)
    write(tmp_path / "model.bdkn", {"some": given, "none": given[:0], "one": given[1].reshape(())}, {})
    arrays, _ = read(tmp_path / "model.bdkn")
    for name, expected in (("some", given), ("none", given[:0]), ("one", given[1])):
        np.testing.assert_array_equal(arrays[name], expected, strict=name != "one")
        assert arrays[name].dtype == given.dtype
        assert arrays[name].flags.writeable
        assert arrays[name].flags.aligned


def test_a_file_has_its_format_and_version_as_metadata(tmp_path):
    write(tmp_path / "model.bdkn", {"a": np.ones(1)}, {})
    with safe_open(tmp_path / "model.bdkn", "np") as file:
        metadata = file.metadata()
    assert (metadata["format"], metadata["version"], metadata["document"]) == ("bdkn model", "3", "{}")
    assert metadata["checksum"] == archive._checksum({"a": np.ones(1)}, "{}")


def test_the_checksum_is_the_digest_of_the_document_and_of_each_array_by_name():
    one, two = np.array([[1.0, 2.0]]), np.array([3], dtype=np.int32)
    text = b"{}" + b"a <f8 (1, 2)" + one.tobytes() + b"b <i4 (1,)" + two.tobytes()
    assert archive._checksum({"b": two, "a": one}, "{}") == hashlib.sha256(text).hexdigest()


@pytest.mark.parametrize(
    ("length", "n_bytes", "size", "is_valid"),
    [
        (2, 8, 10, True),
        (2, 7, 100, False),
        (1, 8, 10, False),
        (3, 8, 10, False),
        (10**8, 8, 10**9, True),
        (10**8 + 1, 8, 10**9, False),
    ],
)
def test_limits_of_the_length_of_a_header(length, n_bytes, size, is_valid):
    start = length.to_bytes(n_bytes, "little")
    if is_valid:
        archive._check_start(start, size, "model.bdkn")
    else:
        with pytest.raises(ModelFileError, match="it does not begin as a safetensors file"):
            archive._check_start(start, size, "model.bdkn")


@pytest.mark.parametrize(
    ("shape", "is_valid"),
    [([1] * 8, True), ([1] * 9, False), ([0, 2**40], True), ([0, 2**40 + 1], False), ([], True)],
)
def test_limits_of_the_shape_of_an_array(shape, is_valid):
    size = int(np.prod(shape))
    tensor = {"dtype": "F64", "shape": shape, "data": bytes(8 * size)}
    if is_valid:
        found = archive._array(tensor, "model.bdkn")
        np.testing.assert_array_equal(found, np.zeros(shape), strict=True)
        assert found.flags.writeable  # though the bytes of the file are not
    else:
        with pytest.raises(ModelFileError, match="an array of the impossible shape"):
            archive._array(tensor, "model.bdkn")


def test_a_header_with_a_name_twice_is_refused():
    text = json.dumps({"__metadata__": {}})[:-1] + ', "__metadata__": {}}'
    content = len(text).to_bytes(8, "little") + text.encode()
    with pytest.raises(ModelFileError, match="a name occurs twice"):
        archive._metadata(content, "model.bdkn")
