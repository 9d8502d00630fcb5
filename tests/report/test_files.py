"""Folders of reports, and pictures."""

import pytest
from matplotlib.figure import Figure

from bdkn.errors import InvalidParameterError
from bdkn.plots import save_figure
from bdkn.report import prepare_folder


def test_a_file_at_the_path_of_the_folder_is_an_error(tmp_path):
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(
            InvalidParameterError, match=r"must be written to a folder; got .*, which is a file or below"
        ):
            prepare_folder(place)
    assert (tmp_path / "file").read_text() == "mine"


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
