"""The contract of all baselines: scikit-learn's, that of ``bdkn.testing``, and their own."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from sine import EVERY, quick, table
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from bdkn.errors import DivergedError, InvalidParameterError
from bdkn.testing import check_regressor
from bdkn_paper import BLLRegressor, DKLRegressor, GPRegressor, LDBLLRegressor, MFVIRegressor, VBLLRegressor
from bdkn_paper.baselines.learners import session

X, y = table()
NEW, _ = table(8, seed=1)

each = pytest.mark.parametrize("cls", EVERY)


# Whether rows are held out makes no difference to these checks, which are many; one network does it.
STOPPED = {cls: {"early_stopping": False} for cls in (LDBLLRegressor, MFVIRegressor, VBLLRegressor)}


@pytest.mark.no_cover
@parametrize_with_checks([quick(cls, epochs=8, random_state=None, **STOPPED.get(cls, {})) for cls in EVERY])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


ONE = {"hidden_layer_sizes": 8, "epochs": 15, "learning_rate": 0.02, "n_jobs": 1}
CONFORMING = [
    GPRegressor(epochs=20, n_jobs=1),
    GPRegressor(epochs=20, n_jobs=1, n_inducing=10),
    DKLRegressor(**ONE),
    DKLRegressor(**ONE, bounded=True),
    BLLRegressor(**ONE),
    BLLRegressor(**ONE, head="gaussian"),
    LDBLLRegressor(**ONE, derivative_rows=20),
    MFVIRegressor(**ONE, n_samples=10),
    VBLLRegressor(**ONE),
]


@pytest.mark.no_cover
@pytest.mark.parametrize("model", CONFORMING, ids=str)
def test_regressors_conform(model):
    check_regressor(model)


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
def test_attributes(cls):
    model, scaled = quick(cls).fit(X, y), quick(cls).fit(X, 8 * y + 512)  # exact in binary
    assert model.noise_variance_ > 0
    assert scaled.noise_variance_ == pytest.approx(64 * model.noise_variance_, rel=1e-3)
    assert len(model.loss_curve_) == model.n_iter_
    np.testing.assert_allclose(model.inputs_.mean, X.mean(axis=0))
    assert (model.targets_.mean, model.targets_.scale) == pytest.approx((y.mean(), y.std()))


@pytest.mark.parametrize("cls", [cls for cls in EVERY if cls is not GPRegressor])
def test_another_seed_gives_another_fit(cls):
    one, other = (quick(cls, random_state=seed).fit(X, y).predict(NEW) for seed in (0, 1))
    assert not np.array_equal(one, other)


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
        quick(BLLRegressor, noise=1e-300, head="gaussian", learning_rate=1e300, early_stopping=False).fit(X, y)


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
