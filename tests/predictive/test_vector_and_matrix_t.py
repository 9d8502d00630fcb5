"""Student-t distributions of several targets, against SciPy, against each other and by their draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import invwishart, matrix_normal, multivariate_t

from bdkn.errors import InvalidParameterError
from bdkn.predictive import MatrixT, MultivariateT, VectorT


def covariance(size, rng):
    root = rng.normal(size=(size, size))
    return root @ root.T + 0.1 * np.eye(size)


def vectors(rows=4, targets=3, df=5.0, seed=0):
    rng = np.random.default_rng(seed)
    shapes = np.array([covariance(targets, rng) for _ in range(rows)])
    return VectorT(df, rng.normal(size=(rows, targets)), shapes), rng


def matrices(rows=4, targets=3, df=5.0, seed=0):
    rng = np.random.default_rng(seed)
    return MatrixT(df, rng.normal(size=(rows, targets)), covariance(rows, rng), covariance(targets, rng)), rng


class TestVectorT:
    @pytest.mark.parametrize("df", [0.7, 5.0, 1e9])
    def test_density_is_scipys(self, df):
        dist, rng = vectors(df=df)
        Y = rng.normal(size=(4, 3))
        expected = [multivariate_t(*row, df).logpdf(y) for *row, y in zip(dist.loc, dist.shape, Y, strict=True)]
        np.testing.assert_allclose(dist.logpdf(Y), expected, rtol=1e-6 if df > 1e6 else 1e-11)

    def test_rows_may_have_their_own_degrees_of_freedom(self):
        dist, rng = vectors()
        df, Y = np.array([1.0, 2.0, 3.0, 4.0]), rng.normal(size=(4, 3))
        own = VectorT(df, dist.loc, dist.shape)
        expected = [VectorT(df[i], dist.loc[[i]], dist.shape[[i]]).logpdf(Y[[i]])[0] for i in range(4)]
        np.testing.assert_allclose(own.logpdf(Y), expected)

    def test_a_target_is_the_marginal(self):
        dist, _ = vectors()
        one = dist.target(1)
        np.testing.assert_array_equal(one.loc, dist.loc[:, 1])
        np.testing.assert_allclose(one.var(), dist.cov()[:, 1, 1])
        assert (len(dist), dist.n_targets, len(dist[1:]), len(dist[2])) == (4, 3, 3, 1)

    def test_draws_have_its_moments(self):
        dist, _ = vectors(rows=2, df=9.0)
        draws = dist.rvs(200_000, random_state=0)
        assert draws.shape == (2, 3, 200_000)
        for found, row in zip(draws, range(2), strict=True):
            size = np.sqrt(np.diag(dist.cov()[row]))
            np.testing.assert_allclose(found.mean(axis=1) / size, dist.mean()[row] / size, atol=0.02)
            np.testing.assert_allclose(
                np.cov(found) / np.outer(size, size), dist.cov()[row] / np.outer(size, size), atol=0.03
            )

    def test_units(self):
        dist, rng = vectors()
        scale, shift, Y = np.array([1e-3, 1.0, 1e5]), np.array([1.0, 2.0, 3.0]), rng.normal(size=(4, 3))
        moved = dist.affine(scale, shift)
        np.testing.assert_allclose(moved.logpdf(scale * Y + shift), dist.logpdf(Y) - np.log(scale).sum(), rtol=1e-9)
        np.testing.assert_allclose(moved.cov(), dist.cov() * np.outer(scale, scale))

    def test_refusals(self):
        with pytest.raises(InvalidParameterError, match=r"loc must be \(n, q\), shape \(n, q, q\) and df a number"):
            VectorT(3.0, np.zeros((2, 2)), np.eye(2))
        with pytest.raises(InvalidParameterError, match="df must be > 0; got 0"):
            VectorT(0.0, np.zeros((1, 2)), np.eye(2)[None])
        with pytest.raises(InvalidParameterError, match="rank 1 of 2: score each target with target"):
            VectorT(3.0, np.zeros((1, 2)), np.ones((1, 2, 2))).logpdf(np.zeros((1, 2)))
        with pytest.raises(InvalidParameterError, match="a covariance needs more than 2 degrees of freedom"):
            VectorT([2.0, 3.0], np.zeros((2, 1)), np.ones((2, 1, 1))).cov()
        with pytest.raises(InvalidParameterError, match="scale must be > 0; got 0"):
            vectors()[0].affine([1.0, 0.0, 1.0], 0.0)


class TestMatrixT:
    @pytest.mark.no_cover
    def test_density_is_the_mean_of_the_matrix_normal_over_covariances(self):
        dist, rng = matrices(rows=3, targets=2, df=6.0)
        Y = dist.loc + 0.5 * rng.normal(size=(3, 2))
        Σ = invwishart(dist.df + 1, dist.df * dist.columns).rvs(20_000, random_state=0)
        densities = np.array([matrix_normal(dist.loc, dist.rows, one).pdf(Y) for one in Σ[:4000]])
        error = densities.std() / np.sqrt(len(densities))
        assert np.exp(dist.logpdf(Y)) == pytest.approx(densities.mean(), abs=4 * error)
        assert error < 0.1 * densities.mean()

    @pytest.mark.parametrize("df", [0.7, 5.0, 1e9])
    def test_one_row_and_one_target_are_the_multivariate_t(self, df):
        row, rng = matrices(rows=1, df=df)
        y = rng.normal(size=(1, 3))
        assert row.logpdf(y) == pytest.approx(row.marginal().logpdf(y)[0], rel=1e-10)
        target, rng = matrices(targets=1, df=df)
        y = rng.normal(size=(4, 1))
        assert target.logpdf(y) == pytest.approx(float(target.target(0).logpdf(y[:, 0])), rel=1e-10)
        assert isinstance(target.target(0), MultivariateT)

    def test_rows_and_targets_may_change_places(self):
        """The transpose is matrix-t, too: with n + q - 1 + df fixed, |I + EᵀE| = |I + EEᵀ|."""
        dist, rng = matrices(rows=3, targets=2)
        Y = rng.normal(size=(3, 2))
        turned = MatrixT(dist.df, dist.loc.T, dist.columns, dist.rows)
        assert dist.logpdf(Y) == pytest.approx(turned.logpdf(Y.T), rel=1e-11)

    def test_draws_have_its_moments(self):
        dist, _ = matrices(rows=2, targets=2, df=9.0)
        draws = dist.rvs(200_000, random_state=0)
        assert draws.shape == (2, 2, 200_000)
        expected = np.kron(dist.rows, dist.columns) / (1 - 2 / dist.df)
        size = np.sqrt(np.diag(expected))
        found = np.cov(draws.reshape(4, -1))
        np.testing.assert_allclose(found / np.outer(size, size), expected / np.outer(size, size), atol=0.03)
        np.testing.assert_allclose(draws.mean(axis=2).ravel() / size, dist.mean().ravel() / size, atol=0.02)
        assert len(dist) == 2

    def test_units_of_the_targets_do_not_matter(self):
        dist, rng = matrices(rows=3, targets=2)
        unit, Y = np.array([1e-7, 1e6]), rng.normal(size=(3, 2))
        other = MatrixT(dist.df, dist.loc * unit, dist.rows, dist.columns * np.outer(unit, unit))
        assert other.logpdf(Y * unit) == pytest.approx(dist.logpdf(Y) - 3 * np.log(unit).sum(), rel=1e-9)
        spread = np.quantile(other.rvs(20_000, 0) - other.loc[:, :, None], 0.8, axis=2)
        expected = np.quantile(dist.rvs(20_000, 1) - dist.loc[:, :, None], 0.8, axis=2) * unit
        np.testing.assert_allclose(spread, expected, rtol=0.1)

    def test_singular_shapes_can_be_drawn_from(self):
        dist = MatrixT(5.0, np.zeros((2, 2)), np.ones((2, 2)), np.eye(2))
        draws = dist.rvs(5, random_state=0)
        np.testing.assert_allclose(draws[0], draws[1], rtol=1e-6)
        with pytest.raises(InvalidParameterError, match="rank 1 of 2: score each row with marginal"):
            dist.logpdf(np.zeros((2, 2)))

    def test_refusals(self):
        with pytest.raises(InvalidParameterError, match=r"loc must be \(n, q\), rows \(n, n\) and columns \(q, q\)"):
            MatrixT(3.0, np.zeros((2, 3)), np.eye(3), np.eye(2))
