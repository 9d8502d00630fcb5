"""The Python of the guide to the page runs."""

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "report.md"


@pytest.mark.no_cover
def test_the_snippet_writes_a_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    exec(compile(block, str(GUIDE), "exec", dont_inherit=True), {})
    page = (tmp_path / "flats.html").read_text("utf-8")
    assert "Predictions of price are off by" in page


def test_pictures_are_small():
    for name in ("page-light.png", "page-dark.png", "page-phone.png"):
        assert 10_000 < (GUIDE.parents[1] / "images" / name).stat().st_size <= 300_000
