from contextlib import redirect_stdout
from io import StringIO

import pyarrow as pa
import pytest

from bdkn.errors import InvalidParameterError, MissingExtraError
from bdkn.table_files import check_output, open_blocks, read_table, writing


def test_an_output_must_be_a_file_in_a_folder_that_exists(tmp_path):
    with pytest.raises(InvalidParameterError, match="which is a folder: name a file in it"):
        check_output(tmp_path)
    with pytest.raises(InvalidParameterError, match=r"the folder .* does not exist; create it first"):
        check_output(tmp_path / "none" / "table.csv")


def test_an_output_must_not_be_the_input(tmp_path):
    path, link = tmp_path / "table.csv", tmp_path / "link.csv"
    path.write_text("a\n1\n")
    link.symlink_to(path)
    with pytest.raises(InvalidParameterError, match="the output must not be the input"):
        check_output(path, path)
    with pytest.raises(InvalidParameterError, match="the output must not be the input"):
        check_output(link, tmp_path / "other.csv", path)
    check_output(tmp_path / "other.csv", path)


def test_missing_packages_are_named(tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    path.write_text("a\n1\n")
    monkeypatch.setattr("bdkn.errors.find_spec", lambda name: None)
    message = r'this needs pyarrow, which is not installed; run: pip install "bdkn\[files\]"'
    with pytest.raises(MissingExtraError, match=message):
        read_table(path)
    with pytest.raises(MissingExtraError, match=message):
        open_blocks(path, {"a": "number"})


def test_a_file_is_written_where_standard_output_takes_text_only(tmp_path):
    with redirect_stdout(StringIO()), writing(tmp_path / "table.csv") as file:
        file.write(pa.table({"a": [1.5]}))
    assert (tmp_path / "table.csv").read_text() == '"a"\n1.5\n'
