"""Priors, blocks and the evidence at their edges."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bdkn.errors import ImproperPosteriorError, InvalidParameterError
from bdkn.inference import (
    Prior,
    Spectrum,
    Statistics,
    StudentTProcess,
    block_posterior,
    choose_prior_variance,
    log_evidence,
    posterior,
    transformed_features,
)
from bdkn.inference.evidence import BlockSpectrum, log_determinant

RNG = np.random.default_rng(0)
PHI = RNG.normal(size=(12, 2))
Y = PHI @ np.array([[1.0, -1.0], [0.5, 2.0]]) + 0.3 * RNG.normal(size=(12, 2))


def test_the_default_prior_of_the_noise_is_that_of_jeffreys():
    prior = Prior(0.0, [1.0])
    assert (prior.a0, prior.b0) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a0": math.inf}, "^a0 must be"),
        ({"b0": math.inf}, "^b0 must be"),
        ({"b0": [[1.0, 0.0], [0.0, math.nan]]}, "^b0 must be a number or a finite matrix"),
        ({"b0": [[1.0, 0.5], [0.4, 1.0]]}, "^b0 must be symmetric"),
        ({"precision": [[1.0, 0.5], [0.4, 1.0]]}, "^precision must be symmetric"),
        ({"mean": np.zeros((2, 1, 1))}, "^mean must be a number or"),
    ],
)
def test_wrong_priors_are_refused(given, message):
    with pytest.raises(InvalidParameterError, match=message):
        Prior(**{"mean": 0.0, "precision": [1.0, 1.0], **given})


@pytest.mark.parametrize("n_weights", [0, 1.0, 1.5])
def test_an_isotropic_prior_has_a_whole_number_of_weights(n_weights):
    with pytest.raises(InvalidParameterError, match=r"^n_weights must be an integer"):
        Prior.isotropic(n_weights, 1.0)


def test_a_prior_keeps_its_matrices():
    precision, scale = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([[1.0, 0.2], [0.2, 3.0]])
    prior = Prior(0.0, precision, 1.0, scale)
    precision[0, 0] = scale[0, 0] = 99.0
    assert (prior.precision[0, 0], prior.b0[0, 0]) == (2.0, 1.0)


def test_a_prior_widens_narrow_numbers():
    narrow = np.array([0.1, 0.3], np.float32)
    np.testing.assert_array_equal(Prior(0.0, narrow).root, np.diag(np.sqrt(narrow.astype(np.float64))))
    assert Prior(0.0, [1.0], b0=np.eye(2, dtype=np.float32)).b0.dtype == np.float64


@pytest.mark.parametrize(
    ("a0", "b0", "proper"), [(1.0, 1.0, True), (0.0, 1.0, False), (-0.5, 1.0, False), (1.0, 0.0, False)]
)
def test_a_prior_is_proper_if_both_numbers_of_the_noise_are_positive(a0, b0, proper):
    assert Prior(0.0, [1.0], a0, b0).is_proper is proper


@pytest.mark.parametrize("sizes", [(1e-12, 1e6), (1e6, 1e-12), (1e-12, 1e-12)])
def test_a_flat_prior_takes_columns_of_any_size(sizes):
    post = posterior(Statistics.from_rows((PHI + 3.0) * sizes, Y[:, 0]), Prior(0.0, [0.0, 0.0]))
    wanted = np.linalg.lstsq(PHI + 3.0, Y[:, 0], rcond=None)[0] / sizes
    np.testing.assert_allclose(post.mean, wanted, rtol=1e-9)


def test_a_flat_prior_does_not_take_a_column_of_zeros():
    with pytest.raises(ImproperPosteriorError, match="must be invertible"):
        posterior(Statistics.from_rows(PHI * [1.0, 0.0], Y[:, 0]), Prior(0.0, [0.0, 0.0]))


def test_a_prior_mean_of_several_targets_is_not_one_of_one():
    with pytest.raises(InvalidParameterError, match="the prior mean must be"):
        posterior(Statistics.from_rows(PHI, Y[:, 0]), Prior(np.zeros((2, 2)), [1.0, 1.0]))


def test_transformed_features_have_the_kernel_of_a_full_precision():
    Λ0 = np.array([[2.0, 0.7], [0.7, 1.0]])
    found = transformed_features(PHI, Prior(0.0, Λ0))
    np.testing.assert_allclose(found @ found.T, PHI @ np.linalg.inv(Λ0) @ PHI.T, rtol=1e-12, atol=1e-13)


def test_one_path_or_draw_is_the_default():
    post = posterior(Statistics.from_rows(PHI, Y[:, 0]), Prior.isotropic(2, 1.0))
    assert StudentTProcess(post).paths(PHI).shape == (12, 1)
    assert post.draw()[0].shape == (1, 2)
    assert block_posterior(Statistics.from_rows(PHI, Y), Prior.isotropic(2, 1.0)).draw()[0].shape == (1, 2, 2)


@pytest.mark.parametrize("size", [-1, 1.5, 2.0])
def test_a_number_of_draws_is_whole(size):
    one = posterior(Statistics.from_rows(PHI, Y[:, 0]), Prior.isotropic(2, 1.0))
    block = block_posterior(Statistics.from_rows(PHI, Y), Prior.isotropic(2, 1.0))
    for post in (one, block):
        with pytest.raises(InvalidParameterError, match=r"^size must be an integer >= 0"):
            post.draw(size)


def test_a_seed_gives_the_draws_of_its_normal_and_gamma_numbers():
    post = posterior(Statistics.from_rows([[2.0]], [3.0]), Prior.isotropic(1, 1.0))
    β, σ2 = post.draw(5, 7)
    generator = np.random.default_rng(7)
    np.testing.assert_allclose(σ2, 0.9 / generator.standard_gamma(0.5, 5), rtol=1e-12)
    z = generator.standard_normal((1, 5))[0] * np.sign(post.root[0, 0])
    np.testing.assert_allclose(β[:, 0], 1.2 + np.sqrt(σ2 / 5.0) * z, rtol=1e-12)


@pytest.mark.parametrize("shape", [(2,), (3, 2, 2), (3, 3)])
def test_features_of_another_shape_are_refused(shape):
    post = posterior(Statistics.from_rows(PHI, Y[:, 0]), Prior.isotropic(2, 1.0))
    with pytest.raises(InvalidParameterError, match=r"^Phi must be \(rows, 2\)"):
        post.predictive(np.ones(shape))


def test_a_target_of_a_block_has_its_column_of_the_prior_mean():
    mean = np.array([[1.0, 2.0], [3.0, 4.0]])
    block = block_posterior(Statistics.from_rows(PHI, Y), Prior(mean, [1.0, 1.0]))
    np.testing.assert_array_equal(block.target(1).prior.mean, [2.0, 4.0])


def test_the_distributions_of_a_block_by_their_formulas():
    block = block_posterior(Statistics.from_rows(PHI, Y), Prior.isotropic(2, 1.0))
    inverse = np.linalg.inv(np.eye(2) + PHI.T @ PHI)
    weights = block.weights()
    shapes = np.diag(inverse)[:, None, None] * block.b / block.a
    np.testing.assert_allclose(weights.cov(), shapes / (1.0 - 2.0 / 12.0), rtol=1e-10)
    np.testing.assert_allclose(block.joint(PHI).rows, PHI @ inverse @ PHI.T + np.eye(12), rtol=1e-10, atol=1e-12)
    assert block.noise().df == 13.0


def test_a_number_b0_stands_for_a_multiple_of_the_identity_in_the_evidence():
    stats = Statistics.from_rows(PHI, Y)
    number = log_evidence(stats, Prior.isotropic(2, 1.0, a0=1.5, b0=2.0))
    matrix = log_evidence(stats, Prior.isotropic(2, 1.0, a0=1.5, b0=2.0 * np.eye(2)))
    np.testing.assert_allclose(number, matrix, rtol=1e-13)


@pytest.mark.parametrize("a0", [0.0, -0.5])
def test_the_evidence_under_an_improper_prior_of_the_noise_with_a_scale(a0):
    stats, b0 = Statistics.from_rows(PHI, Y[:, 0]), 0.7
    S = np.eye(12) + PHI @ PHI.T
    a, b = a0 + 6.0, b0 + Y[:, 0] @ np.linalg.solve(S, Y[:, 0]) / 2.0
    wanted = math.lgamma(a) - a * math.log(b) - np.linalg.slogdet(S)[1] / 2.0 - 6.0 * math.log(2.0 * math.pi)
    np.testing.assert_allclose(log_evidence(stats, Prior.isotropic(2, 1.0, a0=a0, b0=b0)), wanted, rtol=1e-12)


def test_the_spectrum_of_a_block_has_no_b0_unless_it_is_given():
    stats = Statistics.from_rows(PHI, Y)
    found = BlockSpectrum.of(stats).log_evidence([0.5, 2.0])
    wanted = [log_evidence(stats, Prior.isotropic(2, t)) for t in (0.5, 2.0)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_determinant_that_is_rounding_is_zero():
    near = 1.0 - 2.0**-53
    assert log_determinant(np.array([[1.0, near], [near, 1.0]])) == -math.inf


def test_a_prior_variance_whose_inverse_is_finite_is_taken():
    assert choose_prior_variance(Statistics.from_rows(PHI, Y[:, 0]), 1e-308) == 1e-308


def test_without_rows_every_prior_variance_is_as_good():
    assert choose_prior_variance(Statistics.empty(2), a0=1.0, b0=1.0) == 1.0


def test_the_highest_evidence_is_where_its_slope_vanishes():
    stats = Statistics.from_rows(PHI, Y[:, 0])
    assert abs(Spectrum.of(stats).slope_at(math.log(choose_prior_variance(stats)))) < 1e-12


def test_a_perfect_fit_has_the_prior_variance_of_the_upper_end():
    Phi = np.linalg.qr(RNG.normal(size=(12, 2)))[0] * [1.0, 1e-3]
    found = choose_prior_variance(Statistics.from_rows(Phi, Phi @ [1.0, 1.0]))
    np.testing.assert_allclose(found, 1e26, rtol=1e-6)


def test_a_peak_after_a_valley_is_found():
    Q = np.linalg.qr(RNG.normal(size=(60, 3)))[0]
    stats = Statistics.from_rows(Q[:, :2] * [1e3, 1e-3], 30.0 * Q[:, 1] + Q[:, 2])
    spectrum, log_t = Spectrum.of(stats), np.linspace(-30.0, 40.0, 20001)
    evidence = spectrum.log_evidence(np.exp(log_t))
    assert spectrum.slope_at(-30.0) < 0.0
    np.testing.assert_allclose(math.log(choose_prior_variance(stats)), log_t[evidence.argmax()], atol=0.01)
