import numpy as np
import pytest
from tiny import QUICK, cell, task

from bdkn_paper.experiments.epoch_curves import RecordedNetworks
from bdkn_paper.experiments.evaluate import evaluate

DE = {"method": "de", "regressor": "DeepEnsembleRegressor"}
PAPER = {"base": {"from_paper": 1}, "parameters": {"n_members": 3, "epochs": 6, "hidden_layer_sizes": [8]}}


def curves(**changes):
    record = evaluate(cell(kind="curves", **changes), task())
    assert record["status"] == "done", record.get("traceback")
    return record


@pytest.mark.parametrize("method", [{}, DE], ids=["bdkn", "de"])
@pytest.mark.parametrize("engine", ["fused", "reference"])
def test_the_last_epoch_is_the_ordinary_fit(method, engine):
    changes = {**PAPER, "parameters": {**PAPER["parameters"], "engine": engine}, **method}
    record, ordinary = curves(**changes), evaluate(cell(**changes), task())
    assert record["metrics"] == ordinary["metrics"]
    assert record["curves"]["epoch"] == [1, 2, 3, 4, 5, 6]
    for name in ("rmse", "nll"):
        assert record["curves"][name][-1] == pytest.approx(ordinary["metrics"][name], rel=2e-5)


@pytest.mark.parametrize("method", [{}, DE], ids=["bdkn", "de"])
@pytest.mark.parametrize(
    "extra", [{}, {"training": {"standardize_y": True}}, {"objective": "mse"}], ids=["paper", "standardized", "mse"]
)
def test_an_epoch_is_a_fit_that_stops_there(method, extra):
    """Training for fewer epochs is the beginning of training for more, at a constant rate."""
    parameters = {**PAPER["parameters"], **extra}
    found = curves(**{**PAPER, **method, "parameters": parameters})["curves"]
    for epoch in (1, 3):
        shorter = evaluate(cell(**{**PAPER, **method, "parameters": {**parameters, "epochs": epoch}}), task())
        for name in ("rmse", "nll"):
            assert found[name][epoch - 1] == pytest.approx(shorter["metrics"][name], rel=2e-5)


def test_curves_need_every_epoch_of_every_network():
    record = evaluate(cell(kind="curves", parameters={**QUICK, "training": {"early_stopping": True}}), task())
    assert record["status"] == "failed"
    assert "set early_stopping = false" in record["traceback"]


def test_epochs_without_a_sound_network_have_no_score(monkeypatch):
    def broken(self, report):
        bad = np.nan if report.epoch == 1 or (report.epoch == 2 and report.job == 0) else 1.0
        self._means[report.epoch, report.job] = report.mean * np.float32(bad)
        self._variances[report.epoch, report.job] = report.variance

    monkeypatch.setattr("bdkn_paper.experiments.epoch_curves.RecordingEngine._record", broken)
    found = curves(**PAPER)["curves"]
    assert [bool(np.isfinite(value)) for value in found["nll"]] == [True, False, True, True, True, True]


def test_networks_remember_what_they_said():
    rows = np.array([[1, 2], [3, 4]], np.float32)
    known = {row.tobytes(): number for number, row in enumerate(rows)}
    networks = RecordedNetworks(known, np.array([[1.0, 2.0], [3.0, 4.0]]), np.ones((2, 2)))
    means, variances = networks[[1]].outputs(rows[[1, 0, 1]])
    assert means.tolist() == [[4.0, 3.0, 4.0]]
    assert variances.shape == (1, 3)
