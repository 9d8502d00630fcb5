"""The six other methods of the paper as cells of an experiment."""

from pathlib import Path

import numpy as np
import pytest

from bdkn import BDKNRegressor
from bdkn.errors import InvalidParameterError
from bdkn_paper import BLLRegressor, DKLRegressor, GPRegressor, LDBLLRegressor, MFVIRegressor, VBLLRegressor
from bdkn_paper.experiments import Task, load_experiment, run_cells
from bdkn_paper.experiments.evaluate import evaluate
from bdkn_paper.experiments.machine import accelerator
from bdkn_paper.store import Cell, Store

SETTING_2 = Path(__file__).parents[2] / "experiments" / "setting2.toml"
EVERY = (GPRegressor, DKLRegressor, BLLRegressor, LDBLLRegressor, MFVIRegressor, VBLLRegressor)

generator = np.random.default_rng(0)
X = generator.uniform(-2.0, 2.0, (60, 1))
y = np.sin(2 * X[:, 0]) + 0.1 * generator.standard_normal(60)
TASK = Task(X, y, [(np.arange(45), np.arange(45, 60))])


def cell(cls, **changes):
    small = {} if cls is GPRegressor else {"hidden_layer_sizes": (8,)}
    given = {"regressor": cls.__name__, "parameters": {"epochs": 5, "learning_rate": 0.02, **small}} | changes
    return Cell(experiment="tiny", method=cls.paper_name, dataset="waves", split=0, **given)


@pytest.mark.parametrize("cls", EVERY)
def test_a_cell_gives_a_record(cls):
    record = evaluate(cell(cls), TASK)
    assert record["status"] == "done", record.get("traceback")
    assert record["warnings"] == []
    assert set(cls.packages) <= set(record["versions"])
    assert 1 <= record["model"]["epochs"] <= 5
    assert record["model"]["noise"] > 0
    assert np.isfinite(record["metrics"]["nll"])
    again = evaluate(cell(cls), TASK)
    assert again["metrics"] == record["metrics"]


@pytest.mark.parametrize("cls", EVERY)
def test_a_cell_of_the_paper(cls):
    record = evaluate(cell(cls, base={"from_paper": 2}, parameters={"learning_rate": 0.01, "epochs": 3}), TASK)
    assert record["status"] == "done", record.get("traceback")


@pytest.mark.parametrize("cls", EVERY)
def test_curves_end_at_the_scores_and_change_nothing(cls):
    whole = {"learning_rate": 0.01, "epochs": 4} | ({"early_stopping": False} if cls is not GPRegressor else {})
    record, ordinary = (
        evaluate(cell(cls, base={"from_paper": 2}, parameters=whole, kind=kind), TASK) for kind in ("curves", "scores")
    )
    assert record["status"] == "done", record.get("traceback")
    assert record["metrics"] == ordinary["metrics"]
    curves = record["curves"]
    assert curves["epoch"] == [1, 2, 3, 4]
    for name in ("rmse", "nll"):
        same = {"rel": 2e-5} if cls is not MFVIRegressor else {"rel": 0.3}  # its predictions are other draws
        assert curves[name][-1] == pytest.approx(record["metrics"][name], **same)
        assert len(set(curves[name])) == 4


@pytest.mark.parametrize("cls", EVERY)
def test_setting_2_is_the_experiments_tables(cls):
    method = load_experiment(SETTING_2).methods[cls.paper_name]
    for name, given in method.datasets.items():
        if (cls, name.removesuffix("-clean")) in ((GPRegressor, "protein"), (GPRegressor, "sarcos")):
            continue  # the paper has none
        model = cls.from_paper(2, name)
        assert model.learning_rate == given["learning_rate"]
        assert tuple(given.get("hidden_layer_sizes", (50, 50))) == getattr(model, "hidden_layer_sizes", (50, 50))
        assert given["epochs"] <= model.epochs  # a cap may be lower than the paper's


def test_a_fit_that_stops_stays_as_it_is():
    record = evaluate(cell(GPRegressor, kind="curves", parameters={"epochs": 60, "tol": 0.5, "window": 1}), TASK)
    assert record["model"]["epochs"] < 60
    assert len(record["curves"]["rmse"]) == 60
    assert record["curves"]["rmse"][-1] == pytest.approx(record["metrics"]["rmse"], rel=2e-5)


def test_curves_need_every_epoch():
    record = evaluate(cell(BLLRegressor, kind="curves"), TASK)
    assert "set early_stopping = false" in record["traceback"]


def test_the_device_is_in_the_record():
    assert accelerator(None) == accelerator("cpu") == {}
    assert accelerator("mps") == {"device": "mps"}


@pytest.mark.no_cover
def test_a_device_is_for_what_can_compute_there():
    absent = evaluate(cell(GPRegressor), TASK, device="nowhere")
    assert absent["status"] == "failed"
    assert "device must be one PyTorch can use" in absent["traceback"]
    ours = Cell(experiment="tiny", method="bdkn", dataset="waves", split=0, regressor=BDKNRegressor.__name__)
    assert evaluate(ours, TASK, device="nowhere")["status"] == "done"
    assert evaluate(cell(GPRegressor), TASK, device="cpu")["status"] == "done"


def test_a_device_that_is_not_there_is_told_before_any_cell_runs(tmp_path):
    store = Store(tmp_path)
    with pytest.raises(InvalidParameterError, match="device must be one PyTorch can use here"):
        next(run_cells([cell(GPRegressor)], store, Tables(), device="nowhere"))
    assert list(store) == []
    (outcome,) = run_cells([cell(GPRegressor)], store, Tables(), device="cpu")
    assert outcome.status == "done"


class Tables:
    def load(self, name):
        return TASK

    def train_size(self, name):
        return 45
