"""The examples of the gallery run, and print what their pages show."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

ROOT = Path(__file__).parent.parent
GALLERY = runpy.run_path(str(ROOT / "docs" / "tools" / "gallery.py"))
EXAMPLES = [GALLERY["Example"].read(path) for path in sorted((ROOT / "examples" / "gallery").glob("*.py"))]

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def words_and_numbers(page):
    """Return a page without its numbers and spaces, and the numbers."""
    numbers = [float(number.replace(",", "")) for number in NUMBER.findall(page)]
    return re.sub(r"\s+", " ", NUMBER.sub("#", page)), numbers


def test_there_are_enough_examples():
    assert len(EXAMPLES) >= 8


@pytest.mark.no_cover
@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_the_page_is_what_the_script_gives(example):
    page, pictures = GALLERY["run"](example)
    words, numbers = words_and_numbers(page)
    written, printed = words_and_numbers((ROOT / "docs" / "gallery" / f"{example.name}.md").read_text("utf-8"))
    assert words == written, "run: python docs/tools/gallery.py"
    # Libraries that models of scikit-learn use may round otherwise elsewhere, and trees then divide rows otherwise.
    assert numbers == pytest.approx(printed, rel=0.05, abs=0.03)
    assert pictures
    for picture in pictures:
        assert picture.png.startswith(b"\x89PNG")


def test_the_list_is_of_all_examples():
    assert (ROOT / "docs" / "gallery" / "index.md").read_text("utf-8") == GALLERY["index"](EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_pictures_are_there_and_small(example):
    pictures = re.findall(
        r"\]\((images/[^)]+)\)", (ROOT / "docs" / "gallery" / f"{example.name}.md").read_text("utf-8")
    )
    assert pictures
    for picture in pictures:
        assert 2_000 < (ROOT / "docs" / "gallery" / picture).stat().st_size < 100_000


def test_a_cell_that_prints_something_else_is_noticed():
    changed = GALLERY["Example"]("name", "A title", "Text.", (GALLERY["Cell"]("Words.", "print('one', 2)", 1),))
    page, pictures = GALLERY["run"](changed)
    assert "```text\none 2\n```" in page
    assert pictures == []
    assert words_and_numbers(page) != words_and_numbers(page.replace("one", "two"))
    assert words_and_numbers(page)[1] != words_and_numbers(page.replace("one 2", "one 3"))[1]
