"""What all baselines share beyond the contract of every regressor (tests/regressors/test_every_regressor.py)."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sine import EVERY, quick, table
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import bdkn
from bdkn import BLLRegressor, DKLRegressor, GPRegressor, MFVIRegressor, VBLLRegressor
from bdkn.errors import DivergedError, InvalidParameterError
from bdkn.regressors.former_files import state_of_attributes

torch = pytest.importorskip("torch")

from bdkn.regressors.baselines.learners import session  # noqa: E402

X, y = table()
NEW, _ = table(8, seed=1)

each = pytest.mark.parametrize("cls", EVERY)


# Whether rows are held out makes no difference to these checks, which are many; one network does it.
STOPPED = {cls: {"early_stopping": False} for cls in (bdkn.LDBLLRegressor, bdkn.MFVIRegressor, bdkn.VBLLRegressor)}


@pytest.mark.no_cover
@parametrize_with_checks([quick(cls, random_state=None, **STOPPED.get(cls, {})) for cls in EVERY])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@each
def test_draws_have_the_moments_of_the_predictions(cls):
    model = quick(cls).fit(X, y)
    draws = model.sample_y(X[:4], n_samples=40_000)
    mean, covariance = model.predict(X[:4], return_cov=True)
    scale = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=0.05 * scale.max())
    np.testing.assert_allclose(np.cov(draws) / np.outer(scale, scale), covariance / np.outer(scale, scale), atol=0.1)
    np.testing.assert_array_equal(model.sample_y(X[:4], 3), model.sample_y(X[:4], 3))


@each
def test_attributes_parameters_and_file(cls, tmp_path):
    model, scaled = quick(cls).fit(X, y), quick(cls).fit(X, 8 * y + 512)  # exact in binary
    assert model.noise_variance_ > 0
    assert scaled.noise_variance_ == pytest.approx(64 * model.noise_variance_, rel=1e-3)
    assert len(model.loss_curve_) == model.n_iter_
    np.testing.assert_allclose(model.inputs_.mean, X.mean(axis=0))
    assert (model.targets_.mean, model.targets_.scale) == pytest.approx((y.mean(), y.std()))
    model.save(tmp_path / "model.bdkn")
    loaded = bdkn.load(tmp_path / "model.bdkn")
    assert loaded.get_params() == model.get_params()
    for name in ("loss_curve_", "validation_curve_", "noise_variance_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))


@pytest.mark.parametrize("cls", [cls for cls in EVERY if cls is not GPRegressor])
def test_another_seed_gives_another_fit(cls):
    one, other = (quick(cls, random_state=seed).fit(X, y).predict(NEW) for seed in (0, 1))
    assert not np.array_equal(one, other)


@each
def test_the_former_name_of_the_noise_variance_warns(cls):
    model = quick(cls, epochs=1).fit(X, y)
    with pytest.warns(FutureWarning, match="noise_ is now noise_variance_"):
        assert model.noise_ == model.noise_variance_


@pytest.mark.parametrize("bounded", [False, True])
def test_attributes_of_earlier_files_become_a_state(bounded):
    model = quick(DKLRegressor, bounded=bounded, epochs=3).fit(X, y)
    names = ("inputs_", "targets_", "loss_curve_", "validation_curve_", "features_", "process_")
    former = {"n_features_in_": 3} | {name: getattr(model, name) for name in names}
    today = state_of_attributes("DKLRegressor", model.get_params(), former)
    assert set(today) == {"n_features_in_", "fitted_"}
    rows = model._scaled(3 * X)
    np.testing.assert_array_equal(today["fitted_"].predictive(rows).mean(), model.fitted_.predictive(rows).mean())


@each
def test_a_fit_leaves_the_random_numbers_of_others_alone(cls):
    import torch

    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    quick(cls).fit(X, y)
    assert torch.equal(torch.rand(3), expected)


@each
def test_progress_is_shown_on_standard_error_and_changes_nothing(cls, capfd):
    loud = quick(cls, verbose=1).fit(X, y)
    out, err = capfd.readouterr()
    assert out == ""
    assert f"trained {cls.__name__}" in err
    np.testing.assert_array_equal(loud.predict(X), quick(cls).fit(X, y).predict(X))
    assert capfd.readouterr() == ("", "")


@each
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"learning_rate": 0}, "learning_rate must be a number > 0; got 0"),
        ({"epochs": 2.5}, "epochs must be an integer >= 1; got 2.5"),
        ({"standardize_y": "no"}, "standardize_y must be True or False; got 'no'"),
        ({"device": "abacus"}, "device must be one PyTorch can use here, such as 'cpu' or 'cuda'; got 'abacus'"),
        ({"n_jobs": 0}, "n_jobs must be None or an integer other than 0; got 0"),
        ({"verbose": -1}, "verbose must be an integer >= 0; got -1"),
        ({"random_state": -1}, "random_state must be None, an integer >= 0"),
    ],
    ids=str,
)
def test_wrong_parameters_are_named(cls, given, message):
    with pytest.raises(InvalidParameterError, match=message):
        quick(cls, **given).fit(X, y)


OWN = {
    "GPRegressor": [("tol", -1), ("window", 0), ("minimum_noise", 0), ("dtype", "half"), ("ard", 2), ("n_inducing", 0)],
    "DKLRegressor": [("n_features_out", 0), ("batch_size", 0), ("dtype", "double"), ("n_inducing", 1.5)],
    "BLLRegressor": [("head", "student"), ("noise", "fitted"), ("noise", 0), ("prior_variance", -1)],
    "LDBLLRegressor": [("beta", -1), ("derivative_variance", 0), ("jitter", -1), ("derivative_rows", 0)],
    "MFVIRegressor": [("prior_scale", 0), ("initial_scale", 0), ("n_samples", 0), ("batch_size", 0)],
    "VBLLRegressor": [("parameterization", "full"), ("dof", 0), ("clip", 0), ("initial_noise", 0), ("batch_size", 0)],
}
NETWORK = [
    ("hidden_layer_sizes", "50"),
    ("hidden_layer_sizes", (5, 0)),
    ("activation", "rely"),
    ("weight_decay", -1),
    ("early_stopping", 1),
    ("validation_fraction", 0),
    ("patience", 0),
]


@each
def test_wrong_parameters_of_its_own_are_named(cls):
    for name, value in OWN[cls.__name__] + (NETWORK if hasattr(cls(), "hidden_layer_sizes") else []):
        with pytest.raises(InvalidParameterError, match=f"{name}.* must be .* got {value!r}".replace("(5, 0)", "0")):
            quick(cls, **{name: value}).fit(X, y)


@pytest.mark.parametrize("cls", [cls for cls in EVERY if "early_stopping" in cls().get_params()])
def test_early_stopping_trains_again_on_all_rows_for_as_long_as_was_best(cls):
    model = quick(cls, epochs=40).fit(X, y)
    epochs, scores = model.validation_curve_
    assert model.n_iter_ == epochs[np.argmin(scores)]
    patient = quick(cls, epochs=40, patience=1).fit(X, y).validation_curve_[1]
    worse = np.flatnonzero(np.minimum.accumulate(scores)[1:] == np.minimum.accumulate(scores)[:-1])
    assert len(patient) == (worse[0] + 2 if len(worse) else 40)
    free = quick(cls, epochs=7, early_stopping=False).fit(X, y)
    assert free.n_iter_ == 7
    assert free.validation_curve_.shape == (2, 0)
    with pytest.raises(
        InvalidParameterError, match=r"got n_samples=2, of which validation_fraction=0.2 is 0: add rows"
    ):
        quick(cls).fit(X[:2], y[:2])


def test_a_descent_that_diverges_says_so():
    with pytest.raises(DivergedError, match=r"the loss must stay finite; it is .* try a learning_rate below 1e"):
        quick(bdkn.BLLRegressor, noise=1e-300, head="gaussian", learning_rate=1e300, early_stopping=False).fit(X, y)


def test_without_the_extra_it_imports_and_says_what_to_install():
    script = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "gpytorch", "pyro", "vbll"):
            raise ImportError(name)
sys.meta_path.insert(0, Missing())
import bdkn
for name in {[cls.__name__ for cls in EVERY]}:
    try:
        getattr(bdkn, name)().fit([[0.0], [1.0]], [0.0, 1.0])
    except bdkn.BDKNError as error:
        print(error)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    message = 'this needs torch, which is not installed; run: pip install "bdkn[baselines]"'
    assert run.stdout.splitlines() == [message] * len(EVERY)


@pytest.mark.no_cover
@pytest.mark.parametrize("cls", [BLLRegressor, DKLRegressor])
def test_weight_decay_is_of_weights_and_not_of_the_noise(cls):
    """It pulled the logarithm of the noise to that of one."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(150, 1))
    line = rows[:, 0] + 0.05 * rng.normal(size=150)
    others = {"head": "gaussian"} if cls is BLLRegressor else {}
    noise = [
        quick(cls, epochs=300, learning_rate=0.02, early_stopping=False, weight_decay=decay, **others)
        .fit(rows, line)
        .noise_variance_
        for decay in (0.0, 1.0)
    ]
    assert noise[1] < 4 * noise[0]


def test_patience_means_the_same_however_many_epochs_there_may_be():
    few, many = (quick(BLLRegressor, epochs=n, patience=20).fit(X, y) for n in (400, 1_000_000))
    assert few.n_iter_ == many.n_iter_


def test_what_is_watched_is_a_fitted_model():
    seen = []
    model = quick(BLLRegressor, epochs=6).fit_watched(
        X, y, lambda then: seen.append((then.n_iter_, then.validation_curve_.shape, then.predict(NEW)))
    )
    assert [n for n, _, _ in seen] == list(range(1, model.n_iter_ + 1))
    assert {shape for _, shape, _ in seen} == {model.validation_curve_.shape}
    np.testing.assert_array_equal(seen[-1][2], model.predict(NEW))


def test_a_watched_model_stays_as_it_was():
    kept = []
    quick(GPRegressor, epochs=5).fit_watched(X, y, kept.append)
    for epochs, then in enumerate(kept, 1):
        assert then.n_iter_ == epochs
        np.testing.assert_array_equal(then.predict(NEW), quick(GPRegressor, epochs=epochs).fit(X, y).predict(NEW))


@each
def test_a_seed_means_the_same_in_threads(cls):
    seeds = range(3)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()

    def fit(seed):
        return quick(cls, epochs=5, random_state=seed).fit(X, y).predict(NEW)

    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(fit, seeds))
    np.testing.assert_array_equal(together, [fit(seed) for seed in seeds])
    assert torch.equal(torch.random.get_rng_state(), before)


@each
def test_small_steps_take_one_thread(cls, monkeypatch):
    used = []
    monkeypatch.setattr(torch, "set_num_threads", used.append)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    quick(cls, n_jobs=None, epochs=1).fit(X, y)
    assert used == [1, 7]
    monkeypatch.setattr(session, "WORTH_THREADS", 0)
    quick(cls, n_jobs=None, epochs=1).fit(X, y)
    assert used[2:] == [7, 7]
    quick(cls, n_jobs=3, epochs=1).fit(X, y)
    assert used[4:] == [3, 7]


@each
@pytest.mark.parametrize("unit", [1e-200, 1e155])
def test_draws_in_units_whose_squares_are_no_numbers(cls, unit):
    model = quick(cls, epochs=3).fit(X, y * unit)
    _, std = model.predict(NEW, return_std=True)
    draws = model.sample_y(NEW, 2000)
    np.testing.assert_allclose(np.std(draws / unit, axis=1), std / unit, rtol=0.2)
    with pytest.raises(InvalidParameterError, match="variances must be numbers"):
        model.predict(NEW, return_cov=True)


def test_what_is_asked_of_too_few_rows_or_no_model():
    with pytest.raises(InvalidParameterError, match="a fit needs at least 2 rows; got n_samples=1"):
        quick(GPRegressor).fit(X[:1], y[:1])
    with pytest.raises(NotFittedError):
        BLLRegressor().predict_derivative(X)
    with pytest.raises(InvalidParameterError, match="more than 2 degrees of freedom; there are 2: fit to more rows"):
        quick(BLLRegressor, early_stopping=False).fit(X[:2], y[:2]).predict(X, return_cov=True)


def test_known_noise_needs_a_gaussian_head():
    with pytest.raises(InvalidParameterError, match=r"noise can be known for a Gaussian head only; got noise=0.3"):
        quick(BLLRegressor, noise=0.3).fit(X, y)


def test_a_whole_number_will_do_for_a_scale():
    assert np.isfinite(quick(MFVIRegressor, initial_scale=1).fit(X, y).predict(NEW)).all()


def test_two_threads_can_fit_at_once():
    with ThreadPoolExecutor(2) as pool:
        fits = list(pool.map(lambda k: quick(MFVIRegressor, random_state=k).fit(X, y), range(2)))
    assert all(np.isfinite(fit.predict(NEW)).all() for fit in fits)


def test_what_diverges_is_said_to():
    with pytest.raises(DivergedError, match="try a learning_rate below"):
        quick(VBLLRegressor, learning_rate=200.0, clip=None, early_stopping=False, epochs=20).fit(X, 1e3 * y)
    with pytest.raises(DivergedError, match="try a learning_rate below"):
        quick(VBLLRegressor, learning_rate=1e6).fit(X, y)
