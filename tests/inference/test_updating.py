"""Rows that join and leave a combination, against the posterior of all rows by dense algebra."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from designs import average_weights
from hypothesis import given, settings
from hypothesis import strategies as st

from bdkn.errors import InvalidParameterError
from bdkn.inference import (
    Absorbed,
    Forecast,
    Outside,
    Statistics,
    Tails,
    choose_prior_variance,
    combine,
    weights,
)


def rows_of(rng, n, H=3, outside=False):
    """Return a forecast of members that are right up to noise, and targets."""
    truth = rng.normal(size=n)
    means = truth[:, None] + rng.uniform(0.1, 0.6, size=H) * rng.normal(size=(n, H))
    forecast = Forecast.of(means, rng.uniform(0.05, 0.5, size=(n, H)))
    if outside:
        forecast = replace(forecast, outside=Outside(np.maximum(rng.normal(size=n), 0.0)))
    return forecast, truth + 0.2 * rng.normal(size=n)


def fitted(rng, n=60, H=3, averaging=0.9, **params):
    """Return the state of a combination that has absorbed nothing, and the rows it was fitted to."""
    forecast, y = rows_of(rng, n, H)
    params = {"prior_variance": float(10.0 ** rng.uniform(-6.0, 0.0)), "tempering": 0.7, **params}
    combination = replace(combine(forecast, y, **params), averaging=averaging)
    return Absorbed.start(combination, forecast, y), forecast, y


def dense(state, parts):
    """Return μ, Λ, a and b of the conjugate posterior by normal equations; parts are (means, y, precision, counts)."""
    H, t = state.base.n_weights - 1, state.combination().prior_variance
    μ0, Λ = np.append(np.full(H, 1 / H), 0.0), np.eye(H + 1) / t
    right, n = np.zeros(H + 1), 0.0
    for means, y, w, c in parts:
        Phi = np.column_stack([means, np.ones(len(y))])
        Λ, right = Λ + Phi.T @ (Phi * (w * c)[:, None]), right + Phi.T @ (w * c * (y - Phi @ μ0))
        n += np.sum(c)
    step = np.linalg.solve(Λ, right)
    squares = [w * c @ (y - np.column_stack([means, np.ones(len(y))]) @ (μ0 + step)) ** 2 for means, y, w, c in parts]
    return μ0 + step, Λ, n / 2, (sum(squares) + step @ step / t) / 2


def base_part(state, forecast, y, weight=1.0):
    return forecast.means, y, forecast.variance**-state.fitted.tempering, np.full(len(y), weight)


def later_part(state, forecast, y, counts=1.0):
    return forecast.means, y, state.precision(forecast), np.broadcast_to(counts, len(y))


def assert_posterior(post, expected, rtol=1e-10):
    μ, Λ, a, b = expected
    np.testing.assert_allclose(post.mean, μ, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(post.precision, Λ, rtol=rtol, atol=rtol * np.abs(Λ).max())
    np.testing.assert_allclose([post.a, post.b], [a, b], rtol=rtol)


def assert_same(one, two, rtol=1e-10):
    assert_posterior(
        one.posterior, (two.posterior.mean, two.posterior.precision, two.posterior.a, two.posterior.b), rtol
    )
    np.testing.assert_allclose(one.evidence, two.evidence, rtol=rtol)
    assert one.n == pytest.approx(two.n)


seeds, sizes = st.integers(0, 2**32 - 1), st.integers(1, 40)


def test_nothing_absorbed_is_the_fit():
    state, _, _ = fitted(np.random.default_rng(0), tempering="evidence", prior_variance="evidence", tails="loo")
    found, expected = state.combination().posterior, state.fitted.posterior
    np.testing.assert_array_equal(found.mean, expected.mean)
    np.testing.assert_array_equal(found.root, expected.root)
    assert found.b == expected.b
    assert state.combination().evidence == state.fitted.evidence


@settings(max_examples=20)
@given(seed=seeds, n=sizes, weighted=st.booleans(), outside=st.booleans())
def test_absorbing_is_the_posterior_of_all_rows(seed, n, weighted, outside):
    rng = np.random.default_rng(seed)
    state, forecast, y = fitted(rng)
    new, z = rows_of(rng, n, outside=outside)
    counts = rng.uniform(0.5, 3.0, size=n) if weighted else None
    updated = state.add(state.statistics_of(new, z, counts))
    expected = dense(
        state, [base_part(state, forecast, y), later_part(state, new, z, 1.0 if counts is None else counts)]
    )
    assert_posterior(updated.combination().posterior, expected)


@settings(max_examples=20)
@given(seed=seeds, n=st.integers(2, 40), data=st.data())
def test_batches_and_their_order_do_not_matter(seed, n, data):
    rng = np.random.default_rng(seed)
    state, _, _ = fitted(rng)
    new, z = rows_of(rng, n)
    order, cut = rng.permutation(n), data.draw(st.integers(1, n - 1))
    at_once, in_parts = state.add(state.statistics_of(new, z)), state
    for part in (order[:cut], order[cut:]):
        some = Forecast(new.means[part], new.noise[part], new.disagreement[part])
        in_parts = in_parts.add(in_parts.statistics_of(some, z[part]))
    assert_same(in_parts.combination(), at_once.combination())


@settings(max_examples=20)
@given(seed=seeds, kept=sizes, gone=sizes)
def test_forgetting_is_never_having_seen(seed, kept, gone):
    rng = np.random.default_rng(seed)
    state, _, _ = fitted(rng)
    first, second = (state.statistics_of(*rows_of(rng, n)) for n in (kept, gone))
    assert_same(state.add(first).add(second).remove(second).combination(), state.add(first).combination())


def test_all_that_was_absorbed_can_be_removed():
    rng = np.random.default_rng(0)
    state, _, _ = fitted(rng)
    rows = state.statistics_of(*rows_of(rng, 30))
    assert_same(state.add(rows).remove(rows).combination(), state.fitted, rtol=1e-14)


@pytest.mark.parametrize("change", [("y", 50.0), ("means", 3.0)])
def test_rows_that_cannot_be_there_are_refused(change):
    rng = np.random.default_rng(1)
    state, _, _ = fitted(rng)
    forecast, y = rows_of(rng, 20)
    name, shift = change
    other = (forecast, y + shift) if name == "y" else (replace(forecast, means=forecast.means * shift), y)
    with pytest.raises(InvalidParameterError, match="must be among those that were added"):
        state.add(state.statistics_of(forecast, y)).remove(state.statistics_of(*other))


@settings(max_examples=20)
@given(seed=seeds, factors=st.lists(st.floats(0.05, 1.0), min_size=1, max_size=4), n=sizes)
def test_discounted_rows_count_less(seed, factors, n):
    rng = np.random.default_rng(seed)
    state, forecast, y = fitted(rng)
    updated, parts = state, []
    for k, λ in enumerate(factors):
        new, z = rows_of(rng, n)
        updated = updated.discount(λ).add(state.statistics_of(new, z))
        parts.append(later_part(state, new, z, np.prod(factors[k + 1 :])))
    expected = dense(state, [base_part(state, forecast, y, np.prod(factors)), *parts])
    assert_posterior(updated.combination().posterior, expected)


@settings(max_examples=20)
@given(seed=seeds, n=sizes, m=sizes)
def test_statistics_of_sites_add_up(seed, n, m):
    rng = np.random.default_rng(seed)
    state, _, _ = fitted(rng)
    one, two = (state.statistics_of(*rows_of(rng, size)) for size in (n, m))
    assert_same(state.add(one).add(two).combination(), state.add(two + one).combination())
    assert_same(state.add(one).add(two).combination(), state.add(two).add(one).combination())


def test_discounted_statistics():
    rng = np.random.default_rng(2)
    Phi, y, w = rng.normal(size=(30, 3)), rng.normal(size=30), rng.uniform(0.5, 2.0, size=30)
    found = Statistics.from_rows(Phi, y, precision=w).discount(0.3)
    expected = Statistics.from_rows(Phi, y, precision=w, counts=np.full(30, 0.3))
    np.testing.assert_allclose(np.abs(found.root), np.abs(expected.root), atol=1e-12)
    assert (found.n, found.sum_log_w) == pytest.approx((expected.n, expected.sum_log_w))
    with pytest.raises(InvalidParameterError, match="the factor of a discount must be a number > 0; got 0"):
        found.discount(0)


def test_prior_variance_is_chosen_anew_on_demand():
    rng = np.random.default_rng(3)
    state, _, _ = fitted(rng)
    new, z = rows_of(rng, 400)
    z = 2.0 * new.means[:, 0] - new.means[:, 1] + 0.01 * rng.normal(size=400)
    updated = state.add(state.statistics_of(new, z))
    assert updated.combination().prior_variance == state.fitted.prior_variance
    again = updated.with_prior("evidence")
    expected = choose_prior_variance(updated.total, mean=[1 / 3, 1 / 3, 1 / 3, 0.0], widest=1.0, size=1 / 3)
    assert again.combination().prior_variance == expected
    assert again.combination().evidence > updated.combination().evidence


def test_few_rows_have_few_degrees_of_freedom():
    rng = np.random.default_rng(4)
    state, _, _ = fitted(rng, n=200)
    assert state.fitted.tails.df > 4.0
    new, z = rows_of(rng, 1)
    assert state.discount(0.01).add(state.statistics_of(new, z)).combination().tails.df == pytest.approx(3.0)
    own, _, _ = fitted(rng, tails="posterior")
    updated = own.add(own.statistics_of(*rows_of(rng, 40))).combination()
    assert updated.tails == Tails(updated.posterior.df, 1.0)


def test_members_that_are_exactly_right_stay_so():
    rng = np.random.default_rng(5)
    means = rng.normal(size=(40, 1))
    forecast = Forecast.of(means, np.full((40, 1), 0.1))
    state = Absorbed.start(combine(forecast, means[:, 0]), forecast, means[:, 0])
    assert state.add(state.statistics_of(forecast, means[:, 0])).combination().posterior.b == 0.0


def test_report_of_weights_from_statistics():
    rng = np.random.default_rng(6)
    state, forecast, y = fitted(rng)
    found, expected = weights.average_weights(state.fitted, state.total), average_weights(state.fitted, forecast, y)
    np.testing.assert_array_equal(found.scale_matrix, expected.scale_matrix)
    assert found.log_bayes_factor == expected.log_bayes_factor


@pytest.mark.parametrize("forgetting", [0.0, 1.1, -1.0])
def test_wrong_factors(forgetting):
    state, _, _ = fitted(np.random.default_rng(0))
    with pytest.raises(InvalidParameterError, match="forgetting must be a number > 0 and <= 1"):
        state.discount(forgetting)
