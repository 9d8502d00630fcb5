"""What users run into: interrupted and failed fits, odd weights, odd units, threads."""

from __future__ import annotations

import _thread
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from quick import DESIGNS, EACH, QUICK, grouped
from sklearn.exceptions import NotFittedError
from threadpoolctl import threadpool_info

import bdkn
from bdkn import BDKNRegressor, DeepEnsembleRegressor, TrainingOptions
from bdkn.errors import ImproperPosteriorError, InvalidParameterError
from bdkn.networks.fused import Run, prepare

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
y = X[:, 0] + 0.3 * rng.normal(size=60)


def test_an_interrupt_ends_the_training_long_before_its_last_epoch(monkeypatch):
    prepare()
    epochs, members, advance = 10**6, 3, Run.advance
    runs, training, ended = [], threading.Event(), threading.Event()

    def watched(run: Run, count: int) -> None:
        advance(run, count)
        runs.append(run)
        if len(runs) > 2 * members:
            training.set()

    def press() -> None:  # again, for Python drops what is raised while it cleans up
        training.wait()
        while not ended.is_set():
            _thread.interrupt_main()
            ended.wait(3.0)

    monkeypatch.setattr(Run, "advance", watched)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # processes in the background ignore it
    model = BDKNRegressor(
        epochs=epochs, training=TrainingOptions(early_stopping=False), n_members=members, design="in-sample", n_jobs=2
    )
    threading.Thread(target=press, daemon=True).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    finally:
        ended.set()
        signal.signal(signal.SIGINT, before)
    assert 0 < max(run.epoch for run in runs) < epochs / 2


@pytest.mark.parametrize("design", DESIGNS)
def test_a_fit_that_fails_leaves_the_model_as_it_was(monkeypatch, design):
    model = BDKNRegressor(**grouped(**QUICK, design=design)).fit(X, y)
    before = model.predict(X), model.evidence_, model.dof_
    monkeypatch.setattr("bdkn.ensemble.selection.combine", _improper)
    monkeypatch.setattr("bdkn.estimators.paper.published_combination", _improper)
    with pytest.raises(ImproperPosteriorError):
        model.fit(X[:30], y[:30])
    np.testing.assert_array_equal(model.predict(X), before[0])
    assert (model.evidence_, model.dof_) == before[1:]
    new = BDKNRegressor(**grouped(**QUICK, design=design))
    with pytest.raises(ImproperPosteriorError):
        new.fit(X, y)
    with pytest.raises(NotFittedError):
        new.predict(X)


def _improper(*args, **kwargs):
    raise ImproperPosteriorError("not today")


def test_predicting_from_many_threads_leaves_blas_as_it_was():
    model = BDKNRegressor(**grouped(**QUICK)).fit(X, y)
    rows = rng.normal(size=(6000, 3))
    expected, before = model.predict(rows), [pool["num_threads"] for pool in threadpool_info()]
    with ThreadPoolExecutor(4) as pool:
        for mean in pool.map(lambda _: model.predict(rows), range(40)):
            np.testing.assert_array_equal(mean, expected)
    assert [pool["num_threads"] for pool in threadpool_info()] == before


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_column_that_is_constant_up_to_rounding_does_no_harm(dtype):
    wobbling = np.full(60, 0.1, dtype=dtype)
    wobbling[::2] = np.nextafter(wobbling[::2], dtype(1))
    model = BDKNRegressor(**grouped(**QUICK)).fit(np.column_stack([X.astype(dtype), wobbling]), y)
    near = np.column_stack([X, np.full(60, 0.1000001)]).astype(dtype)
    at = np.column_stack([X, np.full(60, 0.1)]).astype(dtype)
    np.testing.assert_allclose(model.predict(near), model.predict(at), atol=1e-3)


@pytest.mark.parametrize("cls", EACH)
def test_very_small_weights_are_warned_of(cls):
    with pytest.warns(UserWarning, match=r"these 60 rows count as 1, .* multiply them by 60/sum"):
        cls(**grouped(**QUICK)).fit(X, y, sample_weight=np.full(60, 1 / 60))


def test_weights_whose_sum_overflows_are_refused():
    with pytest.raises(InvalidParameterError, match="sample_weight must have a finite sum"):
        BDKNRegressor(**grouped(**QUICK)).fit(X, y, sample_weight=np.full(60, 1e308))


@pytest.mark.parametrize("cls", EACH)
@pytest.mark.parametrize("unit", [1e-300, 1e-160, 1e30, 1e160])
def test_any_unit_of_the_target(cls, unit):
    model, plain = cls(**grouped(**QUICK)).fit(X, unit * y), cls(**grouped(**QUICK)).fit(X, y)
    np.testing.assert_allclose(model.predict(X) / unit, plain.predict(X), rtol=1e-5, atol=1e-5)
    lower, upper = model.predict_interval(X).T / unit
    expected = plain.predict_interval(X)
    np.testing.assert_allclose(np.column_stack([lower, upper]), expected, rtol=1e-5, atol=1e-5)
    if cls is not DeepEnsembleRegressor:
        assert model.noise_variance_ >= 0


@pytest.mark.parametrize("cls", EACH)
@pytest.mark.parametrize("unit", [1e-300, 1e-160, 1e160, 1e300])
def test_standard_deviations_in_any_unit_and_variances_where_there_are_numbers_for_them(cls, unit):
    model, plain = cls(**grouped(**QUICK)).fit(X, unit * y), cls(**grouped(**QUICK)).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean / unit, plain.predict(X), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(std / unit, plain.predict(X, return_std=True)[1], rtol=1e-4)
    message = r"variances must be numbers, but the square of the targets' standard deviation, .*e.*: use return_std"
    with pytest.raises(InvalidParameterError, match=message):
        model.predict(X, return_cov=True)
    if hasattr(model, "predict_var"):
        with pytest.raises(InvalidParameterError, match=message):
            model.predict_var(X)


def test_a_predictive_set_after_the_fit_is_checked():
    model = DeepEnsembleRegressor(**grouped(**QUICK)).fit(X, y).set_params(predictive="mixtur")
    with pytest.raises(InvalidParameterError, match="did you mean 'mixture'"):
        model.predict(X)


@pytest.mark.parametrize("cls", EACH)
def test_reports_before_a_fit_raise_not_fitted(cls):
    with pytest.raises(NotFittedError):
        cls().member_table()


@pytest.mark.parametrize("sizes", [np.array(7), 7, [7], (7,), np.array([7])])
def test_all_spellings_of_one_hidden_layer(sizes):
    model = BDKNRegressor(**grouped(**{**QUICK, "hidden_layer_sizes": sizes})).fit(X, y)
    assert model.ensemble_.networks.spec.hidden == (7,)


@pytest.mark.parametrize("setting", [0, 3, "1", [1], None])
def test_settings_the_paper_does_not_have(setting):
    with pytest.raises(InvalidParameterError, match="setting must be 1"):
        BDKNRegressor.from_paper(setting)


class Mine(BDKNRegressor):
    pass


def test_a_subclass_of_the_user_cannot_be_saved(tmp_path):
    with pytest.raises(InvalidParameterError, match="got a Mine of your own"):
        Mine(**grouped(**QUICK)).fit(X, y).save(tmp_path / "mine.bdkn")
    assert not list(tmp_path.iterdir())


def test_folders_are_not_files(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder"):
        BDKNRegressor(**grouped(**QUICK)).fit(X, y).save(tmp_path)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        bdkn.load(tmp_path)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (X[:, :2], r"rows must be \(n, 3\).*got shape \(60, 2\)"),
        (X[0], r"rows must be \(n, 3\).*got shape \(3,\)"),
        (np.full((2, 3), np.nan), "rows must be finite"),
    ],
)
def test_members_check_their_rows(rows, message):
    member = BDKNRegressor(**grouped(**QUICK)).fit(X, y).members_[0]
    with pytest.raises(InvalidParameterError, match=message):
        member.predict(rows)


def test_own_modules_by_the_public_name():
    pytest.importorskip("torch")
    from torch import nn

    engine = bdkn.TorchEngine(module=lambda n: nn.Sequential(nn.Linear(n, 8), nn.Tanh(), nn.Linear(8, 2)))
    few = {"n_members": 2, "cv": 2, "weight_decay": 0.0, "epochs": 30, "learning_rate": 0.02, "random_state": 0}
    assert BDKNRegressor(**grouped(**few, engine=engine)).fit(X, y).score(X, y) > 0.5
