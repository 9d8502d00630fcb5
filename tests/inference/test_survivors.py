"""Small things of the posterior that whole fits rarely show: each against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from designs import fit_tails
from scipy.optimize import minimize_scalar
from scipy.stats import t as student_t

from bdkn.errors import InvalidParameterError
from bdkn.inference import (
    Absorbed,
    Forecast,
    Prior,
    Statistics,
    StudentTProcess,
    block_posterior,
    combine,
    posterior,
    rowwise,
    transformed_features,
)
from bdkn.inference.combination import _loss
from bdkn.inference.conformal import upper_end, weights_without_each
from bdkn.inference.published import published_combination
from bdkn.predictive import StudentT


@pytest.mark.parametrize("coverage", [0.0, 0.003, 0.5, 0.77, 0.998])
def test_the_end_of_an_interval_is_an_order_statistic_of_many_values(coverage):
    values = np.random.default_rng(0).normal(size=(999, 3))
    expected = np.sort(values, axis=0)[max(round(coverage * 1000.0), 1) - 1]
    np.testing.assert_array_equal(upper_end(values, coverage), expected)


def test_whole_numbers_are_taken_for_floats():
    rng = np.random.default_rng(0)
    Phi, y, counts = rng.integers(-3, 4, size=(12, 2)), rng.integers(-5, 6, size=12), rng.integers(1, 4, size=12)
    as_floats = [array.astype(float) for array in (Phi, y, counts)]
    found = []
    for phi, target, c in ((Phi, y, counts), as_floats):
        post = posterior(Statistics.from_rows(phi, target, counts=c), Prior.isotropic(2, 1.0))
        others = post.leave_one_out(phi, target, counts=c)
        tails = fit_tails(StudentT(50.0, np.zeros(12), 1.0), target, c)
        process = StudentTProcess(post)
        forecast = Forecast.of(phi.astype(float), np.full((12, 2), 0.1))
        whole = combine(forecast, target, counts=c)
        features = transformed_features(phi, Prior.isotropic(2, 1.0))
        parts = [others.loc, others.scale, process.mean(phi), process.paths(phi, 3, 0), whole.weights, features]
        found.append([*parts, [tails.df, tails.scale]])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


def test_members_of_no_columns_are_refused_by_the_published_model():
    with pytest.raises(InvalidParameterError, match="at least one weight"):
        published_combination([(np.empty((3, 0)), np.ones(3))], "paper")


@pytest.mark.parametrize("unit", [1.0, 1e5])
def test_a_member_that_is_right_but_for_rounding_leaves_no_noise_in_any_unit(unit):
    rng = np.random.default_rng(2)
    means = unit * rng.normal(size=(40, 1))
    forecast = Forecast.of(means, np.full((40, 1), unit**2))
    state = Absorbed.start(combine(forecast, means[:, 0]), forecast, means[:, 0])
    for error, left in ((1e-15, False), (1e-12, True)):
        y = means[:, 0] * (1.0 + error * rng.normal(size=40))
        assert (state.add(state.statistics_of(forecast, y)).combination().posterior.b > 0.0) == left


@pytest.mark.parametrize("ν", [3.0, 30.0, 1e6])
@pytest.mark.parametrize("share_of_small", [0.1, 0.49, 0.51, 0.9])
def test_the_scale_of_tails_is_found_below_and_above_where_the_search_begins(ν, share_of_small):
    z2 = np.where(np.arange(100) < 100 * share_of_small, 0.01, 1.0)
    loss, scale = _loss(ν, float(np.median(z2)), z2, np.full(100, 0.01))

    def brute(log_κ):
        return -student_t.logpdf(np.sqrt(z2), ν, 0.0, np.exp(log_κ)).mean()

    best = minimize_scalar(brute, bracket=(np.log(scale) - 0.1, np.log(scale) + 0.1), options={"xtol": 1e-10})
    assert loss == pytest.approx(best.fun, abs=1e-9)
    assert np.log(scale) == pytest.approx(best.x, abs=1e-6)


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_all_rows_can_be_removed_whatever_the_size_of_the_targets(offset):
    rng = np.random.default_rng(3)
    Phi = np.column_stack([np.ones(50), rng.normal(size=(50, 2))])
    y = offset + 1e-3 * rng.normal(size=50)
    whole = Statistics.from_rows(Phi[:20], y[:20]) + Statistics.from_rows(Phi[20:], y[20:])
    left = whole - Statistics.from_rows(Phi[::-1], y[::-1])
    assert left.n == 0.0


def test_blocks_take_whole_numbers_for_floats():
    rng = np.random.default_rng(4)
    Phi, Y = rng.integers(-3, 4, size=(15, 2)), rng.integers(-3, 4, size=(15, 2))
    post = block_posterior(Statistics.from_rows(Phi, Y), Prior.isotropic(2, 1.0))
    whole, floats = (post.leave_one_out(Phi.astype(kind), Y.astype(kind)) for kind in (int, float))
    np.testing.assert_array_equal(whole.loc, floats.loc)
    np.testing.assert_array_equal(whole.shape, floats.shape)
    np.testing.assert_array_equal(post.predictive(Phi, 2).shape, post.predictive(Phi, 2.0).shape)


@pytest.mark.parametrize(("root", "Phi"), [((2, 2), (3, 1)), ((1, 2), (3, 2)), ((2, 1), (3, 2)), ((2, 2), (2,))])
def test_compiled_code_gets_only_roots_and_rows_that_fit(root, Phi):
    with pytest.raises(InvalidParameterError, match=r"root must be \(H, H\) for Phi \(n, H\); got"):
        rowwise.leverage(np.ones(root), np.ones(Phi))


def test_weights_without_the_only_row_that_determines_one_are_finite():
    Phi, y = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([1.0, 2.0, 5.0])
    post = posterior(Statistics.from_rows(Phi, y), Prior.isotropic(2, 1e20))
    found = weights_without_each(post, Phi, y, np.ones(3))
    np.testing.assert_allclose(found[:2], [[2.0, 5.0], [1.0, 5.0]])
    assert np.isfinite(found).all()


@pytest.mark.parametrize("a0", [-np.inf, np.inf, np.nan])
def test_the_shape_of_a_prior_is_a_finite_number(a0):
    with pytest.raises(InvalidParameterError, match="a0 must"):
        Prior(0.0, [1.0, 1.0], a0=a0)


def test_a_row_has_the_noise_of_the_model_by_default():
    Phi, y = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([1.0, 2.0, 4.0])
    post = posterior(Statistics.from_rows(Phi, y), Prior.isotropic(2, 1.0))
    np.testing.assert_array_equal(post.location_scale(Phi), post.location_scale(Phi, 1.0))
    np.testing.assert_array_equal(post.predictive(Phi).scale, post.predictive(Phi, 1.0).scale)
    np.testing.assert_array_equal(post.joint(Phi).shape, post.joint(Phi, 1.0).shape)
