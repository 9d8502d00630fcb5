"""Predictions of networks beyond what all regressors must do, which is in test_every_regressor.py."""

import numpy as np
import pytest
from quick import EACH, QUICK, grouped, table
from sklearn.exceptions import DataConversionWarning

from bdkn.errors import InvalidParameterError
from bdkn.estimators import BDKNRegressor

X, y = table()
NEW, y_new = table(25, seed=1)


@pytest.fixture(scope="module", params=EACH)
def model(request):
    return request.param(**grouped(**QUICK)).fit(X, y)


@pytest.mark.parametrize("alpha", [1.5, [0.1, -0.1], [float("nan")]])
def test_levels_are_probabilities(model, alpha):
    with pytest.raises(InvalidParameterError, match="each level in quantiles must be a number >= 0 and <= 1"):
        model.predict_quantiles(NEW, alpha)


def test_networks_learn_and_lists_of_targets_are_scored(model):
    assert model.score(X, y) > 0.8
    assert model.crps(NEW, list(y_new)) == model.crps(NEW, y_new)
    assert np.isfinite(model.sample_y(NEW, random_state=np.random.RandomState(0))).all()


def test_the_prediction_of_a_row_does_not_depend_on_other_rows(model):
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


def test_a_column_of_targets_is_flattened_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector y was passed"):
        model = BDKNRegressor(**grouped(**QUICK)).fit(X, y[:, None])
    np.testing.assert_array_equal(model.predict(NEW), BDKNRegressor(**grouped(**QUICK)).fit(X, y).predict(NEW))
