import os
import sys

import numpy as np
import pytest
import source_files

from bdkn_paper.data import DataError, fetch, load_dataset
from bdkn_paper.data import folder as folders
from bdkn_paper.data.download import download

pytestmark = pytest.mark.usefixtures("toy")


def everything(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_it_downloads_checks_and_stores_all_digits(tmp_path, toy_table):
    path = fetch("toy", tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "toy.csv.gz"
    assert everything(tmp_path) == ["new/folder/toy.csv.gz"]
    np.testing.assert_array_equal(folders.read(path), toy_table)
    np.testing.assert_array_equal(np.loadtxt(path, delimiter=",", skiprows=1), toy_table)


def test_the_same_numbers_make_the_same_file(tmp_path):
    one, other = fetch("toy", tmp_path / "one"), fetch("toy", tmp_path / "other")
    assert one.read_bytes() == other.read_bytes()


def test_a_good_file_is_kept_and_a_damaged_one_replaced(tmp_path, files, toy_table):
    path = fetch("toy", tmp_path)
    files.clear()
    assert fetch("toy", tmp_path) == path
    with pytest.raises(DataError, match="toy could not be fetched"):
        fetch("toy", tmp_path, again=True)
    np.testing.assert_array_equal(folders.read(path), toy_table)  # what was there is still there
    path.write_bytes(b"damaged")
    files["/copy.txt"] = source_files.text(toy_table)
    fetch("toy", tmp_path)
    np.testing.assert_array_equal(folders.read(path), toy_table)


def test_by_default_into_the_cache_or_the_folder_of_the_environment(tmp_path, monkeypatch):
    assert fetch("toy") == tmp_path / "cache" / "bdkn" / "data" / "toy.csv.gz"
    monkeypatch.setenv("BDKN_DATA", str(tmp_path / "mine"))
    assert fetch("toy") == tmp_path / "mine" / "toy.csv.gz"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (404, "404 Client Error"),
        (503, "503 Server Error"),
        (b"<html>Please log in</html>", "the downloaded file cannot be read as the table"),
        (source_files.zipped("other.csv", b""), "the archive holds no toy.csv, only other.csv"),
        (source_files.zipped("toy.csv", b"a,b,y\n1,2,3\n"), r"it has the shape \(1, 3\), not \(30, 3\)"),
    ],
)
def test_the_second_source_is_tried_and_then_the_error_tells_of_both(tmp_path, files, toy_table, answer, reason):
    files["/toy.zip"] = answer
    np.testing.assert_array_equal(folders.read(fetch("toy", tmp_path / "a")), toy_table)
    files["/copy.txt"] = 404
    with pytest.raises(DataError, match=f"(?s){reason}.*404 Client Error") as caught:
        fetch("toy", tmp_path / "b")
    message = str(caught.value)
    assert message.startswith("toy could not be fetched; tried:\n  http://127.0.0.1")
    assert "/toy.zip\n" in message
    assert "/copy.txt\n" in message
    assert "run: bdkn-paper data fetch toy" in message
    assert f"put the table yourself into {tmp_path / 'b' / 'toy.csv.gz'}" in message
    assert "--data or BDKN_DATA" in message
    assert everything(tmp_path) == ["a/toy.csv.gz"]


def test_rows_in_another_order_are_refused(tmp_path, files, toy_table):
    files["/toy.zip"] = 404
    files["/copy.txt"] = source_files.text(toy_table[::-1])
    with pytest.raises(DataError, match="the downloaded file is not the expected table: its rows are in another order"):
        fetch("toy", tmp_path)
    assert everything(tmp_path) == []


def test_a_download_cut_short_leaves_nothing(tmp_path, files):
    files["/toy.zip cut"] = files["/copy.txt cut"] = b""
    with pytest.raises(DataError, match="toy could not be fetched"):
        fetch("toy", tmp_path)
    assert everything(tmp_path) == []


def test_without_a_network(tmp_path, monkeypatch):
    def unplugged(url):
        raise OSError(f"no route to {url}")

    monkeypatch.setattr("bdkn_paper.data.download.download", unplugged)
    with pytest.raises(DataError, match=r"OSError: no route to http://127.*/toy\.zip\n"):
        fetch("toy", tmp_path)
    assert everything(tmp_path) == []
    with pytest.raises(DataError, match=r"tried:\n.*www\.gaussianprocess\.org.*sarcos_inv\.mat and .*sarcos_inv_test"):
        load_dataset("sarcos")
    assert everything(tmp_path) == []


def test_an_address_that_nobody_listens_at(tmp_path):
    with pytest.raises(OSError, match=r"refused|Max retries"):
        download("http://127.0.0.1:9/nothing")


def test_nothing_stays_in_the_temporary_folder(tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    fetch("toy", tmp_path)
    assert list(scratch.iterdir()) == []


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        fetch("toy", tmp_path)
    assert everything(tmp_path) == []


def test_a_missing_extra_is_named_among_what_was_tried(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "xlrd", None)
    archive = source_files.zipped("Concrete_Data.xls", b"a workbook")
    monkeypatch.setattr("bdkn_paper.data.download.download", lambda url: archive)
    with pytest.raises(DataError, match=r'MissingExtraError: this needs xlrd.*run: pip install "bdkn-paper\[excel\]"'):
        fetch("concrete", tmp_path)


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        fetch("toy", tmp_path / "file")
