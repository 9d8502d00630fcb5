import copy
import math
from datetime import date
from pathlib import Path

import pytest
from tiny import TinySource

from bdkn.errors import InvalidParameterError
from bdkn_paper.experiments import DataSource, load_experiment, parse_experiment

FOLDER = Path(__file__).parents[2] / "experiments"

DOCUMENT = {
    "name": "tiny",
    "datasets": ["waves", "ripples"],
    "seed": 3,
    "methods": {
        "bdkn": {
            "regressor": "BDKNRegressor",
            "base": {"from_paper": 2},
            "parameters": {"n_members": 3, "epochs": 5},
            "datasets": {"ripples": {"epochs": 7}},
        },
        "de": {"regressor": "DeepEnsembleRegressor"},
    },
}

SOURCE = TinySource(("waves", "ripples"))


def changed(*path, value):
    """Return the document with one entry changed or added."""
    document = copy.deepcopy(DOCUMENT)
    table = document
    for key in path[:-1]:
        table = table[key]
    table[path[-1]] = value
    return document


def test_cells():
    cells = parse_experiment(DOCUMENT).cells(SOURCE)
    assert [(c.method, c.dataset, c.split) for c in cells] == [
        *[("de", "waves", k) for k in range(3)],
        *[("bdkn", "ripples", k) for k in range(3)],
        *[("de", "ripples", k) for k in range(3)],
    ]
    bdkn = cells[3]
    assert (bdkn.base, bdkn.parameters) == ({"from_paper": 2}, {"n_members": 3, "epochs": 7})
    assert (bdkn.experiment, bdkn.regressor, bdkn.seed, bdkn.kind) == ("tiny", "BDKNRegressor", 3, "scores")


def test_chosen_cells():
    cells = parse_experiment(DOCUMENT).cells(SOURCE, methods=["de"], datasets=["ripples"], splits={0, 2, 9})
    assert [(c.method, c.dataset, c.split) for c in cells] == [("de", "ripples", 0), ("de", "ripples", 2)]


@pytest.mark.parametrize(("splits", "count"), [("all", 3), (2, 2), (9, 3)])
def test_so_many_splits(splits, count):
    cells = parse_experiment(changed("splits", value=splits)).cells(SOURCE, methods=["de"], datasets=["waves"])
    assert len(cells) == count


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (changed("sed", value=1), "a key of experiment must be .* got 'sed'; did you mean 'seed'"),
        (changed("kind", value="score"), "kind must be one of 'scores', 'curves'; got 'score'; did you mean 'scores'"),
        (changed("splits", value="some"), "splits, if not 'all', must be an integer >= 1; got 'some'"),
        (changed("seed", value=-1), "seed must be an integer >= 0"),
        (changed("name", value="a/b"), "a name must be letters, digits, .* got 'a/b'"),
        (changed("methods", "../de", value={"regressor": "BDKNRegressor"}), "a name must be letters"),
        (changed("methods", "de", "parameter", value={}), "a key of methods.de must .*; did you mean 'parameters'"),
        (
            changed("methods", "de", "regressor", value="BDKNRegresor"),
            "regressor must be .*; did you mean 'BDKNRegressor'",
        ),
        (changed("methods", "de", value={}), "methods.de must have the key 'regressor'; got nothing"),
        (changed("methods", "de", "base", value={"paper": 1}), "a key of base must .*; did you mean 'from_paper'"),
        (changed("methods", "de", "parameters", value={"epoch": 1}), "key of parameters must .* did you mean 'epochs'"),
        (changed("methods", "de", "parameters", value={"evidence": 1}), "key of parameters must .* got 'evidence'"),
        (changed("methods", "de", "parameters", value={"random_state": 1}), "key of parameters must"),
        (changed("methods", "de", "parameters", value={"training": 1}), "training must be a table; got 1"),
        (
            changed("methods", "de", "parameters", value={"training": {"batchsize": 1}}),
            "a key of training must .* did you mean 'batch_size'",
        ),
        (
            changed("methods", "bdkn", "datasets", "ripples", value={"learning_rat": 1}),
            "a key of ripples must .*; did you mean 'learning_rate'",
        ),
        (
            changed("methods", "bdkn", "datasets", "wave", value={}),
            "key of methods.bdkn.datasets .* did you mean 'waves'",
        ),
        (changed("name", value=3), "a name must be text; got 3"),
        (changed("datasets", value="waves"), "datasets must be a list; got 'waves'"),
        (changed("datasets", value=[1]), "each of datasets must be text; got 1"),
        (changed("datasets", value=["waves", "waves"]), "datasets must each be named once; got waves, waves"),
        (changed("methods", value=3), "methods must be a table; got 3"),
        (changed("methods", "de", value=3), "methods.de must be a table; got 3"),
        (changed("methods", "de", "base", value=1), "base must be a table; got 1"),
        (changed("methods", "de", "base", value={"from_paper": 3}), "from_paper must be .* <= 2; got 3"),
        (changed("methods", "de", "parameters", value=["epochs"]), "parameters must be a table; got"),
        (changed("methods", "de", "datasets", value=["waves"]), "datasets must be a table; got"),
        (changed("methods", "bdkn", "datasets", "ripples", value=3), "ripples must be a table; got 3"),
        (changed("methods", "de", "parameters", value={"learning_rate": math.nan}), "must be a finite number"),
        (changed("methods", "de", "parameters", value={"epochs": date(2020, 1, 1)}), "epochs must be a finite"),
        ({"name": "x", "datasets": []}, "experiment must have the key 'methods'; got name, datasets"),
    ],
)
def test_what_is_wrong_is_named(document, message):
    with pytest.raises(InvalidParameterError, match=message):
        parse_experiment(document)


def test_only_what_is_in_the_experiment_can_be_chosen():
    experiment = parse_experiment(DOCUMENT)
    with pytest.raises(
        InvalidParameterError, match="methods must be one of 'bdkn', 'de'; got 'bdk'; did you mean 'bdkn'"
    ):
        experiment.cells(SOURCE, methods=["bdk"])
    with pytest.raises(InvalidParameterError, match="datasets must be one of 'waves', 'ripples'; got 'missing'"):
        experiment.cells(SOURCE, datasets=["missing"])
    with pytest.raises(InvalidParameterError, match="datasets must be one of 'waves', 'missing'; got 'ripples'"):
        experiment.cells(TinySource())
    with pytest.raises(
        InvalidParameterError, match=r"the selection must contain at least one cell; got none of tiny: .* from 0"
    ):
        experiment.cells(SOURCE, splits={900})


def test_the_file_is_named(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("name = ")
    with pytest.raises(InvalidParameterError, match=r"mine.toml: Invalid value"):
        load_experiment(path)
    path.write_bytes(b'name = "\xff"')
    with pytest.raises(InvalidParameterError, match=r"mine.toml: 'utf-8' codec"):
        load_experiment(path)
    path.write_text('nam = "x"')
    with pytest.raises(InvalidParameterError, match=r"mine.toml: .* did you mean 'name'"):
        load_experiment(path)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_every_experiment_of_the_house_is_sound(path):
    experiment = load_experiment(path)
    assert experiment.name == path.stem
    cells = experiment.cells(DataSource())
    assert len({cell.key for cell in cells}) == len(cells) > 0


SIX = ("bll", "ldbll", "mfvi", "gp", "dkl", "vbll")


@pytest.mark.parametrize(("setting", "rate", "epochs"), [(1, 0.1, 40), (2, 0.001, 500)])
def test_the_settings_of_the_paper(setting, rate, epochs):
    experiment = load_experiment(FOLDER / f"setting{setting}.toml")
    assert len(experiment.datasets) == 12
    assert set(experiment.methods) == {"bdkn", "de", *SIX}
    cells = experiment.cells(DataSource(), methods=["bdkn", "de"])
    assert {(cell.parameters["learning_rate"], cell.parameters["epochs"]) for cell in cells} == {(rate, epochs)}
    assert {cell.base["from_paper"] for cell in experiment.cells(DataSource())} == {setting}
    counts = {name: sum(cell.dataset == name and cell.method == "de" for cell in cells) for name in experiment.datasets}
    assert (counts["boston"], counts["protein"], counts["song"]) == (20, 5, 1)


def test_setting_1_is_one_rate_for_all():
    given = [
        given
        for method in load_experiment(FOLDER / "setting1.toml").methods.values()
        for given in method.datasets.values()
    ]
    assert {(each["learning_rate"], each["epochs"]) for each in given} == {(0.1, 40)}


def test_rates_of_setting_2():
    given = {name: method.datasets for name, method in load_experiment(FOLDER / "setting2.toml").methods.items()}
    assert given["mfvi"]["naval"] == {"learning_rate": 0.001, "epochs": 1000}  # capped: the paper has 100 000
    wide = {"learning_rate": 0.0002, "hidden_layer_sizes": [50, 200, 200]}
    assert given["bll"]["sarcos"] == {**wide, "epochs": 5000}  # capped: the paper has 30 000
    assert given["ldbll"]["sarcos"] == {**wide, "epochs": 30000}
    assert given["gp"]["naval"] == {"learning_rate": 0.001, "epochs": 3000}
    assert given["ldbll"]["wine"] == {"learning_rate": 0.0001, "epochs": 1000}
    assert "song" not in given["ldbll"]
