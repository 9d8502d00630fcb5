"""Folders and pictures of reports."""

import pytest
from matplotlib.figure import Figure

from bdkn.errors import InvalidParameterError
from bdkn.report import check_picture, prepare_folder, write_picture


def test_a_file_at_the_path_of_the_folder_is_an_error(tmp_path):
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(
            InvalidParameterError, match=r"must be written to a folder; got .*, which is a file or below"
        ):
            prepare_folder(place)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(("name", "start"), [("picture.png", b"\x89PNG\r\n\x1a\n"), ("picture.svg", b"<?xml")])
def test_a_picture_is_written_whole_and_alone(name, start, tmp_path):
    path = write_picture(tmp_path / "new" / name, Figure())
    assert path.read_bytes().startswith(start)
    assert [item.name for item in path.parent.iterdir()] == [name]


def test_paths_that_a_picture_cannot_have(tmp_path):
    with pytest.raises(InvalidParameterError, match=r"must be one of '\.png', '\.svg', '\.pdf'; got '\.jpg'"):
        check_picture(tmp_path / "demo.jpg")
    (tmp_path / "demo.png").mkdir()
    with pytest.raises(InvalidParameterError, match=r"a picture must be a file; got .*, which is a folder"):
        check_picture(tmp_path / "demo.png")
