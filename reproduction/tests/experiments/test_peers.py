"""The peers: their logic with libraries that only write down what they are asked, and the real ones where they are."""

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.tree import DecisionTreeRegressor
from tiny import cell, task

from bdkn.errors import MissingExtraError
from bdkn.estimators import REGRESSORS
from bdkn.predictive import Gaussian, GaussianMixture
from bdkn_paper.baselines import BASELINES
from bdkn_paper.experiments import load_experiment, parse_experiment
from bdkn_paper.experiments.evaluate import evaluate
from bdkn_paper.experiments.methods import METHODS
from bdkn_paper.peers import BDE, PEERS, CatBoost, NGBoost, SampledMixture, mixture
from bdkn_paper.peers.boosting import hold_out
from bdkn_paper.rivals import Rival

QUICK = {
    "NGBoost": {"n_estimators": 30},
    "CatBoost": {"iterations": 30},
    "BDE": {"n_members": 2, "epochs": 5, "warmup_steps": 20, "n_samples": 10},
}


def module(monkeypatch, name, **contents):
    """Put a library in the place of the real one, if there is one."""
    fake = ModuleType(name)
    vars(fake).update(contents)
    monkeypatch.setitem(sys.modules, name, fake)
    return fake


class FakeNGB:
    """Remembers what it is told, predicts by the number of iterations it is asked for, and was best at the third."""

    best_val_loss_itr = 2

    def __init__(self, **given):
        self.given = given

    def fit(self, X, Y, **validation):
        self.rows, self.validation, self.base_models = (X, Y), validation, [None] * self.given["n_estimators"]

    def pred_dist(self, X, max_iter):
        return SimpleNamespace(loc=X[:, 0] + max_iter, scale=np.full(len(X), 2.0))


class FakeCatBoost:
    tree_count_ = 7

    def __init__(self, **given):
        self.given = given

    def fit(self, X, y, eval_set):
        self.rows, self.eval_set = (X, y), eval_set

    def predict(self, X, prediction_type):
        assert prediction_type == "RMSEWithUncertainty"
        return np.stack([X[:, 0], np.full(len(X), 9.0)], axis=1)


class FakeBde:
    """Two members with three samples each; they differ in their means, and the raw scales are zero."""

    def __init__(self, **given):
        self.given = given

    def fit(self, x, y):
        self.rows = x, y

    def predict(self, x, raw):
        assert raw
        self.largest = max(getattr(self, "largest", 0), len(x))
        means = x[:, 0] + np.arange(6, dtype=np.float32).reshape(2, 3, 1)
        return np.stack([means, np.zeros_like(means)], axis=3)


@pytest.fixture
def fakes(monkeypatch):
    learners = SimpleNamespace(default_tree_learner=DecisionTreeRegressor(max_depth=3))
    module(monkeypatch, "ngboost", NGBRegressor=FakeNGB, learners=learners)
    module(monkeypatch, "catboost", CatBoostRegressor=FakeCatBoost)
    module(monkeypatch, "bde", BdeRegressor=FakeBde)


def rows(n=40):
    data = task(n)
    return data.X, data.y


def test_one_registry_holds_ours_and_theirs():
    assert {**REGRESSORS, **BASELINES, **PEERS, "Rival": Rival} == METHODS
    assert not REGRESSORS.keys() & PEERS.keys()


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_is_described_without_its_library(name, monkeypatch):
    monkeypatch.setitem(sys.modules, PEERS[name].module, None)
    model = clone(PEERS[name](random_state=3, n_jobs=2))
    assert {"random_state": 3, "n_jobs": 2}.items() <= model.get_params().items()
    document = {"name": "x", "datasets": ["waves"], "methods": {"peer": {"regressor": name, "parameters": QUICK[name]}}}
    assert parse_experiment(document).methods["peer"].regressor == name


@pytest.mark.parametrize("name", PEERS)
def test_a_missing_library_is_named_with_its_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, PEERS[name].module, None)
    with pytest.raises(
        MissingExtraError, match=rf'needs {PEERS[name].packages[0]}, .* pip install "bdkn-paper\[peers\]"'
    ):
        PEERS[name]().fit(*rows())
    record = evaluate(cell(regressor=name, parameters={}), task())
    assert record["status"] == "failed"
    assert "bdkn-paper[peers]" in record["traceback"]


def test_ngboost_as_it_comes(fakes):
    X, y = rows()
    model = NGBoost(random_state=5).fit(X, y)
    tree = model.model_.given.pop("Base")
    assert (tree.max_depth, tree.random_state) == (3, 5)
    assert model.model_.given == {"n_estimators": 500, "learning_rate": 0.01, "random_state": 5, "verbose": False}
    assert model.model_.validation == {}
    assert model.model_.rows[0] is X
    dist = model.predict_dist(X)
    assert isinstance(dist, Gaussian)
    assert np.array_equal(dist.mean(), X[:, 0] + 500)
    assert np.array_equal(dist.std(), np.full(40, 2.0))


def test_ngboost_keeps_its_best_iteration(fakes):
    X, y = rows()
    model = NGBoost(n_estimators=20, early_stopping_rounds=4, random_state=5).fit(X, y)
    held = model.model_.validation
    assert held["early_stopping_rounds"] == 4
    assert (len(model.model_.rows[1]), len(held["X_val"]), len(held["Y_val"])) == (36, 4, 4)
    assert model.iterations_ == 3
    assert np.array_equal(model.predict_dist(X).mean(), X[:, 0] + 3)


def test_catboost_as_it_comes(fakes):
    X, y = rows()
    model = CatBoost(random_state=5, n_jobs=1).fit(X, y)
    assert model.model_.given == {
        "iterations": 1000,
        "loss_function": "RMSEWithUncertainty",
        "early_stopping_rounds": None,
        "use_best_model": False,
        "random_seed": 5,
        "thread_count": 1,
        "allow_writing_files": False,
        "verbose": False,
    }
    assert model.model_.eval_set is None
    assert model.iterations_ == 7
    dist = model.predict_dist(X)
    assert np.array_equal(dist.mean(), X[:, 0])
    assert np.array_equal(dist.var(), np.full(40, 9.0))


def test_catboost_stops_by_the_rows_ngboost_stops_by(fakes):
    X, y = rows()
    stopped = {"early_stopping_rounds": 4, "validation_fraction": 0.2, "random_state": 5}
    cat, ngb = CatBoost(**stopped).fit(X, y), NGBoost(**stopped).fit(X, y)
    assert cat.model_.given["use_best_model"] is True
    assert cat.model_.given["early_stopping_rounds"] == 4
    assert len(cat.model_.eval_set[1]) == 8
    assert np.array_equal(cat.model_.eval_set[0], ngb.model_.validation["X_val"])
    assert np.array_equal(cat.model_.rows[1], ngb.model_.rows[1])


def test_held_out_rows_are_all_others():
    X, y = rows()
    (X_fit, y_fit), (X_held, y_held) = hold_out(X, y, 0.1, 0)
    assert sorted([*y_fit, *y_held]) == sorted(y)
    assert sorted([*X_fit[:, 0], *X_held[:, 0]]) == sorted(X[:, 0])


def test_bde_scales_by_the_training_rows_and_mixes_all_samples(fakes, monkeypatch):
    monkeypatch.setattr("bdkn_paper.peers.bde._ROWS", 16)
    X, y = rows()
    model = BDE(random_state=5, n_samples=3, n_thinning=1).fit(X, y)
    assert model.model_.given == {
        "hidden_layers": [16, 16],
        "n_members": 8,
        "seed": 5,
        "epochs": 200,
        "validation_split": 0.15,
        "lr": 1e-3,
        "weight_decay": 1e-4,
        "warmup_steps": 5000,
        "n_samples": 3,
        "n_thinning": 1,
        "patience": 10,
    }
    for seen in model.model_.rows:
        np.testing.assert_allclose(seen.mean(axis=0), 0, atol=1e-6)
        np.testing.assert_allclose(seen.std(axis=0), 1, rtol=1e-6)
    new = X[:20] + 1
    dist = model.predict_dist(new)
    assert model.model_.largest == 16
    means = (new[:, :1] - X[:, 0].mean()) / X[:, 0].std() + np.arange(6)
    np.testing.assert_allclose(dist.loc, y.mean() + y.std() * means, rtol=1e-5)
    np.testing.assert_allclose(dist.scale, y.std() * (np.log(2) + 1e-6), rtol=1e-12)
    assert dist.weights[0].tolist() == [1 / 6] * 6


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_is_a_cell_like_any_other(name, fakes):
    record = evaluate(cell(regressor=name, parameters={}), task())
    assert record["status"] == "done", record["traceback"]
    assert record["metrics"].keys() > {"rmse", "nll", "crps", "coverage_90"}
    assert record["seconds"].keys() == {"fit", "fit_cpu", "predict", "predict_cpu"}
    assert record["model"].keys() == ({"iterations"} if name != "BDE" else set())


def test_versions_of_a_peer_are_recorded_where_it_is_installed(fakes, monkeypatch):
    monkeypatch.setattr(NGBoost, "packages", ("joblib", "a-package-nobody-has"))
    there = evaluate(cell(regressor="NGBoost", parameters={}), task())["versions"]
    assert there.keys() - evaluate(cell(), task())["versions"].keys() == {"joblib"}


def mixtures():
    """Return mixtures of many kinds: smooth, in clusters, of narrow and wide components, with outliers."""
    rng = np.random.default_rng(0)
    smooth = rng.normal(size=(5, 200)), rng.gamma(5, 0.2, (5, 200))
    clusters = np.repeat(rng.normal(0, 3, (5, 8)), 25, axis=1) + rng.normal(0, 0.1, (5, 200)), np.full((5, 200), 0.3)
    narrow = rng.normal(0, 1e-3, (5, 200)), np.where(rng.random((5, 200)) < 0.2, 1.0, 1e-6)
    outliers = rng.standard_t(2, (5, 200)), rng.gamma(2, 0.5, (5, 200))
    return {"smooth": smooth, "clusters": clusters, "narrow": narrow, "outliers": outliers}


@pytest.mark.parametrize("kind", mixtures())
def test_a_sampled_mixture_is_the_mixture(kind, monkeypatch):
    monkeypatch.setattr(mixture, "_AT_ONCE", 500)  # two rows
    many, exact = SampledMixture(*mixtures()[kind]), GaussianMixture(*mixtures()[kind])
    y, spread = exact.rvs(3, 1), exact.std()[:, None]
    assert np.array_equal(many.logpdf(y), exact.logpdf(y))
    assert np.array_equal(many.cdf(y), exact.cdf(y))
    levels = np.linspace(0.025, 0.975, 20)
    found = many.ppf(levels)
    in_units, in_level = np.abs(found - exact.ppf(levels)) / spread, np.abs(exact.cdf(found) - levels)
    # Between clusters many values have the level; at steps many levels have the value.
    assert np.max(np.minimum(in_units, in_level)) < 1e-3
    assert np.max(np.abs(many.crps(y) - exact.crps(y)) / spread) < 2e-4
    assert many.crps(y[:, 0]).shape == (5,)


@given(shift=st.floats(-1e3, 1e3), scale=st.floats(1e-3, 1e3))
@settings(max_examples=20)
def test_a_sampled_mixture_moves_with_its_units(shift, scale):
    one = SampledMixture(*mixtures()["smooth"])
    other = one.affine(scale, shift)
    assert type(other) is SampledMixture
    y = np.linspace(-2, 2, 5)
    np.testing.assert_allclose(other.crps(scale * y + shift), scale * one.crps(y), rtol=1e-6)
    np.testing.assert_allclose(other.ppf([0.1, 0.5]), scale * one.ppf([0.1, 0.5]) + shift, atol=1e-9 * scale + 1e-9)


def test_a_sampled_mixture_at_its_ends():
    one = SampledMixture(np.zeros((2, 3)), np.ones((2, 3)))
    assert one.ppf([0.0, 1.0]).tolist() == [[-np.inf, np.inf]] * 2
    np.testing.assert_allclose(one.ppf(0.975), 1.959964, atol=1e-4)
    points = SampledMixture(np.ones((1, 4)), np.zeros((1, 4)))
    np.testing.assert_allclose(points.crps(3.0), 2.0, rtol=1e-12)
    none = one[[False, False]]
    assert none.ppf([0.1, 0.9]).shape == (0, 2)
    assert none.crps(np.empty(0)).shape == (0,)


def real(name):
    """Return the mark of a test that needs the library itself."""
    found = importlib.util.find_spec(PEERS[name].module) is not None
    return pytest.param(
        name,
        marks=pytest.mark.skipif(not found, reason=f"{PEERS[name].packages[0]} is not installed: bdkn-paper[peers]"),
    )


@pytest.mark.filterwarnings("default")  # what the libraries warn of is their business
@pytest.mark.parametrize("name", [real(name) for name in PEERS])
def test_the_real_peers(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = task(120)
    one = cell(regressor=name, parameters=QUICK[name])
    record, again = evaluate(one, data), evaluate(one, data)
    assert record["status"] == "done", record["traceback"]
    assert record["metrics"] == again["metrics"]
    assert record["metrics"]["rmse"] < 2 * np.std(data.y)
    assert np.isfinite(list(record["metrics"].values())).all()
    assert PEERS[name].packages[0] in record["versions"]
    assert os.listdir(tmp_path) == []


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", [real("NGBoost"), real("CatBoost")])
def test_the_real_boosters_stop_early(name, capfd):
    X, y = rows(200)
    model = PEERS[name](early_stopping_rounds=10, random_state=1).fit(X, y)
    assert 1 < model.iterations_ < 500
    trees = model.model_.base_models if name == "NGBoost" else range(model.model_.tree_count_)
    assert len(trees) - model.iterations_ in (0, 10, 11)
    assert len(model.predict_dist(X)) == 200
    assert capfd.readouterr().out == ""


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", [real("BDE")])
def test_the_mixture_has_the_moments_the_real_bde_tells(name):
    X, y = rows(60)
    model = BDE(**QUICK[name], random_state=1).fit(X, y)
    dist, scaler = model.predict_dist(X), model.target_
    mean, std = (np.asarray(part) for part in model.model_.predict(model.inputs_.transform(X), mean_and_std=True))
    assert dist.loc.shape == (60, 2 * 5)
    np.testing.assert_allclose(dist.mean(), scaler.scale * mean + scaler.mean, rtol=1e-5)
    np.testing.assert_allclose(dist.std(), scaler.scale * std, rtol=1e-4)


def test_the_experiment_stops_by_a_tenth():
    methods = load_experiment(Path(__file__).parents[2] / "experiments" / "peers.toml").methods
    assert {name: method.regressor for name, method in methods.items()} == {
        "ngboost": "NGBoost",
        "ngboost-stopped": "NGBoost",
        "catboost": "CatBoost",
        "catboost-stopped": "CatBoost",
        "bde": "BDE",
    }
    for name in ("ngboost-stopped", "catboost-stopped"):
        given = {"early_stopping_rounds": 50, "validation_fraction": 0.1}
        assert given.items() <= methods[name].parameters.items()
    assert methods["bde"].parameters == {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in BDE().get_params().items()
        if name not in ("random_state", "n_jobs")
    }
