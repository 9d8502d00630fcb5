import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from bdkn.errors import InvalidParameterError
from bdkn.report import check_picture, draw_picture, prepare_folder, trial_report, write_picture, write_report
from bdkn.report.page import inline_svg

STEMS = ("intervals", "calibration", "weights")
FILES = sorted(["index.html", "summary.json", *(f"{stem}.{kind}" for stem in STEMS for kind in ("png", "svg"))])


class Page(HTMLParser):
    """The cells of a page, its identifiers, and the addresses that it refers to."""

    def __init__(self, text):
        super().__init__()
        self.cells, self.ids, self.wanted, self.drawings, self._in_cell = [], [], [], 0, False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self._in_cell = tag in ("td", "th")
        self.drawings += tag == "svg"
        self.ids += [found["id"]] if "id" in found else []
        self.wanted += [found[key] for key in ("src", "href", "xlink:href") if key in found]

    def handle_data(self, data):
        if self._in_cell:
            self.cells.append(data)

    def handle_endtag(self, tag):
        self._in_cell = False


@pytest.fixture(scope="module")
def report(trial):
    return trial_report(trial)


@pytest.fixture(scope="module")
def folder(report, tmp_path_factory):
    place = tmp_path_factory.mktemp("parent") / "new" / "report"
    assert write_report(place, report) == place / "index.html"
    return place


def test_all_files_are_there_and_nothing_else(folder):
    assert sorted(path.name for path in folder.iterdir()) == FILES


@pytest.mark.parametrize("stem", STEMS)
def test_figures_parse(folder, stem):
    assert (folder / f"{stem}.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert ElementTree.parse(folder / f"{stem}.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_the_numbers_are_on_disk(folder, report):
    assert json.loads((folder / "summary.json").read_text("utf-8")) == report.numbers


def test_the_page_shows_every_cell_and_sentence(folder, report):
    text = (folder / "index.html").read_text("utf-8")
    page = Page(text)
    shown = [cell for table in report.tables for cells in (table.columns, *table.rows) for cell in cells]
    assert page.cells == shown
    assert page.drawings == 3
    for words in (report.title, report.about, *report.notes, *(item.caption for item in report.illustrations)):
        assert words in text


def test_the_page_needs_no_other_file_and_its_references_are_unique(folder):
    text = (folder / "index.html").read_text("utf-8")
    page = Page(text)
    referred = [*page.wanted, *re.findall(r"url\((.*?)\)", text)]
    assert len(referred) > 10
    assert all(target.startswith("#") and page.ids.count(target[1:]) == 1 for target in referred)


def test_names_are_escaped(report, tmp_path):
    page = write_report(tmp_path, replace(report, title="<script>")).read_text("utf-8")
    assert "<title>&lt;script&gt;</title>" in page
    assert "<script>" not in page


def test_identifiers_are_renamed_where_they_are_defined_and_where_they_are_used():
    text = '<?xml?><svg><path id="a" style="fill: #aabbcc"/><use xlink:href="#a" clip-path="url(#b)"/></svg>'
    assert inline_svg(text, "x") == (
        '<svg><path id="x-a" style="fill: #aabbcc"/><use xlink:href="#x-a" clip-path="url(#x-b)"/></svg>'
    )


def test_a_second_report_replaces_the_first_and_leaves_other_files(report, tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    write_report(tmp_path, report)
    write_report(tmp_path, replace(report, title="second", numbers={**report.numbers, "level": 0.5}))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*FILES, "mine.txt"])
    assert "<h1>second</h1>" in (tmp_path / "index.html").read_text("utf-8")
    assert json.loads((tmp_path / "summary.json").read_text("utf-8"))["level"] == 0.5
    assert (tmp_path / "mine.txt").read_text() == "keep"


def test_a_report_that_fails_leaves_the_earlier_one_whole(report, tmp_path):
    write_report(tmp_path, report)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_report(tmp_path, replace(report, title="new", numbers={**report.numbers, "level": float("nan")}))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_file_at_the_path_of_the_folder_is_an_error(tmp_path):
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(
            InvalidParameterError, match=r"must be written to a folder; got .*, which is a file or below"
        ):
            prepare_folder(place)
    assert (tmp_path / "file").read_text() == "mine"


def test_the_picture_is_small_and_wide(trial, tmp_path):
    path = write_picture(tmp_path / "new" / "demo.png", draw_picture(trial))
    data = path.read_bytes()
    width, height = (int.from_bytes(data[i : i + 4], "big") for i in (16, 20))
    assert (width, height) == (1200, 440)
    assert len(data) < 150_000
    assert [item.name for item in path.parent.iterdir()] == ["demo.png"]


def test_the_picture_as_svg(trial, tmp_path):
    path = write_picture(tmp_path / "demo.svg", draw_picture(trial))
    assert ElementTree.parse(path).getroot().tag.endswith("svg")


def test_paths_that_a_picture_cannot_have(tmp_path):
    with pytest.raises(InvalidParameterError, match=r"must be one of '\.png', '\.svg', '\.pdf'; got '\.jpg'"):
        check_picture(tmp_path / "demo.jpg")
    (tmp_path / "demo.png").mkdir()
    with pytest.raises(InvalidParameterError, match=r"a picture must be a file; got .*, which is a folder"):
        check_picture(tmp_path / "demo.png")
