"""Tables of one's own in an experiment."""

import gzip

import numpy as np
import pytest
from typer.testing import CliRunner

from bdkn.errors import InvalidParameterError
from bdkn_paper.cli import app
from bdkn_paper.data import DataError
from bdkn_paper.experiments import load_experiment
from bdkn_paper.store import records

TEXT = """
name = "mine"
datasets = ["synthetic-small", "bridges"]
splits = 2
[tables.bridges]
path = "data/bridges.csv"
target = "load"
splits = 3
[methods.bdkn]
regressor = "BDKNRegressor"
parameters = { epochs = 2, n_members = 2, hidden_layer_sizes = [4] }
"""

RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=(40, 3))


@pytest.fixture
def file(tmp_path):
    (tmp_path / "data").mkdir()
    path = tmp_path / "mine.toml"
    path.write_text(TEXT)
    write(tmp_path / "data" / "bridges.csv")
    return path


def write(path, numbers=NUMBERS, names="span,load,width", opened=open):
    with opened(path, "wt") as file:
        np.savetxt(file, numbers, delimiter=",", header=names, comments="")


def cells(file):
    experiment = load_experiment(file)
    return experiment.cells(experiment.source())


def rows(file):
    return cells(file) and load_experiment(file).source().load("bridges")


def test_the_rows_and_the_splits(file):
    source = load_experiment(file).source()
    task = source.load("bridges")
    np.testing.assert_allclose(task.X, NUMBERS[:, [0, 2]])
    np.testing.assert_allclose(task.y, NUMBERS[:, 1])
    assert (source.n_splits("bridges"), source.train_size("bridges"), len(task.splits)) == (3, 36, 3)
    for train, test in task.splits:
        assert sorted([*train, *test]) == list(range(40))
    assert not np.array_equal(task.splits[0][1], task.splits[1][1])


def test_gzipped(file):
    write(file.parent / "data" / "bridges.csv.gz", opened=gzip.open)
    file.write_text(TEXT.replace("bridges.csv", "bridges.csv.gz"))
    np.testing.assert_allclose(load_experiment(file).source().load("bridges").y, NUMBERS[:, 1])


def test_other_content_is_another_cell(file):
    before = cells(file)
    assert [cell.data != "" for cell in before] == [False, False, True, True]
    assert "data" not in before[0].as_dict()  # so that cells of registered sets keep the keys they had
    assert {cell.key for cell in cells(file)} == {cell.key for cell in before}
    write(file.parent / "data" / "bridges.csv", NUMBERS + 1)
    after = cells(file)
    assert [cell.key for cell in after[:2]] == [cell.key for cell in before[:2]]
    assert not {cell.key for cell in after[2:]} & {cell.key for cell in before}
    file.write_text(TEXT.replace('"load"', '"span"'))
    assert not {cell.key for cell in cells(file)[2:]} & {cell.key for cell in after}


@pytest.mark.no_cover
def test_run_and_table(file, tmp_path):
    store = tmp_path / "store"
    words = ["run", str(file), "--store", str(store), "--jobs", "1", "--quiet"]
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stdout) == (0, "4 cells: 0 found, 4 run, 0 failed\n")
    assert CliRunner().invoke(app, words).stdout == "4 cells: 4 found, 0 run, 0 failed\n"
    assert {record["rows"]["train"] for record in records(store)} == {36, 180}
    shown = CliRunner().invoke(app, ["table", str(file), "--source", str(store), "--format", "csv"])
    assert {line.split(",")[0] for line in shown.stdout.splitlines()[1:]} == {"bridges", "synthetic-small"}
    packed = CliRunner().invoke(app, ["pack", str(file), "--store", str(store), "--results", str(tmp_path / "r")])
    assert packed.stdout.startswith("4 records in ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('target = "load"', 'target = "laod"'), "target of .*bridges.csv must be .*; did you mean 'load'"),
        (("data/bridges.csv", "bridges.csv"), "bridges.csv must be a CSV file; it cannot be read"),
        (
            ("[tables.bridges]", "[tables.yacht]"),
            "a table must not have the name of a registered data set; got 'yacht'",
        ),
        (("[tables.bridges]", "[tables.brigdes]"), "datasets must be one of .* got 'bridges'; did you mean 'brigdes'"),
        (('target = "load"\n', ""), "tables.bridges must have the key 'target'"),
        (('target = "load"', "target = 3"), "target of a table must be text; got 3"),
        (("splits = 3", "splits = 0"), "splits of a table must be an integer >= 1 and <= 1000; got 0"),
        (("target", "taget"), "a key of tables.bridges must .*; did you mean 'target'"),
    ],
)
def test_what_is_wrong_is_named(file, change, message):
    file.write_text(TEXT.replace(*change))
    with pytest.raises((InvalidParameterError, DataError), match=message):
        rows(file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("span,load\n1,2\n3,4\n", "finite numbers in 2 columns and at least 3 rows .* got 2 rows of 2, 0 entries not"),
        ("span,load\n1,2\n3,nan\n5,6\n", "got 3 rows of 2, 1 entries not finite"),
        ("span,load,width\n1,2\n3,4\n5,6\n", "in 3 columns .* got 3 rows of 2"),
        ("span,load\n1,long\n", "cannot be read as a CSV of numbers"),
    ],
)
def test_a_table_that_cannot_be_used(file, content, message):
    (file.parent / "data" / "bridges.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        load_experiment(file).source().load("bridges")
