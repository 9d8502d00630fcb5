"""The preset of a stack's members, the time limit of a stack, and the threads of its members."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression, Ridge
from threadpoolctl import threadpool_info

from bdkn import BayesianStackingRegressor, CombinationOptions
from bdkn.errors import InvalidParameterError
from bdkn.estimators.members import default_estimators

LINES = [("line", LinearRegression()), ("ridge", Ridge(5.0))]


@pytest.fixture
def table():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(40, 2))
    return X, X[:, 0] + 0.1 * generator.normal(size=40)


def names(n_rows, **options):
    return [name for name, _ in default_estimators(n_rows, 3, **options)]


@pytest.mark.parametrize("n_rows", [100, 900, 20_000])
def test_presets_have_more_members_or_larger_ones(n_rows):
    fast, balanced, best = (default_estimators(n_rows, 3, effort=effort) for effort in ("fast", "balanced", "best"))
    assert len(fast) < len(balanced) <= len(best)
    trees = [dict(pairs)["trees"].n_estimators for pairs in (fast, balanced, best)]
    assert trees == sorted(trees)
    assert names(n_rows) == [name for name, _ in balanced]


def test_the_preset_is_that_of_the_stack(table):
    stack = BayesianStackingRegressor(effort="quick")
    with pytest.raises(InvalidParameterError, match="effort must be one of 'fast', 'balanced', 'best'; got 'quick'"):
        stack.fit(*table)


def test_a_stack_without_time_fits_its_first_member_only(table):
    with pytest.warns(UserWarning, match="time_limit=1e-09: no time for the members 'ridge', which are left out"):
        limited = BayesianStackingRegressor(LINES, time_limit=1e-9, random_state=0).fit(*table)
    alone = BayesianStackingRegressor(LINES[:1], random_state=0).fit(*table)
    assert limited.member_names_ == ("line",)
    np.testing.assert_array_equal(limited.predict(table[0]), alone.predict(table[0]))


@pytest.mark.parametrize("options", [{}, {"predict_with": "refit"}, {"n_jobs": 2}])
def test_a_long_limit_changes_nothing(options, table):
    plain = BayesianStackingRegressor(LINES, random_state=0, **options).fit(*table)
    limited = BayesianStackingRegressor(LINES, random_state=0, time_limit=1e6, **options).fit(*table)
    np.testing.assert_array_equal(plain.predict(table[0]), limited.predict(table[0]))


def test_a_member_too_slow_for_the_time_left_is_left_out_and_the_next_tried(table, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("bdkn.networks.settings.time.monotonic", lambda: now[0])

    class Slow(LinearRegression):
        def fit(self, X, y):
            now[0] += 10.0
            return super().fit(X, y)

    members = [LINES[0], ("slow", Slow()), LINES[1]]
    with pytest.warns(UserWarning, match="no time for the members 'slow'"):
        stack = BayesianStackingRegressor(
            members, time_limit=30.0, combination=CombinationOptions(select_members=False), random_state=0
        ).fit(*table)
    assert stack.member_names_ == ("line", "ridge")
    assert now[0] == 10.0


class Threads(RegressorMixin, BaseEstimator):
    """Records how many OpenMP threads a fit may use."""

    def fit(self, X, y):
        self.mean_ = float(np.mean(y))
        found = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"]
        self.threads_ = max(found, default=1)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def test_members_fitted_to_few_rows_use_one_thread(table):
    fitted = BayesianStackingRegressor([("threads", Threads())], random_state=0).fit(*table)
    assert {model.threads_ for model in fitted.estimators_[0]} == {1}
