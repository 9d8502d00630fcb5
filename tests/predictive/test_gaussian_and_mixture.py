from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq

from bdkn.errors import InvalidParameterError
from bdkn.predictive import Gaussian, GaussianMixture


def test_gaussian_agrees_with_scipy() -> None:
    dist, reference = Gaussian([0.0, -3.0], [1.0, 0.2]), stats.norm([0.0, -3.0], [1.0, 0.2])
    y = [2.5, -3.1]
    np.testing.assert_allclose(dist.logpdf(y), reference.logpdf(y), rtol=1e-13)
    np.testing.assert_allclose(dist.cdf(y), reference.cdf(y), rtol=1e-13)
    np.testing.assert_allclose(dist.ppf(0.07), reference.ppf(0.07), rtol=1e-13)
    np.testing.assert_allclose(dist.var(), reference.var())


@pytest.fixture
def mixture() -> GaussianMixture:
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(5), size=6)
    return GaussianMixture(rng.normal(scale=4, size=(6, 5)), np.exp(rng.normal(size=(6, 5))), weights)


def test_mixture_is_the_weighted_sum_of_its_components(mixture: GaussianMixture) -> None:
    y = np.linspace(-5, 5, 6)
    components = stats.norm(mixture.loc, mixture.scale)
    np.testing.assert_allclose(mixture.pdf(y), np.sum(mixture.weights * components.pdf(y[:, None]), axis=1))
    np.testing.assert_allclose(mixture.cdf(y), np.sum(mixture.weights * components.cdf(y[:, None]), axis=1))


def test_log_density_survives_where_the_density_underflows(mixture: GaussianMixture) -> None:
    far = np.full(6, 1e4)
    assert np.all(mixture.pdf(far) == 0)
    assert np.all(np.isfinite(mixture.logpdf(far)))


@pytest.mark.parametrize("q", [1e-12, 1e-3, 0.3, 0.5, 0.77, 0.999])
def test_quantiles_agree_with_a_scalar_solver(mixture: GaussianMixture, q: float) -> None:
    expected = [
        brentq(lambda x, row=row: mixture[row].cdf(x)[0] - q, -200, 200, xtol=1e-13, rtol=1e-13) for row in range(6)
    ]
    # The scalar solver sees F - q, which in the lower tail has only the digits that F has left beside rounding.
    np.testing.assert_allclose(mixture.ppf(q), expected, rtol=1e-9 if q > 1e-6 else 1e-4)


def test_far_quantiles_keep_their_digits_in_both_tails() -> None:
    dist = GaussianMixture([[0.0, 0.0, 1.0]], [[1.0, 1.0, 0.5]])
    mirrored = GaussianMixture([[0.0, 0.0, -1.0]], [[1.0, 1.0, 0.5]])
    low = dist.ppf(1e-14)
    assert dist.cdf(low)[0] == pytest.approx(1e-14, rel=1e-12)
    assert mirrored.ppf(1.0 - 2**-46)[0] == pytest.approx(-dist.ppf(2**-46)[0], rel=1e-14)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3), st.integers(1, 6), st.floats(1e-6, 1 - 1e-6))
def test_equal_components_are_one_gaussian(loc: float, scale: float, components: int, q: float) -> None:
    mixture, single = GaussianMixture(np.full((1, components), loc), scale), Gaussian([loc], scale)
    y = np.array([loc + 0.7 * scale])
    np.testing.assert_allclose(mixture.ppf(q), single.ppf(q), rtol=1e-12, atol=1e-12 * scale)
    np.testing.assert_allclose(mixture.logpdf(y), single.logpdf(y), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(mixture.crps(y), single.crps(y), rtol=1e-10)
    np.testing.assert_allclose(mixture.std(), scale, rtol=1e-9, atol=1e-9 * abs(loc))


@given(st.integers(0, 2**32 - 1))
def test_moment_matching_keeps_mean_and_variance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mixture = GaussianMixture(rng.normal(size=(4, 3)), rng.uniform(0, 2, size=(4, 3)), rng.dirichlet(np.ones(3)))
    matched = mixture.moment_matched()
    assert isinstance(matched, Gaussian)
    first = np.sum(mixture.weights * mixture.loc, axis=1)
    second = np.sum(mixture.weights * (mixture.loc**2 + mixture.scale**2), axis=1)
    np.testing.assert_allclose(matched.mean(), first, atol=1e-14)
    np.testing.assert_allclose(matched.var(), second - first**2, rtol=1e-9)


def test_a_component_without_weight_does_not_count() -> None:
    whole = GaussianMixture([[0.0, 2.0, 50.0]], [[1.0, 0.5, 0.0]], [0.4, 0.6, 0.0])
    part = GaussianMixture([[0.0, 2.0]], [[1.0, 0.5]], [0.4, 0.6])
    for y in (-1.0, 1.5, 50.0):
        np.testing.assert_allclose(whole.logpdf(y), part.logpdf(y), rtol=1e-14)
        np.testing.assert_allclose(whole.crps(y), part.crps(y), rtol=1e-12)
    np.testing.assert_allclose(whole.ppf([0.0, 0.01, 0.6, 0.99, 1.0]), part.ppf([0.0, 0.01, 0.6, 0.99, 1.0]))
    assert whole.rvs(1000, 0).max() < 10
    np.testing.assert_array_equal(GaussianMixture([[2.0, 0.0]], [[0.0, 1.0]], [1.0, 0.0]).ppf([0.0, 1.0]), [[2.0, 2.0]])


def test_point_masses_make_steps() -> None:
    """Half the weight at 0, half spread around 1."""
    dist = GaussianMixture([[0.0, 1.0]], [[0.0, 1.0]])
    assert dist.cdf(-1e-9)[0] == pytest.approx(0.5 * stats.norm.cdf(-1), abs=1e-8)
    assert dist.cdf(0.0)[0] == pytest.approx(0.5 + 0.5 * stats.norm.cdf(-1))
    np.testing.assert_allclose(dist.ppf([0.1, 0.3, 0.5])[0], 0.0, atol=1e-15)
    assert dist.ppf(0.75)[0] == pytest.approx(1.0)
    assert dist.logpdf(0.0)[0] == np.inf
    assert dist.logpdf(1.0)[0] == pytest.approx(np.log(0.5) + stats.norm.logpdf(0))
    steps = GaussianMixture([[0.0, 1.0, 4.0]], 0.0, [0.2, 0.5, 0.3])
    np.testing.assert_allclose(steps.ppf([0.1, 0.4, 0.9])[0], [0.0, 1.0, 4.0], atol=1e-15)
    # E|X - 1| - E|X - X'| / 2 for three points
    assert steps.crps(1.0)[0] == pytest.approx((0.2 + 0.9) - (0.2 * 0.5 * 1 + 0.2 * 0.3 * 4 + 0.5 * 0.3 * 3))


def test_a_gap_between_components_has_a_median() -> None:
    dist = GaussianMixture([[-100.0, 100.0]], [[1.0, 1.0]])
    assert dist.cdf(dist.median())[0] == pytest.approx(0.5, rel=1e-13)
    np.testing.assert_allclose(dist.ppf([0.25, 0.75])[0], [-100.0, 100.0], rtol=1e-12)


def test_scoring_in_pieces_changes_nothing(mixture: GaussianMixture, monkeypatch: pytest.MonkeyPatch) -> None:
    y = np.arange(12.0).reshape(6, 2)
    whole = mixture.crps(y)
    monkeypatch.setattr("bdkn.predictive.mixture.CACHED_CELLS", 1)
    np.testing.assert_array_equal(mixture.crps(y), whole)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0], [1.0, 1.0]), r"loc and scale must be \(rows, components\).* got loc \(2,\)"),
        ((np.zeros((2, 0)), np.zeros((2, 0))), r"with a component at least"),
        ((np.zeros((2, 3)), np.ones((2, 2))), r"scale \(2, 2\)"),
        ((np.zeros((2, 3)), 1.0, [0.5, 0.5]), r"weights \(2,\)"),
        ((np.zeros((2, 2)), 1.0, [0.5, 0.6]), r"sum to 1 in each row; got a least weight of 0.5 and sums from 1.1"),
        ((np.zeros((2, 2)), 1.0, [1.5, -0.5]), r"weights must be >= 0"),
        ((np.zeros((2, 2)), [[1.0, 1.0], [1.0, np.inf]]), r"scale must be finite and >= 0; got inf"),
        (([[np.inf, 0.0]], 1.0), r"loc must be finite"),
    ],
)
def test_impossible_mixtures_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        GaussianMixture(*arguments)
