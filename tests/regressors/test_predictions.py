"""What follows from predict_dist, whatever the method."""

import numpy as np
import pytest
from quick import EACH, QUICK, table
from sklearn.exceptions import DataConversionWarning, NotFittedError

from bdkn.errors import InvalidParameterError
from bdkn.metrics import crps, nll
from bdkn.regressors import BDKNRegressor

X, y = table()
NEW, y_new = table(25, seed=1)


@pytest.fixture(scope="module", params=EACH)
def model(request):
    return request.param(**QUICK).fit(X, y)


def test_predict_returns_the_moments_of_predict_dist(model):
    dist = model.predict_dist(NEW)
    mean, std = model.predict(NEW, return_std=True)
    np.testing.assert_array_equal(model.predict(NEW), dist.mean())
    np.testing.assert_array_equal(mean, dist.mean())
    np.testing.assert_array_equal(std, dist.std())
    assert model.predict(NEW, return_cov=True)[1].shape == (25, 25)


def test_std_and_cov_together_are_refused(model):
    with pytest.raises(InvalidParameterError, match="at most one of return_std and return_cov"):
        model.predict(NEW, return_std=True, return_cov=True)


def test_intervals_are_nested_and_quantiles_ordered(model):
    narrow, wide = model.predict_interval(NEW, 0.5), model.predict_interval(NEW)
    assert narrow.shape == wide.shape == (25, 2)
    assert (wide[:, 0] < narrow[:, 0]).all()
    assert (narrow[:, 1] < wide[:, 1]).all()
    quantiles = model.predict_quantiles(NEW)
    assert quantiles.shape == (25, 3)
    np.testing.assert_allclose(quantiles[:, [0, 2]], wide, rtol=1e-10)
    np.testing.assert_allclose(quantiles[:, 1], model.predict_dist(NEW).median(), rtol=1e-10)
    assert model.predict_quantiles(NEW, 0.3).shape == (25, 1)


@pytest.mark.parametrize("alpha", [1.5, [0.1, -0.1], [float("nan")]])
def test_levels_are_probabilities(model, alpha):
    with pytest.raises(InvalidParameterError, match="each level in quantiles must be a number >= 0 and <= 1"):
        model.predict_quantiles(NEW, alpha)


def test_coverage_is_a_probability(model):
    with pytest.raises(InvalidParameterError, match="coverage must be a number >= 0 and <= 1; got 95"):
        model.predict_interval(NEW, 95)


def test_scores_are_means_over_rows(model):
    dist = model.predict_dist(NEW)
    assert model.log_score(NEW, y_new) == pytest.approx(np.mean(dist.logpdf(y_new)), rel=1e-12)
    assert model.log_score(NEW, y_new) == -nll(y_new, dist)
    assert model.crps(NEW, y_new) == crps(y_new, dist)
    assert model.score(X, y) > 0.8
    assert model.crps(NEW, list(y_new)) == model.crps(NEW, y_new)


def test_scores_need_a_target_for_each_row(model):
    with pytest.raises(InvalidParameterError, match=r"one value for each of the 25 predicted rows; got shape \(24,\)"):
        model.log_score(NEW, y_new[1:])


def test_draws(model):
    draws = model.sample_y(NEW, n_samples=4, random_state=3)
    assert draws.shape == (25, 4)
    np.testing.assert_array_equal(draws, model.sample_y(NEW, n_samples=4, random_state=3))
    np.testing.assert_array_equal(model.sample_y(NEW), model.sample_y(NEW, random_state=0))
    generator = np.random.default_rng(0)
    assert not np.array_equal(model.sample_y(NEW, 1, generator), model.sample_y(NEW, 1, generator))
    assert np.isfinite(model.sample_y(NEW, random_state=np.random.RandomState(0))).all()
    with pytest.raises(InvalidParameterError, match="n_samples must be an integer >= 1"):
        model.sample_y(NEW, 0)


def test_a_row_is_predicted_alike_in_any_company(model):
    whole = model.predict_dist(NEW)
    single = model.predict_dist(NEW[7:8])
    np.testing.assert_allclose(single.mean(), whole.mean()[7:8], rtol=1e-12)
    np.testing.assert_allclose(single.std(), whole.std()[7:8], rtol=1e-12)


def test_extreme_rows_never_give_nan(model):
    rows = np.array([[1e300, -1e300, 1e300], [-1e308, 1e308, 0], [1e-300, 0, 1e30]])
    mean, std = model.predict(rows, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert np.isfinite(model.predict_interval(rows)).all()


@pytest.mark.parametrize("call", ["predict", "predict_dist", "predict_interval", "sample_y", "predict_quantiles"])
def test_unfitted(call):
    with pytest.raises(NotFittedError):
        getattr(BDKNRegressor(), call)(NEW)


def test_unfitted_save(tmp_path):
    with pytest.raises(NotFittedError):
        BDKNRegressor().save(tmp_path / "model.bdkn")


def test_a_column_of_targets_is_flattened_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector y was passed"):
        model = BDKNRegressor(**QUICK).fit(X, y[:, None])
    np.testing.assert_array_equal(model.predict(NEW), BDKNRegressor(**QUICK).fit(X, y).predict(NEW))


def test_several_targets_are_refused_with_advice():
    with pytest.raises(InvalidParameterError, match=r"one target per row.*got shape \(120, 2\).*MultiOutputRegressor"):
        BDKNRegressor(**QUICK).fit(X, np.column_stack([y, y]))
