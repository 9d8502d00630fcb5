from pathlib import Path

import pytest
from typer.testing import CliRunner

from bdkn_paper.cli import app
from bdkn_paper.store import Store, records

SMOKE = Path(__file__).parents[2] / "experiments" / "smoke.toml"


def command(*words):
    return CliRunner().invoke(app, [*map(str, words)])


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


def run(store, *words):
    return command("run", SMOKE, "--store", store, "--jobs", "1", *words)


def test_run_again_and_pack(store, tmp_path):
    some = ("--datasets", "synthetic-small", "--splits", "0,2-3")
    first = run(store, *some)
    assert (first.exit_code, first.stdout) == (0, "6 cells: 0 found, 6 run, 0 failed\n")
    assert "6/6 cells, last smoke: " in " ".join(first.stderr.split())
    again = run(store, "--datasets", "synthetic-small", "--splits", "0-4", "--methods", "bdkn, de", "--quiet")
    assert (again.exit_code, again.stdout) == (0, "10 cells: 6 found, 4 run, 0 failed\n")
    assert again.stderr == ""

    results = tmp_path / "results"
    assert command("pack", "--store", store, "--results", results).stdout.startswith("10 records in ")
    assert [path.name for path in results.iterdir()] == ["smoke.jsonl"]
    rebuilt = tmp_path / "rebuilt"
    assert command("unpack", "--store", rebuilt, "--results", results).stdout.startswith("10 records added to ")
    assert list(Store(rebuilt)) == list(Store(store))
    assert command("pack", SMOKE, "--store", rebuilt, "--results", results).stdout.startswith("10 records in ")
    assert run(rebuilt, *some).stdout == "6 cells: 6 found, 0 run, 0 failed\n"


@pytest.mark.no_cover
def test_what_goes_wrong_is_told(store, tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text("""
name = "mine"
datasets = ["synthetic-small", "yacht"]
splits = 2
[methods.bad]
regressor = "BDKNRegressor"
parameters = { epochs = 2, training = { batch_size = 0 } }
[methods.good]
regressor = "BDKNRegressor"
parameters = { epochs = 2 }
""")
    words = ("run", mine, "--store", store, "--jobs", "1", "--quiet")
    result = command(*words, "--datasets", "synthetic-small")
    assert (result.exit_code, result.stdout) == (1, "4 cells: 0 found, 4 run, 2 failed\n")
    assert "mine: bad on synthetic-small, split " in result.stderr
    assert "and 1 more: failed: " in result.stderr
    assert "batch_size must be an integer >= 1; got 0" in result.stderr
    again = command(*words, "--datasets", "synthetic-small")
    assert (again.exit_code, again.stdout) == (1, "4 cells: 4 found, 0 run, 2 failed\n")
    assert "batch_size must be an integer >= 1; got 0 (earlier; --retry-failed runs it again)" in again.stderr
    retried = command(*words, "--datasets", "synthetic-small", "--retry-failed")
    assert retried.stdout == "4 cells: 2 found, 2 run, 2 failed\n"
    assert len(records(store)) == 4

    empty = tmp_path / "empty"
    empty.mkdir()
    absent = command(*words, "--datasets", "yacht", "--methods", "good", "--data", empty)
    assert (absent.exit_code, absent.stdout) == (1, "2 cells: 0 found, 0 run, 0 failed, 2 have no data\n")
    assert "and 1 more: no data: yacht needs yacht.csv.gz" in absent.stderr
    assert len(records(store)) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--splits", "a-b"), "splits must be numbers and ranges such as 0,3,7-9; got 'a-b'"),
        (("--splits", "1-2-3"), "splits must be numbers and ranges such as 0,3,7-9; got '1-2-3'"),
        (("--methods", "dee"), "methods must be one of 'bdkn', 'de'; got 'dee'; did you mean 'de'?"),
        (("--datasets", "diabete"), "got 'diabete'; did you mean 'diabetes'?"),
        (("--splits", "5-3"), "the selection must contain at least one cell; got none of smoke"),
        (("--jobs", "0"), "must be a number of processes, or -1"),
    ],
)
def test_a_wrong_choice(store, words, message):
    result = run(store, *words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_cluster_that_is_not_there_is_told(store, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("bdkn_paper.cli.run._CONNECT_S", 0.2)
    result = run(store, "--cluster", "tcp://127.0.0.1:1")
    assert result.exit_code == 2
    assert "--cluster must be the address of a Dask scheduler, such as tcp://host:8786; got" in result.stderr


@pytest.mark.no_cover
def test_an_experiment_that_changed(store, tmp_path):
    mine = tmp_path / "mine.toml"
    text = 'name = "mine"\ndatasets = ["synthetic-small"]\nsplits = 3\n[methods.bdkn]\nregressor = "BDKNRegressor"\n'
    for epochs, splits in ((2, "0"), (3, "1-2")):
        mine.write_text(f"{text}parameters = {{ epochs = {epochs} }}\n")
        assert command("run", mine, "--store", store, "--quiet", "--jobs", "1", "--splits", splits).exit_code == 0
    mixed = command("table", "mine", "--source", store)
    assert mixed.exit_code == 2
    assert "must have the same parameters; got different ones" in mixed.stderr
    (fresh,) = command("table", mine, "--source", store, "--format", "csv").stdout.splitlines()[1:]
    assert fresh.split(",")[-1] == "2"


def test_folders_that_are_not_there(tmp_path):
    for words in (("pack", "--store"), ("unpack", "--results")):
        result = command(*words, tmp_path / "nowhere")
        assert result.exit_code == 2
        assert "records must be in a folder, a store or reproduction/results; got" in result.stderr


def test_a_file_that_is_not_there(store):
    result = command("run", "nowhere.toml", "--store", store)
    assert result.exit_code == 2
    assert "nowhere.toml" in result.stderr
