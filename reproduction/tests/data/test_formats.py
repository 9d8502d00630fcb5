import sys

import numpy as np
import pytest
import source_files

from bdkn.errors import MissingExtraError
from bdkn_paper.data import DATASETS, DataError
from bdkn_paper.data.formats import read_arff, read_mat, read_text, read_wrapped, read_xls, read_xlsx, unzip

TABLE = np.random.default_rng(5).normal(size=(22, 4)) * [1e-3, 1.0, 1e3, 1e6]


@pytest.mark.parametrize("name", DATASETS)
def test_the_official_file_of_every_set_gives_features_then_target(name):
    info = DATASETS[name]
    table = np.random.default_rng(3).normal(size=(11, info.features + 1))
    source = info.sources[0]
    contents = source_files.official(name, table)
    assert len(contents) == len(source.urls)
    np.testing.assert_allclose(source.table(contents), table, rtol=1e-15)  # Workbooks lose the 17th digit


@pytest.mark.parametrize("name", [name for name, info in DATASETS.items() if info.uci_id and len(info.sources) > 1])
def test_the_copy_of_every_set_gives_features_then_target(name):
    info = DATASETS[name]
    table = np.random.default_rng(3).normal(size=(11, info.features + 1))
    content = source_files.text(source_files.beside(table, 1), digits=".18e")
    np.testing.assert_array_equal(info.sources[-1].table([content]), table)


@pytest.mark.parametrize(
    ("read", "content"),
    [
        (read_text, source_files.text(TABLE, "\t  ")),
        (read_text, b"\xef\xbb\xbf" + source_files.text(TABLE)),
        (read_text, source_files.text(TABLE).replace(b"\n", b"\r\n")),
        (lambda content: read_text(content, ";", 1), source_files.text(TABLE, "; ", '"a";"b"\n')),
        (lambda content: read_wrapped(content, 4, 22), source_files.wrapped(TABLE, 3)),
        (read_arff, source_files.arff(TABLE, ["a", "'b b'", "c", "y"])),
        (lambda content: read_mat(content, "m"), source_files.mat(other=TABLE[:1], m=TABLE)),
        (read_xlsx, source_files.xlsx({"First": TABLE, "Second": -TABLE})),
        (lambda content: read_xlsx(content, "Second"), source_files.xlsx({"First": -TABLE, "Second": TABLE})),
        (read_xlsx, source_files.xlsx({"A": TABLE}, empty_rows=2, empty_columns=3)),
        (read_xls, source_files.xls(TABLE)),
    ],
)
def test_readers(read, content):
    np.testing.assert_allclose(read(content), TABLE, rtol=1e-15)


def test_a_blank_cell_is_a_missing_number():
    table = TABLE.copy()
    table[3, 2] = np.nan
    content = source_files.xlsx({"A": np.where(np.isnan(table), None, table.astype(object))})
    np.testing.assert_array_equal(np.isnan(read_xlsx(content)), np.isnan(table))


def test_members_are_found_in_any_folder_but_not_in_shadows():
    content = source_files.zipped("deep/down/data.txt", b"1 2", "__MACOSX/deep/down/data.txt", "more data.txt")
    assert unzip(content, "data.txt") == b"1 2"


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda: unzip(source_files.zipped("b.txt", b""), "a.txt"), "the archive holds no a.txt, only b.txt"),
        (lambda: read_mat(source_files.mat(a=TABLE), "m"), "the file holds no matrix m, only a"),
        (
            lambda: read_xlsx(source_files.xlsx({"A": TABLE, "B": TABLE}), "Sheet5"),
            "the workbook holds no sheet Sheet5, only A, B",
        ),
        (
            lambda: read_xls(source_files.xls(TABLE), "Sheet5"),
            "the workbook holds no sheet Sheet5, only Sheet1, Sheet2",
        ),
    ],
)
def test_what_is_not_in_a_file(work, message):
    with pytest.raises(DataError, match=message):
        work()


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("page", [b"<html>Please log in</html>", b"PK\x03\x04 cut short", b"1 2\n3 x\n"])
def test_a_page_instead_of_the_file(name, page):
    source = DATASETS[name].sources[0]
    with pytest.raises(DataError, match="the downloaded file cannot be read as the table"):
        source.table([page] * len(source.urls))


@pytest.mark.parametrize("name", DATASETS)
def test_nothing_instead_of_the_file(name):
    with pytest.raises(DataError, match="the downloaded file is empty"):
        DATASETS[name].sources[0].table([b" \n"] * len(DATASETS[name].sources[0].urls))


@pytest.mark.parametrize(("package", "read"), [("openpyxl", read_xlsx), ("xlrd", read_xls)])
def test_workbooks_need_an_extra(monkeypatch, package, read):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf'needs {package}.* run: pip install "bdkn-paper\[excel\]"'):
        read(b"")
