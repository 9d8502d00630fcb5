"""The triangular factor: ranks, references of blocks, and products in twice the precision."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from bdkn.inference import Prior, Statistics, block_posterior, posterior
from bdkn.inference.statistics import _two_product, _two_sum


def test_a_combination_of_columns_keeps_its_small_part():
    rng = np.random.default_rng(0)
    a, b = np.linalg.qr(rng.normal(size=(20, 2)))[0].T
    Phi = np.column_stack([a, b, a + 1e-9 * b])
    factor, order, _, s = Statistics.from_rows(Phi, rng.normal(size=20)).factor.denoised
    assert len(s) == 2
    R = factor.root[:3, :3]
    found = (R.T @ R)[np.ix_(np.argsort(order), np.argsort(order))]
    np.testing.assert_allclose(found, Phi.T @ Phi, rtol=0.0, atol=1e-14)


def test_a_block_of_nearly_equal_members_of_full_rank_is_each_target_by_itself():
    rng = np.random.default_rng(0)
    Phi = rng.normal(size=(20, 1)) + 1e-8 * rng.normal(size=(20, 3))
    Y = Phi[:, :1] + 0.1 * rng.normal(size=(20, 2))
    prior = Prior.isotropic(3, 1.0)
    block = block_posterior(Statistics.from_rows(Phi, Y), prior)
    for j in range(2):
        alone = posterior(Statistics.from_rows(Phi, Y[:, j]), prior)
        np.testing.assert_allclose(block.mean[:, j], alone.mean, rtol=1e-8)
        np.testing.assert_allclose(block.b[j, j], alone.b, rtol=1e-10)


def test_a_block_has_a_reference_only_where_a_target_has_lost_digits():
    rng = np.random.default_rng(0)
    Phi, noise = rng.normal(size=(30, 2)), rng.normal(size=(30, 2))
    plain = Phi @ np.ones((2, 2)) + 0.3 * noise
    np.testing.assert_array_equal(Statistics.from_rows(Phi, plain * [1.0, 1e6]).ref, 0.0)
    np.testing.assert_array_equal(Statistics.from_rows(Phi, plain * [1e6, 1.0]).ref, 0.0)


def test_the_reference_of_a_block_is_the_least_squares_solution_of_each_target():
    rng = np.random.default_rng(0)
    Phi, weights = rng.normal(size=(30, 2)), np.array([[1.0, -2.0, 0.5], [3.0, 0.25, 4.0]])
    stats = Statistics.from_rows(Phi, Phi @ weights + 1e-9 * rng.normal(size=(30, 3)))
    np.testing.assert_allclose(stats.ref, weights, atol=1e-8)


def test_products_and_sums_come_with_their_exact_rounding_error():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=500) * 10.0 ** rng.integers(-5, 5, 500), rng.normal(size=500)
    for x, y in zip(a, b, strict=True):
        product, error = _two_product(np.array([x]), y)
        assert Fraction(product[0]) + Fraction(error[0]) == Fraction(x) * Fraction(y)
        total, error = _two_sum(np.array([x]), np.array([y]))
        assert Fraction(total[0]) + Fraction(error[0]) == Fraction(x) + Fraction(y)
