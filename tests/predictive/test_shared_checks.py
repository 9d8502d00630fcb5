"""What all predictives share: checks of arguments, defaults, copies, and numbers at the ends of their range."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bdkn.errors import InvalidParameterError
from bdkn.predictive import Gaussian, GaussianMixture, MatrixT, MultivariateT, StudentT, VectorT

EYE = np.eye(2)
JOINTS = {
    "multivariate": MultivariateT(5.0, [0.0, 1.0], EYE),
    "vector": VectorT(5.0, [[0.0, 1.0]], EYE[None]),
    "matrix": MatrixT(5.0, [[0.0, 1.0], [2.0, 3.0]], EYE, EYE),
}


@pytest.mark.parametrize("q", [[[0.5]], [0.5, 1.1], [-0.1, 0.5], 2.0, [np.nan]])
def test_levels_must_be_probabilities(q):
    with pytest.raises(InvalidParameterError, match=r"q must be one probability or a list of them, each within"):
        Gaussian([0.0], [1.0]).ppf(q)


def test_defaults():
    dist = Gaussian([0.0, 1.0], [1.0, 2.0])
    np.testing.assert_allclose(dist.interval(), stats.norm.interval(0.9, dist.loc, dist.scale))
    assert dist.rvs().shape == (2, 1)
    assert [joint.rvs().shape for joint in JOINTS.values()] == [(2, 1), (1, 2, 1), (2, 2, 1)]
    assert [joint.rvs(0).shape for joint in JOINTS.values()] == [(2, 0), (1, 2, 0), (2, 2, 0)]


@pytest.mark.parametrize("joint", JOINTS.values(), ids=JOINTS)
def test_numbers_of_draws_are_whole_and_what_is_returned_is_a_copy(joint):
    for size in (-1, 1.5):
        with pytest.raises(InvalidParameterError, match="size must be"):
            joint.rvs(size)
    joint.mean()[0] = 99.0
    assert joint.loc.max() < 99.0
    same = Gaussian([0.0], [1.0])
    same.mean()[0] = same.median()[0] = 99.0
    assert same.loc[0] == 0.0


def test_integers_are_numbers():
    np.testing.assert_allclose(
        MultivariateT(5, [0, 1], [[1, 0], [0, 1]]).logpdf([0, 1]), JOINTS["multivariate"].logpdf([0.0, 1.0])
    )
    np.testing.assert_allclose(
        VectorT(5, [[0, 1]], [[[1, 0], [0, 1]]]).logpdf([[1, 1]]), JOINTS["vector"].logpdf([[1.0, 1.0]])
    )
    assert Gaussian([0, 1], [1, 2]).ppf([0, 1]).dtype == GaussianMixture([[0, 1]], [[1, 1]]).mean().dtype == np.float64


@pytest.mark.parametrize("scale", [1e-200, 1e-151, 1e149, 1e160])
def test_standard_deviations_of_any_size(scale):
    np.testing.assert_allclose(StudentT(4.0, [0.0, 0.0], [scale, 0.0]).std(), [scale * np.sqrt(2.0), 0.0], rtol=1e-12)
    np.testing.assert_allclose(GaussianMixture([[0.0, 0.0]], [[scale, scale]]).std(), scale, rtol=1e-12)


def test_no_rows_and_points_have_deviations_too():
    assert Gaussian(np.empty(0), np.empty(0)).std().shape == (0,)
    np.testing.assert_array_equal(Gaussian([1.0, 2.0], [0.0, 0.0]).std(), 0.0)


@pytest.mark.parametrize("scale", [[-1.0, 1.0], [1.0, -1.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_scales_must_not_be_negative_in_any_row(scale):
    with pytest.raises(InvalidParameterError, match="scale must be finite and >= 0; got"):
        Gaussian([0.0, 0.0], scale)
    with pytest.raises(InvalidParameterError, match="loc must be finite; 1 of 2 values are not"):
        Gaussian([0.0, np.nan], 1.0)


@pytest.mark.parametrize(
    "arguments",
    [([[0.0, 1.0]], EYE), ([0.0, 1.0], np.eye(3)), ([0.0, 1.0], np.ones(2))],
)
def test_shapes_of_joint_distributions(arguments):
    with pytest.raises(InvalidParameterError, match=r"loc must be \(n,\) and shape \(n, n\)"):
        MultivariateT(5.0, *arguments)


def test_shapes_of_blocks():
    for df, loc, shape in (
        (5.0, [0.0, 1.0], EYE[None]),
        (5.0, [[0.0, 1.0]], EYE),
        ([5.0, 5.0], [[0.0, 1.0]], EYE[None]),
    ):
        with pytest.raises(InvalidParameterError, match=r"loc must be \(n, q\), shape \(n, q, q\) and df a number"):
            VectorT(df, loc, shape)
    for rows, columns in ((np.eye(3), EYE), (EYE, np.eye(3))):
        with pytest.raises(InvalidParameterError, match=r"loc must be \(n, q\), rows \(n, n\) and columns \(q, q\)"):
            MatrixT(5.0, np.zeros((2, 2)), rows, columns)
    with pytest.raises(InvalidParameterError, match="df must be"):
        MatrixT(0.0, np.zeros((2, 2)), EYE, EYE)
    for scale in (0.0, -1.0):
        with pytest.raises(InvalidParameterError, match="scale must be a number > 0"):
            JOINTS["multivariate"].affine(scale, 0.0)
    np.testing.assert_array_equal(JOINTS["multivariate"].affine(0.5, 1.0).shape, 0.25 * EYE)


def test_variances_of_rounding_size_and_none():
    assert VectorT(5.0, [[0.0]], [[[-1e-20]]]).target(0).scale[0] == 0.0
    assert MultivariateT(5.0, [0.0], [[-1e-20]]).marginal().scale[0] == 0.0
    flat = VectorT(5.0, [[1.0, 2.0]], [[[0.0, 0.0], [0.0, 1.0]]])
    draws = flat.rvs(50, 0)
    np.testing.assert_array_equal(draws[0, 0], 1.0)
    assert draws[0, 1].std() > 0.5
    with pytest.raises(InvalidParameterError, match="this one has rank 1 of 2: score each target with target"):
        VectorT(5.0, [[1.0, 2.0]] * 2, [EYE, [[0.0, 0.0], [0.0, 1.0]]]).logpdf([[1.0, 2.0]] * 2)


def test_no_rows_at_all_and_infinite_degrees_of_freedom():
    assert MultivariateT(5.0, np.empty(0), np.empty((0, 0))).rvs(2).shape == (0, 2)
    assert VectorT(5.0, np.empty((0, 2)), np.empty((0, 2, 2))).cov().shape == (0, 2, 2)
    assert np.isfinite(VectorT(np.inf, [[0.0, 1.0]], EYE[None]).rvs(3, 0)).all()
    np.testing.assert_allclose(MultivariateT(np.inf, [0.0, 1.0], EYE).cov(), EYE)
    np.testing.assert_allclose(
        VectorT([4.0, 8.0], np.zeros((2, 1)), np.ones((2, 1, 1))).cov()[:, 0, 0], [2.0, 4.0 / 3.0]
    )


def test_draws_of_three_components():
    dist = GaussianMixture([[-3.0, 0.0, 4.0]], [[0.5, 0.1, 1.0]], [0.5, 0.2, 0.3])
    assert stats.kstest(dist.rvs(5000, 0)[0], lambda y: dist.cdf(y[None])[0]).pvalue > 1e-3
    for weights in ([0.5, 0.2, 0.3001], [0.5, 0.7, -0.2]):
        with pytest.raises(InvalidParameterError, match="weights must be >= 0 and sum to 1 in each row"):
            GaussianMixture([[-3.0, 0.0, 4.0]], 1.0, weights)
