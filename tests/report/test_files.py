"""Folders and pictures of reports."""

import pytest
from matplotlib.figure import Figure

from bdkn.errors import InvalidParameterError
from bdkn.plots import save_figure
from bdkn.report import check_picture, prepare_folder, write_picture
from bdkn.report.page import drafts


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


def test_drafts_are_not_in_the_folder_where_a_killed_process_would_leave_them(tmp_path):
    (tmp_path / "page.html").write_text("old")
    with drafts(tmp_path) as draft:
        (draft / "page.html").write_text("new")
        assert [item.name for item in tmp_path.iterdir()] == ["page.html"]
        assert (tmp_path / "page.html").read_text() == "old"
    assert (tmp_path / "page.html").read_text() == "new"
    assert not draft.exists()


def test_a_picture_that_cannot_be_drawn_leaves_the_former_one(tmp_path, monkeypatch):
    (tmp_path / "picture.png").write_text("old")

    def half(_self, file, **_):
        file = open(file, "wb") if not hasattr(file, "write") else file  # noqa: SIM115
        file.write(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(Figure, "savefig", half)
    with pytest.raises(OSError, match="no space left"):
        save_figure(Figure(), tmp_path, "picture", ["png"])
    assert (tmp_path / "picture.png").read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["picture.png"]


def test_paths_that_a_picture_cannot_have(tmp_path):
    with pytest.raises(InvalidParameterError, match=r"must be one of '\.png', '\.svg', '\.pdf'; got '\.jpg'"):
        check_picture(tmp_path / "demo.jpg")
    (tmp_path / "demo.png").mkdir()
    with pytest.raises(InvalidParameterError, match=r"a picture must be a file; got .*, which is a folder"):
        check_picture(tmp_path / "demo.png")
