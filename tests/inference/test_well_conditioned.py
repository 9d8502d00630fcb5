"""The short way for well-conditioned factors against the careful way for all, and where the one hands over."""

from __future__ import annotations

import gc
import weakref
from unittest import mock

import numpy as np
import pytest
from designs import problem
from hypothesis import given
from hypothesis import strategies as st

from bdkn.inference import Prior, Spectrum, Statistics, choose_prior_variance, log_evidence, posterior
from bdkn.inference import evidence as prior_variance
from bdkn.inference import statistics as factor
from bdkn.inference.posterior import _log_volume

LIMIT = factor.WELL_CONDITIONED


def with_condition(ratio, rows=20, weights=4, seed=0, noise=0.3):
    """Return Φ, y where the smallest singular value of Φ is ``ratio`` times the largest."""
    Phi, _, rng = problem(rows, weights, seed)
    U, _, Vt = np.linalg.svd(Phi, full_matrices=False)
    Phi = 3.0 * U * np.geomspace(1.0, ratio, weights) @ Vt
    return Phi, Phi @ rng.normal(size=weights) + noise * rng.normal(size=rows), rng


def is_careful(stats):
    with mock.patch.object(factor, "_carefully_denoised", side_effect=factor._carefully_denoised) as careful:
        _ = factor.Factor(stats.root, stats.ref).denoised
    return careful.called


def carefully(stats):
    """Return the same statistics, already denoised the careful way."""
    again = Statistics(factor.Factor(stats.root, stats.ref), stats.n, stats.sum_log_w)
    with mock.patch.object(factor, "WELL_CONDITIONED", np.inf):
        assert is_careful(again)
        _ = again.factor.denoised
    return again


@given(
    st.sampled_from([1.0, 0.1, 1e-3, 1e-5]),
    st.integers(5, 40),
    st.integers(2, 5),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-9, 0.3, 10.0]),
    st.sampled_from([1e-3, 1.0, 1e6]),
)
def test_the_two_ways_agree(ratio, rows, weights, seed, noise, variance):
    Phi, y, rng = with_condition(ratio, rows, weights, seed, noise)
    short = Statistics.from_rows(Phi, y)
    careful, mean = carefully(short), rng.normal(size=weights)
    assert not is_careful(short)
    prior = Prior.isotropic(weights, variance, mean, 0.5, 0.1)
    p, q = posterior(short, prior), posterior(careful, prior)
    np.testing.assert_allclose(p.b, q.b, rtol=1e-9)
    spread = q.weights().scale
    np.testing.assert_allclose(p.weights().scale, spread, rtol=1e-9)
    np.testing.assert_allclose(p.mean / spread, q.mean / spread, rtol=1e-8, atol=1e-8)
    one, other = p.predictive(Phi), q.predictive(Phi)
    np.testing.assert_allclose(one.scale, other.scale, rtol=1e-9)
    np.testing.assert_allclose((one.loc - other.loc) / other.scale, 0.0, atol=1e-8)
    np.testing.assert_allclose(log_evidence(short, p), log_evidence(careful, q), rtol=1e-9, atol=1e-9)


@given(st.sampled_from([1.0, 0.1, 1e-3, 1e-5]), st.integers(0, 2**32 - 1), st.sampled_from([0.3, 10.0]))
def test_the_two_ways_see_the_same_spectrum_and_choose_the_same_variance(ratio, seed, noise):
    Phi, y, rng = with_condition(ratio, seed=seed, noise=noise)
    short = Statistics.from_rows(Phi, y)
    careful, mean = carefully(short), rng.normal(size=4)
    one, other = Spectrum.of(short, mean), Spectrum.of(careful, mean)
    np.testing.assert_allclose(one.s, other.s, rtol=1e-9)
    t = np.logspace(-6, 12, 7)
    np.testing.assert_allclose(one.log_evidence(t), other.log_evidence(t), rtol=1e-9, atol=1e-9)
    best, expected = (choose_prior_variance(stats, "evidence", mean=mean) for stats in (short, careful))
    np.testing.assert_allclose(other.log_evidence(best), other.log_evidence(expected), rtol=1e-9, atol=1e-9)
    paper = [choose_prior_variance(stats, "paper", mean=mean) for stats in (short, careful)]
    np.testing.assert_allclose(*paper, rtol=1e-8)


class TestTheSwitch:
    @pytest.mark.parametrize(("ratio", "careful"), [(1.0, False), (2.0 * LIMIT, False), (0.5 * LIMIT, True)])
    def test_is_at_the_condition_number_it_names(self, ratio, careful):
        assert is_careful(Statistics.from_rows(*with_condition(ratio)[:2])) is careful

    @pytest.mark.parametrize(
        "name", ["equal", "dependent", "dead", "all scales", "fewer rows than members", "no rows", "nearly equal"]
    )
    def test_is_careful_where_rounding_may_be_taken_for_data(self, name):
        Phi, y, rng = problem(rows=3 if name.startswith("fewer") else 0 if name == "no rows" else 30)
        changes = {"equal": Phi[:, 0], "dependent": Phi[:, 0] - 2.0 * Phi[:, 1], "dead": 0.0}
        if name in changes:
            Phi[:, 3] = changes[name]
        if name == "nearly equal":
            Phi[:, 3] = Phi[:, 0] + 1e-8 * rng.normal(size=30)
        if name == "all scales":
            Phi = Phi * 10.0 ** np.array([-8, 8, 0, 4])
        assert is_careful(Statistics.from_rows(Phi, y))

    def test_does_not_depend_on_the_units_all_members_share(self):
        Phi, y, _ = with_condition(2.0 * LIMIT)
        assert not is_careful(Statistics.from_rows(1e-30 * Phi, y))
        assert not is_careful(Statistics.from_rows(1e30 * Phi, y))

    def test_leaves_a_well_conditioned_factor_as_it_is(self):
        stats = Statistics.from_rows(*problem()[:2])
        assert stats.factor.denoised.factor.root is stats.root
        assert stats.factor.denoised.factor.ref is stats.ref


def test_statistics_are_freed_without_a_collection():
    stats = Statistics.from_rows(*problem()[:2])
    _ = stats.factor.denoised
    gone = weakref.ref(stats.factor)
    gc.disable()
    try:
        del stats
        assert gone() is None
    finally:
        gc.enable()


class TestSlopeAt:
    @given(st.integers(1, 6), st.integers(0, 2**32 - 1), st.floats(-30.0, 30.0))
    def test_is_the_slope(self, weights, seed, log_t):
        spectrum = Spectrum.of(Statistics.from_rows(*problem(20, weights, seed)[:2]), 0.1, 0.5, 0.2)
        np.testing.assert_allclose(spectrum.slope_at(log_t), spectrum.slope(log_t), rtol=1e-10, atol=1e-12)

    def test_a_root_that_rounding_moved_out_of_its_cell_is_the_nearer_end(self):
        stats = Statistics.from_rows(*problem()[:2])
        spectrum, root = Spectrum.of(stats), np.log(choose_prior_variance(stats))
        np.testing.assert_allclose(prior_variance._peak(spectrum.slope_at, root - 0.1, root + 0.1), root, rtol=1e-12)
        assert prior_variance._peak(spectrum.slope_at, root + 0.1, root + 0.2) == root + 0.1
        assert prior_variance._peak(spectrum.slope_at, root - 0.2, root - 0.1) == root - 0.1


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_the_determinant_does_not_depend_on_the_order_of_the_columns(weights, seed):
    rng = np.random.default_rng(seed)
    R = np.triu(rng.normal(size=(weights, weights)), 1) + np.diag(rng.uniform(0.5, 2.0, weights) * rng.choice([-1, 1]))
    expected = np.linalg.slogdet(R)[1]
    for root in (R, R[:, rng.permutation(weights)]):
        np.testing.assert_allclose(_log_volume(root), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("diagonal", [[2.0, 0.5, 1e-8], [1e300, 1.0, 1e-300]])
def test_a_diagonal_precision_has_the_root_cholesky_gives(diagonal):
    prior = Prior(0.0, diagonal)
    np.testing.assert_array_equal(prior.root, np.linalg.cholesky(prior.precision).T)
    assert prior.is_definite


@pytest.mark.parametrize("rows", [0, 1, 50, 5000])
def test_whitening_is_a_triangular_solve_for_any_number_of_rows(rows):
    Phi, y, rng = problem(weights=5)
    post = posterior(Statistics.from_rows(Phi, y), Prior.isotropic(5, 1.0))
    new = rng.normal(size=(rows, 5))
    expected = np.sqrt(1.0 + np.sum(new.T * np.linalg.solve(post.precision, new.T), axis=0))
    np.testing.assert_allclose(post.predictive(new).scale, np.sqrt(post.b / post.a) * expected, rtol=1e-11)
