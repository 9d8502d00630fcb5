import gzip
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from bdkn.errors import BDKNError, InvalidParameterError
from bdkn_paper.data import DATASETS, DataError, describe, fetch, load_dataset
from bdkn_paper.data import folder as folders

pytestmark = pytest.mark.usefixtures("toy")


def test_features_target_and_what_is_known(tmp_path, toy_table):
    fetch("toy", tmp_path)
    data = load_dataset("toy", tmp_path)
    np.testing.assert_array_equal(data.X, toy_table[:, :2])
    np.testing.assert_array_equal(data.y, toy_table[:, 2])
    assert (data.name, data.feature_names, data.target, data.info) == ("toy", ("a", "b"), "y", DATASETS["toy"])
    assert (data.X.dtype, data.X.flags["C_CONTIGUOUS"], data.y.flags["C_CONTIGUOUS"]) == (np.float64, True, True)


def test_folder_before_environment_before_cache(tmp_path, monkeypatch, files):
    one, other = tmp_path / "one", tmp_path / "other"
    fetch("toy", one)
    monkeypatch.setenv("BDKN_DATA", str(other))
    assert load_dataset("toy", one).name == "toy"
    with pytest.raises(DataError, match="other, but there is no such folder"):
        load_dataset("toy")
    monkeypatch.setenv("BDKN_DATA", str(one))
    files.clear()
    assert load_dataset("toy").name == "toy"


def test_without_a_folder_it_is_downloaded_once(files):
    load_dataset("toy")
    files.clear()
    load_dataset("toy")


def test_a_named_folder_is_not_written_to(tmp_path):
    (tmp_path / "wine.csv.gz").write_bytes(b"")
    with pytest.raises(
        DataError, match=r"toy needs toy\.csv\.gz in .*, but it holds wine\.csv\.gz; .*--data or BDKN_DATA"
    ):
        load_dataset("toy", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["wine.csv.gz"]


@pytest.mark.parametrize(
    "content",
    [b"", b"no gzip", gzip.compress(b"x0,x1,y\n1,2,three\n"), gzip.compress(b"x0,x1,y\n" * 9)[:-9]],
    ids=["empty", "not-gzip", "not-numbers", "cut-short"],  # gzip writes the time: test names must not hold it
)
def test_a_file_that_cannot_be_read(tmp_path, content):
    (tmp_path / "toy.csv.gz").write_bytes(content)
    with pytest.raises(DataError, match=r"toy\.csv\.gz (cannot be read as a CSV|is not the table toy)"):
        load_dataset("toy", tmp_path)


def test_a_file_of_other_numbers(tmp_path, toy_table):
    toy_table[0, 0] += 1
    folders.write(tmp_path / "toy.csv.gz", toy_table)
    with pytest.raises(
        DataError, match=r"is not the table toy: column 1 of 3 has the mean .*bdkn-paper data fetch toy --data "
    ):
        load_dataset("toy", tmp_path)


def test_a_set_of_ones_own_needs_no_fingerprint(tmp_path, monkeypatch, toy_table):
    mine = replace(DATASETS["toy"], name="mine", fingerprint=None, sources=())
    monkeypatch.setitem(DATASETS, "mine", mine)
    folders.write(tmp_path / "mine.csv.gz", toy_table + 1)
    np.testing.assert_array_equal(load_dataset("mine", tmp_path).y, toy_table[:, 2] + 1)
    folders.write(tmp_path / "mine.csv.gz", toy_table[1:])
    with pytest.raises(DataError, match=r"it has the shape \(29, 3\), not \(30, 3\)"):
        load_dataset("mine", tmp_path)
    with pytest.raises(DataError, match="mine could not be fetched; no source is known"):
        fetch("mine", tmp_path)


def test_describe(tmp_path, toy_table):
    fetch("toy", tmp_path)
    line = describe(load_dataset("toy", tmp_path))
    assert (line.name, line.rows, line.features, line.n_splits, line.train_size) == ("toy", 30, 2, 3, 27)
    assert (line.test_size, line.file_rows) == (3, 30)
    assert line.mean == pytest.approx(toy_table[:, 2].mean())
    assert line.sd == pytest.approx(toy_table[:, 2].std(ddof=0))


def test_unknown_names():
    with pytest.raises(InvalidParameterError, match=r"data set must be one of .*; did you mean 'kin8nm'"):
        load_dataset("kin8mn")
    assert issubclass(DataError, BDKNError)


def test_two_forms_of_sarcos_share_a_file():
    assert DATASETS["sarcos"].filename == DATASETS["sarcos-clean"].filename == "sarcos.csv.gz"


@pytest.mark.parametrize("name", [name for name in DATASETS if name != "toy"])
def test_the_registry_is_complete(name):
    info = DATASETS[name]
    assert info.name == name
    for words in (info.title, info.description, info.target, info.licence, info.citation):
        assert words.strip() == words != ""
    assert info.fingerprint.rows == info.rows
    assert len(info.fingerprint.columns) == info.features + 1
    assert len(set(info.feature_names)) == info.features
    for source in info.sources:
        assert len(source.urls) == len(source.readers)
        assert all(url.startswith(("https://", "http://")) and " " not in url for url in source.urls)
        assert len(source.columns) == info.features + 1


def test_import_needs_neither_network_nor_data_nor_much_else():
    heavy = ("pooch", "requests", "scipy", "openpyxl", "xlrd", "pandas", "sklearn")
    script = f"import sys, bdkn_paper.data; print(*[name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
