"""Combinations, their updates, tails and variance outside, by their formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from designs import average_weights, fit_tails, published_posterior
from scipy import stats as scipy_stats

from bdkn.errors import ImproperPosteriorError, InvalidParameterError
from bdkn.inference import Absorbed, Forecast, Outside, Prior, Statistics, Tails, combine, posterior
from bdkn.inference.combination import Combination, directions, features, student_t_covariance
from bdkn.inference.conformal import HeldOutPredictors
from bdkn.inference.posterior import ROUNDING, Posterior, block_posterior, without_rounding
from bdkn.inference.published import published_combination
from bdkn.inference.rowwise import compiled, leverage, location_scale, whitened
from bdkn.inference.weights import WeightPosterior
from bdkn.kernels import conjugate as kernels
from bdkn.predictive import StudentT

RNG = np.random.default_rng(0)
MEANS = RNG.normal(size=(30, 1)) + 0.5 * RNG.normal(size=(30, 2))
FORECAST = Forecast.of(MEANS, RNG.uniform(0.1, 0.5, (30, 2)))
Y = MEANS @ [0.7, 0.3] + 0.2 * RNG.normal(size=30)


def given(weights, b=1.0, tails=None, **fields):
    """Return a combination without a constant that has these weights."""
    H = len(weights)
    post = Posterior(np.array(weights), 2.0 * np.eye(H), 4.0, b, Prior.isotropic(H, 1.0))
    made = Combination(post, 1.0, 0.0, 8.0, 0.0, 1.0, Tails(8.0, 1.0), intercept=False)
    return replace(made, tails=tails or made.tails, **fields)


def test_what_averaging_saves_by_its_formula():
    model = given([0.6, 0.4], b=2.0, tempering=1.0, tails=Tails(5.0, 0.9))
    fold = RNG.uniform(0.0, 0.3, (30, 2))
    scale2 = 0.9**2 * 0.5 * (FORECAST.variance + np.sum(MEANS**2, axis=1) / 4.0)
    share = np.mean(np.minimum(fold @ [0.36, 0.16] / scale2, 0.8))
    np.testing.assert_allclose(model.averaged(FORECAST, fold).averaging, np.sqrt(1.0 - share), rtol=1e-12)


def test_averaging_of_a_certain_model():
    certain = given([0.6, 0.4], b=0.0)
    assert certain.averaged(FORECAST, np.zeros((30, 2))).averaging == 1.0
    np.testing.assert_allclose(certain.averaged(FORECAST, np.ones((30, 2))).averaging, np.sqrt(0.2))


@pytest.mark.parametrize("outside", [None, Outside(np.array([0.0, 4.0, 1.0]), np.eye(3))])
@pytest.mark.parametrize("tails", [None, Tails(3.0, 1.5)])
def test_draws_by_hand(outside, tails):
    forecast = replace(Forecast.of(MEANS[:3], np.ones((3, 2))), outside=outside)
    model = given([0.6, 0.4], b=1.0, tails=tails)
    found, generator = model.draw(forecast, 40, np.random.default_rng(3)), np.random.default_rng(3)
    κ = model.tails.scale
    β, σ2 = model.posterior.draw(40, generator)
    drawn = MEANS[:3] @ β.T + np.sqrt(σ2) * generator.standard_normal((3, 40))
    scale2 = 0.25 * (1.0 + np.sum(MEANS[:3] ** 2, axis=1) / 4.0)
    if outside is not None:
        drawn = drawn + np.sqrt(σ2 * 4.0) * outside.draw(40, generator) / κ
        scale2 = scale2 + outside.variance / κ**2
    loc, scale = (MEANS[:3] @ [0.6, 0.4])[:, None], np.sqrt(scale2)[:, None]
    if tails is not None:
        drawn = loc + κ * scale * scipy_stats.t.ppf(scipy_stats.t.cdf((drawn - loc) / scale, 8.0), 3.0)
    np.testing.assert_allclose(found, drawn, rtol=1e-13 if tails is None else 1e-8)


def test_own_tails_leave_draws_as_they_are():
    model = given([0.6, 0.4])
    β, σ2 = model.posterior.draw(9, generator := np.random.default_rng(3))
    noise = np.sqrt(np.outer(np.ones(30), σ2)) * generator.standard_normal((30, 9))
    np.testing.assert_array_equal(model.draw(FORECAST, 9, np.random.default_rng(3)), MEANS @ β.T + noise)


def test_draws_of_a_certain_model_vary_only_outside():
    forecast = replace(Forecast.of(MEANS[:2], np.ones((2, 2))), outside=Outside(np.array([0.0, 4.0]), np.eye(2)))
    drawn = given([0.6, 0.4], b=0.0, tails=Tails(3.0, 1.0)).draw(forecast, 20, np.random.default_rng(0))
    np.testing.assert_allclose(drawn[0], MEANS[0] @ [0.6, 0.4], rtol=1e-12)
    assert np.isfinite(drawn).all()
    assert np.std(drawn[1]) > 0.5


def test_the_covariance_of_two_degrees_of_freedom():
    np.testing.assert_array_equal(student_t_covariance(2.0, np.array([0.0, 1.0, 3.0])), [0.0, np.inf, np.inf])


def test_members_that_are_right_but_for_rounding_are_exact():
    y = 100.0 * MEANS.mean(axis=1)
    forecast = Forecast.of(100.0 * MEANS, np.ones((30, 2)))
    fitted = combine(forecast, y, tempering=0.0)
    assert (fitted.posterior.b, fitted.score, fitted.evidence) == (0.0, np.inf, np.inf)
    weights = average_weights(fitted, forecast, y)
    assert (weights.df, weights.log_bayes_factor) == (fitted.posterior.df, 0.0)
    np.testing.assert_array_equal(weights.mean, fitted.weights)
    near = combine(forecast, y * (1.0 + 1e-9 * RNG.normal(size=30)), tempering=0.0)
    assert near.posterior.b > 0.0
    assert np.isfinite(near.score)


@pytest.mark.parametrize("tails", ["loo", "posterior"])
@pytest.mark.parametrize(("rows", "counts"), [(2, None), (30, None), (30, np.arange(1.0, 31.0))])
def test_the_score_is_the_mean_log_density_of_each_row_given_the_others(rows, counts, tails):
    forecast = Forecast.of(MEANS[:rows], np.ones((rows, 2)))
    fitted = combine(forecast, Y[:rows], counts, tempering=0.0, tails=tails, prior_variance=1.0)
    densities = fitted.leave_one_out(forecast, Y[:rows], counts).logpdf(Y[:rows])
    wanted = np.average(densities, weights=counts)
    np.testing.assert_allclose(fitted.score, wanted, rtol=1e-12)


def test_the_prior_variance_has_a_prior_of_its_own_in_units_of_a_weight():
    from bdkn.inference import Spectrum

    fitted = combine(FORECAST, Y, tempering=0.0)
    spectrum = Spectrum.of(Statistics.from_rows(features(MEANS), Y), [0.5, 0.5, 0.0])
    t = np.geomspace(1e-8, 1e4, 20001)
    height = spectrum.log_evidence(t) - 2.0 * np.log1p(4.0 * t * spectrum.b(t) / spectrum.a)
    np.testing.assert_allclose(np.log(fitted.prior_variance), np.log(t[height.argmax()]), atol=0.01)


def absorbed(**fields):
    fitted = replace(combine(FORECAST, Y, tempering=1.0, tails="posterior"), **fields)
    return Absorbed.start(fitted, FORECAST, Y)


def test_a_state_without_later_rows_is_that_of_the_fit():
    state = absorbed()
    assert state.total is state.base
    rows = state.statistics_of(FORECAST, Y)
    assert state.add(rows).later is rows
    assert Absorbed.start(state.fitted, FORECAST, Y, np.full(30, 2.0)).base.n == 60.0


@pytest.mark.parametrize(("times", "b"), [(1.0 - 1e-9, 0.0), (1.0 + 1e-9, None)])
def test_squared_errors_below_the_rounding_of_squared_targets_are_none(times, b):
    Phi, w, c = features(MEANS), np.linspace(1.0, 2.0, 30), np.arange(30.0)
    y = Phi @ [1.0, 2.0, 3.0] + 1e-8 * RNG.normal(size=30)
    stats = Statistics.from_rows(Phi, y, precision=w, counts=c)
    assert stats.ref.any()
    post = replace(posterior(stats, Prior.isotropic(3, 1.0)), b=times * ROUNDING * np.sum(w * c * y**2))
    assert without_rounding(post, stats).b == (post.b if b is None else b)
    large = replace(stats, factor=replace(stats.factor, root=1e200 * np.eye(4)))
    assert without_rounding(post, large) is post


@pytest.mark.parametrize(("factor", "apart"), [(3.5, True), (3.0, False), (2.5, False)])
def test_members_differ_with_a_bayes_factor_above_three(factor, apart):
    assert WeightPosterior(3.0, np.zeros(1), np.eye(1), np.log(factor)).weights_identified is apart


def test_weights_of_many_rows_do_not_overflow():
    y = RNG.normal(size=2000)
    forecast = Forecast.of(y[:, None] + [0.01, 3.0] * RNG.normal(size=(2000, 2)), np.ones((2000, 2)))
    assert 700.0 < average_weights(combine(forecast, y, tempering=0.0), forecast, y).log_bayes_factor < np.inf


def test_directions_have_about_the_arc_cosine_kernel_and_stay_the_same():
    Z = np.array([[0.0, 0.0], [1e6, 0.0], [-1e6, 0.0], [3e6, 0.0], [0.0, 1e6]])
    found = directions(Z)
    K = found @ found.T
    assert found.shape == (5, 128)
    assert found.min() == 0.0
    np.testing.assert_allclose(np.diag(K), 1.0)
    np.testing.assert_allclose([K[1, 2], K[1, 3]], [0.0, 1.0], atol=1e-5)
    np.testing.assert_allclose([K[1, 4], K[0, 1]], 1.0 / np.pi, atol=0.12)
    drawn = np.random.default_rng(0).standard_normal((3, 64))[-1]
    np.testing.assert_allclose(found[0], np.r_[np.maximum(drawn, 0), np.maximum(-drawn, 0)] / np.linalg.norm(drawn))


def test_a_joint_prediction_needs_directions():
    with pytest.raises(AssertionError, match=r"^rows of a joint prediction have directions"):
        _ = Outside(np.ones(2)).root


def test_tails_have_at_most_the_largest_degrees_of_freedom():
    y = scipy_stats.norm.ppf((np.arange(200) + 0.5) / 200)
    assert fit_tails(StudentT(np.r_[3.0, np.full(199, 1000.0)], np.zeros(200), 1.0), y).df > 100.0


def test_tails_of_rows_that_are_predicted_exactly():
    assert fit_tails(StudentT(10.0, np.zeros(4), 1.0), [0.0, 0.0, 1.0, 2.0]) is None
    assert fit_tails(StudentT(10.0, np.zeros(4), [1.0, 1.0, 1.0, 0.0]), [1.0, -1.0, 1.0, 2.0]) is None
    y, counts = np.r_[np.zeros(10), 1.0, -2.0, 3.0, 1.5], np.r_[np.full(10, 0.01), np.ones(4)]
    assert np.isfinite(fit_tails(StudentT(10.0, np.zeros(14), 1.0), y, counts).scale)


def test_the_published_model_by_default_and_with_precisions():
    default = published_combination([(MEANS, Y)])
    assert default.prior_variance == published_combination([(MEANS, Y)], "evidence").prior_variance
    w = np.linspace(1.0, 5.0, 30)
    wanted = published_posterior(Statistics.from_rows(MEANS, Y, precision=w))
    np.testing.assert_allclose(published_combination([(MEANS, Y, w)], "paper").weights, wanted.mean, rtol=1e-10)


def test_the_published_model_refuses_wrong_rows():
    with pytest.raises(InvalidParameterError, match=r"^every chunk must have 2 weights; got 3"):
        published_combination([(MEANS, Y), (MEANS, Y), (np.ones((3, 3)), np.ones(3))], "paper")
    for chunk in [(MEANS, Y[:5]), (np.ones((3, 0)), np.ones(3))]:
        with pytest.raises(InvalidParameterError, match=r"^Phi must be"):
            published_combination([chunk], "paper")
    with pytest.raises(ImproperPosteriorError):
        published_combination([(np.ones((0, 2)), np.ones(0))], "paper")


def test_compiled_code_is_used_unless_it_is_switched_off(monkeypatch):
    root, Phi = np.eye(2), MEANS
    for name in ("leverage", "whitened", "location_scale"):
        monkeypatch.setattr(kernels, name, lambda *_, name=name: name)

    def call():
        return [
            leverage(root, Phi),
            whitened(root, Phi),
            location_scale(root, np.ones(2), Phi, np.ones(30), 1.0),
        ]

    assert call() == ["leverage", "whitened", "location_scale"]
    with compiled(False):
        np.testing.assert_allclose(call()[0], np.sum(Phi**2, axis=1))
        np.testing.assert_allclose(call()[2][1], np.sqrt(1.0 + np.sum(Phi**2, axis=1)))


@pytest.mark.parametrize("enabled", [True, False])
def test_the_rest_of_a_row_is_zero_if_it_is_rounding(enabled):
    with compiled(enabled):
        found = whitened(np.array([[1.0, -1.0], [0.0, 1e-12]]), np.array([[1.0, -1.0 - 2.0**-52]]))
    np.testing.assert_array_equal(found, [[1.0], [0.0]])


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_leave_one_out_of_a_block_is_a_fit_without_the_row(size):
    targets = size * np.column_stack([Y, MEANS[:, 0] + 0.3 * RNG.normal(size=30)])
    prior = Prior.isotropic(2, 1.0)
    found = block_posterior(Statistics.from_rows(MEANS, targets), prior).leave_one_out(MEANS, targets)
    rest = block_posterior(Statistics.from_rows(MEANS[1:], targets[1:]), prior).predictive(MEANS[:1])
    np.testing.assert_allclose(found.cov()[0], rest.cov()[0], rtol=1e-9)


def test_widths_of_predictors_keep_their_digits_far_from_zero():
    members = np.array([[0.0, 1.0, 0.5], [2.0, 2.5, 0.25]])
    shifts = np.array([2.0**30, -(2.0**30)])
    fits = np.zeros((4, 3), int)
    model = HeldOutPredictors(fits, fits, np.full((4, 3), 1 / 3), np.zeros(4), np.ones(4), 1.0)
    outputs = ((members + shifts[:, None])[None], np.zeros((1, 2, 3)), np.zeros(2))
    (_, width), *_ = model.ends(outputs)
    np.testing.assert_allclose(width[0], members.std(axis=1), rtol=1e-6)
    for value in RNG.normal(size=20):
        same = (np.full((1, 2, 3), value), np.zeros((1, 2, 3)), np.zeros(2))
        assert np.isfinite(next(iter(model.ends(same)))[1]).all()
