import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from bdkn.errors import InvalidParameterError
from bdkn.predictive import (
    Gaussian,
    GaussianMixture,
    JoinedPredictive,
    LogLink,
    StudentT,
    StudentTMixture,
    Transformed,
    join,
)
from bdkn.predictive.expectation import GAUSS, KRONROD, NODES, excess_and_shortfall, expectation
from bdkn.testing import check_predictive

KINDS = (
    Gaussian([0.0, 1.0], [1.0, 2.0]),
    StudentT(5.0, [2.0, 0.0], [1.0, 0.5]),
    Transformed(Gaussian([0.0, 1.0], [0.5, 0.3]), LogLink()),
    GaussianMixture([[0.0, 2.0]], [[1.0, 0.5]]),
    StudentTMixture(5.0, [10.0], [2.0], 0.5, [[-1.0, 3.0]], [[0.1, 0.1]], [[0.25, 0.25]]),
)
ROWS = ([0, 7], [1, 2], [3, 5], [4], [6])


@pytest.fixture(scope="module")
def joined():
    return join(KINDS, ROWS)


@pytest.mark.no_cover
def test_it_is_a_predictive(joined):
    assert isinstance(joined, JoinedPredictive)
    check_predictive(joined[[0, 1, 3, 4]], n_draws=4000)


@pytest.mark.no_cover
def test_rows_are_those_of_the_parts(joined):
    for dist, rows in zip(KINDS, ROWS, strict=True):
        np.testing.assert_array_equal(joined[rows].mean(), dist.mean())
        np.testing.assert_array_equal(joined.interval(0.8)[1][rows], dist.interval(0.8)[1])


@pytest.mark.parametrize("kind", [Gaussian, StudentT])
def test_location_scales_keep_their_kind(kind):
    extra = (4.0,) if kind is StudentT else ()
    dist = join([kind(*extra, [1.0], 1.0), kind(*extra, [0.0, 2.0], [1.0, 3.0])], [[1], [0, 2]])
    assert type(dist) is kind
    np.testing.assert_array_equal(dist.loc, [0.0, 1.0, 2.0])


def test_each_row_has_one_prediction():
    with pytest.raises(InvalidParameterError, match=r"each row must be predicted once; got 2 .* with 1 different"):
        join([Gaussian([0.0], 1.0), Gaussian([0.0], 1.0)], [[0], [0]])


@pytest.mark.no_cover
def test_mean_distances_are_integrals(joined):
    y = np.tile([-1.0, 0.5, 3.0], (8, 1))
    found, (excess, shortfall) = joined._absolute_mean(y), excess_and_shortfall(joined, y)
    for i in range(8):
        for k in range(3):
            below = quad(lambda x, d=joined[i]: d.cdf(x)[0], -np.inf, y[i, k], limit=200)[0]
            above = quad(lambda x, d=joined[i]: 1.0 - d.cdf(x)[0], y[i, k], np.inf, limit=200)[0]
            assert found[i, k] == pytest.approx(below + above, abs=2e-6)
            assert shortfall[i, k] == pytest.approx(below, abs=2e-6)
            assert excess[i, k] == pytest.approx(above, abs=2e-6)


def test_mean_distances_of_point_masses_and_heavy_tails():
    y = np.full((3, 1), 3.0)
    heavy = StudentT([1.0, 5.0, np.inf], [1.0, 1.0, 1.0], [1.0, 0.0, 0.0])
    np.testing.assert_allclose(heavy._absolute_mean(y), [[np.inf], [2.0], [2.0]])
    limit = StudentT(np.inf, [1.0], 2.0)
    np.testing.assert_allclose(limit._absolute_mean(y[:1]), Gaussian([1.0], 2.0)._absolute_mean(y[:1]))


def test_the_rule_is_exact_for_polynomials():
    for power in range(23):
        exact = 0.0 if power % 2 else 2.0 / (power + 1)
        assert KRONROD @ NODES**power == pytest.approx(exact, abs=1e-14)
        if power < 14:
            assert GAUSS @ NODES**power == pytest.approx(exact, abs=1e-14)


@pytest.mark.parametrize(
    ("function", "exact"),
    [
        (lambda y: np.abs(y - 0.5), lambda dist: dist._absolute_mean(np.full((len(dist), 1), 0.5))[:, 0]),
        (lambda y: (y > 0.7) * 1.0, lambda dist: 1.0 - dist.cdf(0.7)),
        (lambda y: y**2, lambda dist: dist.var() + dist.mean() ** 2),
        (lambda y: np.full(y.shape, 3.0), lambda dist: np.full(len(dist), 3.0)),
    ],
    ids=["bend", "step", "square", "constant"],
)
def test_expectations(joined, function, exact):
    np.testing.assert_allclose(expectation(joined, lambda y, rows: function(y)), exact(joined), rtol=3e-6, atol=1e-6)


def test_jumps_are_found_wherever_they_are():
    """A jump between two pieces, where no node of either is near, must not be missed."""
    dist = StudentT(7.0, np.linspace(-3.0, 3.0, 2000), 1.0)
    found = expectation(dist, lambda y, rows: (y > 0.3) * 1.0)
    np.testing.assert_allclose(found, 1.0 - dist.cdf(0.3), atol=2e-6)


def test_rare_costs_are_small():
    found = expectation(Gaussian([0.0, 4.0], 1.0), lambda y, rows: np.where(y > 7.0, 100.0, 0.0))
    np.testing.assert_allclose(found, 100.0 * norm.sf([7.0, 3.0]), rtol=1e-4)


def test_functions_are_asked_within_the_bounds_only():
    dist = Transformed(Gaussian([0.0, 1.0], [0.5, 0.3]), LogLink())
    np.testing.assert_allclose(expectation(dist, lambda y, rows: np.log(y)), [0.0, 1.0], atol=1e-5)


def test_expectations_that_do_not_exist_are_refused():
    with pytest.raises(InvalidParameterError, match=r"row 0 cannot be computed to the tolerance 1e-06.*grows too fast"):
        expectation(StudentT(2.0, [0.0], 1.0), lambda y, rows: y**4)
    with pytest.raises(InvalidParameterError, match="grows too fast"):
        expectation(GaussianMixture([[0.0, 1.0]], 1.0), lambda y, rows: np.exp(y**2))
    both = JoinedPredictive([Gaussian([0.0], 1.0), StudentT(2.0, [0.0], 1.0)], [0, 0, 1], [0, 0, 0])
    with pytest.raises(InvalidParameterError, match="row 2 cannot be computed"):
        expectation(both, lambda y, rows: y**4)
    with pytest.raises(InvalidParameterError, match="must be finite for every target; got inf at"):
        expectation(Gaussian([0.0], 1.0), lambda y, rows: np.where(y > 0.0, np.inf, 0.0))
