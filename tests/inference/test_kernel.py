from __future__ import annotations

import numpy as np
import pytest
from designs import problem
from scipy import stats as sp
from test_conjugate import general_prior

from bdkn.errors import ImproperPosteriorError, InvalidParameterError
from bdkn.inference import (
    Prior,
    Statistics,
    StudentTProcess,
    induced_kernel,
    posterior,
    prior_mean,
    transformed_features,
)


class TestInducedKernel:
    def test_is_the_double_sum_over_members(self):
        Phi, _, rng = problem(rows=5)
        new, prior, σ2 = rng.normal(size=(3, 4)), general_prior(4), 0.6
        inverse = np.linalg.inv(prior.precision)
        expected = np.zeros((5, 3))
        for h in range(4):
            for g in range(4):
                expected += σ2 * inverse[h, g] * np.outer(Phi[:, h], new[:, g])
        np.testing.assert_allclose(induced_kernel(Phi, new, prior=prior, noise_variance=σ2), expected, rtol=1e-11)

    def test_isotropic_form(self):
        Phi, _, _ = problem(rows=5)
        kernel = induced_kernel(Phi, prior=Prior.isotropic(4, 1.7), noise_variance=0.6)
        np.testing.assert_allclose(kernel, 0.6 * 1.7 * Phi @ Phi.T, rtol=1e-12)

    def test_is_the_covariance_of_functions_drawn_from_the_prior(self):
        Phi, _, rng = problem(rows=3)
        prior, σ2 = general_prior(4), 0.6
        β = rng.multivariate_normal(prior.mean, σ2 * np.linalg.inv(prior.precision), 200_000)
        f = Phi @ β.T
        np.testing.assert_allclose(np.cov(f), induced_kernel(Phi, prior=prior, noise_variance=σ2), rtol=0.03, atol=0.01)
        np.testing.assert_allclose(f.mean(axis=1), prior_mean(Phi, prior), atol=0.01)

    def test_transformed_features_and_rank(self):
        Phi, _, _ = problem(rows=30)
        prior = general_prior(4)
        features = transformed_features(Phi, prior)
        np.testing.assert_allclose(features @ features.T, induced_kernel(Phi, prior=prior), rtol=1e-12, atol=1e-12)
        assert features.shape == (30, 4)
        assert np.linalg.matrix_rank(induced_kernel(Phi, prior=prior)) == 4

    def test_refusals(self):
        with pytest.raises(ImproperPosteriorError, match="needs a positive definite prior precision"):
            induced_kernel(np.ones((2, 1)), prior=Prior(np.zeros(1), 0.0))
        with pytest.raises(InvalidParameterError, match="noise_variance must be a number >= 0"):
            induced_kernel(np.ones((2, 1)), prior=Prior(np.zeros(1), 1.0), noise_variance=-1.0)


class TestStudentTProcess:
    @pytest.fixture
    def process(self):
        Phi, y, _ = problem()
        return StudentTProcess(posterior(Statistics.from_rows(Phi, y), general_prior(4)))

    def test_before_any_data_it_has_the_induced_kernel(self):
        prior = general_prior(3, a0=2.0, b0=3.0)
        process = StudentTProcess(posterior(Statistics.empty(3), prior))
        Phi, _, rng = problem(rows=6, weights=3)
        new = rng.normal(size=(2, 3))
        np.testing.assert_allclose(process.mean(Phi), prior_mean(Phi, prior), rtol=1e-12)
        # The covariance is that given σ², at the mean of σ² ~ Inv-Gamma(2, 3), which is 3.
        expected = induced_kernel(Phi, new, prior=prior, noise_variance=3.0)
        np.testing.assert_allclose(process.covariance(Phi, new), expected, rtol=1e-11)

    def test_conditioning_is_that_of_a_student_t_process(self):
        prior = general_prior(3, a0=2.0, b0=3.0)
        Phi, y, rng = problem(rows=8, weights=3)
        new = rng.normal(size=(4, 3))
        before = StudentTProcess(posterior(Statistics.empty(3), prior))
        after = StudentTProcess(posterior(Statistics.from_rows(Phi, y), prior))
        K = before.shape(Phi) + prior.b0 / prior.a0 * np.eye(8)
        gain = np.linalg.solve(K, before.shape(Phi, new)).T
        r = y - before.mean(Phi)
        np.testing.assert_allclose(after.mean(new), before.mean(new) + gain @ r, rtol=1e-10)
        inflation = (before.df + r @ np.linalg.solve(K, r)) / (before.df + 8)
        conditioned = inflation * (before.shape(new) - gain @ before.shape(Phi, new))
        np.testing.assert_allclose(after.shape(new), conditioned, rtol=1e-9, atol=1e-12)
        assert after.df == before.df + 8

    def test_marginal_is_the_predictive_without_noise(self, process):
        Phi, _, _ = problem(rows=5, seed=1)
        np.testing.assert_allclose(process.marginal(Phi).scale ** 2, np.diag(process.shape(Phi)), rtol=1e-12)
        np.testing.assert_allclose(process.marginal(Phi).loc, process.mean(Phi), rtol=1e-13)
        assert np.all(process.marginal(Phi).scale < process.posterior.predictive(Phi).scale)

    def test_covariance_is_that_of_the_joint(self, process):
        Phi, _, _ = problem(rows=3, seed=1)
        np.testing.assert_allclose(process.covariance(Phi), process.joint(Phi).cov(), rtol=1e-12)

    def test_covariance_needs_more_than_two_degrees_of_freedom(self):
        process = StudentTProcess(posterior(Statistics.from_rows(np.ones((1, 1)), [1.0]), Prior.isotropic(1, 1.0)))
        with pytest.raises(InvalidParameterError, match="df must be a number > 2"):
            process.covariance(np.ones((1, 1)))

    def test_paths_stay_in_the_span_of_the_members(self, process):
        Phi, _, _ = problem(rows=30, seed=1)
        paths = process.paths(Phi, 10, random_state=0)
        assert paths.shape == (30, 10)
        outside = paths - Phi @ np.linalg.lstsq(Phi, paths)[0]
        assert np.max(np.abs(outside)) < 1e-12 * np.max(np.abs(paths))

    def test_paths_follow_the_marginals(self, process):
        Phi, _, _ = problem(rows=1, seed=1)
        paths = process.paths(Phi, 20_000, random_state=0)
        assert sp.kstest(paths[0], lambda t: process.marginal(Phi).cdf(t[None, :])[0]).pvalue > 0.01
