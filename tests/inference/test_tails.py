"""The tails that score best, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from designs import fit_tails
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as sp
from scipy.optimize import minimize

from bdkn.inference.combination import Tails, _loss
from bdkn.predictive import StudentT


def score(tails, predicted, y, counts=None):
    """Return the mean log density by SciPy."""
    return np.average(sp.t.logpdf(y, tails.df, predicted.loc, tails.scale * predicted.scale), weights=counts)


def brute_force(predicted, y, most, counts=None):
    """Return the best tails on a fine grid, and then by a search that needs no derivative from there."""
    z = (y - predicted.loc) / predicted.scale
    grid = np.array(np.meshgrid(np.geomspace(2.1, most, 60), np.geomspace(0.05, 20, 120) * np.median(np.abs(z))))
    scores = np.average(sp.t.logpdf(z[:, None, None], grid[0], 0, grid[1]), axis=0, weights=counts)
    start = np.log(grid[:, *np.unravel_index(scores.argmax(), scores.shape)])

    def loss(log):
        return -np.average(sp.t.logpdf(z, np.exp(log[0]), 0, np.exp(log[1])), weights=counts)

    bounds = [(np.log(2.1), np.log(most)), (None, None)]
    found = minimize(loss, start, method="Nelder-Mead", bounds=bounds, options={"xatol": 1e-7, "fatol": 1e-13})
    return Tails(*np.exp(found.x))


RESIDUALS = {
    "heavy": lambda rng, n: rng.standard_t(2.5, n),
    "some outliers": lambda rng, n: rng.normal(size=n) * np.where(rng.random(n) < 0.1, 30.0, 1.0),
    "middling": lambda rng, n: rng.standard_t(6, n),
    "normal": lambda rng, n: rng.normal(size=n),
    "uniform": lambda rng, n: rng.uniform(-1, 1, n),
    "two values": lambda rng, n: rng.choice([-0.5, 2.0], n),
}


@st.composite
def predictions(draw):
    """Draw predictions and targets whose residuals have tails of many kinds."""
    n, rng = draw(st.integers(8, 60)), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    predicted = StudentT(float(draw(st.integers(5, 80))), rng.normal(size=n), np.exp(rng.normal(size=n)))
    z = draw(st.sampled_from([0.01, 1.0, 50.0])) * RESIDUALS[draw(st.sampled_from(sorted(RESIDUALS)))](rng, n)
    return predicted, predicted.loc + predicted.scale * z, rng


@given(predictions())
def test_no_other_tails_score_better(data):
    predicted, y, _ = data
    found, best = fit_tails(predicted, y), brute_force(predicted, y, predicted.df[0])
    assert 2.1 <= found.df <= predicted.df[0]
    assert score(found, predicted, y) >= score(best, predicted, y) - 1e-5  # a bound is approached, not met
    np.testing.assert_allclose(found.scale, best.scale, rtol=1e-2)


@given(predictions())
def test_a_count_is_a_repetition(data):
    predicted, y, rng = data
    counts = rng.integers(1, 5, len(y))
    rows = np.repeat(np.arange(len(y)), counts)
    counted, repeated = fit_tails(predicted, y, counts), fit_tails(predicted[rows], y[rows])
    np.testing.assert_allclose([counted.df, counted.scale], [repeated.df, repeated.scale], rtol=1e-3)
    assert score(counted, predicted, y, counts) == pytest.approx(score(repeated, predicted, y, counts), abs=1e-9)


@pytest.mark.parametrize("start", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("df", [2.1, 5.0, 80.0])
def test_the_loss_is_that_of_the_best_scale_wherever_the_search_begins(df, start):
    z, share = np.random.default_rng(3).standard_t(3.0, 40), np.random.default_rng(4).dirichlet(np.ones(40))
    loss, scale = _loss(df, start, z**2, share)
    assert loss == pytest.approx(-share @ sp.t.logpdf(z, df, 0.0, scale), rel=1e-12)
    for other in (0.999 * scale, 1.001 * scale):
        assert loss < -share @ sp.t.logpdf(z, df, 0.0, other)


def test_rows_fitted_exactly_are_counted_too():
    y, counts = np.array([0.0, 0.0, 1.0, -2.0, 3.0]), np.array([10, 10, 1, 1, 1])
    predicted = StudentT(30.0, np.zeros(5), np.ones(5))
    rows = np.repeat(np.arange(5), counts)
    assert fit_tails(predicted, y, counts) is fit_tails(predicted[rows], y[rows]) is None
    once, nearly = fit_tails(predicted, y), fit_tails(predicted, np.where(y == 0.0, 1e-9, y))
    assert (once.df, once.scale) == pytest.approx((nearly.df, nearly.scale), rel=1e-6)


def test_most_rows_may_be_fitted_exactly_if_they_hardly_count():
    y, counts = np.array([0.0, 0.0, 0.0, 1.0, -2.0]), np.array([0.1, 0.1, 0.1, 1.0, 1.0])
    found = fit_tails(StudentT(30.0, np.zeros(5), np.ones(5)), y, counts)
    assert 0.5 < found.scale < 3.0


@pytest.mark.parametrize(("df", "scale"), [(3.0, 0.4), (5.0, 1.7), (12.0, 30.0)])
def test_the_tails_of_many_rows_are_found_again(df, scale):
    rng = np.random.default_rng(0)
    predicted = StudentT(1e5, rng.normal(size=30_000), np.exp(rng.normal(size=30_000)))
    y = predicted.loc + scale * predicted.scale * rng.standard_t(df, 30_000)
    found = fit_tails(predicted, y)
    assert found.df == pytest.approx(df, rel=0.1)
    assert found.scale == pytest.approx(scale, rel=0.02)


def test_light_tails_end_at_what_the_posterior_allows():
    rng = np.random.default_rng(0)
    z = rng.uniform(-1, 1, 500)
    found = fit_tails(StudentT(499.0, np.zeros(500), np.ones(500)), z)
    assert found.df == 499.0
    assert found.scale == pytest.approx(z.std(), rel=0.01)


def test_the_heaviest_tails_still_have_a_variance():
    z = np.tan(np.linspace(-1.5, 1.5, 400))  # Cauchy
    found = fit_tails(StudentT(399.0, np.zeros(400), np.ones(400)), z)
    assert found.df == pytest.approx(2.1, rel=1e-3)


@given(predictions(), st.sampled_from([1e-6, 0.5, 1e4]))
def test_the_scale_goes_with_the_units(data, unit):
    predicted, y, _ = data
    found = fit_tails(predicted, y)
    wider = fit_tails(StudentT(predicted.df, predicted.loc, unit * predicted.scale), y)
    assert (wider.df, wider.scale * unit) == pytest.approx((found.df, found.scale), rel=1e-4)  # the search ends there
    both = fit_tails(predicted.affine(unit, 3.0), unit * y + 3.0)
    assert (both.df, both.scale) == pytest.approx((found.df, found.scale), rel=1e-4)


@pytest.mark.parametrize("scale", [1.0, 0.0])
def test_an_exact_fit_teaches_nothing(scale):
    y = np.arange(5.0)
    assert fit_tails(StudentT(4.0, y, np.full(5, scale)), y) is None


def test_too_few_rows_teach_nothing():
    assert fit_tails(StudentT(2.0, np.zeros(3), np.ones(3)), np.array([1.0, -5.0, 2.0])) is None
