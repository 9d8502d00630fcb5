"""Weights of stacked densities, against a search that knows nothing of expectation and maximisation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from bdkn.model.density import _mixed, interpolation, stack_densities

few = settings(max_examples=20, deadline=None)


def objective(weights, log_density, shares, prior, counts):
    """Return the log posterior of the weights."""
    mixed = np.log(np.sum((shares @ weights) * np.exp(log_density), axis=1))
    return counts @ mixed + np.sum(prior * np.log(weights))


@few
@given(st.integers(0, 10**6))
def test_no_search_finds_better_weights(seed):
    rng = np.random.default_rng(seed)
    log_density, counts = rng.normal(size=(60, 3)), rng.uniform(0.5, 2.0, 60)
    shares, prior = interpolation(rng.normal(size=60), np.array([-1.0, 0.5])), np.full((2, 3), 0.7)
    found = stack_densities(log_density, shares, prior, counts)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)

    def loss(free):
        weights = np.exp(free.reshape(2, 3))
        return -objective(weights / weights.sum(axis=1, keepdims=True), log_density, shares, prior, counts)

    best = minimize(loss, np.zeros(6), method="BFGS").fun
    assert -objective(found, log_density, shares, prior, counts) <= best + 1e-4


def test_without_data_the_prior_decides():
    prior = np.array([[3.0, 1.0]])
    found = stack_densities(np.zeros((5, 2)), np.ones((5, 1)), prior)
    np.testing.assert_allclose(found, [[0.75, 0.25]], atol=1e-6)


def test_without_a_prior_the_rows_decide():
    log_density = np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])
    found = stack_densities(log_density, np.ones((3, 1)), np.zeros((1, 2)))
    np.testing.assert_allclose(found, [[17 / 24, 7 / 24]], atol=1e-6)  # where 1.6/(0.1 + 0.8w) = 0.8/(0.9 - 0.8w)


def test_only_the_ratios_of_the_densities_of_a_row_matter():
    rng = np.random.default_rng(1)
    log_density, shares, prior = rng.normal(size=(20, 2)), np.ones((20, 1)), np.ones((1, 2))
    log_density[0] = [0.0, -1000.0]
    moved = log_density + np.linspace(-2000.0, 2000.0, 20)[:, None]
    expected = stack_densities(log_density, shares, prior)
    np.testing.assert_allclose(stack_densities(moved, shares, prior), expected, rtol=1e-9)


def test_a_row_that_counts_twice_is_two_rows():
    log_density = np.random.default_rng(0).normal(size=(20, 2))
    twice = np.concatenate([log_density, log_density[:5]])
    counts = np.where(np.arange(20) < 5, 2.0, 1.0)
    one = stack_densities(log_density, np.ones((20, 1)), np.ones((1, 2)), counts)
    np.testing.assert_allclose(one, stack_densities(twice, np.ones((25, 1)), np.ones((1, 2))), rtol=1e-9)


@few
@given(st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=9))
def test_shares_of_knots_sum_to_one_and_give_back_a_line(g):
    knots = np.array([-2.0, 0.0, 3.0])
    shares = interpolation(np.array(g), knots)
    assert shares.min() >= 0.0
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(shares @ knots, np.clip(g, -2.0, 3.0), atol=1e-12)


@pytest.mark.parametrize(("J", "K"), [(1, 1), (1, 4), (3, 2), (3, 3), (3, 5)])
def test_the_density_of_a_mixture_is_the_sum_over_knots_and_components(J, K):
    rng = np.random.default_rng(0)
    shares, weights, density = rng.random((40, J)), rng.random((J, K)), rng.random((40, K))
    expected = np.einsum("nj,jk,nk->n", shares, weights, density)
    np.testing.assert_allclose(_mixed(shares, weights, density), expected, rtol=1e-14)
