"""Presets of "auto", and sizes that fit into a time limit."""

import warnings
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bdkn import BDKNRegressor, DeepEnsembleRegressor, TrainingOptions
from bdkn.errors import InvalidParameterError
from bdkn.networks import NetworkSettings
from bdkn.networks.settings import EFFORTS, MIN_EPOCHS, MIN_MEMBERS, Clock, default_size, reduced

SMALL = {"hidden_layer_sizes": (4,), "random_state": 0}


@pytest.fixture
def table():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(40, 2))
    return X, X[:, 0] + 0.1 * generator.normal(size=40)


def size_of(n_rows=300, **parameters):
    return NetworkSettings.of(BDKNRegressor(**parameters)).size(n_rows)


@pytest.mark.parametrize("n_rows", [30, 2000, 50_000])
def test_balanced_is_the_default_size(n_rows):
    assert size_of(n_rows) == size_of(n_rows, effort="balanced") == default_size(n_rows)


@pytest.mark.parametrize("n_rows", [30, 2000, 50_000])
def test_presets_are_ordered_by_cost(n_rows):
    cost = [size.n_members * size.epochs for size in (size_of(n_rows, effort=effort) for effort in EFFORTS)]
    assert cost == sorted(cost)
    assert len(set(cost)) == len(cost)


@pytest.mark.parametrize("effort", EFFORTS)
def test_numbers_win_over_effort(effort):
    size = size_of(n_members=7, epochs=13, effort=effort)
    assert (size.n_members, size.epochs) == (7, 13)


@pytest.mark.parametrize("regressor", [BDKNRegressor, DeepEnsembleRegressor])
def test_an_unknown_effort_is_an_error(regressor, table):
    with pytest.raises(InvalidParameterError, match="effort must be one of 'fast', 'balanced', 'best'; got 'quick'"):
        regressor(effort="quick").fit(*table)


@pytest.mark.parametrize("limit", [0, -1.0, "10", np.nan])
def test_a_time_limit_is_a_positive_number(limit, table):
    with pytest.raises(InvalidParameterError, match="time_limit must be a number > 0"):
        BDKNRegressor(time_limit=limit).fit(*table)


@given(st.integers(1, 40), st.integers(1, 900), st.floats(0, 3))
def test_a_reduced_size_fits_or_is_the_minimum(n_members, epochs, share):
    members, fewer = reduced(n_members, epochs, share)
    assert 1 <= members <= n_members
    assert 1 <= fewer <= epochs
    assert members >= min(MIN_MEMBERS, n_members)
    assert fewer >= MIN_EPOCHS * epochs - 1
    least = members == min(MIN_MEMBERS, n_members) and fewer <= max(1, np.ceil(MIN_EPOCHS * epochs))
    assert members * fewer <= share * n_members * epochs or least
    if share >= 1:
        assert (members, fewer) == (n_members, epochs)
    if fewer < epochs:  # epochs are reduced last
        assert members == min(MIN_MEMBERS, n_members)


def test_a_clock_divides_the_time_left_by_the_time_of_all_training():
    asked = []
    share = Clock.start(1e9).share(asked.append, epochs=80, work=1.0)
    assert share > 1
    assert asked == [1, 1, 4, 10]  # never more than an eighth of the epochs
    assert Clock.start(1e-9).share(asked.append, epochs=80, work=1.0) == 0
    assert Clock.start(inf).left == inf


def test_training_may_take_all_but_a_seventh_of_the_time_left(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("bdkn.networks.settings.time.monotonic", lambda: now[0])

    def train(epochs):
        now[0] += 2.0 * epochs

    share = Clock.start(1000.0).share(train, epochs=40, work=3.0)
    assert now[0] == 2.0 * (1 + 1 + 4 + 5)  # to load compiled code, then pieces, the last an eighth of the epochs
    assert share == pytest.approx(0.85 * (1000.0 - now[0]) / (3.0 * 40 * 2.0))


def test_a_long_limit_changes_nothing(table):
    plain = BDKNRegressor(**SMALL, n_members=3, epochs=4).fit(*table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        limited = BDKNRegressor(**SMALL, n_members=3, epochs=4, time_limit=1e6).fit(*table)
    np.testing.assert_array_equal(plain.predict(table[0]), limited.predict(table[0]))


@pytest.mark.parametrize("design", ["cross-fit", "in-sample"])
def test_a_short_limit_is_a_fit_with_the_minimum_size(design, table):
    with pytest.warns(UserWarning, match="time_limit=1e-09: 4 of 6 members are trained, for 2 of 20 epochs"):
        limited = BDKNRegressor(**SMALL, n_members=6, epochs=20, time_limit=1e-9, design=design).fit(*table)
    explicit = BDKNRegressor(**SMALL, n_members=4, epochs=2, design=design).fit(*table)
    np.testing.assert_array_equal(limited.predict(table[0]), explicit.predict(table[0]))
    assert (limited.n_trained_, limited.n_members, limited.epochs) == (4, 6, 20)


def test_members_are_added_with_the_epochs_that_the_limit_left(table):
    with pytest.warns(UserWarning, match="time_limit"):
        limited = BDKNRegressor(**SMALL, n_members=6, epochs=20, time_limit=1e-9).fit(*table)
    with pytest.raises(InvalidParameterError, match="the fit had epochs=2, which is now 20"):
        limited.add_members(1, *table)
    more = limited.set_params(epochs=2, time_limit=None).add_members(1, *table)
    assert more.n_trained_ == 5


def test_with_fewer_epochs_than_the_warm_up_no_variance_was_trained(table):
    options = {**SMALL, "training": TrainingOptions(warmup_epochs=2)}
    with pytest.warns(UserWarning, match="for 2 of 20 epochs"):
        limited = BDKNRegressor(**options, n_members=6, epochs=20, time_limit=1e-9).fit(*table)
    same = BDKNRegressor(**options, n_members=4, epochs=2).fit(*table)
    np.testing.assert_array_equal(limited.held_out_.variances, same.held_out_.variances)
    np.testing.assert_array_equal(limited.predict_var(table[0]), same.predict_var(table[0]))
