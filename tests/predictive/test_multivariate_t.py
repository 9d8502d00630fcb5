from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bdkn.errors import InvalidParameterError
from bdkn.predictive import MultivariateT, StudentT


def random_shape(seed: int, n: int, rank: int) -> np.ndarray:
    root = np.random.default_rng(seed).normal(size=(n, rank))
    return root @ root.T


@given(st.integers(0, 10**6), st.integers(1, 6), st.floats(0.5, 500.0))
def test_log_density_agrees_with_scipy(seed: int, n: int, df: float) -> None:
    rng = np.random.default_rng(seed)
    loc, shape, y = rng.normal(size=n), random_shape(seed, n, n + 2), rng.normal(size=(n, 3)) * 4
    dist, reference = MultivariateT(df, loc, shape), stats.multivariate_t(loc, shape, df=df)
    np.testing.assert_allclose(dist.logpdf(y), reference.logpdf(y.T), rtol=1e-7, atol=1e-8)
    assert dist.logpdf(y[:, 0]).shape == ()
    assert float(dist.logpdf(y[:, 0])) == pytest.approx(float(reference.logpdf(y[:, 0])), rel=1e-7, abs=1e-8)


def test_one_row_is_the_student_t() -> None:
    joint, single = MultivariateT(3.3, [1.0], [[4.0]]), StudentT(3.3, [1.0], 2.0)
    assert float(joint.logpdf([0.2])) == pytest.approx(single.logpdf(0.2)[0], rel=1e-13)


def test_infinite_df_is_the_multivariate_normal() -> None:
    shape = random_shape(1, 3, 5)
    dist = MultivariateT(np.inf, [0.0, 1.0, 2.0], shape)
    expected = stats.multivariate_normal([0.0, 1.0, 2.0], shape).logpdf([1.0, 1.0, 1.0])
    assert float(dist.logpdf(np.ones(3))) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(np.cov(dist.rvs(100_000, 0)), shape, rtol=0.05, atol=0.05)


def test_draws_have_mean_covariance_and_marginals() -> None:
    dist = MultivariateT(7.0, [1.0, -2.0, 0.0], random_shape(3, 3, 4))
    draws = dist.rvs(200_000, random_state=2)
    assert draws.shape == (3, 200_000)
    np.testing.assert_allclose(draws.mean(axis=1), dist.mean(), atol=0.03)
    np.testing.assert_allclose(np.cov(draws), dist.cov(), rtol=0.05, atol=0.05)
    for row in range(3):
        marginal = dist.marginal()[row]
        assert stats.kstest(draws[row, :3000], lambda x, m=marginal: m.cdf(x[None, :])[0]).pvalue > 1e-3


def test_draws_share_one_heavy_tail() -> None:
    """Uncorrelated rows of a multivariate t are still dependent: |y1| and |y2| are large together."""
    first, second = np.abs(MultivariateT(2.5, [0.0, 0.0], np.eye(2)).rvs(20_000, 0))
    assert stats.spearmanr(first, second).statistic > 0.1


@given(st.integers(0, 10**6), st.integers(1, 4))
def test_draws_of_a_singular_shape_stay_in_its_span(seed: int, rank: int) -> None:
    root = np.random.default_rng(seed).normal(size=(6, rank))
    draws = MultivariateT(5.0, np.ones(6), root @ root.T).rvs(20, seed) - 1.0
    residual = draws - root @ np.linalg.lstsq(root, draws, rcond=None)[0]
    assert np.isfinite(draws).all()
    assert np.abs(residual).max() <= 1e-5 * max(1.0, np.abs(draws).max())


def test_a_shape_of_zeros_is_a_point() -> None:
    dist = MultivariateT(5.0, [1.0, 2.0], np.zeros((2, 2)))
    np.testing.assert_array_equal(dist.rvs(3, 0), [[1.0] * 3, [2.0] * 3])
    np.testing.assert_array_equal(dist.marginal().scale, [0.0, 0.0])


def test_rounding_below_zero_is_forgiven() -> None:
    shape = np.ones((3, 3)) - 1e-13 * np.eye(3)
    assert np.isfinite(MultivariateT(5.0, np.zeros(3), shape).rvs(2, 0)).all()


def test_affine() -> None:
    dist = MultivariateT(4.0, [1.0, 2.0], random_shape(0, 2, 2))
    y = np.array([0.3, -1.0])
    moved = dist.affine(3.0, -1.0)
    np.testing.assert_allclose(moved.rvs(4, 0), 3.0 * dist.rvs(4, 0) - 1.0)
    assert float(moved.logpdf(3 * y - 1)) == pytest.approx(float(dist.logpdf(y)) - 2 * np.log(3.0))


def test_impossible_questions_are_refused() -> None:
    singular = MultivariateT(5.0, np.zeros(3), np.ones((3, 3)))
    with pytest.raises(InvalidParameterError, match="shape of full rank; this one has rank 1 of 3"):
        singular.logpdf(np.zeros(3))
    with pytest.raises(InvalidParameterError, match="positive semi-definite; its smallest eigenvalue is -1"):
        MultivariateT(5.0, np.zeros(2), np.diag([1.0, -1.0])).rvs()
    with pytest.raises(InvalidParameterError, match=r"loc must be \(n,\) and shape \(n, n\); got \(2,\) and \(3, 3\)"):
        MultivariateT(5.0, np.zeros(2), np.eye(3))
    with pytest.raises(InvalidParameterError, match="df must be a number > 0; got 0"):
        MultivariateT(0, np.zeros(2), np.eye(2))
    with pytest.raises(
        InvalidParameterError, match=r"a covariance needs more than 2 degrees of freedom; there are 1.5: fit to"
    ):
        MultivariateT(1.5, np.zeros(2), np.eye(2)).cov()
