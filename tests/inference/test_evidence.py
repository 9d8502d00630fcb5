from __future__ import annotations

import numpy as np
import pytest
from designs import problem, problems
from hypothesis import given
from scipy import stats as sp
from scipy.special import gammaln, logsumexp
from test_conjugate import dense_joint, general_prior, over_noise

from bdkn.errors import ImproperPosteriorError, InvalidParameterError
from bdkn.inference import Prior, Spectrum, Statistics, choose_prior_variance, log_evidence, posterior
from bdkn.inference.statistics import Factor


class TestLogEvidence:
    @pytest.mark.parametrize(("a0", "b0"), [(0.0, 0.0), (2.0, 0.5), (1.0, 0.0), (-0.5, 0.0)])
    def test_is_the_integral_over_the_noise(self, a0, b0):
        Phi, y, rng = problem(rows=7, weights=2)
        prior, v = general_prior(2, a0=a0, b0=b0), rng.uniform(0.5, 2.0, 7)

        def density(σ2):
            m, C = dense_joint(Phi, Phi[:0], prior, σ2, v, 0.0)
            return sp.multivariate_normal(m, C).pdf(y)

        integral = over_noise(density, prior, n=401, low=-10.0, high=20.0)
        normaliser = a0 * np.log(b0) - gammaln(a0) if a0 > 0 and b0 > 0 else 0.0
        stats = Statistics.from_rows(Phi, y, precision=1 / v)
        np.testing.assert_allclose(log_evidence(stats, prior), np.log(integral) + normaliser, atol=1e-6)

    def test_is_the_papers_formula_up_to_a_constant(self):
        Phi, y, _ = problem()
        stats = Statistics.from_rows(Phi, y)
        values, papers = [], []
        for variance in (0.1, 1.0, 7.0):
            prior = Prior.isotropic(4, variance)
            post = posterior(stats, prior)
            values.append(log_evidence(stats, prior))
            logdets = np.linalg.slogdet(prior.precision)[1] - np.linalg.slogdet(post.precision)[1]
            papers.append(-post.a * np.log(post.b) + logdets / 2)
        np.testing.assert_allclose(np.diff(values), np.diff(papers), rtol=1e-10)

    def test_is_a_multivariate_t_for_a_proper_prior(self):
        Phi, y, _ = problem(rows=9, weights=3)
        prior = general_prior(3, a0=1.5, b0=0.7)
        shape = prior.b0 / prior.a0 * (np.eye(9) + Phi @ np.linalg.inv(prior.precision) @ Phi.T)
        expected = sp.multivariate_t(Phi @ prior.mean, shape, df=2 * prior.a0).logpdf(y)
        np.testing.assert_allclose(log_evidence(Statistics.from_rows(Phi, y), prior), expected, rtol=1e-11)

    def test_is_the_mean_likelihood_under_the_prior(self):
        Phi, y, _ = problem(rows=3, weights=2)
        prior = general_prior(2, a0=3.0, b0=3.0)
        β, σ2 = posterior(Statistics.empty(2), prior).draw(200_000, random_state=0)
        likelihood = sp.norm(Phi @ β.T, np.sqrt(σ2)).logpdf(y[:, None]).sum(axis=0)
        expected = logsumexp(likelihood) - np.log(len(σ2))
        np.testing.assert_allclose(log_evidence(Statistics.from_rows(Phi, y), prior), expected, atol=0.02)

    def test_is_the_sum_of_one_step_predictions(self):
        Phi, y, _ = problem(rows=10, weights=3)
        prior = general_prior(3)
        total, stats = 0.0, Statistics.empty(3)
        for i in range(10):
            total += posterior(stats, prior).predictive(Phi[i : i + 1]).logpdf(y[i])[0]
            stats = stats + Statistics.from_rows(Phi[i : i + 1], y[i : i + 1])
        np.testing.assert_allclose(log_evidence(stats, prior), total, rtol=1e-11)

    def test_needs_a_definite_prior(self):
        with pytest.raises(ImproperPosteriorError, match="needs a positive definite prior precision"):
            log_evidence(Statistics.from_rows(np.ones((3, 1)), np.arange(3)), Prior(np.zeros(1), 0.0))

    def test_is_infinite_where_the_targets_equal_the_prior_mean(self):
        assert log_evidence(Statistics.from_rows(np.ones((3, 1)), np.zeros(3)), Prior.isotropic(1, 1.0)) == np.inf


class TestSpectrum:
    @given(problems())
    def test_equals_the_posterior_at_every_variance(self, data):
        Phi, y, rng = data
        stats = Statistics.from_rows(Phi, y, precision=rng.uniform(0.5, 2.0, len(y)))
        mean = rng.normal(size=Phi.shape[1])
        spectrum = Spectrum.of(stats, mean, a0=0.5, b0=0.1)
        t = np.logspace(-4, 4, 5)
        priors = [Prior.isotropic(Phi.shape[1], variance, mean, 0.5, 0.1) for variance in t]
        np.testing.assert_allclose(spectrum.b(t), [posterior(stats, prior).b for prior in priors], rtol=1e-8)
        expected = [log_evidence(stats, prior) for prior in priors]
        np.testing.assert_allclose(spectrum.log_evidence(t), expected, rtol=1e-8, atol=1e-8)

    def test_takes_variances_of_any_shape(self):
        spectrum = Spectrum.of(Statistics.from_rows(*problem()[:2]))
        t = np.logspace(-2, 2, 6)
        np.testing.assert_array_equal(spectrum.log_evidence(t.reshape(2, 3)).ravel(), spectrum.log_evidence(t))
        assert spectrum.log_evidence(1.0).shape == ()

    def test_slope_is_the_derivative(self):
        spectrum = Spectrum.of(Statistics.from_rows(*problem()[:2]), a0=0.5, b0=0.2)
        u, h = np.linspace(-6, 6, 13), 1e-5
        difference = (spectrum.log_evidence(np.exp(u + h)) - spectrum.log_evidence(np.exp(u - h))) / (2 * h)
        np.testing.assert_allclose(spectrum.slope(u), difference, rtol=1e-5, atol=1e-7)

    def test_columns_of_all_scales_keep_their_singular_values(self):
        Phi, y, _ = problem(rows=40, weights=5)
        Phi = Phi * 10.0 ** np.array([-8, 8, 0, 4, -4])
        stats = Statistics.from_rows(Phi, y)
        # The product of the singular values is the determinant, which a triangle shows without any cancellation.
        determinant = np.sum(np.log(np.abs(np.diag(stats.root)[:-1])))
        np.testing.assert_allclose(np.sum(np.log(Spectrum.of(stats).s)), determinant, rtol=1e-12)


class TestExactChoice:
    @given(problems(min_rows=6))
    def test_no_other_variance_is_better(self, data):
        Phi, y, _ = data
        stats = Statistics.from_rows(Phi, y)
        spectrum, best = Spectrum.of(stats), choose_prior_variance(stats)
        t = np.exp(np.linspace(np.log(1e-8 / spectrum.s[0] ** 2), np.log(1e20 / spectrum.s[-1] ** 2), 5000))
        top = spectrum.log_evidence(t)
        assert float(spectrum.log_evidence(best)) >= np.max(top) - 1e-9 * np.max(np.abs(top))

    def test_the_slope_vanishes_there(self):
        Phi, y, _ = problem()
        stats = Statistics.from_rows(Phi, y)
        best = choose_prior_variance(stats, mean=0.1, a0=0.5, b0=0.3)
        assert abs(Spectrum.of(stats, 0.1, 0.5, 0.3).slope(np.log(best))) < 1e-10

    @pytest.mark.parametrize(("weak", "low", "high"), [(3.0, 0.0, 1e-2), (7.5, 1e6, np.inf)])
    def test_finds_the_higher_of_two_peaks(self, weak, low, high):
        # A strong direction of Φ that needs a small weight and a weak one that needs a large weight: two maxima.
        root = np.diag([1e3, 1e-3, 5.0])
        root[:2, 2] = 20.0, weak
        stats = Statistics(Factor(root, np.zeros(2)), 50.0, 0.0)
        spectrum = Spectrum.of(stats)
        u = np.linspace(-30, 40, 20000)
        slope = spectrum.slope(u)
        assert np.sum((slope[:-1] > 0) & (slope[1:] <= 0)) == 2
        chosen = choose_prior_variance(stats)
        assert low < chosen < high
        assert spectrum.log_evidence(chosen) >= np.max(spectrum.log_evidence(np.exp(u)))

    def test_scales_with_the_units_of_the_members(self):
        Phi, y, _ = problem()
        one = choose_prior_variance(Statistics.from_rows(Phi, y))
        other = choose_prior_variance(Statistics.from_rows(1e4 * Phi, y))
        np.testing.assert_allclose(other * 1e8, one, rtol=1e-8)

    def test_does_not_depend_on_the_units_of_the_targets(self):
        Phi, y, _ = problem()
        one = choose_prior_variance(Statistics.from_rows(Phi, y))
        np.testing.assert_allclose(choose_prior_variance(Statistics.from_rows(Phi, 1e-5 * y)), one, rtol=1e-8)

    def test_members_that_explain_nothing_are_clipped_to_the_lower_end(self):
        rng = np.random.default_rng(0)
        Phi = np.linalg.qr(rng.normal(size=(40, 3)))[0]
        y = rng.normal(size=40)
        y -= Phi @ (Phi.T @ y)
        np.testing.assert_allclose(choose_prior_variance(Statistics.from_rows(Phi, y)), 1e-8, rtol=1e-6)

    def test_a_perfect_fit_is_clipped_to_the_upper_end(self):
        Phi = np.vstack([np.eye(3), np.eye(3)])
        y = Phi @ [1.0, 2.0, 3.0]
        np.testing.assert_allclose(choose_prior_variance(Statistics.from_rows(Phi, y)), 1e20 / 2, rtol=1e-6)

    @pytest.mark.parametrize("method", ["evidence", "paper"])
    def test_where_nothing_can_be_chosen_it_is_one(self, method):
        assert choose_prior_variance(Statistics.empty(2), method) == 1.0
        assert choose_prior_variance(Statistics.from_rows(np.ones((4, 2)), np.zeros(4)), method) == 1.0

    def test_equal_members_count_once(self):
        Phi, y, _ = problem(weights=2)
        three = Statistics.from_rows(Phi[:, [0, 0, 0]], y)
        one = Statistics.from_rows(np.sqrt(3) * Phi[:, :1], y)  # three equal columns are one of √3 times the length
        np.testing.assert_allclose(choose_prior_variance(three), choose_prior_variance(one), rtol=1e-8)
        t = np.logspace(-10, 40, 6)
        np.testing.assert_allclose(Spectrum.of(three).log_evidence(t), Spectrum.of(one).log_evidence(t), rtol=1e-10)

    def test_dead_members_do_not_count(self):
        Phi, y, _ = problem(weights=3)
        alive = Statistics.from_rows(Phi[:, :2], y)
        with_dead = Statistics.from_rows(Phi * [1.0, 1.0, 0.0], y)
        np.testing.assert_allclose(choose_prior_variance(with_dead), choose_prior_variance(alive), rtol=1e-8)


class TestMostProbableChoice:
    @given(problems())
    def test_no_other_variance_is_more_probable(self, rows):
        Phi, y = rows[:2]
        stats = Statistics.from_rows(Phi, y)
        spectrum = Spectrum.of(stats)
        if len(spectrum.s) == 0 or spectrum.is_exact:
            return
        for size in (0.1, 2.0):

            def log_posterior(t, size=size):
                post = posterior(stats, Prior.isotropic(Phi.shape[1], t))
                return spectrum.log_evidence(t) - 2 * np.log1p(post.b / post.a * t / size**2)

            found = choose_prior_variance(stats, size=size)
            low, best = 1e-8 / spectrum.s[0] ** 2, choose_prior_variance(stats)
            assert low * 0.999 <= found <= best * 1.001
            others = [log_posterior(t) for t in np.geomspace(low, max(best, low), 60)]
            assert log_posterior(found) >= max(others) - 1e-3

    def test_many_rows_decide_alone(self):
        rng = np.random.default_rng(0)
        Phi = rng.normal(size=(20_000, 8))
        stats = Statistics.from_rows(Phi, Phi @ rng.normal(size=8) + 0.5 * rng.normal(size=20_000))
        assert choose_prior_variance(stats, size=1.0) == pytest.approx(choose_prior_variance(stats), rel=0.5)

    def test_a_block_of_one_target_is_that_target(self):
        Phi, y, _ = problem(rows=12, weights=3)
        one, block = Statistics.from_rows(Phi, y), Statistics.from_rows(Phi, y[:, None])
        assert choose_prior_variance(block, size=0.3) == pytest.approx(choose_prior_variance(one, size=0.3), rel=1e-3)


class TestPaperChoice:
    @pytest.mark.no_cover
    @pytest.mark.parametrize(("scale", "noise"), [(1.0, 0.3), (1.0, 3.0), (30.0, 0.3), (1e-3, 1.0)])
    def test_is_torch_adam_on_the_papers_objective(self, scale, noise):
        torch = pytest.importorskip("torch")
        Phi, y, _ = problem(noise=noise)
        Phi = scale * Phi
        P, t = torch.from_numpy(Phi), torch.from_numpy(y)
        log_variance = torch.zeros((), dtype=torch.float64, requires_grad=True)
        adam = torch.optim.Adam([log_variance], lr=0.1)
        for _ in range(5):
            adam.zero_grad()
            Λ0 = torch.exp(-log_variance) * torch.eye(4, dtype=torch.float64)
            Λn = Λ0 + P.T @ P
            μn = torch.linalg.solve(Λn, P.T @ t)
            b = (t @ t - μn @ Λn @ μn) / 2
            loss = len(y) / 2 * torch.log(b) - torch.logdet(Λ0) / 2 + torch.logdet(Λn) / 2
            loss.backward()
            adam.step()
        ours = choose_prior_variance(Statistics.from_rows(Phi, y), "paper")
        np.testing.assert_allclose(ours, float(torch.exp(log_variance.detach())), rtol=1e-7)

    def test_five_steps_end_near_the_root_of_e(self):
        Phi, y, _ = problem(rows=500, noise=0.1)  # weights far larger than the noise: the slope stays positive
        np.testing.assert_allclose(choose_prior_variance(Statistics.from_rows(Phi, y), "paper"), np.exp(0.5), rtol=0.02)


class TestGivenChoice:
    def test_a_number_is_returned(self):
        assert choose_prior_variance(Statistics.empty(2), 3) == 3.0

    def test_refusals(self):
        with pytest.raises(InvalidParameterError, match="prior variance must be a number > 0; got -1"):
            choose_prior_variance(Statistics.empty(2), -1.0)
        with pytest.raises(InvalidParameterError, match="1 / prior variance must be a number >= 0 and finite; got inf"):
            choose_prior_variance(Statistics.empty(1), 1e-310)
        with pytest.raises(
            InvalidParameterError, match="method must be one of 'evidence', 'paper'; got 'papre'; did you mean"
        ):
            choose_prior_variance(Statistics.empty(2), "papre")


def test_the_widest_prior_is_a_bound_and_no_more():
    Phi, y, _ = problem()
    stats = Statistics.from_rows(Phi, y)
    free = choose_prior_variance(stats)
    width = free * float(Spectrum.of(stats).b(free)) * 2 / stats.n
    assert choose_prior_variance(stats, widest=1.01 * width) == pytest.approx(free, rel=1e-9)
    bound = choose_prior_variance(stats, widest=width / 10)
    assert bound * float(Spectrum.of(stats).b(bound)) * 2 / stats.n == pytest.approx(width / 10, rel=1e-6)
    assert choose_prior_variance(stats, widest=1e-300) < 1e-6 * free
