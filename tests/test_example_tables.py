"""The tables of the first steps are those that their script writes."""

import runpy
from pathlib import Path

import pytest

pytest.importorskip("pandas")

ROOT = Path(__file__).parent.parent


def test_tables_are_what_the_script_writes(tmp_path):
    runpy.run_path(str(ROOT / "examples" / "make_flats.py"))["main"](tmp_path)
    written = sorted(path.name for path in (ROOT / "examples" / "data").iterdir())
    assert written == ["flats.csv", "new.csv", "sold.csv"]
    for name in written:
        assert (tmp_path / name).read_bytes() == (ROOT / "examples" / "data" / name).read_bytes()
