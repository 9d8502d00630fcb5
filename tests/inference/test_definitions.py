"""Parts of the combination, of statistics and of priors against their definition, written out."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from designs import fit_tails, problem, published_posterior, published_without_compiled_code

from bdkn.errors import InvalidParameterError
from bdkn.inference import (
    Absorbed,
    Forecast,
    Outside,
    Prior,
    Statistics,
    StudentTProcess,
    Tails,
    block_posterior,
    choose_prior_variance,
    combine,
    induced_kernel,
    log_evidence,
    posterior,
    published_combination,
)
from bdkn.inference.conformal import weights_without_each
from bdkn.predictive import StudentT


def example(n=30, H=3, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n)
    means = truth[:, None] + np.array([0.2, 0.5, 0.9])[:H] * rng.normal(size=(n, H))
    return Forecast.of(means, rng.uniform(0.05, 0.5, size=(n, H))), truth + 0.2 * rng.normal(size=n)


@pytest.fixture(scope="module")
def fitted():
    forecast, y = example()
    return combine(forecast, y, prior_variance=0.1, tempering=0.7), forecast, y


class TestCombination:
    @pytest.mark.parametrize("counted", [False, True])
    def test_members_that_are_means_of_fits_save_a_share_of_the_variance(self, fitted, counted):
        found, forecast, _ = fitted
        fold_variance = 0.02 * np.random.default_rng(1).uniform(size=(30, 3))
        counts = np.arange(1.0, 31.0) if counted else None
        saved = fold_variance @ found.weights**2 / found.predictive(forecast).scale ** 2
        assert 0.01 < saved.mean() < 0.2
        expected = np.sqrt(1.0 - np.average(saved, weights=counts))
        assert found.averaged(forecast, fold_variance, counts).averaging == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize("counted", [False, True])
    def test_new_rows_have_the_variance_of_the_mean_and_of_chance(self, counted):
        forecast, y = example(6, seed=2)
        counts = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 1.0]) if counted else None
        found = combine(forecast, y, counts, prior_variance=0.1, tempering=0.7)
        n, level = (9.0 if counted else 6.0), found.noise_std**2
        spread = np.average((y - np.average(y, weights=counts)) ** 2, weights=counts)
        rows = 81.0 / n**3
        chance = (n + rows * max(1.0, spread / level)) / (n + rows)
        new = found.for_new_rows(y, counts)
        assert new.averaging == pytest.approx(np.sqrt(chance * (n + 1.0) / (n - 1.0)), rel=1e-12)
        exact = replace(found, posterior=replace(found.posterior, b=0.0))
        assert exact.for_new_rows(y, counts) is exact

    @pytest.mark.parametrize(
        "weights",
        [[0.5, 0.3, 0.2], [1.5, -0.2, 0.1], [1.0, -1.0, 0.3], [-2.0, 0.5, 0.1], [0.2, -0.1, 0.0], [0.0] * 3],
    )
    @pytest.mark.parametrize("folds", [False, True])
    def test_the_spread_is_that_of_all_fits_about_their_weighted_mean(self, fitted, weights, folds):
        found, forecast, _ = fitted
        β = np.array(weights)
        found = replace(found, posterior=replace(found.posterior, mean=np.append(β, 0.1)))
        if folds:
            forecast = replace(forecast, fold_variance=np.full((30, 3), 0.04))
        total, size = sum(weights), sum(map(abs, weights))
        share = β / total if abs(total) > 0.5 * size else β / (size or 1.0)
        expected = [
            3.0 * sum(b**2 * ((m - row @ share) ** 2 + 0.04 * folds) for b, m in zip(β, row, strict=True))
            for row in forecast.means
        ]
        np.testing.assert_allclose(found.spread(forecast), expected, rtol=1e-12, atol=1e-15)

    def test_leave_one_out_has_the_tails_of_the_combination(self, fitted):
        found, forecast, y = fitted
        own = replace(found, tails=Tails(found.posterior.df, 1.0)).leave_one_out(forecast, y)
        chosen = replace(found, tails=Tails(4.0, 0.7)).leave_one_out(forecast, y)
        np.testing.assert_allclose(own.df, found.posterior.df - 1.0)
        np.testing.assert_array_equal(chosen.df, 4.0)
        np.testing.assert_allclose(chosen.scale, 0.7 * own.scale)


class TestAbsorbed:
    def test_the_precision_of_later_rows(self, fitted):
        found, _, _ = fitted
        found = replace(found, averaging=0.8, tails=Tails(5.0, 1.3))
        forecast, y = example(8, seed=3)
        outside = Outside(np.linspace(0.0, 2.0, 8))
        state = Absorbed(found, Statistics.empty(4), Statistics.empty(4))
        noise = 0.8**2 * forecast.variance**0.7
        np.testing.assert_allclose(state.precision(forecast), 1.0 / noise, rtol=1e-12)
        unit = 1.3**2 * found.posterior.b / found.posterior.a
        far = replace(forecast, outside=outside)
        np.testing.assert_allclose(state.precision(far), 1.0 / (noise + outside.variance / unit), rtol=1e-12)
        certain = replace(state, fitted=replace(found, posterior=replace(found.posterior, b=0.0)))
        np.testing.assert_allclose(certain.precision(far), 1.0 / noise, rtol=1e-12)
        assert y.shape == (8,)

    def test_counts_and_degrees_of_freedom(self, fitted):
        found, forecast, y = fitted
        counts = np.arange(30.0)
        state = Absorbed.start(replace(found, tails=Tails(7.0, 1.3)), forecast, y, counts)
        assert (state.base.n, state.combination().n) == (435.0, 435.0)
        assert (state.combination().tails.df, state.combination().tails.scale) == (7.0, 1.3)
        own = Absorbed.start(replace(found, tails=Tails(found.posterior.df, 1.0)), forecast, y)
        more = own.add(own.statistics_of(forecast, y)).combination()
        assert more.tails.df == more.posterior.df == 60.0


def test_parts_of_a_forecast_keep_the_variance_of_their_folds():
    rng = np.random.default_rng(0)
    means, variances = rng.normal(size=(4, 5, 3)), rng.uniform(size=(4, 5, 3))
    whole = Forecast.of(means, variances)
    np.testing.assert_allclose(whole.fold_variance, means.var(axis=0))
    parts = [Forecast.of(means[:, rows], variances[:, rows]) for rows in (slice(0, 2), slice(2, 5))]
    np.testing.assert_array_equal(Forecast.concatenate(parts).fold_variance, whole.fold_variance)
    assert Forecast.of(means[0], variances[0]).fold_variance is None
    assert Forecast.concatenate(parts[:1]) is parts[0]


class TestStatistics:
    @pytest.mark.parametrize(
        ("sizes", "message"),
        [((0,), "n_weights"), ((1.5,), "n_weights"), ((2, 0), "n_targets"), ((2, 1.5), "n_targets")],
    )
    def test_sizes_of_empty_statistics(self, sizes, message):
        with pytest.raises(InvalidParameterError, match=f"{message} must be"):
            Statistics.empty(*sizes)

    def test_names_in_errors(self):
        Phi, y, _ = problem(10, 3)
        stats, other = Statistics.from_rows(Phi, y), Statistics.from_rows(Phi[:, :2], y)
        for call in (stats.merge, stats.remove):
            with pytest.raises(InvalidParameterError, match=r"^other must have 3 weights; got 2"):
                call(other)
        with pytest.raises(InvalidParameterError, match=r"^every chunk must have 3 weights; got 2"):
            Statistics.from_chunks([(Phi, y), (Phi[:, :2], y)])
        with pytest.raises(InvalidParameterError, match=r"^precision must be finite and > 0"):
            Statistics.from_rows(Phi, y, precision=np.zeros(10))
        with pytest.raises(InvalidParameterError, match=r"^counts must be finite and >= 0"):
            Statistics.from_rows(Phi, y, counts=-np.ones(10))

    def test_no_more_rows_leave_than_there_are(self):
        Phi, y, _ = problem(10, 3)
        stats = Statistics.from_rows(Phi, y)
        with pytest.raises(InvalidParameterError, match="the number of observations left must be"):
            stats.remove(Statistics.from_rows(Phi, y, counts=np.full(10, 1.01)))
        for shift in (1e-3, 1.0):
            with pytest.raises(InvalidParameterError, match="must be among those that were added"):
                stats.remove(Statistics.from_rows(Phi * (1.0 - shift / 2.0), y))
        left = stats.remove(Statistics.from_rows(Phi, y, counts=np.full(10, 1.0 + 1e-14)))
        assert (left.n, left.root.any(), left.ref.any()) == (0.0, False, False)

    def test_arguments_are_not_changed(self):
        Phi, y, _ = problem(10, 3)
        whole, part = Statistics.from_rows(Phi, y), Statistics.from_rows(Phi[:4], y[:4])
        before = whole.root.copy(), part.root.copy()
        whole.remove(part)
        np.testing.assert_array_equal(whole.root, before[0])
        np.testing.assert_array_equal(part.root, before[1])
        assert whole.discount(1.0) is whole

    def test_single_precision_is_widened_first(self):
        Phi, y, _ = problem(20, 3)
        Phi, y, Y = (part.astype(np.float32) for part in (Phi, y, np.column_stack([y, y**2 + Phi[:, 0]])))
        wide = (part.astype(np.float64) for part in (Phi, y, Y))
        weights = np.linspace(0.5, 2.0, 20, dtype=np.float32)
        prior = Prior.isotropic(3, 1.0)

        def numbers(Phi, y, Y, w):
            post = posterior(Statistics.from_rows(Phi, y, precision=w, counts=w), prior)
            block = block_posterior(Statistics.from_rows(Phi, Y), prior)
            left = post.leave_one_out(Phi, y, w, w)
            many = block.leave_one_out(Phi, Y, w, w)
            tails = fit_tails(StudentT(30.0, np.zeros(20), 1.0), y, w)
            process = StudentTProcess(post)
            return [
                post.mean, [post.b], post.predictive(Phi).scale, post.joint(Phi, w).shape, left.loc, left.scale,
                many.loc, many.shape, [tails.df, tails.scale], induced_kernel(Phi, prior=prior), process.mean(Phi),
                process.paths(Phi, 2, 0), block.predictive(Phi, w).shape,
            ]  # fmt: skip

        for one, other in zip(numbers(Phi, y, Y, weights), numbers(*wide, weights.astype(np.float64)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)


class TestPrior:
    def test_arrays_that_are_given_may_change_later(self):
        precision, scale = np.array([[2.0, 0.5], [0.5, 1.0]]), np.eye(2)
        prior = Prior(0.0, precision, b0=scale)
        precision[0, 0] = scale[0, 0] = 99.0
        assert (prior.precision[0, 0], prior.b0[0, 0]) == (2.0, 1.0)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"a0": np.inf}, "a0 must be"),
            ({"a0": -np.inf}, "a0 must be"),
            ({"b0": np.inf}, "b0 must be"),
            ({"b0": [[1.0, np.nan], [np.nan, 1.0]]}, "b0 must be a number or a finite matrix"),
            ({"mean": np.zeros((2, 1, 1))}, "mean must be a number or"),
            ({"precision": [[1.0, 1e-6], [0.0, 1.0]]}, "precision must be symmetric"),
            ({"precision": [[1.0, 1.0], [1.0, 1.0 - 1e-9]]}, "precision must be positive semi-definite"),
        ],
    )
    def test_numbers_that_are_refused(self, arguments, message):
        with pytest.raises(InvalidParameterError, match=message):
            Prior(**{"mean": 0.0, "precision": np.eye(2), **arguments})

    def test_integers_and_defaults(self):
        prior = Prior(0, [1, 4])
        assert (prior.a0, prior.b0, prior.root.dtype, prior.precision.dtype) == (0.0, 0.0, np.float64, np.float64)
        for number in (0, 1.5):
            with pytest.raises(InvalidParameterError, match="n_weights must be"):
                Prior.isotropic(number, 1.0)

    @pytest.mark.parametrize(
        ("a0", "b0", "proper"), [(1.0, 1.0, True), (0.0, 1.0, False), (-0.5, 1.0, False), (1.0, 0.0, False)]
    )
    def test_a_proper_prior_has_both_numbers_of_the_noise(self, a0, b0, proper):
        assert Prior.isotropic(2, 1.0, a0=a0, b0=b0).is_proper is proper
        assert not Prior([0.0, 0.0], 0.0, a0=1.0, b0=1.0).is_proper


def test_draws_are_one_by_default_and_whole_numbers():
    Phi, y, _ = problem(10, 3)
    one = posterior(Statistics.from_rows(Phi, y), Prior.isotropic(3, 1.0))
    block = block_posterior(Statistics.from_rows(Phi, np.column_stack([y, y**2])), Prior.isotropic(3, 1.0))
    assert [part.shape for part in one.draw()] == [(1, 3), (1,)]
    assert [part.shape for part in block.draw()] == [(1, 3, 2), (1, 2, 2)]
    assert StudentTProcess(one).paths(Phi).shape == (10, 1)
    for post in (one, block):
        for size in (-1, 1.5):
            with pytest.raises(InvalidParameterError, match="size must be"):
                post.draw(size)
    np.testing.assert_allclose(block.joint(Phi).rows, block.joint(Phi, 1.0).rows)
    np.testing.assert_allclose(np.diag(block.joint(Phi).rows), 1.0 + block.target(0).leverage(Phi))


def test_a_target_that_is_fitted_exactly_has_no_variance_without_a_row():
    Phi, y, _ = problem(10, 2)
    Y = np.column_stack([y, np.zeros(10)])
    left = block_posterior(Statistics.from_rows(Phi, Y), Prior.isotropic(2, 1.0)).leave_one_out(Phi, Y)
    alone = posterior(Statistics.from_rows(Phi, y), Prior.isotropic(2, 1.0)).leave_one_out(Phi, y)
    np.testing.assert_allclose(left.target(0).scale, alone.scale, rtol=1e-9)
    np.testing.assert_array_equal(left.shape[:, 1, 1], 0.0)
    np.testing.assert_array_equal(left.loc[:, 1], 0.0)


def test_a_prior_variance_that_is_given_has_a_reciprocal():
    stats = Statistics.from_rows(*problem(10, 2)[:2])
    assert choose_prior_variance(stats, 0.3) == 0.3
    for number in (0.0, 1e-320, -1.0):
        with pytest.raises(InvalidParameterError, match="prior variance must be"):
            choose_prior_variance(stats, number)


class TestPublished:
    @pytest.mark.parametrize("weights", [(), (None,), (None, None)])
    def test_rows_that_count_once(self, weights):
        Phi, y, _ = problem(12, 3)
        found = published_combination([(Phi, y, *weights)], "paper")
        expected = published_without_compiled_code((Phi, y))
        np.testing.assert_allclose(found.posterior.mean, expected.posterior.mean, rtol=1e-9)
        assert (found.n, found.evidence) == pytest.approx((12.0, expected.evidence))

    def test_weights_of_rows_count(self):
        Phi, y, rng = problem(12, 3)
        w, c = rng.uniform(0.2, 3.0, 12), rng.integers(1, 4, 12).astype(float)
        for weights in ((w,), (w, c), (None, c)):
            found = published_combination([(Phi, y, *weights)], "paper")
            options = dict(zip(("precision", "counts"), weights, strict=False))
            stats = Statistics.from_rows(Phi, y, **options)
            np.testing.assert_allclose(found.posterior.mean, published_posterior(stats).mean, rtol=1e-9)
            assert found.n == stats.n

    @pytest.mark.parametrize("rows", [slice(0, 11), slice(0, 0)])
    def test_targets_must_fit_the_rows(self, rows):
        Phi, y, _ = problem(12, 3)
        for chunk in ((Phi, y[rows]), (Phi[:, :0], y), (Phi[:, 0], y), (Phi, y[:, None, None])):
            with pytest.raises(InvalidParameterError, match=r"Phi must be \(rows, weights\)"):
                published_combination([chunk], "paper")

    def test_two_chunks_are_all_of_their_rows(self):
        Phi, y, _ = problem(12, 3)
        for cut in (1, 5):
            found = published_combination(iter([(Phi[:cut], y[:cut]), (Phi[cut:], y[cut:])]), "paper")
            assert found.evidence == pytest.approx(published_combination([(Phi, y)], "paper").evidence, rel=1e-9)


@pytest.mark.parametrize("a0", [1.3, 0.0, -0.4])
def test_a_number_for_the_scale_of_a_block_is_that_times_the_identity(a0):
    Phi, y, _ = problem(12, 3)
    stats = Statistics.from_rows(Phi, np.column_stack([y, y**2]))
    by_number = log_evidence(stats, Prior.isotropic(3, 0.5, a0=a0, b0=0.7))
    assert by_number == pytest.approx(
        log_evidence(stats, Prior.isotropic(3, 0.5, a0=a0, b0=0.7 * np.eye(2))), rel=1e-12
    )


@pytest.mark.parametrize("a0", [0.0, -0.4])
def test_an_improper_prior_of_the_noise_is_not_normalised(a0):
    """One row y = 2 with Φ = 1 and Λ₀ = 1: bₙ = b₀ + y²/4, Λₙ = 2 and aₙ = a₀ + ½."""
    a, b = a0 + 0.5, 0.7 + 1.0
    expected = math.lgamma(a) - a * math.log(b) - math.log(2.0) / 2.0 - math.log(2.0 * math.pi) / 2.0
    found = log_evidence(Statistics.from_rows([[1.0]], [2.0]), Prior.isotropic(1, 1.0, a0=a0, b0=0.7))
    assert found == pytest.approx(expected, rel=1e-12)


def test_weights_and_noise_of_a_block():
    Phi, y, _ = problem(12, 3)
    prior = Prior(np.arange(6.0).reshape(3, 2) / 10.0, np.eye(3))
    block = block_posterior(Statistics.from_rows(Phi, np.column_stack([y, y**2])), prior)
    weights = block.weights()
    np.testing.assert_allclose(weights.loc, block.mean)
    inverse = np.linalg.inv(block.root.T @ block.root)
    for j in range(2):
        np.testing.assert_allclose(weights.target(j).scale, np.sqrt(np.diag(inverse) * block.b[j, j] / block.a))
        np.testing.assert_array_equal(block.target(j).prior.mean, prior.mean[:, j])


def test_weights_without_each_row_count_every_row_once():
    Phi, y, rng = problem(12, 3)
    w, prior = rng.uniform(0.5, 2.0, 12), Prior.isotropic(3, 0.7)
    post = posterior(Statistics.from_rows(Phi, y, precision=w), prior)
    for i, found in enumerate(weights_without_each(post, Phi, y, w)):
        rest = np.arange(12) != i
        others = posterior(Statistics.from_rows(Phi[rest], y[rest], precision=w[rest]), prior)
        np.testing.assert_allclose(found, others.mean, rtol=1e-9)
