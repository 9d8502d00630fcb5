from __future__ import annotations

import numpy as np
import pytest
from designs import problem, problems
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as sp
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct
from sklearn.linear_model import BayesianRidge

from bdkn.errors import ImproperPosteriorError, InvalidParameterError
from bdkn.inference import Prior, Statistics, posterior
from bdkn.predictive import MultivariateT, StudentT


def general_prior(H, seed=0, a0=1.5, b0=0.7):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(H, H))
    return Prior(rng.normal(size=H), A @ A.T + np.eye(H), a0, b0)


def fit(Phi, y, prior, **weights):
    return posterior(Statistics.from_rows(Phi, y, **weights), prior)


def dense_joint(Phi, new, prior, σ2, v, v_new):
    """Return mean and covariance of (y, y*) given σ², with β integrated out, as one (N + M)-dimensional Gaussian."""
    both = np.vstack([Phi, new])
    noise = np.diag(np.concatenate([np.broadcast_to(v, len(Phi)), np.broadcast_to(v_new, len(new))]))
    return both @ prior.mean, σ2 * (both @ np.linalg.inv(prior.precision) @ both.T + noise)


def over_noise(f, prior, n=4001, low=-25.0, high=25.0):
    """Integrate f(σ²) against the prior density σ^(-2(a+1)) exp(-b/σ²), by the trapezoid rule in log σ²."""
    u = np.linspace(low, high, n)
    density = np.array([f(σ2) for σ2 in np.exp(u)])
    return np.trapezoid(density * np.exp(-prior.a0 * u - prior.b0 * np.exp(-u)), u)


class TestPosterior:
    @pytest.mark.parametrize("a0", [0.0, 1.5])
    def test_updates_are_the_papers_formulas(self, a0):
        Phi, y, _ = problem()
        prior = general_prior(4, a0=a0, b0=a0)
        post = fit(Phi, y, prior)
        Λ0, μ0 = prior.precision, prior.mean
        Λn = Λ0 + Phi.T @ Phi
        μn = np.linalg.solve(Λn, Λ0 @ μ0 + Phi.T @ y)
        np.testing.assert_allclose(post.precision, Λn, rtol=1e-12)
        np.testing.assert_allclose(post.mean, μn, rtol=1e-12)
        assert post.a == a0 + len(y) / 2
        np.testing.assert_allclose(post.b, prior.b0 + (y @ y + μ0 @ Λ0 @ μ0 - μn @ Λn @ μn) / 2, rtol=1e-12)

    def test_precision_weighted_updates(self):
        Phi, y, rng = problem()
        v, prior = rng.uniform(0.1, 5.0, len(y)), general_prior(4)
        post = fit(Phi, y, prior, precision=1 / v)
        Λn = prior.precision + Phi.T @ np.diag(1 / v) @ Phi
        np.testing.assert_allclose(post.precision, Λn, rtol=1e-12)
        np.testing.assert_allclose(
            post.mean, np.linalg.solve(Λn, prior.precision @ prior.mean + Phi.T @ (y / v)), rtol=1e-12
        )

    def test_given_the_noise_it_is_gaussian_conditioning(self):
        Phi, y, rng = problem()
        new, v, v_new = rng.normal(size=(5, 4)), rng.uniform(0.5, 2.0, len(y)), rng.uniform(0.5, 2.0, 5)
        prior = general_prior(4)
        post = fit(Phi, y, prior, precision=1 / v)
        m, C = dense_joint(Phi, new, prior, 1.0, v, v_new)
        N = len(y)
        gain = np.linalg.solve(C[:N, :N], C[:N, N:]).T
        joint = post.joint(new, noise=v_new)
        np.testing.assert_allclose(joint.loc, m[N:] + gain @ (y - m[:N]), rtol=1e-10)
        np.testing.assert_allclose(joint.shape * post.a / post.b, C[N:, N:] - gain @ C[:N, N:], rtol=1e-9, atol=1e-12)
        residual = np.linalg.solve(C[:N, :N], y - m[:N]) @ (y - m[:N])
        np.testing.assert_allclose(post.b, prior.b0 + residual / 2, rtol=1e-10)

    def test_no_rows_leave_the_prior(self):
        prior = general_prior(3)
        post = posterior(Statistics.empty(3), prior)
        np.testing.assert_allclose(post.mean, prior.mean, rtol=1e-13)
        np.testing.assert_allclose(post.precision, prior.precision, rtol=1e-12)
        assert post.a == prior.a0
        np.testing.assert_allclose(post.b, prior.b0, rtol=1e-12)

    def test_yesterdays_posterior_is_todays_prior(self):
        Phi, y, _ = problem()
        prior = general_prior(4)
        first = fit(Phi[:18], y[:18], prior)
        second = fit(Phi[18:], y[18:], Prior(first.mean, first.precision, first.a, first.b))
        batch = fit(Phi, y, prior)
        np.testing.assert_allclose(second.mean, batch.mean, rtol=1e-11)
        np.testing.assert_allclose([second.a, second.b], [batch.a, batch.b], rtol=1e-11)
        np.testing.assert_allclose(second.scale_matrix, batch.scale_matrix, rtol=1e-10)

    def test_bayesian_ridge_at_its_hyperparameters(self):
        Phi, y, _ = problem(rows=60)
        ridge = BayesianRidge(fit_intercept=False, max_iter=3, alpha_init=2.0, lambda_init=0.5).fit(Phi, y)
        post = fit(Phi, y, Prior.isotropic(4, ridge.alpha_ / ridge.lambda_))
        np.testing.assert_allclose(post.mean, ridge.coef_, rtol=1e-10)
        np.testing.assert_allclose(np.linalg.inv(post.precision) / ridge.alpha_, ridge.sigma_, rtol=1e-9)

    def test_gaussian_process_with_the_induced_kernel(self):
        Phi, y, rng = problem(rows=25)
        new, σ2, σβ2 = rng.normal(size=(6, 4)), 0.3, 1.7
        kernel = ConstantKernel(σ2 * σβ2) * DotProduct(sigma_0=0.0, sigma_0_bounds="fixed")
        gp = GaussianProcessRegressor(kernel, alpha=σ2, optimizer=None).fit(Phi, y)
        post = fit(Phi, y, Prior.isotropic(4, σβ2))
        mean, covariance = gp.predict(new, return_cov=True)
        np.testing.assert_allclose(post.predictive(new).mean(), mean, rtol=1e-9)
        np.testing.assert_allclose(σ2 * post.kernel(new) * post.a / post.b, covariance, rtol=1e-7, atol=1e-10)

    def test_a_flat_prior_gives_least_squares(self):
        Phi, y, _ = problem()
        post = fit(Phi, y, Prior(np.zeros(4), 0.0))
        solution, rss = np.linalg.lstsq(Phi, y)[:2]
        np.testing.assert_allclose(post.mean, solution, rtol=1e-11)
        np.testing.assert_allclose(2 * post.b, rss[0], rtol=1e-11)

    @given(problems(), st.sampled_from([1e-3, 1.0, 1e3]))
    def test_permuting_members_permutes_weights(self, data, variance):
        Phi, y, rng = data
        order = rng.permutation(Phi.shape[1])
        one = fit(Phi, y, Prior.isotropic(Phi.shape[1], variance, 0.3, 1.0, 1.0))
        other = fit(Phi[:, order], y, Prior.isotropic(Phi.shape[1], variance, 0.3, 1.0, 1.0))
        np.testing.assert_allclose(other.b, one.b, rtol=1e-9)
        spread = one.weights().scale[order]
        np.testing.assert_allclose(other.mean / spread, one.mean[order] / spread, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(other.weights().scale, spread, rtol=1e-8)

    @given(problems(), st.sampled_from([1e-6, 0.5, 1e5]), st.sampled_from([-3.0, 0.0, 1e3]))
    def test_affine_changes_of_the_targets(self, data, scale, shift):
        Phi, y, _ = data
        Phi = np.column_stack([np.ones(len(y)), Phi])  # the shift must lie in the span, and in the prior mean
        H = Phi.shape[1]
        moved = np.zeros(H)
        moved[0] = shift
        one = fit(Phi, y, Prior.isotropic(H, 2.0, 0.0, 0.5, 1.0)).predictive(Phi).affine(scale, shift)
        other = fit(Phi, scale * y + shift, Prior.isotropic(H, 2.0, moved, 0.5, scale**2)).predictive(Phi)
        lost = 1e-15 * abs(shift) / scale  # digits the inputs themselves lose when the shift is added
        np.testing.assert_allclose(other.scale, one.scale, rtol=1e-8 + 100 * lost)
        np.testing.assert_allclose((other.loc - one.loc) / one.scale, 0.0, atol=1e-7 + 100 * lost)

    def test_float32_rows(self):
        Phi, y, _ = problem()
        prior = general_prior(4)
        narrow, wide = (fit(Phi.astype(np.float32).astype(kind), y, prior) for kind in (np.float32, np.float64))
        np.testing.assert_array_equal(narrow.mean, wide.mean)
        assert narrow.predictive(Phi.astype(np.float32)).loc.dtype == np.float64


class TestPredictive:
    @pytest.mark.no_cover
    @pytest.mark.parametrize(("a0", "b0"), [(0.0, 0.0), (2.0, 0.5)])
    def test_density_is_the_integral_over_the_noise(self, a0, b0):
        Phi, y, rng = problem(rows=8, weights=2)
        prior = general_prior(2, a0=a0, b0=b0)
        new, v, v_new = rng.normal(size=(1, 2)), rng.uniform(0.5, 2.0, 8), 0.7
        predictive = fit(Phi, y, prior, precision=1 / v).predictive(new, noise=v_new)
        targets = predictive.loc + predictive.scale * np.array([-3.0, 0.0, 0.4, 8.0])

        def joint(target):
            def density(σ2):
                m, C = dense_joint(Phi, new, prior, σ2, v, v_new)
                return sp.multivariate_normal(m, C).pdf(np.append(y, target))

            return over_noise(density, prior, n=401, low=-10.0, high=15.0)

        def marginal(σ2):
            m, C = dense_joint(Phi, new[:0], prior, σ2, v, 0.0)
            return sp.multivariate_normal(m, C).pdf(y)

        expected = [joint(target) / over_noise(marginal, prior, n=401, low=-10.0, high=15.0) for target in targets]
        np.testing.assert_allclose(predictive.pdf(targets[None, :])[0], expected, rtol=1e-6)

    def test_is_the_papers_student_t(self):
        Phi, y, rng = problem()
        post = fit(Phi, y, Prior.isotropic(4, 1.0))
        new = rng.normal(size=(6, 4))
        predictive = post.predictive(new)
        assert isinstance(predictive, StudentT)
        np.testing.assert_array_equal(predictive.df, len(y))
        np.testing.assert_allclose(predictive.loc, new @ post.mean, rtol=1e-12)
        s2 = post.b / post.a * (1 + np.sum(new * np.linalg.solve(post.precision, new.T).T, axis=1))
        np.testing.assert_allclose(predictive.scale**2, s2, rtol=1e-12)

    def test_joint_has_the_predictive_as_marginals(self):
        Phi, y, rng = problem()
        post, new, v = fit(Phi, y, general_prior(4)), rng.normal(size=(6, 4)), rng.uniform(0.5, 2.0, 6)
        joint, alone = post.joint(new, noise=v), post.predictive(new, noise=v)
        assert isinstance(joint, MultivariateT)
        np.testing.assert_allclose(joint.marginal().scale, alone.scale, rtol=1e-12)
        np.testing.assert_array_equal(joint.marginal().df, alone.df)
        np.testing.assert_allclose(joint.loc, alone.loc)

    def test_joint_density_factorises_into_one_step_predictions(self):
        Phi, y, _ = problem(rows=12, weights=3)
        prior = general_prior(3)
        whole = fit(Phi[:8], y[:8], prior).joint(Phi[8:]).logpdf(y[8:])
        steps = [fit(Phi[:i], y[:i], prior).predictive(Phi[i : i + 1]).logpdf(y[i : i + 1])[0] for i in range(8, 12)]
        np.testing.assert_allclose(whole, np.sum(steps), rtol=1e-10)

    def test_draws_follow_it(self):
        Phi, y, rng = problem(rows=6, weights=2)
        post = fit(Phi, y, Prior.isotropic(2, 1.0))
        new = np.array([[0.5, -2.0]])
        β, σ2 = post.draw(20_000, random_state=1)
        draws = (β @ new[0]) + np.sqrt(σ2) * rng.normal(size=len(σ2))
        assert sp.kstest(draws, lambda t: post.predictive(new).cdf(t[None, :])[0]).pvalue > 0.01

    @pytest.mark.no_cover
    def test_calibrated_when_the_prior_is_true(self):
        rng = np.random.default_rng(5)
        prior = general_prior(2, a0=2.0, b0=1.0)
        ranks = []
        for _ in range(1500):
            β, σ2 = posterior(Statistics.empty(2), prior).draw(1, rng)
            Phi = rng.normal(size=(6, 2))
            y = Phi @ β[0] + np.sqrt(σ2[0]) * rng.normal(size=6)
            ranks.append(fit(Phi[:5], y[:5], prior).predictive(Phi[5:]).cdf(y[5:])[0])
        assert sp.kstest(ranks, "uniform").pvalue > 0.01

    def test_features_of_another_width_are_refused(self):
        Phi, y, _ = problem()
        post = fit(Phi, y, Prior.isotropic(4, 1.0))
        with pytest.raises(InvalidParameterError, match=r"Phi must be \(rows, 4\); got shape \(2, 3\)"):
            post.predictive(np.ones((2, 3)))


class TestWeights:
    def test_marginals_and_intervals(self):
        Phi, y, _ = problem()
        post = fit(Phi, y, general_prior(4))
        β, _ = post.draw(20_000, random_state=2)
        weights = post.weights()
        for h in range(4):
            assert sp.kstest(β[:, h], lambda t, h=h: weights[h].cdf(t[None, :])[0]).pvalue > 0.001
        low, high = post.weights().interval(0.8)
        np.testing.assert_allclose(np.mean((β > low) & (β < high), axis=0), 0.8, atol=0.015)

    def test_covariance_and_scale_matrix(self):
        Phi, y, _ = problem()
        post = fit(Phi, y, general_prior(4))
        inverse = np.linalg.inv(post.precision)
        np.testing.assert_allclose(post.scale_matrix, post.b / post.a * inverse, rtol=1e-11)
        np.testing.assert_allclose(post.covariance, post.b / (post.a - 1) * inverse, rtol=1e-11)
        β, _ = post.draw(200_000, random_state=3)
        np.testing.assert_allclose(np.cov(β.T), post.covariance, rtol=0.1, atol=2e-4)

    def test_covariance_needs_more_than_two_degrees_of_freedom(self):
        post = fit(np.ones((1, 1)), [1.0], Prior.isotropic(1, 1.0))
        with pytest.raises(
            InvalidParameterError, match="a covariance needs more than 2 degrees of freedom; there are 1"
        ):
            _ = post.covariance

    def test_noise_is_inverse_gamma(self):
        Phi, y, _ = problem()
        post = fit(Phi, y, general_prior(4))
        _, σ2 = post.draw(20_000, random_state=4)
        assert sp.kstest(σ2, post.noise().cdf).pvalue > 0.01
        np.testing.assert_allclose(post.noise().mean(), post.b / (post.a - 1))

    def test_the_same_seed_gives_the_same_draws(self):
        post = fit(*problem()[:2], general_prior(4))
        np.testing.assert_array_equal(post.draw(3, random_state=0)[0], post.draw(3, random_state=0)[0])
        assert post.draw(0)[0].shape == (0, 4)


class TestPrior:
    def test_isotropic_precision_is_the_inverse_of_the_variance(self):
        prior = Prior.isotropic(3, 4.0, mean=0.5)
        np.testing.assert_array_equal(prior.precision, np.eye(3) / 4.0)
        np.testing.assert_array_equal(prior.mean, 0.5)

    @pytest.mark.parametrize(
        ("mean", "precision"),
        [(np.zeros(3), 2.0), (0.0, np.full(3, 2.0)), (0.0, 2.0 * np.eye(3)), ([0, 0, 0], [2, 2, 2])],
    )
    def test_numbers_and_diagonals_stand_for_vectors_and_matrices(self, mean, precision):
        prior = Prior(mean, precision)
        np.testing.assert_array_equal(prior.mean, np.zeros(3))
        np.testing.assert_array_equal(prior.precision, 2.0 * np.eye(3))

    @pytest.mark.parametrize(
        ("prior", "proper"),
        [
            (Prior(np.zeros(2), 1.0, 1.0, 1.0), True),
            (Prior(np.zeros(2), 1.0), False),
            (Prior(np.zeros(2), 1.0, 1.0, 0.0), False),
            (Prior(np.zeros(2), 0.0, 1.0, 1.0), False),
            (Prior(np.zeros(2), [1.0, 0.0], 1.0, 1.0), False),
        ],
    )
    def test_is_proper(self, prior, proper):
        assert prior.is_proper is proper

    def test_root_of_a_singular_precision(self):
        direction = np.array([1.0, 2.0, -1.0])
        prior = Prior(0.0, np.outer(direction, direction))
        np.testing.assert_allclose(prior.root.T @ prior.root, prior.precision, atol=1e-14)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((0.0, 1.0), r"mean must be a number or \(H,\)"),
            ((np.zeros(2), np.eye(3)), r"got shapes \(2,\) and \(3, 3\)"),
            ((np.zeros(2), np.ones((2, 3))), r"got shapes \(2,\) and \(2, 3\)"),
            (([np.nan, 0.0], 1.0), "mean and precision must be finite"),
            ((np.zeros(2), [[1.0, 2.0], [0.0, 1.0]]), "precision must be symmetric"),
            ((np.zeros(2), [1.0, -1.0]), "precision must be positive semi-definite; its smallest eigenvalue is -1"),
            ((np.zeros(2), 1.0, np.nan), "a0 must be a number"),
            ((np.zeros(2), 1.0, 0.0, -1.0), "b0 must be a number >= 0"),
        ],
    )
    def test_refusals(self, arguments, message):
        with pytest.raises(InvalidParameterError, match=message):
            Prior(*arguments)

    @pytest.mark.parametrize("variance", [4.0, 0.3, 1e-9, 7e20])
    def test_shrinking_is_isotropic_to_the_last_bit(self, variance):
        mean = np.array([0.2, -0.3, 0.0])
        one, other = Prior.shrinking(mean, variance), Prior.isotropic(3, variance, mean)
        assert vars(one).keys() == vars(other).keys()
        for name, value in vars(other).items():
            np.testing.assert_array_equal(getattr(one, name), value)

    @pytest.mark.parametrize("variance", [0.0, -1.0, np.nan])
    def test_isotropic_refusals(self, variance):
        with pytest.raises(InvalidParameterError, match="variance must be a number > 0"):
            Prior.isotropic(2, variance)


class TestImproper:
    def test_no_rows_under_jeffreys(self):
        with pytest.raises(ImproperPosteriorError, match=r"a0 \+ n/2 must exceed zero.*got 0: add rows"):
            posterior(Statistics.empty(2), Prior.isotropic(2, 1.0))

    @pytest.mark.parametrize("rows", [1, 30])
    def test_dependent_members_under_a_flat_prior(self, rows):
        Phi, y, _ = problem(rows=rows)
        Phi[:, 3] = Phi[:, 0] - 2 * Phi[:, 1]
        with pytest.raises(ImproperPosteriorError, match=r"Λ₀ \+ ΦᵀΦ must be invertible.*Prior.isotropic"):
            fit(Phi, y, Prior(np.zeros(4), 0.0))

    def test_prior_and_statistics_about_different_weights(self):
        with pytest.raises(InvalidParameterError, match="prior must have 3 weights; got 2"):
            posterior(Statistics.empty(3), Prior.isotropic(2, 1.0))

    def test_targets_equal_to_the_prior_mean_are_a_point_mass(self):
        Phi = np.arange(6.0).reshape(3, 2)
        post = fit(Phi, np.zeros(3), Prior.isotropic(2, 1.0))
        assert post.b == 0.0
        np.testing.assert_array_equal(post.predictive(Phi).scale, 0.0)
        with pytest.raises(ImproperPosteriorError, match="give a b0 > 0"):
            post.noise()
