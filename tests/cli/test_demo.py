import json

import numpy as np
import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

import bdkn.report
from bdkn.cli import app
from bdkn.cli import demo as story
from bdkn.cli.demo import DISTRICTS, make_flats
from bdkn.table_files import read_table


def test_flats_are_the_same_for_the_same_seed():
    flats = make_flats(300, seed=1)
    assert flats.equals(make_flats(300, seed=1))
    assert not flats.equals(make_flats(300, seed=2))
    assert flats["id"].is_unique
    assert set(flats["district"]) == set(DISTRICTS)
    for name in ("heating", "distance", "renovated"):
        assert 0 < flats[name].isna().mean() < 0.7
    assert flats["price"].between(10_000, 3_000_000).all()
    metre = (flats["price"] / flats["area"]).groupby(flats["district"]).mean()
    assert metre["Old Town"] > metre["Airfield"]


def test_tables_of_the_story(tmp_path):
    story.write_tables(tmp_path, 80, 0)
    assert len(read_table(tmp_path / "flats.csv")) == 80
    assert len(read_table(tmp_path / "sold.csv")) == story.SOLD
    offers = read_table(tmp_path / "offers.csv")
    assert "price" not in offers
    flats = read_table(tmp_path / "flats.csv")
    assert flats["id"].str.len().eq(6).all()
    assert flats["lift"].dtype == np.bool_
    assert flats["built"].dtype.kind == "M"


@pytest.mark.usefixtures("small_fits")
def test_the_story_runs_the_commands_that_it_prints(tmp_path, monkeypatch):
    def write_page(model, X, y, path, **options):
        path.write_text(json.dumps({"rows": len(y), **options}))

    monkeypatch.setattr(bdkn.report, "write_page", write_page, raising=False)
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "report"), "--rows", "100", "--seed", "3"])
    assert result.exit_code == 0, result.output
    commands = [line for line in result.stdout.splitlines() if line.startswith("$ ")]
    assert [command.split()[2] for command in commands] == ["fit", "predict", "evaluate", "report"]
    assert commands[0].endswith(f"--out {tmp_path / 'report' / 'flats.bdkn'} --seed 3")
    assert len(read_table(tmp_path / "report" / "predicted.csv")) == story.OFFERED
    assert "above_400000" in result.stdout.replace("\n", "")
    assert json.loads((tmp_path / "report" / "index.html").read_text())["target_name"] == "price"
    assert result.stdout.endswith(f"Open {tmp_path / 'report' / 'index.html'} in a browser.\n")


def test_a_step_that_fails_ends_the_story(tmp_path):
    with pytest.raises(typer.Exit) as caught:
        story.run_verb(get_command(app), ["inspect", str(tmp_path / "none.bdkn")])
    assert caught.value.exit_code == 2
