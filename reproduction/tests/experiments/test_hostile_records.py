"""Records and experiments that others wrote: names that are paths, values of wrong types, nesting, huge numbers."""

import json
import os
import tomllib

import pytest
from tiny import cell
from typer.testing import CliRunner

from bdkn.errors import InvalidParameterError
from bdkn_paper.cli import app
from bdkn_paper.cli.run import _numbers
from bdkn_paper.data import DataError
from bdkn_paper.experiments import load_experiment
from bdkn_paper.experiments.experiment import parse_experiment
from bdkn_paper.store import Cell, Store, pack, records
from bdkn_paper.store.names import check_name
from bdkn_paper.store.record import dumps
from bdkn_paper.store.schema import check_record

BAD_NAMES = [
    "../../x",
    "/tmp/x",
    "a/b",
    "a\\b",
    "C:x",
    "a\0b",
    "a\nb",
    "a\n",
    "",
    ".",
    "..",
    ".hidden",
    "ends.",
    "x" * 300,
    "con",
    "NUL.txt",
    "com1",
    "[/bold]",
    "=1+1",
    "a|b",
    "<b>",
    "\\input",
    "é",
    7,
    None,
]


def record(**changes):
    made = {k: changes.pop(k) for k in list(changes) if k in vars(cell())}
    return {
        "cell": cell(**made).as_dict(),
        "status": "done",
        "metrics": {"rmse": 0.5},
        "rows": {"train": 45, "test": 15},
        "seconds": {"fit": 0.5},
        "versions": {"numpy": "2"},
        "hardware": {"cores": 2},
    } | changes


def plant(folder, content, **changed):
    """Write a file of a store as an enemy does: under the right key, with any content."""
    key = Cell(**{**cell().as_dict(), **changed}).key
    path = folder / key[:2] / f"{key}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


@pytest.mark.parametrize("name", BAD_NAMES, ids=repr)
@pytest.mark.parametrize("field", ["experiment", "method", "dataset"])
def test_a_name_that_is_no_name_writes_no_file(tmp_path, field, name):
    store, told = tmp_path / "a" / "b" / "store", []
    plant(store, record() | {"cell": cell().as_dict() | {field: name}}, **{field: name})
    before = sorted(path for path in tmp_path.rglob("*"))
    assert pack(Store(store, told.append), tmp_path / "a" / "b" / "results") == 0
    assert sorted(path for path in tmp_path.rglob("*")) == before
    assert len(told) == 1
    assert f"cell.{field}: a name must" in told[0]


@pytest.mark.parametrize("name", BAD_NAMES, ids=repr)
def test_packed_records_have_names_that_are_names(tmp_path, name):
    store, results = Store(tmp_path / "store"), tmp_path / "results"
    store.put(record())
    pack(store, results)
    (path,) = results.rglob("*.jsonl")
    head, *lines = path.read_text().splitlines()
    changed = json.loads(head)
    changed["common"]["cell"]["experiment"] = name
    path.write_text("\n".join([json.dumps(changed), *lines]))
    with pytest.raises(InvalidParameterError, match=r"tiny.jsonl must hold records .* a name must"):
        records(results)


def test_names_of_today_are_names():
    for name in ("bdkn-1-unit-prior", "setting1", "sarcos-clean", "a.b_c", "console", "0"):
        check_name(name)


def nest(levels, opened="[", closed="]"):
    return opened * levels + closed * levels


@pytest.mark.parametrize(
    "text",
    [
        nest(100_000),
        nest(500),
        nest(50),
        '{"padding": ' + nest(100_000, '{"a":', "1}").replace("}1", "}") + "}",
        '{"float": []}',
        '{"float": {"float": "x"}}',
        "1" * 5000,
        '"text"',
        "\x00",
        b"\xff\xfe\x00",
        b"\x1f\x8b",
    ],
    ids=lambda text: repr(text[:20]),
)
def test_a_file_that_is_no_record_is_told_and_does_not_hide_the_others(tmp_path, text):
    store, told = Store(tmp_path), []
    store.put(record(split=1))
    path = plant(tmp_path, text if isinstance(text, bytes) else text.encode())
    assert [one["cell"]["split"] for one in Store(tmp_path, told.append)] == [1]
    assert store.get(cell()) is None
    assert [note.partition(" is left out: ")[0] for note in told] == [str(path)]


CHANGES = [
    ({"padding": json.loads(nest(50))}, "padding must not be nested deeper than 16 levels"),
    ({"metrics": {"rmse": "0.5"}}, "metrics.rmse must be a number; got '0.5'"),
    ({"metrics": {"rmse": True}}, "metrics.rmse must be a number; got True"),
    ({"metrics": {"rmse": 10**400}}, "metrics.rmse must be a number; got 1000"),
    ({"metrics": []}, "metrics must be a table of names and values; got list"),
    ({"status": ["done"]}, "status must be 'done' or 'failed'; got list"),
    ({"status": "x" * 10**6}, r"status must be 'done' or 'failed'; got 'xxx.*\.\.\.$"),
    ({"rows": {"train": 5}}, "rows must have the field 'test'"),
    ({"rows": {"train": 5, "test": 0}}, "rows must be at least 1 each"),
    ({"seconds": {}}, "seconds must have the field 'fit'"),
    ({"hardware": {"cores": "two"}}, "hardware.cores must be a number"),
    ({"hardware": {"cores": {}}}, "hardware.cores must not be nested"),
    ({"versions": {"numpy": 2}}, "versions.numpy must be text; got 2"),
    ({"warnings": "text"}, "warnings must be a list; got 'text'"),
    ({"curves": {"epoch": [1, 2], "rmse": [1.0]}}, "curves must have one value per epoch each"),
    ({"cell": []}, "cell must be a table"),
    ({"cell": cell().as_dict() | {"split": -1}}, "cell.split must be a whole number >= 0; got -1"),
    ({"cell": cell().as_dict() | {"split": 10**30}}, "cell.split must be a whole number >= 0"),
    ({"cell": cell().as_dict() | {"seed": 1.0}}, r"cell.seed must be a whole number >= 0; got 1\.0"),
    ({"cell": cell().as_dict() | {"parameters": {"epochs": float("nan")}}}, "cell.parameters must be a finite number"),
    ({"cell": cell().as_dict() | {"parameters": [1]}}, "cell.parameters must be a table"),
    ({"cell": cell().as_dict() | {"colour": "red"}}, "cell must have no field but .*; got 'colour'"),
    ({"cell": {"experiment": "e"}}, "cell must have the field 'method'"),
]


@pytest.mark.parametrize(("changes", "message"), CHANGES, ids=[message[:40] for _, message in CHANGES])
def test_every_part_of_a_record_is_checked(changes, message):
    with pytest.raises(InvalidParameterError, match=message):
        check_record(record() | changes)


def test_a_record_under_the_key_of_another_cell_is_not_its_record(tmp_path):
    told = []
    plant(tmp_path, record(split=1))
    assert Store(tmp_path).get(cell()) is None
    assert list(Store(tmp_path, told.append)) == []
    assert "its name must be the key of its cell" in told[0]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_what_is_no_ordinary_file_is_left_out(tmp_path):
    told, folder = [], tmp_path / "00"
    folder.mkdir()
    (folder / "folder.json").mkdir()
    os.mkfifo(folder / "pipe.json")
    (folder / "loop.json").symlink_to("loop.json")
    (folder / "zero.json").symlink_to("/dev/zero")
    with open(folder / "large.json", "wb") as file:
        file.truncate(1 << 30)
    assert list(Store(tmp_path, told.append)) == []
    assert len(told) == 5
    experiment = tmp_path / "pipe.toml"
    os.mkfifo(experiment)
    with pytest.raises(InvalidParameterError, match=r"pipe.toml: it must be an ordinary file"):
        load_experiment(experiment)


def test_texts_with_any_character_are_packed_and_come_back(tmp_path):
    store, results = Store(tmp_path / "store"), tmp_path / "results"
    written = record(warnings=["a\u2028b\x85c\u2029d\x1ce\r\nf", "half a pair \ud800", "\x1b[31m"])
    store.put(written)
    pack(store, results)
    assert records(results) == [written] == list(store)


def test_commands_tell_the_file_and_go_on(tmp_path):
    store, results = tmp_path / "store", tmp_path / "results"
    Store(store).put(record())
    path = plant(store, nest(100_000).encode(), split=1)
    ran = CliRunner().invoke(app, ["pack", "--store", str(store), "--results", str(results)])
    assert (ran.exit_code, ran.stdout) == (0, f"1 records in {results}\n")
    assert f"Note: {path} is left out: it must be a line of JSON (its values are nested too deeply)" in ran.stderr
    shown = CliRunner().invoke(app, ["table", "tiny", "--source", str(store)])
    assert shown.exit_code == 0
    assert "waves" in shown.stdout
    assert str(path) in shown.stderr


def test_long_ranges_of_splits_are_not_listed():
    wanted = _numbers("0-999999999,7-3, 12 - 13")
    assert 999_999_999 in wanted
    assert 10**9 not in wanted
    assert 13 in _numbers("12-13")
    assert 4 not in _numbers("7-3")
    for text in ("1_0", "١", "-5", "1-2-3", "a", "1" * 19, ",", "1e3", "0x1"):
        with pytest.raises(InvalidParameterError, match="splits must be numbers and ranges such as"):
            _numbers(text)


TEXT = """
name = "mine"
datasets = ["bridges"]
[tables.bridges]
path = "bridges.csv"
target = "load"
[methods.bdkn]
regressor = "BDKNRegressor"
parameters = { epochs = 2 }
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"bridges.csv"', '"../bridges.csv"', "path of a table must name a file in the folder of the experiment"),
        ('"bridges.csv"', '"/etc/passwd"', "path of a table must name a file in the folder of the experiment"),
        ('"bridges.csv"', '"a\\u0000b"', "path of a table must name a file in the folder of the experiment"),
        ('target = "load"', 'target = "load"\nfolder = "/etc"', "a key of tables.bridges must be one of"),
        (
            'target = "load"',
            'target = "load"\nsplits = 1000000000',
            r"splits of a table must be .* <= 1000; got 1000000",
        ),
        ('target = "load"', f'target = "load"\nsplits = 1{"0" * 400}', "splits of a table must be an integer"),
        ('name = "mine"', 'name = "../../x"', "a name must be letters"),
        ('name = "mine"', 'name = "con"', "a name must not be one that Windows reserves"),
        ('name = "mine"', f'name = "{"x" * 300}"', "at most 80 characters"),
        ('name = "mine"', 'name = "mine"\ntitle = 3', "title must be text; got 3"),
        ('name = "mine"', f'name = "mine"\nseed = 1{"0" * 5000}', "mine.toml: "),
        ('name = "mine"', f'name = "mine"\nseed = 0x{"f" * 9000}', "mine.toml: "),
        ("epochs = 2", f"epochs = {nest(30)}", "epochs must be a finite number, text, .* nested deeper than 16"),
        ("epochs = 2", f"epochs = {nest(5000)}", "its values must not be nested so deeply"),
        ("epochs = 2", f"epochs = 1{'0' * 400}", "epochs must be a finite number"),
        ('name = "mine"', f'name = "mine" # {"x" * (1 << 20)}', "it must have at most 1,048,576 bytes"),
    ],
    ids=lambda text: text[:24],
)
def test_an_experiment_is_checked_before_anything_is_done(tmp_path, old, new, message):
    path = tmp_path / "mine.toml"
    path.write_text(TEXT.replace(old, new))
    with pytest.raises(InvalidParameterError, match=message):
        load_experiment(path)


def test_an_experiment_of_too_many_cells_is_told_at_once(tmp_path):
    document = tomllib.loads(TEXT)
    document["methods"] = {f"m{i}": {"regressor": "BDKNRegressor"} for i in range(1100)}
    document["tables"]["bridges"]["splits"] = 1000
    experiment = parse_experiment(document, tmp_path)
    with pytest.raises(InvalidParameterError, match="at most 1,000,000 cells; mine has about 1,100,000"):
        experiment.cells(experiment.source())


def test_a_table_that_is_no_ordinary_file_is_told(tmp_path):
    (tmp_path / "mine.toml").write_text(TEXT)
    (tmp_path / "bridges.csv").symlink_to("/dev/zero")
    experiment = load_experiment(tmp_path / "mine.toml")
    with pytest.raises(DataError, match=r"bridges\.csv must be a CSV file; it must be an ordinary file"):
        experiment.cells(experiment.source())


def test_numbers_of_processes_have_a_bound(tmp_path):
    ran = CliRunner().invoke(app, ["run", str(tmp_path / "mine.toml"), "--jobs", "1000000000"])
    assert ran.exit_code == 2
    assert "at most 1024" in " ".join(ran.stderr.replace("│", " ").split())


def test_dumps_is_one_line():
    assert "\n" not in dumps({"a": "\n\r"})
