from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bdkn.inference.statistics import residual


def exact(Phi, y, beta):
    """The residual in rational arithmetic, rounded once."""
    sums = (
        Fraction(t) - sum(Fraction(p) * Fraction(b) for p, b in zip(row, beta, strict=True))
        for row, t in zip(Phi, y, strict=True)
    )
    return np.array([float(value) for value in sums])


@given(seed=st.integers(0, 2**32 - 1), weights=st.integers(1, 6), exponent=st.integers(-100, 100))
def test_residual_of_a_rounded_perfect_fit_is_exact(seed, weights, exponent):
    rng = np.random.default_rng(seed)
    Phi, beta = rng.normal(size=(8, weights)) * 10.0**exponent, rng.normal(size=weights)
    y = Phi @ beta  # the residual is nothing but rounding errors, which plain arithmetic gets entirely wrong
    terms = np.abs(Phi) @ np.abs(beta)  # twice the precision: 32 digits of these
    np.testing.assert_allclose(residual(Phi, y, beta) / terms, exact(Phi, y, beta) / terms, rtol=1e-12, atol=1e-30)


def test_plain_arithmetic_would_not_do():
    rng = np.random.default_rng(0)
    Phi, beta = rng.normal(size=(50, 3)), rng.normal(size=3)
    y = Phi @ beta
    assert not np.allclose(y - Phi @ beta, exact(Phi, y, beta), rtol=1e-2, atol=0)


def test_residual_of_zero_weights_is_a_copy():
    y = np.arange(3.0)
    r = residual(np.ones((3, 2)), y, np.zeros(2))
    assert r is not y
    np.testing.assert_array_equal(r, y)


def test_float32_features_are_widened_before_they_are_split():
    rng = np.random.default_rng(1)
    Phi = rng.normal(size=(20, 3)).astype(np.float32)
    beta = rng.normal(size=3)
    y = Phi.astype(float) @ beta
    terms = np.abs(Phi.astype(float)) @ np.abs(beta)  # of a sum that happens to be exact, 32 digits of these are left
    expected = exact(Phi.astype(float), y, beta)
    np.testing.assert_allclose(residual(Phi, y, beta) / terms, expected / terms, rtol=1e-12, atol=1e-30)
