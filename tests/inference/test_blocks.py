"""A block of targets against dense algebra, against separate fits, and by its invariances."""

from __future__ import annotations

import numpy as np
import pytest
from designs import problem
from hypothesis import given
from hypothesis import strategies as st
from mp_reference import solve_block
from scipy.optimize import minimize_scalar
from scipy.stats import invwishart, matrix_normal

from bdkn.errors import ImproperPosteriorError, InvalidParameterError
from bdkn.inference import (
    BlockPosterior,
    Prior,
    Spectrum,
    Statistics,
    block_posterior,
    choose_prior_variance,
    compiled,
    log_evidence,
    posterior,
)
from bdkn.inference.evidence import BlockSpectrum


def block(rows=20, weights=3, targets=3, seed=0, noise=0.5):
    """Return Φ, Y with correlated noise, and the generator they came from."""
    Phi, _, rng = problem(rows, weights, seed)
    mixing = rng.normal(size=(targets, targets))
    return Phi, Phi @ rng.normal(size=(weights, targets)) + noise * rng.normal(size=(rows, targets)) @ mixing, rng


def proper_prior(weights, targets, rng, variance=2.0):
    """Return a proper prior with a mean and a scale of its own for every target."""
    root = rng.normal(size=(targets, targets))
    A = rng.normal(size=(weights, weights))
    precision = (A @ A.T + np.eye(weights)) / variance
    return Prior(rng.normal(size=(weights, targets)), precision, 1.3, root @ root.T + 0.1 * np.eye(targets))


@st.composite
def blocks(draw, min_rows=5):
    """Draw (Φ, Y, w, rng) of random size, units, noise level and offset; sometimes with equal members."""
    rows, weights, targets = draw(st.integers(min_rows, 15)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    Phi, Y, rng = block(rows, weights, targets, draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([0.1, 10.0])))
    if draw(st.booleans()):
        Phi[:, -1] = Phi[:, 0]
    w = np.exp(rng.normal(size=rows)) if draw(st.booleans()) else np.ones(rows)
    return Phi * 10.0 ** rng.integers(-2, 3, weights), Y + draw(st.sampled_from([0.0, 100.0])), w, rng


def assert_same_posterior(one, other, rtol=1e-8):
    size = np.sqrt(np.diag(other.b))
    np.testing.assert_allclose(one.b / np.outer(size, size), other.b / np.outer(size, size), rtol=rtol, atol=rtol)
    scale = np.sqrt(np.diagonal(other.weights().shape, axis1=1, axis2=2))
    np.testing.assert_allclose(one.mean / scale, other.mean / scale, rtol=rtol, atol=10 * rtol)
    np.testing.assert_allclose(one.precision, other.precision, rtol=rtol, atol=rtol * np.abs(other.precision).max())
    assert one.a == pytest.approx(other.a)


class TestDenseAlgebra:
    @pytest.mark.parametrize("proper", [True, False])
    @pytest.mark.parametrize("weighted", [True, False])
    @pytest.mark.parametrize("targets", [1, 2, 4])
    def test_posterior_evidence_and_predictive_in_120_digits(self, targets, weighted, proper):
        Phi, Y, rng = block(12, 3, targets)
        prior = proper_prior(3, targets, rng) if proper else Prior(rng.normal(size=(3, targets)), np.full(3, 0.7))
        w = np.exp(rng.normal(size=12)) if weighted else None
        new = rng.normal(size=(5, 3))
        stats = Statistics.from_rows(Phi, Y, precision=w)
        found = block_posterior(stats, prior)
        b0 = prior.b0 if proper else None
        expected = solve_block(Phi, Y, mean=prior.mean, precision=prior.precision, a0=prior.a0, b0=b0, w=w, new=new)
        np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(found.b, expected.b, rtol=1e-11, atol=1e-12)
        assert log_evidence(stats, prior) == pytest.approx(expected.log_evidence, rel=1e-12)
        assert log_evidence(stats, found) == pytest.approx(expected.log_evidence, rel=1e-12)
        dist = found.predictive(new)
        np.testing.assert_allclose(dist.loc, expected.loc, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(dist.shape, expected.shape, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(dist.df, 2 * found.a)

    @pytest.mark.parametrize(("offset", "noise"), [(1e6, 1e-3), (0.0, 1e-9), (1e8, 1.0)])
    def test_digits_are_kept_where_one_target_is_fitted_closely(self, offset, noise):
        Phi, Y, _ = block(40, 3, 2, noise=1.0)
        Phi[:, 0] = 1.0
        Y[:, 0] = offset + Phi @ [1.0, 2.0, 3.0] + noise * np.sin(np.arange(40))
        prior = Prior.isotropic(3, 1e20)
        stats = Statistics.from_rows(Phi, Y)
        expected = solve_block(Phi, Y, mean=np.zeros((3, 2)), precision=np.eye(3) / 1e20)
        found = block_posterior(stats, prior)
        np.testing.assert_allclose(found.b, expected.b, rtol=1e-8, atol=1e-8 * np.sqrt(np.prod(np.diag(expected.b))))
        np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-9)
        assert log_evidence(stats, found) == pytest.approx(expected.log_evidence, rel=1e-8)

    @pytest.mark.no_cover
    def test_given_the_covariance_it_is_gaussian(self):
        """The evidence is the mean of the matrix-normal density over draws of Σ from the prior."""
        Phi, Y, rng = block(4, 2, 2)
        prior = proper_prior(2, 2, rng)
        rows = np.eye(4) + Phi @ np.linalg.solve(prior.precision, Phi.T)
        Σ = invwishart(2 * prior.a0 + 1, 2 * prior.b0).rvs(4000, random_state=1)
        densities = [matrix_normal(Phi @ prior.mean, rows, one).pdf(Y) for one in Σ]
        error = np.std(densities) / np.sqrt(4000)
        evidence = np.exp(log_evidence(Statistics.from_rows(Phi, Y), prior))
        assert evidence == pytest.approx(np.mean(densities), abs=4 * error)
        assert error < 0.1 * evidence


class TestAgainstSeparateFits:
    @given(blocks(), st.booleans())
    def test_each_target_by_itself_is_the_model_of_one_target(self, data, is_proper):
        Phi, Y, w, rng = data
        H, q = Phi.shape[1], Y.shape[1]
        prior = proper_prior(H, q, rng) if is_proper else Prior.isotropic(H, 2.0)
        whole = block_posterior(Statistics.from_rows(Phi, Y, precision=w), prior)
        new = rng.normal(size=(4, H))
        for j in range(q):
            marginal = whole.target(j)
            b0 = prior.b0[j, j] if is_proper else 0.0
            own = Prior(prior.mean[:, j] if is_proper else prior.mean, prior.precision, prior.a0, b0)
            alone = posterior(Statistics.from_rows(Phi, Y[:, j], precision=w), own)
            scale = np.sqrt(np.diag(alone.scale_matrix))
            np.testing.assert_allclose(marginal.mean / scale, alone.mean / scale, rtol=1e-8, atol=1e-7)
            assert (marginal.a, marginal.b) == pytest.approx((alone.a, alone.b), rel=1e-8)
            one, other = whole.predictive(new, 0.5).target(j), alone.predictive(new, 0.5)
            np.testing.assert_allclose(one.loc / other.scale, other.loc / other.scale, rtol=1e-8, atol=1e-7)
            np.testing.assert_allclose(one.scale, other.scale, rtol=1e-7)
            np.testing.assert_array_equal(one.df, other.df)
            np.testing.assert_allclose(marginal.prior.b0, own.b0)

    @pytest.mark.parametrize("q", [1, 2, 3, 4])
    def test_the_evidence_is_a_product_of_those_of_each_target_given_those_before(self, q):
        """Bartlett's decomposition: y_j is a regression on Φ and on the targets before it, with one target each.

        With targets taken relative to Φμ₀, its weights on the members have the prior precision Λ₀, those on the earlier
        targets 2b₀ of these, with the mean b₀⁻¹b₀ⱼ; a₀ rises by ½ each time and b₀ is what the earlier ones leave of
        its own.
        """
        Phi, Y, rng = block(15, 3, q)
        prior = proper_prior(3, q, rng)
        R, total = Y - Phi @ prior.mean, 0.0
        for j in range(q):
            earlier = prior.b0[:j, :j]
            slope = np.linalg.solve(earlier, prior.b0[:j, j]) if j else np.zeros(0)
            precision = np.zeros((3 + j, 3 + j))
            precision[:3, :3], precision[3:, 3:] = prior.precision, 2 * earlier
            own = Prior(
                np.append(np.zeros(3), slope), precision, prior.a0 + j / 2, prior.b0[j, j] - prior.b0[:j, j] @ slope
            )
            total += log_evidence(Statistics.from_rows(np.column_stack([Phi, R[:, :j]]), R[:, j]), own)
        assert log_evidence(Statistics.from_rows(Phi, Y), prior) == pytest.approx(total, rel=1e-11)

    def test_the_evidence_of_unrelated_targets_does_not_factorise(self):
        """Even with bₙ diagonal it differs: the covariance of the targets is unknown, and that costs."""
        Phi, Y = np.ones((4, 1)), np.array([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
        stats, prior = Statistics.from_rows(Phi, Y), Prior.isotropic(1, 1.0, a0=1.0, b0=1.0)
        np.testing.assert_allclose(block_posterior(stats, prior).b, 3.0 * np.eye(2), atol=1e-14)
        separate = sum(log_evidence(Statistics.from_rows(Phi, y), prior) for y in Y.T)
        assert log_evidence(stats, prior) < separate - 0.1

    def test_one_target_as_a_block_is_one_target(self):
        Phi, Y, _ = block(20, 4, 1)
        prior = Prior.isotropic(4, 2.0, mean=0.3, a0=0.5, b0=0.2)
        as_block, alone = Statistics.from_rows(Phi, Y), Statistics.from_rows(Phi, Y[:, 0])
        np.testing.assert_array_equal(as_block.root, alone.root)
        one, other = block_posterior(as_block, prior), posterior(alone, prior)
        np.testing.assert_allclose(one.mean[:, 0], other.mean, rtol=1e-14)
        assert one.b[0, 0] == pytest.approx(other.b, rel=1e-14)
        assert log_evidence(as_block, prior) == pytest.approx(log_evidence(alone, prior), rel=1e-14)
        assert choose_prior_variance(as_block) == pytest.approx(choose_prior_variance(alone), rel=1e-9)
        spectrum, scalar = BlockSpectrum.of(as_block, 0.3), Spectrum.of(alone, 0.3)
        t = np.array([0.01, 1.0, 30.0])
        np.testing.assert_allclose(spectrum.log_evidence(t), scalar.log_evidence(t), rtol=1e-13)
        np.testing.assert_allclose(spectrum.slope(np.log(t)), scalar.slope(np.log(t)), rtol=1e-9, atol=1e-12)


class TestInvariances:
    @given(blocks(), st.booleans())
    def test_mixing_the_targets_mixes_the_answers(self, data, rotate):
        """With Y → YA: μₙ → μₙA, bₙ → AᵀbₙA, and the evidence changes by |det A|^-(n + q - 1)."""
        Phi, Y, w, rng = data
        H, q = Phi.shape[1], Y.shape[1]
        A = np.linalg.qr(rng.normal(size=(q, q)))[0] if rotate else rng.normal(size=(q, q)) + 3 * np.eye(q)
        prior = Prior.isotropic(H, 2.0)
        before, after = (Statistics.from_rows(Phi, targets, precision=w) for targets in (Y, Y @ A))
        one, other = block_posterior(before, prior), block_posterior(after, prior)
        mixed = BlockPosterior(one.mean @ A, one.root, one.a, A.T @ one.b @ A, prior)
        assert_same_posterior(mixed, other, rtol=1e-7)
        change = -(len(Y) + q - 1) * np.log(abs(np.linalg.det(A)))
        assert log_evidence(after, prior) == pytest.approx(log_evidence(before, prior) + change, abs=1e-6)

    @given(blocks(), st.integers(1, 4))
    def test_the_order_and_the_parts_of_the_rows_do_not_matter(self, data, cut):
        Phi, Y, w, rng = data
        prior = Prior.isotropic(Phi.shape[1], 2.0, mean=0.5)
        whole = Statistics.from_rows(Phi, Y, precision=w)
        order = rng.permutation(len(Y))
        shuffled = Statistics.from_rows(Phi[order], Y[order], precision=w[order], chunk_rows=3)
        parts = [Statistics.from_rows(Phi[rows], Y[rows], precision=w[rows]) for rows in (slice(cut), slice(cut, None))]
        for other in (shuffled, parts[0] + parts[1]):
            assert_same_posterior(block_posterior(other, prior), block_posterior(whole, prior), rtol=1e-7)
            assert log_evidence(other, prior) == pytest.approx(log_evidence(whole, prior), abs=1e-6)

    @given(blocks(min_rows=8), st.integers(1, 3))
    def test_removed_rows_are_gone(self, data, cut):
        Phi, Y, w, _ = data
        prior = Prior.isotropic(Phi.shape[1], 2.0)
        whole = Statistics.from_rows(Phi, Y, precision=w)
        some = Statistics.from_rows(Phi[:cut], Y[:cut], precision=w[:cut])
        rest = Statistics.from_rows(Phi[cut:], Y[cut:], precision=w[cut:])
        assert_same_posterior(block_posterior(whole - some, prior), block_posterior(rest, prior), rtol=1e-4)
        nothing = whole - whole
        assert nothing.n == 0.0
        assert nothing.ref.shape == whole.ref.shape
        assert not nothing.root.any()

    @given(blocks())
    def test_the_order_of_the_targets_does_not_matter(self, data):
        Phi, Y, w, rng = data
        prior, order = Prior.isotropic(Phi.shape[1], 2.0), rng.permutation(Y.shape[1])
        one = block_posterior(Statistics.from_rows(Phi, Y, precision=w), prior)
        other = block_posterior(Statistics.from_rows(Phi, Y[:, order], precision=w), prior)
        mixed = BlockPosterior(one.mean[:, order], one.root, one.a, one.b[np.ix_(order, order)], prior)
        assert_same_posterior(mixed, other, rtol=1e-7)

    def test_counts_are_repetitions(self):
        Phi, Y, rng = block(10, 3, 2)
        counts, prior = rng.integers(0, 4, 10), Prior.isotropic(3, 1.0)
        counted = Statistics.from_rows(Phi, Y, counts=counts)
        repeated = Statistics.from_rows(np.repeat(Phi, counts, axis=0), np.repeat(Y, counts, axis=0))
        assert_same_posterior(block_posterior(counted, prior), block_posterior(repeated, prior))
        assert log_evidence(counted, prior) == pytest.approx(log_evidence(repeated, prior), rel=1e-12)


class TestPredictions:
    def test_the_joint_density_is_the_ratio_of_evidences(self):
        Phi, Y, rng = block(14, 3, 3)
        prior, w = proper_prior(3, 3, rng), np.exp(rng.normal(size=14))
        first = Statistics.from_rows(Phi[:9], Y[:9], precision=w[:9])
        joint = block_posterior(first, prior).joint(Phi[9:], 1 / w[9:])
        whole = Statistics.from_rows(Phi, Y, precision=w)
        ratio = log_evidence(whole, prior) - log_evidence(first, prior)
        assert joint.logpdf(Y[9:]) == pytest.approx(ratio, rel=1e-10)

    def test_the_joint_density_of_one_row_is_its_predictive(self):
        Phi, Y, rng = block(14, 3, 3)
        post, new = block_posterior(Statistics.from_rows(Phi, Y), Prior.isotropic(3, 1.0)), rng.normal(size=(1, 3))
        assert post.joint(new, 0.3).logpdf(Y[:1]) == pytest.approx(
            post.predictive(new, 0.3).logpdf(Y[:1])[0], rel=1e-12
        )
        joint = post.joint(Phi[:4], np.arange(1.0, 5.0))
        np.testing.assert_allclose(joint.marginal().shape, post.predictive(Phi[:4], np.arange(1.0, 5.0)).shape)
        alone = post.target(1).joint(Phi[:4], np.arange(1.0, 5.0))
        np.testing.assert_allclose(joint.target(1).shape, alone.shape, rtol=1e-10)

    @given(blocks(min_rows=6), st.booleans())
    def test_each_row_of_a_block_is_predicted_as_by_a_fit_without_it(self, data, counted):
        Phi, Y, w, rng = data
        n, (H, q) = len(Y), (Phi.shape[1], Y.shape[1])
        prior = proper_prior(H, q, rng)
        counts = rng.integers(1, 4, n).astype(float) if counted else np.ones(n)
        post = block_posterior(Statistics.from_rows(Phi, Y, precision=w, counts=counts), prior)
        fast = post.leave_one_out(Phi, Y, w)
        for i in range(n):
            fewer = counts - np.eye(n)[i]
            without = block_posterior(Statistics.from_rows(Phi, Y, precision=w, counts=fewer), prior)
            slow = without.predictive(Phi[i : i + 1], 1 / w[i])
            size = np.sqrt(np.diag(slow.shape[0]))
            np.testing.assert_allclose(fast.loc[i] / size, slow.loc[0] / size, atol=1e-6)
            np.testing.assert_allclose(
                fast.shape[i] / np.outer(size, size), slow.shape[0] / np.outer(size, size), atol=1e-6
            )
            np.testing.assert_allclose(fast.df[i], slow.df[0])

    def test_leave_one_out_of_one_target_is_that_of_the_block(self):
        Phi, Y, rng = block(12, 3, 2)
        w, counts = np.exp(rng.normal(size=12)), rng.uniform(0.2, 2.0, 12)
        post = block_posterior(Statistics.from_rows(Phi, Y, precision=w, counts=counts), Prior.isotropic(3, 1.0))
        both = post.leave_one_out(Phi, Y, w, counts)
        for j in range(2):
            alone = post.target(j).leave_one_out(Phi, Y[:, j], w, counts)
            np.testing.assert_allclose(both.target(j).scale, alone.scale, rtol=1e-10)
            np.testing.assert_allclose(both.target(j).loc, alone.loc, rtol=1e-10)
            np.testing.assert_allclose(both.df, alone.df)

    def test_a_row_that_alone_decides_a_direction_has_a_shape_that_is_no_less_than_nothing(self):
        Phi, Y, _ = block(8, 3, 2)
        Phi[1:, 2] = 0.0
        post = block_posterior(Statistics.from_rows(Phi, Y), Prior.isotropic(3, 1e18))
        assert np.all(np.linalg.eigvalsh(post.leave_one_out(Phi, Y).shape) > -1e-9)

    def test_the_units_of_the_targets_do_not_matter(self):
        Phi, Y, _ = block(12, 3, 2)
        unit, prior = np.array([1e-9, 1e6]), Prior.isotropic(3, 1.0)
        one, other = (block_posterior(Statistics.from_rows(Phi, targets), prior) for targets in (Y, Y * unit))
        left, right = one.leave_one_out(Phi, Y), other.leave_one_out(Phi, Y * unit)
        np.testing.assert_allclose(right.shape, left.shape * np.outer(unit, unit), rtol=1e-9)
        np.testing.assert_allclose(right.logpdf(Y * unit), left.logpdf(Y) - np.log(unit).sum(), rtol=1e-9)
        stats = Statistics.from_rows(Phi, Y * unit)
        assert choose_prior_variance(stats) == pytest.approx(
            choose_prior_variance(Statistics.from_rows(Phi, Y)), rel=1e-6
        )
        assert other.draw(2, 0)[0] == pytest.approx(one.draw(2, 0)[0] * unit, rel=1e-9)

    def test_draws_have_the_moments_of_the_posterior(self):
        Phi, Y, rng = block(30, 2, 2)
        post = block_posterior(Statistics.from_rows(Phi, Y), proper_prior(2, 2, rng))
        β, Σ = post.draw(100_000, random_state=0)
        assert (β.shape, Σ.shape) == ((100_000, 2, 2), (100_000, 2, 2))
        np.testing.assert_allclose(Σ.mean(axis=0), post.noise().mean(), rtol=0.02, atol=0.02)
        covariance = np.cov(β.reshape(-1, 4).T)
        expected = np.kron(np.linalg.inv(post.precision), post.b / post.a) / (1 - 2 / post.df)
        np.testing.assert_allclose(covariance, expected, atol=0.03 * np.abs(expected).max())
        np.testing.assert_allclose(β.mean(axis=0), post.mean, atol=5 * np.sqrt(expected.max() / 100_000))
        assert post.draw(0)[0].shape == (0, 2, 2)

    def test_compiled_code_and_numpy_agree(self):
        Phi, Y, _ = block(30, 4, 3)
        post = block_posterior(Statistics.from_rows(Phi, Y), Prior.isotropic(4, 1.0))
        with compiled(False):
            plain = post.predictive(Phi), post.joint(Phi), post.leave_one_out(Phi, Y)
        np.testing.assert_allclose(post.predictive(Phi).shape, plain[0].shape, rtol=1e-13)
        np.testing.assert_allclose(post.joint(Phi).rows, plain[1].rows, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(post.leave_one_out(Phi, Y).shape, plain[2].shape, rtol=1e-12, atol=1e-13)


class TestPriorVariance:
    @pytest.mark.parametrize("targets", [1, 2, 3])
    def test_the_spectrum_is_the_evidence_at_every_variance(self, targets):
        Phi, Y, rng = block(15, 4, targets)
        mean = rng.normal(size=(4, targets))
        b0 = np.eye(targets) * 0.3 + 0.1
        for stats in (Statistics.from_rows(Phi, Y), Statistics.from_rows(Phi[:, [0, 1, 2, 0]], Y)):
            spectrum = BlockSpectrum.of(stats, mean, 0.7, b0)
            for t in (1e-4, 0.3, 20.0):
                prior = Prior.isotropic(4, t, mean, 0.7, b0)
                assert float(spectrum.log_evidence(t)) == pytest.approx(log_evidence(stats, prior), rel=1e-10)
                np.testing.assert_allclose(spectrum.b(t), block_posterior(stats, prior).b, rtol=1e-10)
                step = (spectrum.log_evidence(t * 1.0001) - spectrum.log_evidence(t / 1.0001)) / (2 * np.log(1.0001))
                assert spectrum.slope_at(np.log(t)) == pytest.approx(float(step), rel=1e-5, abs=1e-6)

    @given(blocks(min_rows=8))
    def test_no_other_variance_has_more_evidence(self, data):
        Phi, Y, w, _ = data
        stats = Statistics.from_rows(Phi, Y, precision=w)
        H, t = Phi.shape[1], choose_prior_variance(stats)
        best = log_evidence(stats, Prior.isotropic(H, t))
        low, high = np.log(t) - 5, np.log(t) + 5
        other = minimize_scalar(lambda u: -log_evidence(stats, Prior.isotropic(H, np.exp(u))), bounds=(low, high))
        assert best >= -other.fun - 1e-6

    def test_the_prior_variance_of_a_weight_is_bounded_for_every_target(self):
        Phi, Y, _ = block(30, 2, 2, noise=0.01)
        stats = Statistics.from_rows(Phi, Y)
        t = choose_prior_variance(stats, widest=0.5)
        assert t < choose_prior_variance(stats)
        post = block_posterior(stats, Prior.isotropic(2, t))
        assert np.diag(post.b).max() / post.a * t == pytest.approx(0.5, rel=1e-6)

    def test_exact_targets_leave_the_variance_at_one(self):
        Phi, Y, _ = block(10, 2, 2)
        assert choose_prior_variance(Statistics.from_rows(Phi, np.zeros((10, 2)))) == 1.0
        assert choose_prior_variance(Statistics.from_rows(Phi, Y[:, [0, 0]])) == 1.0
        assert choose_prior_variance(Statistics.from_rows(Phi, Y), "paper") < 2.0


class TestRefusals:
    def test_blocks_and_single_targets_are_not_mixed_up(self):
        Phi, Y, _ = block()
        one, many = Statistics.from_rows(Phi, Y[:, 0]), Statistics.from_rows(Phi, Y)
        with pytest.raises(InvalidParameterError, match=r"a block of 3: use block_posterior"):
            posterior(many, Prior.isotropic(3, 1.0))
        with pytest.raises(InvalidParameterError, match=r"b0 must be a number for one target; got a matrix \(2, 2\)"):
            posterior(one, Prior.isotropic(3, 1.0, b0=np.eye(2)))
        with pytest.raises(InvalidParameterError, match=r"the prior mean must be \(H,\) or, for these targets, \(3,\)"):
            posterior(one, Prior(np.zeros((3, 2)), 1.0))
        with pytest.raises(InvalidParameterError, match=r"of one target, y of shape \(rows,\): use posterior"):
            block_posterior(one, Prior.isotropic(3, 1.0))
        with pytest.raises(InvalidParameterError, match=r"other must have the same targets, one target y \(rows,\)"):
            one.merge(many)
        with pytest.raises(InvalidParameterError, match="every chunk must have the same targets, a block of 3; got"):
            Statistics.from_chunks([(Phi, Y), (Phi, Y[:, :2])])
        with pytest.raises(InvalidParameterError, match=r"the prior mean must be \(H,\) or, for these targets, \(3"):
            block_posterior(many, Prior(np.zeros((3, 2)), 1.0))
        with pytest.raises(InvalidParameterError, match=r"Y must be \(20, 3\); got shape \(20, 2\)"):
            block_posterior(many, Prior.isotropic(3, 1.0)).leave_one_out(Phi, Y[:, :2])

    @pytest.mark.parametrize("y", [np.ones((3, 0)), np.ones((2, 2)), np.ones((3, 2, 1)), 1.0])
    def test_shapes_that_are_no_block_of_targets(self, y):
        with pytest.raises(InvalidParameterError, match=r"y \(rows,\) or \(rows, targets\)"):
            Statistics.from_rows(np.ones((3, 2)), y)

    def test_scales_of_the_prior(self):
        with pytest.raises(InvalidParameterError, match=r"b0 must be a number or a finite matrix \(q, q\); got shape"):
            Prior.isotropic(2, 1.0, b0=[1.0, 2.0])
        with pytest.raises(InvalidParameterError, match="b0 must be positive semi-definite; its smallest"):
            Prior.isotropic(2, 1.0, b0=[[1.0, 2.0], [2.0, 1.0]])
        with pytest.raises(InvalidParameterError, match="b0 must be symmetric"):
            Prior.isotropic(2, 1.0, b0=[[1.0, 0.5], [0.0, 1.0]])
        assert not Prior.isotropic(2, 1.0, a0=1.0, b0=[[1.0, 1.0], [1.0, 1.0]]).is_proper
        assert Prior.isotropic(2, 1.0, a0=1.0, b0=np.eye(2)).is_proper

    def test_fewer_rows_than_targets_leave_the_noise_undetermined(self):
        Phi, Y, _ = block(2, 2, 4)
        stats = Statistics.from_rows(Phi, Y)
        post = block_posterior(stats, Prior.isotropic(2, 1.0))
        assert log_evidence(stats, post) == np.inf
        with pytest.raises(ImproperPosteriorError, match="b must be positive definite; here a combination of the"):
            post.noise()
        with pytest.raises(ImproperPosteriorError, match="b must be positive definite"):
            post.draw()

    def test_empty_statistics(self):
        stats = Statistics.empty(3, 2)
        assert (stats.n, stats.n_weights, stats.n_targets) == (0.0, 3, 2)
        Phi, Y, _ = block(10, 3, 2)
        np.testing.assert_allclose((stats + Statistics.from_rows(Phi, Y)).root, Statistics.from_rows(Phi, Y).root)
        prior = Prior.isotropic(3, 1.0, a0=2.0, b0=1.0)
        np.testing.assert_allclose(block_posterior(stats, prior).b, np.eye(2))
        assert log_evidence(stats, prior) == pytest.approx(0.0, abs=1e-12)
