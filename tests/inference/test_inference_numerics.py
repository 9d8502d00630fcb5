"""Where arithmetic in 53 bits could go wrong: against the same formulas in 120 digits, on the very same inputs."""

from __future__ import annotations

import mp_reference
import numpy as np
import pytest

from bdkn.inference import Prior, Spectrum, Statistics, choose_prior_variance, log_evidence, posterior

N, H = 40, 5


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


BETA = normal(H, seed=9)
NOISE = 0.1 * normal(N, seed=8)
MEMBER = normal(N, seed=7)
SCALES = 10.0 ** np.array([-8, 8, 0, 4, -4])
OFFSET = 1e6 + 1e-3 * normal(N, seed=6)
FEATURES = normal(N, H)
LINE = np.column_stack([np.ones(N), MEMBER])
A, B, C = FEATURES[:, :3].T
MIXED = A + 0.5 * B + NOISE
WEAK = [1e-16, 1.0, 1e8, 1e17, 1e20, 1e26]


def columns(*parts):
    return np.column_stack(parts)


# name: Φ, y, prior variances, prior mean
CASES = {
    "plain": (FEATURES, FEATURES @ BETA + NOISE, [1e-16, 1e-3, 1.0, 1e6, 1e20], 0.0),
    "identical members": (np.repeat(MEMBER[:, None], H, 1), MEMBER + NOISE, [1e-3, 1.0, 1e8, 1e14, 1e26], 0.0),
    "collinear to 1e-16": (MEMBER[:, None] + 1e-16 * normal(N, H), MEMBER + NOISE, [1.0, 1e4], 0.0),
    "collinear to 1e-12": (MEMBER[:, None] + 1e-12 * normal(N, H), MEMBER + NOISE, [1.0, 1e4], 0.0),
    "collinear to 1e-8": (MEMBER[:, None] + 1e-8 * normal(N, H), MEMBER + NOISE, [1.0, 1e6], 0.0),
    "twins of 1e8 and a small one": (columns(1e8 * A, 1e8 * A, 1e-8 * B), MIXED, WEAK, 0.0),
    "twins of 1e6 and a small one": (columns(1e6 * A, 1e6 * A, 1e-8 * B), MIXED, WEAK, 0.2),
    "a small one before its twins": (columns(1e-8 * B, 1e6 * A, 1e6 * A), MIXED, WEAK, 0.0),
    "twins apart, one dead": (columns(1e6 * A, 1e-8 * B, 0 * A, 1e6 * A), MIXED, WEAK, 0.2),
    "twins of three scales": (columns(*np.repeat([1e-8 * B, 1e-2 * C, 1e8 * A], 2, axis=0)), MIXED, WEAK, 0.0),
    "parallel, 1e16 apart": (columns(2.0**-27 * A, B, 2.0**27 * A), MIXED, WEAK, 0.0),
    "twins and a perfect fit": (columns(1e8 * A, 1e8 * A, 1e-8 * B), A + 0.5 * B, WEAK, 0.0),
    "twins and fewer rows": (columns(1e8 * A, 1e8 * A, 1e-8 * B, C)[:3], MIXED[:3], WEAK, 0.0),
    "a dead member": (FEATURES * [1, 1, 0, 1, 1], FEATURES @ BETA + NOISE, [1.0, 1e6], 0.2),
    "columns of all scales": (FEATURES * SCALES, FEATURES @ BETA + NOISE, [1e-16, 1.0, 1e8, 1e16, 1e20], 0.0),
    "fewer rows than members": (FEATURES[:3], NOISE[:3], [1e-6, 1.0, 1e12], 0.2),
    "one row": (FEATURES[:1], NOISE[:1], [1e-6, 1.0, 1e12], 0.2),
    "constant targets": (FEATURES, np.full(N, 7.0), [1e-3, 1.0, 1e10], 0.0),
    "constant targets in the span": (np.column_stack([np.ones(N), FEATURES]), np.full(N, 7.0), [1.0, 1e10, 1e20], 0.0),
    "perfect fit": (FEATURES, FEATURES @ BETA, [1.0, 1e12, 1e30], 0.0),
    "perfect fit at the prior mean": (FEATURES, FEATURES @ BETA, [1.0, 1e12], BETA),
    "one perfect member": (FEATURES, FEATURES[:, 0], [1.0, 1e20], 0.2),
    "mean 1e6, spread 1e-3": (LINE, OFFSET, [1.0, 1e12, 1e20], 0.0),
    "members near 1e6": (OFFSET[:, None] + 1e-3 * normal(N, H), OFFSET, [1e-6, 1.0], 0.0),
}
PARAMETERS = [pytest.param(*case[:2], t, case[3], id=f"{name}, {t:g}") for name, case in CASES.items() for t in case[2]]


@pytest.mark.parametrize(("Phi", "y", "t", "mean"), PARAMETERS)
def test_agrees_with_the_textbook_in_120_digits(Phi, y, t, mean):
    prior = Prior.isotropic(Phi.shape[1], t, mean)
    expected = mp_reference.solve(Phi, y, mean=prior.mean, precision=prior.precision)
    stats = Statistics.from_rows(Phi, y)
    post = posterior(stats, prior)
    predictive = post.predictive(Phi)
    np.testing.assert_allclose(post.b, expected.b, rtol=1e-8)
    np.testing.assert_allclose(post.mean, expected.mean, rtol=1e-8, atol=1e-8 * np.max(np.abs(expected.mean)))
    spread = np.sqrt(np.diag(expected.scale_matrix))
    np.testing.assert_allclose(post.scale_matrix, expected.scale_matrix, atol=1e-8 * np.outer(spread, spread).max())
    np.testing.assert_allclose(post.weights().scale, spread, rtol=1e-8)
    np.testing.assert_allclose(predictive.scale, expected.scale, rtol=1e-8)
    np.testing.assert_allclose(predictive.loc, expected.loc, rtol=1e-8, atol=1e-8 * np.max(np.abs(expected.loc)))
    np.testing.assert_allclose(log_evidence(stats, prior), expected.log_evidence, rtol=1e-9, atol=1e-8)
    spectral = Spectrum.of(stats, prior.mean)
    np.testing.assert_allclose(spectral.b(1 / prior.precision[0, 0]), expected.b, rtol=1e-8)
    np.testing.assert_allclose(spectral.log_evidence(t), expected.log_evidence, rtol=1e-9, atol=1e-8)


def test_weighted_rows_and_a_proper_prior():
    w = np.random.default_rng(1).uniform(0.01, 100.0, N)
    y = FEATURES @ BETA + NOISE
    prior = Prior(BETA + 0.1, np.diag(SCALES), 1.5, 2.5)
    expected = mp_reference.solve(FEATURES, y, mean=prior.mean, precision=prior.precision, a0=1.5, b0=2.5, w=w)
    stats = Statistics.from_rows(FEATURES, y, precision=w)
    post = posterior(stats, prior)
    np.testing.assert_allclose([post.a, post.b], [expected.a, expected.b], rtol=1e-11)
    np.testing.assert_allclose(post.mean, expected.mean, rtol=1e-11)
    np.testing.assert_allclose(log_evidence(stats, prior), expected.log_evidence, rtol=1e-12)


@pytest.mark.parametrize("split", [1, 7, 20])
def test_a_perfect_fit_and_a_large_offset_survive_streaming_and_merging(split):
    expected = mp_reference.solve(LINE, OFFSET, mean=np.zeros(2), precision=1e-20 * np.eye(2))
    prior = Prior(np.zeros(2), 1e-20)
    streamed = Statistics.from_rows(LINE, OFFSET, chunk_rows=split)
    merged = Statistics.from_rows(LINE[:split], OFFSET[:split]) + Statistics.from_rows(LINE[split:], OFFSET[split:])
    for stats in (streamed, merged):
        np.testing.assert_allclose(posterior(stats, prior).b, expected.b, rtol=1e-6)


def test_the_normal_equations_would_lose_every_digit():
    """The reason for all this: what the formula of the paper gives in floating point."""
    Λn = LINE.T @ LINE + 1e-20 * np.eye(2)
    μn = np.linalg.solve(Λn, LINE.T @ OFFSET)
    b = (OFFSET @ OFFSET - μn @ Λn @ μn) / 2
    expected = mp_reference.solve(LINE, OFFSET, mean=np.zeros(2), precision=1e-20 * np.eye(2))
    assert abs(b / expected.b - 1) > 10


@pytest.mark.parametrize(("large", "small"), [(1.0, 1.0), (1e6, 1e-8), (1e8, 1e-8)])
def test_twins_are_one_member_of_twice_the_prior_variance(large, small):
    twins = Statistics.from_rows(columns(large * A, large * A, small * B), MIXED)
    one = Statistics.from_rows(columns(np.sqrt(2) * large * A, small * B), MIXED)
    t = choose_prior_variance(twins)
    np.testing.assert_allclose(t, choose_prior_variance(one), rtol=1e-10)
    for weaker in (t, 1e3 * t, 1e9 * t):
        expected = log_evidence(one, Prior.isotropic(2, weaker))
        np.testing.assert_allclose(log_evidence(twins, Prior.isotropic(3, weaker)), expected, rtol=1e-11, atol=1e-11)


class TestLimitsOfIllPosedProblems:
    def test_identical_members_share_the_weight_equally(self):
        for t in (1.0, 1e10, 1e20):
            post = posterior(Statistics.from_rows(np.repeat(MEMBER[:, None], H, 1), MEMBER), Prior.isotropic(H, t))
            np.testing.assert_allclose(post.mean, np.mean(post.mean), rtol=1e-8)
        np.testing.assert_allclose(post.mean, 1 / H, rtol=1e-8)

    def test_what_the_rows_do_not_determine_stays_at_the_prior(self):
        t, mean = 1e6, 0.7
        post = posterior(Statistics.from_rows(FEATURES * [1, 1, 0, 1, 1], FEATURES[:, 0]), Prior.isotropic(H, t, mean))
        np.testing.assert_allclose(post.mean[2], mean, rtol=1e-12)
        np.testing.assert_allclose(post.scale_matrix[2, 2], post.b / post.a * t, rtol=1e-12)

    def test_fewer_rows_than_members_interpolate_under_a_weak_prior(self):
        post = posterior(Statistics.from_rows(FEATURES[:3], NOISE[:3]), Prior.isotropic(H, 1e12))
        np.testing.assert_allclose(FEATURES[:3] @ post.mean, NOISE[:3], rtol=1e-8)
        np.testing.assert_allclose(post.mean, np.linalg.pinv(FEATURES[:3]) @ NOISE[:3], rtol=1e-8)
        np.testing.assert_allclose(post.b, post.mean @ post.mean / 2e12, rtol=1e-8)
