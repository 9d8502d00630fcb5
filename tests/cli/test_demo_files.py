"""The demo checks all files that it writes before it trains anything."""

from __future__ import annotations

import pytest

pytest.importorskip("typer")
pytest.importorskip("pyarrow")
pytest.importorskip("pandas")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from typer.testing import CliRunner

from bdkn.cli import app


@pytest.mark.parametrize("name", ["index.html", "flats.bdkn", "predicted.csv"])
def test_a_folder_in_the_place_of_a_file_is_told_at_once(tmp_path, name):
    (tmp_path / name).mkdir()
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "the output must be a file; got" in result.output
    assert [path.name for path in tmp_path.iterdir()] == [name]
