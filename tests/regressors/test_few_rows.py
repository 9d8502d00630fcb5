"""Fits to few rows: wide intervals, a warning, and a report that says what the rows do not tell."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from quick import grouped

from bdkn import BayesianStackingRegressor, BDKNRegressor, CombinationOptions, FewRowsWarning, coverage

SMALL = {"n_members": 4, "hidden_layer_sizes": (16,), "epochs": 60, "learning_rate": 0.01, "n_jobs": 1}


def linear_rows(n, p, seed):
    """Return rows of a linear function with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, X[:, 0] + 0.5 * rng.normal(size=n)


def test_three_rows_give_wide_intervals_and_a_warning():
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([-40.0, 0.0, 36.0])
    with pytest.warns(FewRowsWarning, match="only 3 rows were held out of training, which is too few"):
        model = BDKNRegressor(**grouped(**SMALL, random_state=0)).fit(X, y)
    lower, upper = model.predict_interval(X, coverage=0.9).T
    assert np.all(upper - lower > np.ptp(y))


def test_ten_rows_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BDKNRegressor(**grouped(**SMALL, random_state=0)).fit(*linear_rows(10, 2, 0))


def test_a_stack_of_few_rows_warns():
    with pytest.warns(FewRowsWarning):
        BayesianStackingRegressor([("column", lambda X: X[:, 0])], random_state=0).fit(*linear_rows(6, 2, 0))


@pytest.mark.no_cover
@pytest.mark.filterwarnings("ignore::bdkn.errors.OutsideDataWarning")
@pytest.mark.parametrize(("n", "p"), [(12, 2), (15, 40)])
def test_intervals_hold_with_few_rows(n, p):
    held = []
    for seed in range(12):
        X, y = linear_rows(n + 200, p, seed)
        model = BDKNRegressor(**grouped(**SMALL, random_state=seed)).fit(X[:n], y[:n])
        held.append(coverage(y[n:], model.predict_dist(X[n:]), 0.9))
    assert 0.8 <= np.mean(held) <= 0.98


@pytest.mark.no_cover
def test_the_report_says_if_members_are_not_told_apart():
    model = BDKNRegressor(**grouped(**SMALL, random_state=0)).fit(*linear_rows(40, 2, 0))
    assert not model.weights_identified_
    assert model.member_report().attrs["note"] == "the data do not identify the weights of these members"
    table = model.member_table()
    assert np.all(table["upper"] - table["lower"] > 0.1 / len(model.weights_))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    unlike = [("good", lambda X: X[:, 0]), ("useless", lambda X: X[:, 1])]
    stack = BayesianStackingRegressor(unlike, combination=CombinationOptions(select_members=False), cv="prefit")
    stack.fit(X, X[:, 0] + 0.1 * rng.normal(size=100))
    assert stack.weights_identified_
    assert stack.member_report().attrs["note"] == ""


def test_given_prior_variances_are_kept():
    model = BDKNRegressor(**grouped(**SMALL, random_state=0, prior_variance=0.1)).fit(*linear_rows(40, 2, 0))
    H = len(model.weights_)
    np.testing.assert_array_equal(model.weight_posterior().scale, model.combination_.posterior.weights().scale[:H])
    assert model.weights_identified_
