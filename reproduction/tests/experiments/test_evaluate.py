import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from tiny import QUICK, cell, task

from bdkn import CombinationOptions, TrainingOptions
from bdkn.errors import InvalidParameterError
from bdkn.estimators import BDKNRegressor, DeepEnsembleRegressor
from bdkn.metrics import calibration_error, crps, nll
from bdkn.stages import stage
from bdkn_paper.experiments.evaluate import FIT_STAGES, FITTED, PREDICT_STAGES, evaluate, timed
from bdkn_paper.experiments.methods import make_regressor
from bdkn_paper.experiments.tasks import TOYS, DataSource
from bdkn_paper.store import Cell

DE = {"method": "de", "regressor": "DeepEnsembleRegressor"}


def test_a_record_holds_what_a_fit_by_hand_gives():
    data, one = task(), cell(split=1)
    train, test = data.splits[1]
    given = {**QUICK, "training": TrainingOptions(**QUICK["training"])}
    model = BDKNRegressor(**given, random_state=one.random_state).fit(data.X[train], data.y[train])
    dist, y = model.predict_dist(data.X[test]), data.y[test]
    record = evaluate(one, data)
    assert record["status"] == "done"
    assert Cell.of(record) == one
    assert record["rows"] == {"train": 45, "test": 15}
    found = record["metrics"]
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((y - dist.mean()) ** 2)), rel=1e-12)
    assert (found["nll"], found["crps"]) == (nll(y, dist), crps(y, dist))
    assert found["calibration_error"] == calibration_error(y, dist)
    for level in (50, 90, 95):
        lower, upper = dist.interval(level / 100)
        assert found[f"coverage_{level}"] == pytest.approx(np.mean((lower <= y) & (y <= upper)))
        assert found[f"width_{level}"] == pytest.approx(np.mean(upper - lower))
    assert record["model"] == {
        "members": 3,
        "epochs": 4,
        **{name: getattr(model, FITTED[name]) for name in ("dof", "prior_scale", "evidence", "noise")},
        "weights": model.weights_.tolist(),
    }
    assert record["warnings"] == []
    assert record["memory_mib"] > 10
    assert {"Python", "bdkn", "numpy"} <= record["versions"].keys()
    assert {"processor", "cores", "threads"} <= record["hardware"].keys()


def test_the_threads_of_a_fit_change_nothing():
    one, two = (evaluate(cell(), task(), n_jobs) for n_jobs in (1, 2))
    assert (one["metrics"], one["model"]) == (two["metrics"], two["model"])
    assert [record["hardware"]["threads"] for record in (one, two)] == [1, 2]


def test_methods_combine_the_same_networks():
    data, (train, _) = task(), task().splits[0]
    in_sample = {"parameters": {**QUICK, "design": "in-sample"}}
    models = [make_regressor(cell(**change)).set_params(n_bins=0) for change in (in_sample, DE)]
    models = [model.fit(data.X[train], data.y[train]) for model in models]
    assert [type(model) for model in models] == [BDKNRegressor, DeepEnsembleRegressor]
    for ours, theirs in zip(*(model.ensemble_.networks.layers for model in models), strict=True):
        assert np.array_equal(ours[0], theirs[0])


def test_the_paper_is_the_base():
    assert (
        make_regressor(cell(base={"from_paper": 2}, regressor="BLLRegressor", dataset="yacht", parameters={})).epochs
        == 8000
    )
    model = make_regressor(cell(base={"from_paper": 2}, parameters={"epochs": 3}))
    assert (model.epochs, model.learning_rate, model.design) == (3, 1e-3, "in-sample")
    assert model.training == TrainingOptions(schedule="constant", standardize_y=False)
    model = make_regressor(cell(base={"from_paper": 2}, parameters={"training": {"standardize_y": True}}))
    assert model.training == TrainingOptions(schedule="constant", standardize_y=True)
    assert model.combination == CombinationOptions(prior_variance="paper")
    with pytest.raises(InvalidParameterError, match="did you mean 'BDKNRegressor'"):
        make_regressor(cell(regressor="BDKNRegresor"))


@pytest.mark.parametrize("design", ["cross-fit", "in-sample"])
def test_a_record_holds_the_time_of_each_part(design, monkeypatch):
    ticks = itertools.count()  # clocks that move each time they are read: no test depends on how fast a machine is
    monkeypatch.setattr("bdkn.stages.time.perf_counter", lambda: float(next(ticks)))
    monkeypatch.setattr("bdkn_paper.experiments.evaluate.time.process_time", lambda: float(next(ticks)))
    seconds = evaluate(cell(parameters={**QUICK, "design": design}), task())["seconds"]
    parts = {"train", "aggregate", "predict_forward", "predict_aggregate"} | (
        {"forward"} if design == "cross-fit" else set()
    )
    assert {"fit", "predict"} | parts <= seconds.keys()
    assert sum(seconds.get(name, 0.0) for name in ("train", "forward", "aggregate")) <= seconds["fit"]
    assert 0 < seconds["predict_forward"] < seconds["predict"]
    assert min(seconds.values()) > 0


def test_a_failure_is_recorded():
    record = evaluate(cell(parameters={**QUICK, "epochs": 0}), task())
    assert record["status"] == "failed"
    assert "Traceback" in record["traceback"]
    assert "epochs must be an integer >= 1; got 0" in record["traceback"]
    assert 'File "bdkn_paper/experiments/evaluate.py"' in record["traceback"]  # not where this machine keeps it
    assert "metrics" not in record
    assert Cell.of(record).parameters["epochs"] == 0


def test_networks_that_diverge_are_told_of():
    data = task()
    data.y[0] = 1e30
    wild = {"target": "identity", "training": {"standardize_y": False}, "learning_rate": 10.0, "epochs": 30}
    record = evaluate(cell(parameters={**QUICK, **wild}), data)
    assert record["status"] == "failed" or "diverged" in " ".join(record["warnings"])


class Staged:
    """A regressor that reports the stages of a fit and of a prediction, each of a length of its own."""

    def __init__(self, clock):
        self.clock = clock

    def work(self, seconds):
        self.clock.now += seconds

    def fit(self):
        self.work(0.5)
        with stage("encode"):
            self.work(1)
        with stage("train"):
            self.work(2)
            with stage("predict held-out rows"):
                self.work(4)
        with stage("combine"):
            self.work(8)
            with stage("predict members"):
                self.work(16)
        with stage("combine"):
            self.work(32)
        return self

    def predict_dist(self):
        with stage("predict"):
            with stage("predict members"):
                self.work(1)
            self.work(2)
        return "dist"


def test_stages_become_the_parts_of_the_time(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("bdkn.stages.time.perf_counter", lambda: clock.now)
    monkeypatch.setattr("bdkn_paper.experiments.evaluate.time.process_time", lambda: 2 * clock.now)
    model = Staged(clock)
    assert timed(model.fit, "fit", FIT_STAGES) == (
        model,
        {"fit": 63.5, "fit_cpu": 127.0, "train": 2.0, "forward": 20.0, "aggregate": 40.0},
    )
    assert timed(model.predict_dist, "predict", PREDICT_STAGES) == (
        "dist",
        {"predict": 3.0, "predict_cpu": 6.0, "predict_forward": 1.0, "predict_aggregate": 2.0},
    )


def test_a_regressor_without_stages_has_a_total_only():
    result, seconds = timed(lambda: 7, "fit", FIT_STAGES)
    assert result == 7
    assert seconds.keys() == {"fit", "fit_cpu"}


@pytest.mark.parametrize("name", [name for name in TOYS if name != "synthetic-song"])
def test_toys_are_what_they_are_said_to_be(name):
    source, about = DataSource(), TOYS[name]
    found = source.load(name)
    assert found is source.load(name)
    assert found.X.shape == (about.rows, about.features)
    assert len(found.splits) == source.n_splits(name)
    for train, test in found.splits:
        assert len(train) == source.train_size(name)
        assert sorted([*train, *test]) == list(range(about.rows))


def test_unknown_data():
    with pytest.raises(InvalidParameterError, match=r"dataset must be .* got 'diabete'; did you mean 'diabetes'"):
        DataSource().load("diabete")


def test_registered_data_are_found_in_a_folder(tmp_path):
    from bdkn_paper.data import DATASETS, DataError

    source = DataSource(str(tmp_path))
    assert set(DATASETS) < set(source.names())
    assert source.n_splits("protein") == 5
    with pytest.raises((DataError, OSError)):
        source.load("yacht")
