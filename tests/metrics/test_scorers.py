from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bdkn.errors import InvalidParameterError
from bdkn.metrics import coverage, crps, neg_coverage_error, neg_crps, neg_nll, nll, predictive_of
from bdkn.predictive import Gaussian


class Line(RegressorMixin, BaseEstimator):
    """Least squares on the first column, with a given spread."""

    def __init__(self, spread: float = 1.0) -> None:
        self.spread = spread

    def fit(self, X: np.ndarray, y: np.ndarray) -> Line:
        self.slope_, self.level_ = np.polyfit(X[:, 0], y, 1)
        return self

    def predict_dist(self, X: np.ndarray) -> Gaussian:
        return Gaussian(self.slope_ * X[:, 0] + self.level_, self.spread)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.predict_dist(X).mean()


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    return X, 3 * X[:, 0] + rng.normal(size=200)


def test_scorers_negate_the_metrics(data) -> None:
    X, y = data
    model = Line().fit(X, y)
    dist = model.predict_dist(X)
    assert neg_nll(model, X, y) == -nll(y, dist)
    assert neg_crps(model, X, y) == -crps(y, dist)
    assert neg_coverage_error(model, X, y, level=0.5) == -abs(coverage(y, dist, 0.5) - 0.5)


def test_scorers_work_in_cross_validation(data) -> None:
    X, y = data
    scoring = {"log": neg_nll, "crps": neg_crps, "coverage": neg_coverage_error}
    results = cross_validate(Line(), X, y, cv=3, scoring=scoring, error_score="raise")
    assert all(np.all(results[f"test_{name}"] < 0.01) for name in scoring)
    assert cross_val_score(Line(), X, y, cv=3, scoring=neg_crps, error_score="raise").shape == (3,)


@pytest.mark.parametrize("scoring", [neg_nll, neg_crps, neg_coverage_error])
def test_a_search_finds_the_true_spread(data, scoring) -> None:
    search = GridSearchCV(Line(), {"spread": [0.1, 1.0, 10.0]}, scoring=scoring, cv=3, error_score="raise").fit(*data)
    assert search.best_params_ == {"spread": 1.0}


def test_pipelines_and_searches_are_followed_inside(data) -> None:
    X, y = data
    pipeline = make_pipeline(StandardScaler(), "passthrough", Line()).fit(X, y)
    search = GridSearchCV(pipeline, {"line__spread": [1.0, 2.0]}, scoring=neg_crps, cv=3, error_score="raise").fit(X, y)
    assert search.best_params_ == {"line__spread": 1.0}
    np.testing.assert_allclose(predictive_of(pipeline, X).mean(), pipeline.predict(X))
    np.testing.assert_allclose(predictive_of(search, X).mean(), search.predict(X))


def test_an_estimator_without_distributions_is_named(data) -> None:
    scaler = StandardScaler().fit(data[0])
    with pytest.raises(InvalidParameterError, match=r"must have predict_dist\(X\).*; got StandardScaler"):
        neg_crps(scaler, *data)
