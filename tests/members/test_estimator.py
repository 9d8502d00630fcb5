"""Models of any kind as members."""

import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bdkn.ensemble.estimators import EstimatorMember, predict_mean_std
from bdkn.errors import InvalidParameterError
from bdkn.estimators.members import check_model, is_refitted

rng = np.random.default_rng(0)
X = rng.normal(3, 2, (40, 2))
y = X @ [1.0, -2.0] + 0.1 * rng.normal(size=40)
BAYES = BayesianRidge().fit(X, y)
MEAN, STD = BAYES.predict(X, return_std=True)


def test_an_estimator_with_standard_deviations():
    mean, std = predict_mean_std(BAYES, X)
    np.testing.assert_array_equal(mean, MEAN)
    np.testing.assert_array_equal(std, STD)


@pytest.mark.parametrize(
    "model",
    [
        LinearRegression(),
        BaggingRegressor(GaussianProcessRegressor(alpha=0.1), n_estimators=2),
        TransformedTargetRegressor(BayesianRidge()),
        make_pipeline(StandardScaler(), LinearRegression()),
    ],
)
def test_an_estimator_without_standard_deviations(model):
    mean, std = predict_mean_std(model.fit(X, y), X)
    np.testing.assert_array_equal(mean, model.predict(X))
    assert std is None


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), BayesianRidge()),
        make_pipeline(StandardScaler(), "passthrough", BayesianRidge()),
        make_pipeline(BayesianRidge()),
        GridSearchCV(BayesianRidge(), {"tol": [1e-3]}, cv=2),
        GridSearchCV(make_pipeline(StandardScaler(), BayesianRidge()), {"bayesianridge__tol": [1e-3]}, cv=2),
        FrozenEstimator(BayesianRidge().fit(X, y)),
    ],
)
def test_standard_deviations_are_found_inside_pipelines_and_searches(model):
    model.fit(X, y)
    mean, std = predict_mean_std(model, X)
    np.testing.assert_allclose(mean, model.predict(X), rtol=1e-12)
    np.testing.assert_allclose(std, STD, rtol=1e-3)


def test_functions():
    mean, std = predict_mean_std(lambda rows: rows[:, 0], X)
    np.testing.assert_array_equal(mean, X[:, 0])
    assert std is None
    mean, std = predict_mean_std(lambda rows: (rows[:, :1], np.full(len(rows), 3.0)), X)
    np.testing.assert_array_equal(mean, X[:, 0])
    np.testing.assert_array_equal(std, np.full(40, 3.0))


def test_plain_models_need_no_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    predict_mean_std(BAYES, X)
    predict_mean_std(lambda rows: rows[:, 0], X)


def test_an_average_over_folds():
    fits = tuple(BayesianRidge().fit(X[part], y[part]) for part in (slice(20), slice(20, 40)))
    member = EstimatorMember("line", fits)
    means, stds = member.by_fold(X)
    np.testing.assert_array_equal(means, [fit.predict(X) for fit in fits])
    np.testing.assert_array_equal(stds, [fit.predict(X, return_std=True)[1] for fit in fits])
    mean, variance = member.predict(X)
    np.testing.assert_allclose(mean, means.mean(axis=0))
    np.testing.assert_allclose(variance, np.mean(stds**2, axis=0) + (means[0] - means[1]) ** 2 / 4)
    wider = EstimatorMember("line", fits, std_factor=3.0).predict(X)[1]
    np.testing.assert_allclose(wider, np.mean(9 * stds**2, axis=0) + (means[0] - means[1]) ** 2 / 4)
    assert EstimatorMember("line", fits, std_factor=np.nan).predict(X)[1] is None
    assert EstimatorMember("line", (LinearRegression().fit(X, y),)).predict(X)[1] is None


def test_which_models_can_be_refitted():
    assert is_refitted(LinearRegression())
    assert is_refitted(make_pipeline(StandardScaler(), LinearRegression()))
    assert not is_refitted(np.sin)


@pytest.mark.parametrize("shape", [(40, 2), (39,), (), (1, 40)])
def test_predictions_must_have_one_number_per_row(shape):
    with pytest.raises(InvalidParameterError, match=r"member 'odd' must predict one number per row, shape \(40,\) or"):
        predict_mean_std(lambda rows: np.zeros(shape), X, "odd")


def test_errors_name_the_member():
    with pytest.raises(ValueError, match=r"2 features as input(?s:.)*raised by member 'line', predicting 40 rows"):
        predict_mean_std(BAYES, X[:, :1], "line")


def test_models_that_cannot_be_members_are_refused():
    with pytest.raises(InvalidParameterError, match=r"member 'a' must be an object; got the class: write BayesianRid"):
        check_model(BayesianRidge, "a")
    with pytest.raises(InvalidParameterError, match="member 'a' must be a regressor with fit and predict, a PyTorch m"):
        check_model(BaseEstimator(), "a")
    for model in (BAYES, np.sin):
        check_model(model, "a")
