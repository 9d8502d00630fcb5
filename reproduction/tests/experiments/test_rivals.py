"""Rivals: the process that fits them, the densities of their quantiles and samples, and their adaptors' contract."""

import io
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from bdkn import BayesianStackingRegressor
from bdkn.errors import InvalidParameterError, MissingExtraError
from bdkn.predictive import Gaussian, StudentT
from bdkn_paper.experiments import load_experiment
from bdkn_paper.experiments.evaluate import evaluate
from bdkn_paper.experiments.tasks import Task
from bdkn_paper.rivals import RIVALS, Rival, adaptors, densities, rival, worker
from bdkn_paper.store import Cell

ROOT = Path(__file__).parents[2]
LEVELS = np.arange(1, 100) / 100


def line(X, y, **_):
    """Fit a line through the first column, as an adaptor does."""
    slope = np.polyfit(X[:, 0], y, 1)
    return lambda rows: {"mean": np.polyval(slope, rows[:, 0]), "std": np.full(len(rows), 0.5)}


def outputs(**found):
    return lambda X, y, **_: lambda rows: {name: np.repeat([value], len(rows), axis=0) for name, value in found.items()}


class Inline:
    """A worker in this process."""

    def __init__(self):
        self.models = {}

    def ask(self, message, **arrays):
        return worker.answer(dict(message), arrays, self.models)

    def forget(self, key):
        self.ask({"do": "forget", "key": key})


@pytest.fixture
def inline(monkeypatch):
    found = Inline()
    known = {
        "line": line,
        "normal": outputs(quantiles=stats.norm.ppf(LEVELS)),
        "t": outputs(df=4.0, loc=1.0, scale=2.0),
    }
    known["draws"] = outputs(samples=stats.norm.ppf((np.arange(200) + 0.5) / 200))
    monkeypatch.setitem(sys.modules, "adaptors", types.SimpleNamespace(ADAPTORS=known))
    for name in known:
        monkeypatch.setitem(RIVALS, name, rival.Library("none", "json", ("numpy", "no-such-distribution")))
    monkeypatch.setattr(rival, "_worker", lambda environment: found)
    return found


@pytest.fixture
def rows():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 2))
    return X, 2 * X[:, 0] + 0.5 * generator.normal(size=60)


def test_a_rival_is_fitted_and_predicts(inline, rows):
    model = Rival(rival="line").fit(*rows)
    assert isinstance(model.predict_dist(rows[0]), Gaussian)
    mean, std = model.predict(rows[0], return_std=True)
    np.testing.assert_allclose(mean, model.predict(rows[0]))
    assert np.abs(mean - 2 * rows[0][:, 0]).max() < 0.5
    assert (std == 0.5).all()
    assert model.cpu_seconds_ >= 0
    assert model.versions_ == {"numpy": np.__version__}


def test_what_rivals_predict_becomes_distributions(inline, rows):
    assert isinstance(Rival(rival="t").fit(*rows).predict_dist(rows[0]), StudentT)
    for name in ("normal", "draws"):
        dist = Rival(rival=name).fit(*rows).predict_dist(rows[0][:3])
        np.testing.assert_allclose(dist.ppf([0.1, 0.5]), np.tile(stats.norm.ppf([0.1, 0.5]), (3, 1)), atol=0.1)


def test_a_model_is_forgotten_with_its_rival(inline, rows):
    model = Rival(rival="line").fit(*rows)
    assert len(inline.models) == 1
    del model
    assert not inline.models


def test_rivals_are_members_of_a_stack(inline, rows):
    stack = BayesianStackingRegressor([("line", Rival(rival="line")), ("t", Rival(rival="t"))], random_state=0)
    assert stack.fit(*rows).score(*rows) > 0.8


def test_a_cell_of_a_rival_has_its_processor_time_and_versions(inline, rows):
    cell = Cell(experiment="e", method="m", dataset="d", split=0, regressor="Rival", parameters={"rival": "line"})
    record = evaluate(cell, Task(*rows, [(np.arange(40), np.arange(40, 60))]))
    assert record["status"] == "done", record
    assert record["seconds"]["fit_cpu"] >= 0
    assert record["versions"]["numpy"] == np.__version__


def test_unknown_rivals_and_missing_environments_are_told(tmp_path, monkeypatch):
    with pytest.raises(InvalidParameterError, match=r"rival must be one of .* did you mean 'tabm'"):
        Rival(rival="tabn").library()
    monkeypatch.setenv(rival.FOLDER, str(tmp_path))
    with pytest.raises(MissingExtraError, match=r"pip install -r reproduction/rivals/quantile-forest\.txt"):
        Rival().library()


def test_every_environment_has_requirements_and_every_method_an_adaptor():
    assert {library.environment for library in RIVALS.values()} == {
        path.stem for path in (ROOT / "rivals").glob("*.txt")
    }
    methods = load_experiment(ROOT / "experiments" / "rivals.toml").methods
    assert set(RIVALS) == set(adaptors.ADAPTORS) == {method.parameters["rival"] for method in methods.values()}


def test_messages_and_arrays_are_sent_and_errors_reported():
    asked = io.BytesIO()
    worker.send(asked, {"do": "predict", "key": "none"}, {"X": np.eye(2)})
    worker.send(asked, {"do": "forget", "key": "none"})
    asked.seek(0)
    replies = io.BytesIO()
    worker.serve(asked, replies)
    replies.seek(0)
    first, _ = worker.receive(replies)
    assert "KeyError" in first["error"]
    second, arrays = worker.receive(replies)
    assert "error" not in second
    assert arrays == {}
    assert worker.receive(replies) is None


def test_a_process_answers_and_tells_of_errors():
    process = rival.Worker(Path(sys.executable))
    found, _ = process.ask({"do": "load", "module": "json", "packages": ["numpy"]})
    assert found["versions"] == {"numpy": np.__version__}
    with pytest.raises(RuntimeError, match="No module named 'no_such_module'"):
        process.ask({"do": "load", "module": "no_such_module", "packages": []})


def test_densities_of_exact_quantiles_and_samples_are_nearly_the_truth():
    y = np.random.default_rng(0).normal(size=4000)
    truth = -stats.norm.logpdf(y).mean()
    n_levels = {99: 0.01, 50: 0.02}
    for count, apart in n_levels.items():
        levels = (np.arange(count) + 1) / (count + 1)
        dist = densities.density_of_quantiles(np.tile(stats.norm.ppf(levels), (len(y), 1)), 1e-9)
        assert -dist.logpdf(y).mean() == pytest.approx(truth, abs=apart)
    draws = np.tile(stats.norm.ppf((np.arange(200) + 0.5) / 200), (len(y), 1))
    assert -densities.density_of_samples(draws, 1e-9).logpdf(y).mean() == pytest.approx(truth, abs=0.02)


def test_a_grid_of_targets_earns_no_spikes():
    ratings = np.random.default_rng(0).integers(3, 9, 200).astype(float)
    assert densities.least_scale(ratings) == pytest.approx(0.6)
    assert densities.least_scale(np.linspace(0, 1, 51)) == pytest.approx(0.012)
    dist = densities.density_of_quantiles(np.full((1, 99), 5.0), densities.least_scale(ratings))
    assert dist.pdf(np.array([5.0])).item() == pytest.approx(stats.norm.pdf(0, scale=0.6), rel=1e-6)


def test_point_predictions_have_the_spread_of_errors_left_out():
    predict = adaptors._averaged([lambda rows: rows[:, 0], lambda rows: rows[:, :1] + 2], np.array([3.0, -4.0]))
    found = predict(np.zeros((2, 1)))
    assert found["mean"].tolist() == [1.0, 1.0]
    assert found["std"] == pytest.approx(np.full(2, np.sqrt(12.5)))
    parts = list(adaptors._folds(11, 3, np.random.default_rng(0)))
    assert sorted(np.concatenate([left for _, left in parts])) == list(range(11))
    assert all(not set(kept) & set(left) for kept, left in parts)
