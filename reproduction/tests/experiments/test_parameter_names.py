"""Records written before a parameter was renamed are found under the name of today."""

import hashlib
import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
from tiny import cell

from bdkn_paper.experiments import load_experiment
from bdkn_paper.experiments.methods import METHODS, make_regressor, parameter_names
from bdkn_paper.store import Cell, Store, records
from bdkn_paper.store.parameter_names import OPTIONS, RENAMED, stored_parameters, today_parameters

ROOT = Path(__file__).parents[2]

FOUND = {
    "artefacts": 1095,
    "converged": 366,
    "figure2": 320,
    "figure3": 80,
    "former-defaults": 350,
    "mixture": 5,
    "peers": 858,
    "prior": 10,
    "setting1": 1160,
    "setting2": 1055,
    "standardised": 400,
    "synthetic-song": 2,
}
"""How many cells of each experiment have a record; before any parameter was renamed it was as many."""

FILES = {"former-defaults": "defaults"}
"""Experiments that share the cells of another one's file: an earlier version of the library ran them."""


@pytest.fixture(scope="module")
def everything():
    return records(ROOT / "results")


def first_key(record):
    """Return the key as it was computed when the records were written: a hash of the cell as it is stored."""
    text = json.dumps(record["cell"], sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.no_cover
def test_every_record_keeps_its_key(everything):
    known = [record for record in everything if record["cell"]["experiment"] in FOUND]
    assert sum(record["status"] == "done" for record in known) == 5889
    for record in everything:
        assert Cell.of(record).key == first_key(record)
        assert Cell.of(record).as_dict() == record["cell"]


@pytest.mark.parametrize("name", FOUND)
def test_the_cells_of_an_experiment_find_their_records(everything, name):
    experiment = load_experiment(ROOT / "experiments" / f"{FILES.get(name, name)}.toml")
    kept = {first_key(record): record for record in everything if record["cell"]["experiment"] == name}
    cells = [replace(cell, experiment=name) for cell in experiment.cells(experiment.source())]
    found = [cell for cell in cells if cell.key in kept]
    assert len(found) == FOUND[name]
    assert all(Cell.of(kept[cell.key]) == cell for cell in found)


def test_old_and_new_names_are_the_same_cell(tmp_path):
    record = {"cell": cell().as_dict() | {"parameters": {"evidence": "exact"}}, "status": "failed"}
    today = cell(parameters={"combination": {"prior_variance": "evidence"}})
    assert Cell.of(record) == today
    store = Store(tmp_path)
    store.put(record)
    assert store.get(today) == record
    assert today.as_dict()["parameters"] == {"evidence": "exact"}


@pytest.mark.parametrize("regressor", ["BDKNRegressor", "BayesianStackingRegressor"])
@pytest.mark.parametrize("value", ["evidence", "paper", 0.5])
def test_a_renamed_parameter_goes_there_and_back(regressor, value):
    given = {"epochs": 3, "combination": {"prior_variance": value, "tempering": "evidence"}}
    stored = stored_parameters(regressor, given)
    assert stored == {"epochs": 3, "evidence": "exact" if value == "evidence" else value, "tempering": "evidence"}
    assert today_parameters(regressor, stored) == today_parameters(regressor, given) == given


@pytest.mark.parametrize(
    ("stored", "today"),
    [
        ({"batch_size": 8, "tol": 0.1}, {"training": {"batch_size": 8, "tol": 0.1}}),
        ({"standardize_y": True, "epochs": 2}, {"training": {"standardize_y": True}, "epochs": 2}),
        (
            {"tails": "posterior", "select_members": False},
            {"combination": {"tails": "posterior", "select_members": False}},
        ),
        ({"n_folds": 1}, {"cv": 1}),
        ({"holdout_fraction": 0.2, "design": "hold-out"}, {"cv": 0.2, "design": "hold-out"}),
        ({"linear_member": True}, {"members": ["networks", "linear"]}),
        ({"linear_member": False}, {"members": ["networks"]}),
        ({"linear_member": "auto"}, {"members": "networks"}),
    ],
)
def test_parameters_of_records_have_a_place_today(stored, today):
    assert today_parameters("BDKNRegressor", stored) == today
    assert stored_parameters("BDKNRegressor", today) == stored
    assert Cell.of({"cell": cell().as_dict() | {"parameters": stored}}).parameters == today
    make_regressor(cell(parameters=today))


def test_a_former_name_joins_the_options_that_are_given():
    mixed = {"training": {"patience": 3}, "batch_size": 8}
    assert today_parameters("DeepEnsembleRegressor", mixed) == {"training": {"patience": 3, "batch_size": 8}}


def test_parameters_of_other_regressors_keep_their_names():
    given = {"prior_variance": 0.02}  # of VBLL, which always had it
    assert stored_parameters("VBLLRegressor", given) == today_parameters("VBLLRegressor", given) == given


@pytest.mark.parametrize("regressor", METHODS)
def test_an_experiment_sets_parameters_by_their_names_of_today(regressor):
    names, renamed = parameter_names(regressor), RENAMED.get(regressor, ())
    assert not {each.stored for each in renamed} & {*names}
    assert {each.group or each.today for each in renamed} <= {*names}
    assert {(each.group, each.today) for each in renamed if each.group} == {
        (group, option.name)
        for group, options in OPTIONS.items()
        if group in names and renamed
        for option in fields(options)
    }
    assert not {"random_state", "n_jobs", "verbose", "device"} & {*names}
