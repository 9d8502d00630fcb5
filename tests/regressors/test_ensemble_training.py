"""Scaling, seeds and curves: what both ensembles share."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quick import EACH, QUICK, grouped, table
from sklearn.base import clone

import bdkn
from bdkn.estimators import BDKNRegressor, DeepEnsembleRegressor
from bdkn.networks.reference import ReferenceEngine

X, y = table()
NEW, _ = table(20, seed=1)


def predictions(model):
    return np.stack(model.predict(NEW, return_std=True))


@pytest.mark.no_cover
@pytest.mark.parametrize("cls", EACH)
def test_same_seed_same_bits_for_any_number_of_jobs(cls):
    one, two, again = (cls(**grouped(**QUICK, n_jobs=jobs)).fit(X, y) for jobs in (1, 2, None))
    np.testing.assert_array_equal(predictions(one), predictions(two))
    np.testing.assert_array_equal(predictions(one), predictions(again))
    np.testing.assert_array_equal(predictions(one), predictions(clone(one).fit(X, y)))
    assert not np.array_equal(predictions(one), predictions(clone(one).set_params(random_state=1).fit(X, y)))


def test_without_a_seed_every_fit_differs():
    model = BDKNRegressor(**grouped(**{**QUICK, "random_state": None}))
    assert not np.array_equal(predictions(model.fit(X, y)), predictions(model.fit(X, y)))


def test_more_members_begin_with_the_same_ones():
    few, more = (DeepEnsembleRegressor(**grouped(**{**QUICK, "n_members": n})).fit(X, y) for n in (2, 4))
    for a, b in zip(few.members_, more.members_, strict=False):
        np.testing.assert_array_equal(a.predict(NEW), b.predict(NEW))


def _student(model):
    """Return the model with Student-t distributions: neighbours in a forest are neither linear nor free of rounding."""
    return model.set_params(density="student-t") if hasattr(model, "density") else model


@pytest.mark.no_cover
@pytest.mark.parametrize("cls", EACH)
@settings(max_examples=10)
@given(scale=st.floats(1e-6, 1e6), shift=st.floats(-1e3, 1e3))
def test_a_change_of_units_changes_only_units(cls, scale, shift):
    # In double precision, so that rounding of the scaled targets does not grow in training.
    params = {**QUICK, "epochs": 5, "engine": ReferenceEngine(np.float64)}
    plain, moved = (_student(cls(**grouped(**params))).fit(X, target) for target in (y, scale * (y + shift)))
    mean, std = plain.predict(NEW, return_std=True)
    moved_mean, moved_std = moved.predict(NEW, return_std=True)
    np.testing.assert_allclose(moved_mean, scale * (mean + shift), rtol=1e-4, atol=1e-4 * scale * std.max())
    np.testing.assert_allclose(moved_std, scale * std, rtol=1e-3)


def test_units_of_the_inputs_do_not_matter():
    plain = BDKNRegressor(**grouped(**QUICK)).fit(X, y).predict(NEW)
    scaled = BDKNRegressor(**grouped(**QUICK)).fit(X * 1024, y).predict(NEW * 1024)
    np.testing.assert_array_equal(plain, scaled)


@pytest.mark.parametrize("cls", EACH)
def test_single_precision_input_is_taken_as_it_is(cls):
    single, double = (cls(**grouped(**QUICK)).fit(rows, y) for rows in (X.astype(np.float32), X))
    np.testing.assert_allclose(single.predict(NEW.astype(np.float32)), double.predict(NEW), rtol=1e-3)


def test_raw_targets_are_left_alone():
    model = BDKNRegressor(**grouped(**QUICK, standardize_y=False)).fit(X, y)
    assert (model.ensemble_.targets.mean, model.ensemble_.targets.scale) == (0.0, 1.0)
    assert BDKNRegressor(**grouped(**QUICK)).fit(X, y).ensemble_.targets.mean == pytest.approx(y.mean())


def test_curves_are_averaged_over_those_that_ran():
    model = BDKNRegressor(**grouped(**{**QUICK, "epochs": 200}, patience=3)).fit(X, y)
    lengths = [len(curve) for curve in model.loss_curves_]
    assert len(set(lengths)) > 1, "the members should stop at different epochs for this test to say anything"
    assert model.n_iter_ == len(model.loss_curve_) == max(lengths) < 200
    for epoch in (0, min(lengths) - 1, max(lengths) - 1):
        running = [curve[epoch] for curve in model.loss_curves_ if len(curve) > epoch]
        assert model.loss_curve_[epoch] == pytest.approx(np.mean(running))


def test_without_early_stopping_all_epochs_run():
    whole = {**QUICK, "early_stopping": False}
    model = BDKNRegressor(**grouped(**whole)).fit(X, y)
    assert [len(curve) for curve in model.loss_curves_] == [40] * 5 * len(model.member_names_)
    paper = BDKNRegressor(**grouped(**whole, design="in-sample")).fit(X, y)
    assert [len(curve) for curve in paper.loss_curves_] == [40] * 3


@pytest.mark.parametrize("cls", EACH)
@pytest.mark.parametrize("engine", ["reference", "torch"])
def test_engines_agree(cls, engine):
    if engine == "torch":
        pytest.importorskip("torch")
    params = {**QUICK, "epochs": 5, "n_members": 2}
    fused, other = (cls(**grouped(**params, engine=name)).fit(X, y) for name in ("fused", engine))
    np.testing.assert_allclose(predictions(other), predictions(fused), rtol=2e-3)


class Recording:
    """An engine that stores the arguments of train."""

    def train(self, jobs, rows, *, n_jobs=None, watch=None, on_epoch=None):
        settings = {**vars(jobs[0].spec), **vars(jobs[0].config)}
        self.asked = {**settings, "n_jobs": n_jobs, "hook": on_epoch, "networks": len(jobs)}
        return ReferenceEngine().train(jobs, rows)


@pytest.mark.parametrize("cls", EACH)
@pytest.mark.parametrize("verbose", [0, 1])
def test_every_parameter_of_training_reaches_the_engine(cls, verbose):
    engine = Recording()
    told = {
        "activation": "tanh",
        "objective": "beta_nll",
        "beta": 0.25,
        "warmup_epochs": 1,
        "epochs": 3,
        "learning_rate": 0.02,
        "schedule": "cosine",
        "batch_size": 17,
        "weight_decay": 0.125,
        "validation_fraction": 0.3,
        "patience": 7,
        "tol": 0.5,
        "n_jobs": 2,
    }
    others = {"n_bins": 0, "hidden_layer_sizes": [6, 5], "early_stopping": True, "random_state": 0, "verbose": verbose}
    model = cls(**grouped(n_members=2, **told, **others, engine=engine)).fit(X, y)
    assert {name: engine.asked[name] for name in told} == told
    assert engine.asked["networks"] == 2 * (5 if getattr(model, "design", "") == "cross-fit" else 1)
    assert engine.asked["hidden"] == (6, 5)
    assert engine.asked["n_inputs"] == 3
    assert (engine.asked["hook"] is None) == (verbose == 0)


def test_weight_decays_are_taken_in_turn():
    mixed, none, strong = (
        DeepEnsembleRegressor(**grouped(**{**QUICK, "n_members": 5, "weight_decay": decay})).fit(X, y)
        for decay in ((0.0, 2.0), 0.0, 2.0)
    )
    for h in range(5):
        same = (none, strong)[h % 2]
        np.testing.assert_array_equal(mixed.members_[h].predict(NEW), same.members_[h].predict(NEW))
    assert not np.array_equal(none.members_[1].predict(NEW), strong.members_[1].predict(NEW))


@pytest.mark.no_cover
@pytest.mark.parametrize("cls", EACH)
@pytest.mark.parametrize(
    ("n_rows", "n_members", "hidden", "epochs"),
    [(1000, 11, (50, 50), 500), (4000, 11, (50, 50), 250), (4001, 8, (36,) * 5, 250), (64_000, 8, (36,) * 5, 125)],
)
def test_many_rows_get_fewer_and_deeper_networks_and_fewer_epochs(cls, n_rows, n_members, hidden, epochs):
    asked = set()

    class Idle:
        def train(self, jobs, rows, **kwargs):
            asked.update((job.spec.hidden, job.config.epochs) for job in jobs)
            short = [replace(job, config=replace(job.config, epochs=1), rows=None) for job in jobs]
            return ReferenceEngine().train(short, rows[:20])

    free = {"n_members": "auto", "hidden_layer_sizes": "auto", "epochs": "auto", "early_stopping": False}
    model = cls(**grouped(**{**QUICK, **free}, engine=Idle()))
    if hasattr(model, "combination"):
        # Neither changes what is trained, and both take long with so many rows.
        model.set_params(combination=bdkn.CombinationOptions(select_members=False), density="student-t")
    model.fit(*table(n_rows))
    assert asked == {(hidden, epochs)}
    assert len(model.member_names_) == n_members


@pytest.mark.parametrize("predict_with", ["folds", "refit"])
def test_progress_reports_have_one_number_per_network(monkeypatch, predict_with):
    told = []

    @contextmanager
    def listening(n_networks, epochs, place):
        yield lambda report: told.append((n_networks, report.job))

    monkeypatch.setattr("bdkn.networks.settings.training_progress", listening)
    decays = {"weight_decay": (0.0, 1.0), "epochs": 2}
    BDKNRegressor(**grouped(**{**QUICK, **decays}, cv=2, predict_with=predict_with, verbose=1)).fit(X, y)
    n = 6 if predict_with == "folds" else 9
    assert {total for total, _ in told} == {n}
    assert sorted(number for _, number in told) == sorted(2 * list(range(n)))


@pytest.mark.parametrize("cls", EACH)
def test_a_network_without_hidden_layers_is_linear(cls):
    model = _student(
        cls(**grouped(**{**QUICK, "hidden_layer_sizes": (), "early_stopping": False}, objective="mse"))
    ).fit(X, y)
    a, b = model.predict(NEW), model.predict(NEW[::-1])
    np.testing.assert_allclose((a + b) / 2, model.predict((NEW + NEW[::-1]) / 2), rtol=1e-6)


@pytest.mark.parametrize("cls", EACH)
def test_fitting_again_forgets_the_first_fit(cls):
    model = cls(**grouped(**QUICK)).fit(X[:, :2], y)
    np.testing.assert_array_equal(predictions(model.fit(X, y)), predictions(cls(**grouped(**QUICK)).fit(X, y)))
