"""The mixture of a Student-t and Gaussians, against slow routes of its own."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as sp
from scipy.integrate import quad

from bdkn.errors import InvalidParameterError
from bdkn.predictive import StudentT, StudentTMixture
from bdkn.testing import check_predictive


def mixture(seed=0, n=3, A=6, df=4.0, kept=0.4, widths=(0.05, 1.0)):
    """Return a mixture with Gaussians at random."""
    rng = np.random.default_rng(seed)
    mass = rng.dirichlet(np.ones(A), n) * (1.0 - kept)
    loc, scale = rng.normal(size=n), rng.uniform(0.5, 2.0, n)
    return StudentTMixture(df, loc, scale, kept, 2.0 * rng.normal(size=(n, A)), rng.uniform(*widths, (n, A)), mass)


def slow_cdf(dist, i, y):
    """Return the distribution function of row i by SciPy."""
    u = (y - dist.loc[i]) / dist.scale[i]
    gaussians = np.sum(dist.mass[i] * sp.norm.cdf(u, dist.position[i].astype(float), dist.width[i].astype(float)))
    return dist.kept[i] * sp.t.cdf(u, dist.df[i]) + gaussians


@pytest.mark.parametrize("df", [2.2, 4.0, 30.0, 2e4, 1e7, 1e9])
@pytest.mark.parametrize("kept", [0.0, 0.4, 1.0])
def test_it_conforms(df, kept):
    check_predictive(mixture(df=df, kept=kept))


def test_a_row_of_scale_zero_is_a_point_mass():
    dist = mixture()
    check_predictive(StudentTMixture(dist.df, dist.loc, [0.0, 1.0, 0.0], dist.kept, *gaussians(dist)))


def gaussians(dist):
    return dist.position, dist.width, dist.mass


@given(st.integers(0, 10**6), st.sampled_from([2.5, 6.0, 80.0, 1e5]), st.floats(0.0, 1.0))
def test_density_and_distribution_function(seed, df, kept):
    dist = mixture(seed, df=df, kept=kept)
    y = dist.loc[:, None] + np.array([-40.0, -2.0, 0.0, 0.7, 90.0])
    for i in range(len(dist)):
        u = (y[i] - dist.loc[i]) / dist.scale[i]
        parts = sp.norm.pdf(u[:, None], dist.position[i].astype(float), dist.width[i].astype(float))
        density = (dist.kept[i] * sp.t.pdf(u, df) + parts @ dist.mass[i].astype(float)) / dist.scale[i]
        np.testing.assert_allclose(dist.pdf(y)[i], density, rtol=1e-9, atol=1e-300)
        np.testing.assert_allclose(dist.cdf(y)[i], [slow_cdf(dist, i, x) for x in y[i]], rtol=1e-6, atol=1e-12)


@given(st.integers(0, 10**6), st.floats(1e-12, 1.0 - 1e-12))
def test_quantiles_solve_the_equation(seed, level):
    dist = mixture(seed, widths=(1e-3, 3.0))
    found = dist.ppf(level)
    np.testing.assert_allclose([slow_cdf(dist, i, y) for i, y in enumerate(found)], level, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("df", [2.2, 5.0, 200.0, 1e6])
def test_the_score_is_the_integral(df):
    dist = mixture(df=df)
    for i, y in enumerate(dist.loc + 0.3):

        def squared(x, i=i, y=y):
            return (slow_cdf(dist, i, x) - (x >= y)) ** 2

        ends = [-np.inf, *np.sort([*dist.ppf([0.01, 0.5, 0.99])[i], y]), np.inf]
        slow = sum(quad(squared, a, b, limit=400)[0] for a, b in itertools.pairwise(ends))
        np.testing.assert_allclose(dist.crps(np.full(len(dist), y))[i], slow, rtol=1e-5)


def test_without_gaussians_it_is_the_student_t():
    dist, y = mixture(kept=1.0), np.array([[-1.0, 0.5], [3.0, 0.1], [0.0, 9.0]])
    alone = StudentT(dist.df, dist.loc, dist.scale)
    for name in ("logpdf", "cdf", "crps"):
        np.testing.assert_allclose(getattr(dist, name)(y), getattr(alone, name)(y), rtol=1e-9)
    np.testing.assert_allclose(dist.ppf([1e-20, 0.3, 0.9]), alone.ppf([1e-20, 0.3, 0.9]), rtol=1e-9)
    np.testing.assert_allclose(dist.var(), alone.var())
    assert isinstance(dist.student_t(), StudentT)


def test_levels_of_each_row():
    dist = mixture()
    levels = np.array([[0.1, 0.9], [0.5, 0.2], [0.99, 1e-6]])
    expected = [[dist[[i]].ppf(level)[0] for level in levels[i]] for i in range(3)]
    np.testing.assert_allclose(dist.carry(levels), expected, rtol=1e-12)


def test_many_rows_are_processed_in_blocks():
    one = mixture(n=1)
    many = one[np.zeros(9000, dtype=int)]
    assert len(many) == 9000
    np.testing.assert_array_equal(many.ppf(0.9), np.repeat(one.ppf(0.9), 9000))
    np.testing.assert_array_equal(many.crps(0.0), np.repeat(one.crps(0.0), 9000))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"df": 2.0}, "df must be > 2, so that there is a variance; got 2.0"),
        ({"mass": np.full((3, 6), 0.2)}, "kept and mass must be >= 0 and sum to 1 in each row; got sums from 1.6"),
        ({"width": np.zeros((3, 6))}, "width must be > 0 and mass >= 0; some are not"),
        ({"position": np.zeros((3, 5))}, "position, width and mass must have one shape"),
        ({"kept": -0.1}, "kept and mass must be >= 0"),
    ],
)
def test_wrong_parameters(change, message):
    dist = mixture()
    names = ("df", "loc", "scale", "kept", "position", "width", "mass")
    with pytest.raises(InvalidParameterError, match=message):
        StudentTMixture(**{name: getattr(dist, name) for name in names} | change)


@pytest.mark.parametrize(("position", "width"), [(1e39, 1.0), (0.0, 1e39), (np.nan, 1.0)])
def test_gaussians_must_be_finite_in_single_precision(position, width):
    with pytest.raises(InvalidParameterError, match="position"):
        StudentTMixture(5.0, [0.0], 1.0, 0.5, [[position]], [[width]], [[0.5]])


def test_scores_of_huge_errors_are_distances_without_a_warning():
    dist = StudentTMixture(5.0, [0.0, 0.0], [1e150, 1.0], 0.5, [[0.0], [0.0]], [[1.0], [1.0]], [[0.5], [0.5]])
    np.testing.assert_array_equal(dist.crps([1.7e308, 0.0])[0], 1.7e308)
