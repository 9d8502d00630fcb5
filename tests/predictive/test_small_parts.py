"""Small parts of distributions and links that whole predictions rarely show: each against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from bdkn.errors import InvalidParameterError
from bdkn.predictive import (
    Gaussian,
    GaussianMixture,
    LogLink,
    MultivariateT,
    StudentT,
    StudentTMixture,
    Transformed,
    YeoJohnsonLink,
    base,
    join,
)
from bdkn.predictive.expectation import excess_and_shortfall


def test_a_power_takes_targets_of_any_size_without_a_warning():
    assert YeoJohnsonLink(2.0).forward(np.array([1e300]))[0] == np.inf
    assert YeoJohnsonLink(0.0).inverse(np.array([1e300]))[0] == np.inf


def test_a_power_below_zero_has_an_image_that_ends():
    link = YeoJohnsonLink(-0.5)
    np.testing.assert_array_equal(link.inverse(np.array([2.0, 2.5, 100.0])), [np.inf] * 3)
    np.testing.assert_allclose(link.inverse(link.forward(np.array([0.5, 10.0]))), [0.5, 10.0])


def test_memory_of_draws_is_checked_by_their_bytes(monkeypatch):
    checked = []
    monkeypatch.setattr(base, "check_memory", lambda *given: checked.append(given))
    base.check_draws("size", 3, 5)
    assert checked == [("size=5 draws of 3 rows", 120.0, "draw fewer at once")]


def test_numbers_that_are_repeated_take_no_memory_and_cannot_be_changed():
    many = StudentT(2.5, np.zeros(3), 1.0).df
    np.testing.assert_array_equal(many, np.full(3, 2.5))
    assert many.strides == (0,)
    with pytest.raises(ValueError, match="read-only"):
        many[0] = 1.0


@pytest.mark.parametrize("shape", [(), (3,), (3, 2), (2, 1, 1)])
def test_a_joint_density_is_that_of_all_rows(shape):
    with pytest.raises(InvalidParameterError, match=r"y must be \(n,\) or \(n, k\) with n=2 rows; got shape"):
        MultivariateT(3.0, np.zeros(2), np.eye(2)).logpdf(np.zeros(shape))


def test_an_interval_covers_nine_tenths_by_default():
    dist = join([Gaussian([0.0], 1.0), StudentT(3.0, [1.0], 2.0)], [[0], [1]])
    for part in (dist, Gaussian([0.0], 1.0)):
        np.testing.assert_array_equal(part.interval(), part.interval(0.9))


def test_a_component_that_has_no_share_has_none_in_the_moments_even_if_its_own_are_infinite():
    base = StudentTMixture(3.0, [0.0], [1.0], 0.0, [[-1.0, 1.0]], [[0.1, 0.1]], [[0.5, 0.5]])
    found = Transformed(base, LogLink()).mean()
    np.testing.assert_allclose(found, np.exp(0.005) * np.cosh(1.0), rtol=1e-6)


def test_a_covariance_needs_more_than_two_degrees_of_freedom():
    np.testing.assert_allclose(MultivariateT(2.5, np.zeros(2), np.eye(2)).cov(), 5.0 * np.eye(2))
    with pytest.raises(InvalidParameterError, match="a covariance needs more than 2 degrees of freedom; there are 2:"):
        MultivariateT(2.0, np.zeros(2), np.eye(2)).cov()


def test_mean_distances_are_unknown_if_those_of_a_part_are(monkeypatch):
    dist = join([Gaussian([0.0], 1.0), StudentT(3.0, [1.0], 2.0)], [[0], [1]])
    assert excess_and_shortfall(dist, np.zeros((2, 1))) is not None
    monkeypatch.setattr(StudentT, "_absolute_mean", base.Predictive._absolute_mean)
    assert excess_and_shortfall(dist, np.zeros((2, 1))) is None


def test_the_scale_of_joined_rows_is_that_of_each_or_of_its_widest_component():
    dist = join([Gaussian([0.0], 1.5), GaussianMixture([[0.0, 1.0]], [[1.0, 4.0]])], [[1], [0]])
    np.testing.assert_array_equal(dist.scale, [4.0, 1.5])


def test_the_distance_from_a_row_without_width_is_that_from_its_value():
    dist = Transformed(Gaussian([1.0, 0.0], [0.0, 0.5]), LogLink())
    np.testing.assert_allclose(dist._absolute_mean(np.array([[1.0, 5.0]] * 2))[0], np.abs(np.array([1.0, 5.0]) - np.e))


@pytest.mark.parametrize("z", [0.5, 1e6, 1e12])
def test_infinite_degrees_of_freedom_are_a_gaussian_however_far_out(z):
    expected = -0.5 * z**2 - 0.5 * np.log(2.0 * np.pi)
    np.testing.assert_allclose(StudentT(np.inf, [0.0], 1.0).logpdf([z]), [expected], rtol=1e-9)


def test_a_mixture_that_is_moved_beyond_all_numbers_is_refused():
    dist = StudentTMixture(3.0, [1e300], [1.0], 0.5, [[-1.0, 1.0]], [[0.1, 0.1]], [[0.25, 0.25]])
    with np.errstate(over="ignore"), pytest.raises(InvalidParameterError, match="loc must be finite"):
        dist.affine(1e300, 0.0)


def test_a_mixture_has_components_for_each_row():
    one = [[0.1, 0.1]]
    with pytest.raises(InvalidParameterError, match=r"must have one shape \(rows, components\) with 2 rows"):
        StudentTMixture(3.0, [0.0, 1.0], [1.0, 1.0], 0.5, one, one, [[0.25, 0.25]])
