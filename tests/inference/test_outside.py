"""Variance far from the training rows: a random function on which the data do not depend."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from bdkn.inference import Forecast, Outside, combine
from bdkn.inference.combination import directions, features


def case(n=60, H=3, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n)
    means = truth[:, None] + 0.4 * rng.normal(size=(n, H))
    return Forecast.of(means, rng.uniform(0.05, 0.2, (n, H))), truth + noise * rng.normal(size=n)


def far(forecast, u, seed=1):
    Z = np.random.default_rng(seed).normal(size=(len(forecast), 2))
    return replace(forecast, outside=Outside(np.asarray(u, dtype=np.float64), directions(Z)))


def p_value(drawn, dist):
    return kstest(drawn, lambda y: dist.cdf(y[None])[0]).pvalue


@given(u=st.lists(st.sampled_from([0.0, 1e-300, 1e-3, 2.0, 1e12]), min_size=5, max_size=5), seed=st.integers(0, 20))
def test_the_squared_scale_grows_by_it_and_nothing_changes_where_it_is_zero(u, seed):
    forecast, y = case(seed=seed)
    combination, (new, _) = combine(forecast, y), case(5, seed=seed + 1)
    before, after = combination.predictive(new, 2.0, 1.0), combination.predictive(far(new, u), 2.0, 1.0)
    np.testing.assert_array_equal(after.loc, before.loc)
    np.testing.assert_array_equal(after.df, before.df)
    np.testing.assert_allclose(after.scale**2, before.scale**2 + 4.0 * np.array(u), rtol=1e-12)
    unchanged = np.array(u) == 0.0
    np.testing.assert_array_equal(after.scale[unchanged], before.scale[unchanged])


def test_it_is_conditioning_of_a_model_whose_function_is_zero_on_the_rows_learned_from():
    """Condition the joint Gaussian of old and new targets, given σ², by dense algebra."""
    forecast, y = case(40)
    combination, (new, _) = combine(forecast, y, tempering=1.0, tails="posterior"), case(6, seed=5)
    new = far(new, [0.0, 0.1, 0.5, 1.0, 3.0, 9.0])
    post = combination.posterior
    unit = post.b / post.a
    Phi, old = features(np.vstack([forecast.means, new.means])), np.arange(40)
    v = np.concatenate([forecast.variance, new.variance])
    root = np.vstack([np.zeros((40, new.outside.root.shape[1])), new.outside.root])
    K = combination.prior_variance * Phi @ Phi.T + np.diag(v) + root @ root.T / unit
    mean = Phi @ post.prior.mean
    later = np.arange(40, 46)
    gain = np.linalg.solve(K[np.ix_(old, old)], K[np.ix_(old, later)]).T
    np.testing.assert_allclose(combination.predictive(new).loc, mean[later] + gain @ (y - mean[old]), rtol=1e-8)
    shape = unit * (K[np.ix_(later, later)] - gain @ K[np.ix_(old, later)])
    np.testing.assert_allclose(combination.predictive(new).scale ** 2, np.diag(shape), rtol=1e-8)
    df = combination.tails.df
    np.testing.assert_allclose(combination.covariance(new), shape * df / (df - 2), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("tails", ["loo", "posterior"])
def test_draws_have_the_covariance_and_each_row_its_predictive(tails):
    forecast, y = case(200)
    combination, (new, _) = combine(forecast, y, tails=tails), case(4, seed=3)
    new = far(new, [0.0, 0.5, 4.0, 4.0])
    drawn = combination.draw(new, 40_000, np.random.default_rng(0))
    dist = combination.predictive(new)
    for i, row in enumerate(drawn):
        assert p_value(row[:4000], dist[i : i + 1]) > 1e-3
    inner = combination.covariance(new)
    unit = np.sqrt(np.outer(np.diag(inner), np.diag(inner)))
    np.testing.assert_allclose(np.cov(drawn) / unit, inner / unit, atol=0.06)


def test_draws_are_as_before_where_nothing_is_added():
    forecast, y = case()
    combination = combine(forecast, y)
    before, after = (
        combination.draw(some, 7, np.random.default_rng(0)) for some in (forecast, far(forecast, np.zeros(60)))
    )
    np.testing.assert_array_equal(after, before)


def test_a_point_mass_widens_too():
    means = np.random.default_rng(0).normal(size=(30, 2))
    forecast = Forecast.of(means, np.full((30, 2), 0.1))
    combination = combine(forecast, means.mean(axis=1), prior_variance=1e-6, tempering=0.0)
    combination = replace(combination, posterior=replace(combination.posterior, b=0.0))
    new = far(Forecast.of(means[:3], np.full((3, 2), 0.1)), [0.0, 1.0, 4.0])
    np.testing.assert_allclose(combination.predictive(new).scale, [0.0, 1.0, 2.0], atol=1e-12)
    drawn = combination.draw(new, 4000, np.random.default_rng(0))
    assert np.ptp(drawn[0]) < 1e-9
    assert p_value(drawn[2], combination.predictive(new)[2:]) > 1e-3


def test_the_parts_add_up():
    forecast, y = case()
    combination, (new, _) = combine(forecast, y), case(3, seed=2)
    new = far(new, [0.0, 0.5, 2.0])
    parts = combination.variance(new)
    assert parts["outside"][0] == 0.0
    np.testing.assert_allclose(sum(parts.values()), combination.predictive(new).var(), rtol=1e-12)
    np.testing.assert_allclose(sum(parts.values()), np.diag(combination.covariance(new)), rtol=1e-10)


@given(p=st.integers(1, 12), seed=st.integers(0, 50))
def test_directions_are_unit_vectors_opposite_rays_independent_and_the_same_ray_one_function(p, seed):
    ray = np.random.default_rng(seed).normal(size=p)
    found = directions(np.stack([1e6 * ray, 1e9 * ray, -1e6 * ray, 0.0 * ray]))
    k = found @ found.T
    np.testing.assert_allclose(np.diag(k), 1.0, rtol=1e-12)
    assert k[0, 1] > 0.999
    assert abs(k[0, 2]) < 1e-3
    assert (k > -1e-12).all()


def test_the_spread_is_the_variance_among_fits_with_equal_weights_and_does_not_depend_on_the_units_of_members():
    rng = np.random.default_rng(0)
    by_fold = rng.normal(size=(200, 1)) + 0.3 * rng.normal(size=(5, 200, 3))
    forecast = Forecast.of(by_fold, np.full((5, 200, 3), 0.1))
    y = by_fold.mean(axis=(0, 2))
    equal = combine(forecast, y, prior_variance=1e-12)
    np.testing.assert_allclose(
        equal.spread(forecast), by_fold.transpose(1, 0, 2).reshape(200, 15).var(axis=1), rtol=1e-5
    )
    strange = Forecast.of(by_fold * [1.0, 1.0, 1e9], np.full((5, 200, 3), 0.1))
    assert np.median(combine(strange, y, tempering=0.0).spread(strange)) < 3.0
