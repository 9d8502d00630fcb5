"""The compiled step for few rows against the code for all rows, and the choice between the two."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from designs import problem, problems, published_without_compiled_code
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_t

from bdkn.errors import InvalidParameterError
from bdkn.inference import Posterior, Prior, Statistics, published, published_combination
from bdkn.inference.rowwise import leverage, whitened


def is_compiled(*chunks, prior_variance="paper"):
    """Return whether the combination of the chunks is computed without their statistics."""
    with mock.patch.object(published, "Statistics", wraps=Statistics) as statistics:
        published_combination(chunks, prior_variance)
    return not statistics.from_chunks.called


def assert_same(found, expected, rtol=1e-9):
    for name in ("prior_variance", "evidence", "n", "tempering", "noise_level"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=rtol)
    assert (found.tails, found.intercept) == (expected.tails, expected.intercept)
    one, other = found.posterior, expected.posterior
    assert (one.a, one.b) == pytest.approx((other.a, other.b), rel=rtol)
    spread = np.sqrt(np.diag(other.scale_matrix))
    np.testing.assert_allclose(one.mean / spread, other.mean / spread, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(one.precision, other.precision, rtol=rtol, atol=rtol * np.abs(other.precision).max())
    np.testing.assert_allclose(one.prior.precision, other.prior.precision, rtol=rtol)
    np.testing.assert_array_equal(one.prior.mean, other.prior.mean)


@given(problems(min_rows=1))
def test_any_rows_are_combined_as_with_care(rows):
    Phi, y, _ = rows
    assert_same(published_combination([(Phi, y)], "paper"), published_without_compiled_code((Phi, y)))


@given(st.integers(6, 400), st.integers(1, 6), st.integers(0, 2**32 - 1), st.sampled_from([0.05, 1.0, 30.0]))
def test_the_usual_rows_take_the_compiled_step(rows, weights, seed, noise):
    Phi, y, _ = problem(rows + weights, weights, seed, noise)
    assert is_compiled((Phi, y))
    assert_same(published_combination([(Phi, y)], "paper"), published_without_compiled_code((Phi, y)))


def test_the_evidence_is_the_density_of_the_targets():
    """Given σ², y is Gaussian with covariance σ²(I + tΦΦᵀ); Jeffreys' prior makes of it a t whose shape is known up to
    a factor, which the ratio of two evidences does not contain."""
    Phi, y, rng = problem(12, 3)
    other = y + rng.normal(size=12)
    ratio = []
    for targets in (y, other):
        found = published_combination([(Phi, targets)], "paper")
        K = np.eye(12) + found.prior_variance * Phi @ Phi.T
        energy = targets @ np.linalg.solve(K, targets)
        assert found.posterior.b == pytest.approx(energy / 2, rel=1e-10)
        dense = -6 * np.log(energy) - np.linalg.slogdet(K)[1] / 2
        ratio.append(found.evidence - dense)
    assert ratio[0] == pytest.approx(ratio[1], rel=1e-12)
    # ... and the constant itself, by the limit of proper priors Inv-Gamma(a, b) without their normaliser b^a / Γ(a).
    from scipy.special import gammaln

    a = b = 1e-9
    proper = multivariate_t(np.zeros(12), b / a * K, df=2 * a).logpdf(other)
    assert found.evidence == pytest.approx(proper - (a * np.log(b) - gammaln(a)), rel=1e-6)


def test_rows_that_need_care_are_not_fitted_by_the_compiled_step():
    Phi, y, rng = problem(40, 4)
    assert is_compiled((Phi, y), prior_variance="paper")
    assert not is_compiled((Phi, y), prior_variance="evidence")
    assert not is_compiled((Phi, y), prior_variance=2.0)
    assert not is_compiled((Phi[:20], y[:20]), (Phi[20:], y[20:]))
    assert not is_compiled((Phi, y, None, np.ones(40)))
    assert not is_compiled((np.column_stack([Phi, Phi[:, 0] + 1e-9 * rng.normal(size=40)]), y))
    assert not is_compiled((Phi, Phi @ np.ones(4)))
    assert not is_compiled((1e-9 * Phi, y))
    assert not is_compiled((np.zeros((40, 2)), y))
    assert not is_compiled((Phi[:3], y[:3]))
    assert not is_compiled((np.ones((3000, 16)) * rng.normal(size=(3000, 16)), rng.normal(size=3000)))
    assert not is_compiled((rng.normal(size=(40, 17)), y))


def test_chunks_are_combined_whole():
    Phi, y, _ = problem(40, 4)
    assert_same(
        published_combination(iter([(Phi[:20], y[:20]), (Phi[20:], y[20:])]), "paper"),
        published_without_compiled_code((Phi, y)),
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e151, 1e200])
def test_rows_that_are_not_finite_are_refused(bad):
    Phi, y, _ = problem(20, 3)
    Phi[4, 1] = bad
    with pytest.raises(InvalidParameterError, match="Phi and y must be finite"):
        published_combination([(Phi, y)], "paper")


@pytest.mark.parametrize("chunks", [[], [(np.ones(3), np.ones(3))], [(np.ones((3, 2)), np.ones(2))]])
def test_chunks_without_rows_are_refused(chunks):
    with pytest.raises(InvalidParameterError, match=r"chunks must hold|Phi must be"):
        published_combination(chunks, "paper")


@given(st.integers(1, 300), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_leverage_is_the_quadratic_form(rows, weights, seed):
    rng = np.random.default_rng(seed)
    R = np.triu(rng.normal(size=(weights, weights))) + 3 * np.eye(weights)
    R, Phi = R[:, rng.permutation(weights)], rng.normal(size=(rows, weights))
    solved = np.linalg.solve(R.T @ R, Phi.T)
    np.testing.assert_allclose(leverage(R, Phi), np.einsum("ih,hi->i", Phi, solved), rtol=1e-9)
    np.testing.assert_allclose(whitened(R, Phi).T @ whitened(R, Phi), Phi @ solved, rtol=1e-9, atol=1e-9)


def test_rounding_is_no_leverage():
    """φ is a multiple of the first row of R, to rounding; a small second pivot must not make much of the rest."""
    R = np.array([[3.0, 1.0], [0.0, 1e-14]])
    Phi = np.array([[0.1 * 3.0, 0.1]])
    assert abs(Phi[0, 1] - Phi[0, 0] / 3.0) < 1e-16
    assert leverage(R, Phi) == pytest.approx(0.01)


def test_one_noise_for_all_rows_or_one_each():
    Phi, y, rng = problem(30, 3)
    post = published_combination([(Phi, y)], "paper").posterior
    one, many = post.location_scale(Phi, 0.5), post.location_scale(Phi, np.full(30, 0.5))
    np.testing.assert_array_equal(one, many)
    loc, scale = post.location_scale(Phi, v := rng.uniform(size=30))
    Λ = post.root.T @ post.root
    np.testing.assert_allclose(loc, Phi @ post.mean, rtol=1e-12)
    dense = np.einsum("ih,hi->i", Phi, np.linalg.solve(Λ, Phi.T))
    np.testing.assert_allclose(scale**2, post.b / post.a * (v + dense), rtol=1e-10)
    assert isinstance(post, Posterior)
    assert isinstance(post.prior, Prior)


def test_a_chunk_may_be_overwritten_by_the_next():
    Phi, y, _ = problem(40, 3)

    def reused():
        buffer, targets = np.empty((20, 3)), np.empty(20)
        for rows in (slice(0, 20), slice(20, 40)):
            buffer[:], targets[:] = Phi[rows], y[rows]
            yield buffer, targets

    assert_same(published_combination(reused(), "paper"), published_without_compiled_code((Phi, y)))


def test_a_noise_of_the_wrong_length_is_refused():
    Phi, y, _ = problem(20, 3)
    with pytest.raises(InvalidParameterError, match="noise must be a number, or one per row of 20; got shape"):
        published_combination([(Phi, y)], "paper").posterior.location_scale(Phi, np.ones(3))
