"""Parts of the quadrature of transformed distributions and of expectations, each against its own integral."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from bdkn.errors import InvalidParameterError
from bdkn.predictive import Gaussian, GaussianMixture, StudentT
from bdkn.predictive import expectation as module
from bdkn.predictive import transformed as quadrature
from bdkn.predictive.expectation import _AT_END, NODES, expectation
from bdkn.predictive.transformed import END, _panels, gaussian_moments, integrals_beyond, path


@pytest.mark.parametrize(("panels", "order"), [(1, 5), (3, 4)])
def test_panels_integrate_polynomials(panels, order):
    at, share = _panels(panels, order)
    assert (at > 0.0).all()
    assert (np.diff(at) > 0.0).all()
    for power in range(2 * order):
        assert share @ at**power == pytest.approx(1.0 / (power + 1.0), rel=1e-12)


@pytest.mark.parametrize("κ", [0.2, 0.45])
def test_integrals_beyond_the_last_quantile_are_those_of_a_power_law(κ):
    last, rise = np.array([3.0]), np.array([1.5])
    found = integrals_beyond(last, rise, np.array([[2.0**κ, 1.0]]))

    def integral(function):
        return quad(lambda w: function(w) * 1.5, 1.0, np.inf)[0]

    assert found.first[0] / END == pytest.approx(integral(lambda w: w ** (-1.0 / κ)))
    second = integral(lambda w: 2.0 * (3.0 + 1.5 * (w - 1.0)) * w ** (-1.0 / κ))
    assert found.second[0] / END == pytest.approx(second)
    assert found.score[0] / END**2 == pytest.approx(integral(lambda w: w ** (-2.0 / κ)))


def test_scores_of_tails_without_a_mean():
    found = integrals_beyond(
        np.ones(3), np.array([1.0, 1.0, 0.0]), np.array([[2.0**1.9, 1.0], [2.0**2.5, 1.0], [8.0, 1.0]])
    )
    np.testing.assert_allclose(found.score / END**2, [1.9 / 0.1, 2.5e9, 0.0])
    np.testing.assert_array_equal([found.first, found.second], [[np.inf, np.inf, 0.0]] * 2)


def test_tails_without_moments_and_rows_without_tails():
    κ = np.array([0.5, 0.7, 1.0, 1.3, 0.7, 0.0])
    reach = np.column_stack([2.0**κ, np.ones(6)])
    rise = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 1.0])
    found = integrals_beyond(np.ones(6), rise, reach)
    np.testing.assert_allclose(found.first, END * np.array([1.0, 7.0 / 3.0, np.inf, np.inf, 0.0, 0.0]))
    np.testing.assert_array_equal(found.second, [np.inf] * 4 + [0.0, 0.0])
    nothing = integrals_beyond(np.zeros(1), np.zeros(1), np.zeros((1, 2)))
    assert (nothing.first[0], nothing.second[0], nothing.score[0]) == (0.0, 0.0, 0.0)


def test_paths_lead_from_start_to_stop():
    start, stop, width = (
        np.array([[0.0], [1.0], [2.0], [3.0]]),
        np.array([[5.0], [-7.0], [2.0], [4.0]]),
        np.ones((4, 1)),
    )
    width[3] = 0.0
    for breaks in (np.empty((1, 0)), np.array([[0.5, -3.0, 99.0]])):
        nodes, weights = path(start, stop, width, breaks)
        np.testing.assert_allclose(weights.sum(axis=1), (stop - start)[:, 0], atol=1e-12)
        np.testing.assert_allclose((weights * nodes**2).sum(axis=1), ((stop**3 - start**3) / 3.0)[:, 0], atol=1e-9)
    kink = (weights * np.abs(nodes - 0.5)).sum(axis=1)
    np.testing.assert_allclose(kink[:2], [0.125 + 4.5**2 / 2.0, -(0.125 + 7.5**2 / 2.0)])


@pytest.mark.parametrize("at_once", [1, 1 << 18])
def test_moments_of_gaussians_between_ends(monkeypatch, at_once):
    monkeypatch.setattr(quadrature, "CACHED_CELLS", at_once)
    loc, scale = np.array([[0.0, 1.0], [2.0, -1.0], [0.5, 0.5]]), np.array([[1.0, 0.2], [0.5, 2.0], [0.1, 3.0]])
    shift = np.array([1.0, 2.0, 3.0])
    found = gaussian_moments(lambda z, rows: z - shift[rows, None], loc, scale, np.array([-np.inf, np.inf]))
    away = loc - shift[:, None]
    np.testing.assert_allclose(found, [np.ones((3, 2)), away, away**2 + scale**2], atol=1e-7)
    cut = gaussian_moments(lambda z, rows: z, loc, scale, np.array([0.0, 1.5]))
    dist = stats.truncnorm((0.0 - loc) / scale, (1.5 - loc) / scale, loc, scale)
    mass = stats.norm.cdf(1.5, loc, scale) - stats.norm.cdf(0.0, loc, scale)
    np.testing.assert_allclose(cut, [mass, mass * dist.mean(), mass * (dist.var() + dist.mean() ** 2)], atol=1e-7)


def test_values_at_the_nodes_give_that_of_their_polynomial_at_the_end():
    for power in range(len(NODES)):
        assert _AT_END @ NODES**power == pytest.approx(1.0, abs=1e-9)


def test_expectations_of_rows_in_parts(monkeypatch):
    monkeypatch.setattr(module, "_TERMS_AT_ONCE", 2)
    for dist in (
        Gaussian([0.0, 1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 0.5, 1.0, 3.0]),
        GaussianMixture(np.arange(10.0).reshape(5, 2), [[1.0, 0.5]] * 5),
    ):
        bounds = np.array([0.0, 2.0, 2.0, 1.0, 9.0])
        found = expectation(dist, lambda y, row, bounds=bounds: (y > bounds[row, None]) * 1.0)
        np.testing.assert_allclose(found, 1.0 - dist.cdf(bounds), atol=2e-6)
        np.testing.assert_allclose(
            expectation(dist, lambda y, row: y * (row[:, None] + 1.0)), dist.mean() * np.arange(1, 6), atol=1e-9
        )


def test_a_jump_is_found_to_all_digits_where_asked_for():
    for dist in (Gaussian([0.3, -1.0], [1.0, 2.0]), StudentT(3.0, [0.3, -1.0], [1.0, 2.0])):
        found = expectation(dist, lambda y, row: 1.0 * (y > 0.123), tolerance=1e-12)
        np.testing.assert_allclose(found, 1.0 - dist.cdf([0.123, 0.123]), atol=1e-10)


def test_functions_that_grow_too_fast_are_refused():
    with pytest.raises(InvalidParameterError, match="row 1 cannot be computed to the tolerance 1e-06"):
        expectation(StudentT([200.0, 3.0], [0.0, 0.0], 1.0), lambda y, row: np.minimum(np.abs(y) ** 3.5, 1e300))
    with pytest.raises(InvalidParameterError, match="the function must be finite for every target; got inf"):
        expectation(StudentT(3.0, [0.0], 1.0), lambda y, row: np.where(y > 5.0, np.inf, 1.0))
