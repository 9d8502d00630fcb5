"""What must hold for every predictive distribution."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from bdkn.errors import InvalidParameterError
from bdkn.predictive import Gaussian, GaussianMixture, Predictive, StudentT

ROWS = 3
LOCS = st.floats(-50.0, 50.0)
SCALES = st.floats(0.05, 20.0)
LEVELS = st.floats(0.001, 0.999)


def rows(values: st.SearchStrategy[float], n: int = ROWS) -> st.SearchStrategy[np.ndarray]:
    return st.lists(values, min_size=n, max_size=n).map(np.array)


def table(values: st.SearchStrategy[float], columns: int = 4) -> st.SearchStrategy[np.ndarray]:
    return rows(values, ROWS * columns).map(lambda flat: flat.reshape(ROWS, columns))


WEIGHTS = table(st.floats(0.01, 1.0)).map(lambda w: w / w.sum(axis=1, keepdims=True))
STUDENTS = st.builds(StudentT, rows(st.floats(1.1, 200.0)), rows(LOCS), rows(SCALES))
GAUSSIANS = st.builds(Gaussian, rows(LOCS), rows(SCALES))
MIXTURES = st.builds(GaussianMixture, table(LOCS), table(SCALES), WEIGHTS)
ANY = st.one_of(STUDENTS, GAUSSIANS, MIXTURES)

EXAMPLES = [
    StudentT([1.7, 5.0, 80.0], [0.0, 3.0, -2.0], [1.0, 0.5, 4.0]),
    Gaussian([0.0, 3.0, -2.0], [1.0, 0.5, 4.0]),
    GaussianMixture([[0.0, 4.0], [1.0, 1.5], [-3.0, 9.0]], [[1.0, 0.5], [2.0, 2.0], [0.3, 3.0]], [0.3, 0.7]),
]
by_family = pytest.mark.parametrize("dist", EXAMPLES, ids=lambda dist: type(dist).__name__)


def ends(dist: Predictive) -> list[float]:
    """Return finite points that cut row 0 wherever mass is, so that quadrature sees also a narrow component."""
    levels = [1e-4, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1 - 1e-4]
    parts = Gaussian(dist.loc[0], dist.scale[0]) if isinstance(dist, GaussianMixture) else dist[0]
    return np.unique(parts.ppf(levels)).tolist()


def integrate(function, points: list[float]) -> float:
    pieces = [-np.inf, *points, np.inf]
    return sum(quad(function, a, b, limit=200, epsabs=1e-11)[0] for a, b in pairwise(pieces) if b - a > 1e-200)


@given(ANY, st.lists(LEVELS, min_size=1, max_size=5))
def test_cdf_undoes_ppf(dist: Predictive, levels: list[float]) -> None:
    quantiles = dist.ppf(levels)
    assert quantiles.shape == (ROWS, len(levels))
    np.testing.assert_allclose(dist.cdf(quantiles), np.tile(levels, (ROWS, 1)), rtol=1e-10)


@given(ANY, rows(LOCS), st.floats(0.01, 100.0), st.floats(-100.0, 100.0))
def test_affine_moves_every_answer(dist: Predictive, y: np.ndarray, scale: float, shift: float) -> None:
    moved, there = dist.affine(scale, shift), scale * y + shift
    size = scale * (np.abs(y).max() + np.abs(dist.ppf([0.05, 0.95])).max()) + abs(shift)
    close = {"rtol": 1e-8, "atol": 1e-9 * size}
    assert type(moved) is type(dist)
    np.testing.assert_allclose(moved.mean(), scale * dist.mean() + shift, **close)
    np.testing.assert_allclose(moved.std(), scale * dist.std(), **close)
    np.testing.assert_allclose(moved.ppf(0.9), scale * dist.ppf(0.9) + shift, **close)
    np.testing.assert_allclose(moved.crps(there), scale * dist.crps(y), **close)
    np.testing.assert_allclose(moved.cdf(there), dist.cdf(y), atol=1e-9)
    np.testing.assert_allclose(moved.logpdf(there), dist.logpdf(y) - np.log(scale), rtol=1e-6, atol=1e-6)


@given(ANY, st.floats(0.01, 0.999))
def test_interval_is_central_and_holds_its_coverage(dist: Predictive, coverage: float) -> None:
    lower, upper = dist.interval(coverage)
    np.testing.assert_allclose(dist.cdf(upper) - dist.cdf(lower), coverage, rtol=1e-9)
    np.testing.assert_allclose(dist.cdf(lower), 1 - dist.cdf(upper), rtol=1e-8, atol=1e-12)
    assert np.all((lower <= dist.median()) & (dist.median() <= upper))


@settings(max_examples=15)
@given(ANY)
def test_density_integrates_to_one(dist: Predictive) -> None:
    assert integrate(lambda x: dist[0].pdf(x)[0], ends(dist)) == pytest.approx(1.0, abs=1e-6)


@settings(max_examples=15)
@given(ANY, LOCS)
def test_crps_is_the_integral_of_the_squared_gap_between_cdf_and_step(dist: Predictive, y: float) -> None:
    def gap(x: float) -> float:
        F = float(dist[0].cdf(x)[0])
        return (F - (x >= y)) ** 2

    # Ends that differ by rounding only are one: no quadrature is possible between them.
    expected = integrate(gap, sorted({round(end, 9) for end in (*ends(dist), y)}))
    assert dist[0].crps(y)[0] == pytest.approx(expected, rel=1e-5, abs=1e-7)


@given(ANY, rows(LOCS))
def test_cdf_slope_is_pdf(dist: Predictive, y: np.ndarray) -> None:
    step = 1e-4 * np.min(dist.ppf(0.75) - dist.ppf(0.25)) * 0.1
    slope = (dist.cdf(y + step) - dist.cdf(y - step)) / (2 * step)
    np.testing.assert_allclose(dist.pdf(y), slope, rtol=1e-3, atol=1e-7 * dist.pdf(dist.median()).max() + 1e-9)


@by_family
def test_draws_follow_the_cdf(dist: Predictive) -> None:
    draws = dist.rvs(4000, random_state=7)
    assert draws.shape == (len(dist), 4000)
    for row, sample in enumerate(draws):
        assert stats.kstest(sample, lambda x, row=row: dist[row].cdf(x[None, :])[0]).pvalue > 1e-3


@by_family
def test_draws_have_the_moments(dist: Predictive) -> None:
    light = StudentT([12.0] * 3, dist.loc, dist.scale) if isinstance(dist, StudentT) else dist
    draws = light.rvs(200_000, random_state=0)
    np.testing.assert_allclose(draws.mean(axis=1), light.mean(), atol=0.02 * light.std().max())
    np.testing.assert_allclose(draws.std(axis=1), light.std(), rtol=0.02)


@by_family
def test_draws_repeat_with_the_seed_only(dist: Predictive) -> None:
    np.testing.assert_array_equal(dist.rvs(5, 3), dist.rvs(5, np.random.default_rng(3)))
    assert not np.array_equal(dist.rvs(5, 3), dist.rvs(5, 4))


@by_family
def test_crps_prefers_the_truth(dist: Predictive) -> None:
    y = dist.rvs(20_000, random_state=1)
    score = dist.crps(y).mean(axis=1)
    assert np.all(score < dist.affine(1.0, 0.5).crps(y).mean(axis=1))
    assert np.all(score < dist.affine(1.5, 0.0).crps(y).mean(axis=1))


@by_family
def test_shapes_follow_y_and_q(dist: Predictive) -> None:
    y = np.arange(6.0).reshape(3, 2)
    for method in (dist.pdf, dist.logpdf, dist.cdf, dist.crps):
        assert method(1.0).shape == (3,)
        assert method(y[:, 0]).shape == (3,)
        np.testing.assert_allclose(method(y)[:, 1], method(y[:, 1]), rtol=1e-14)
        np.testing.assert_allclose(method(1.0), method([1.0, 1.0, 1.0]), rtol=1e-14)
    assert dist.ppf(0.3).shape == (3,)
    np.testing.assert_array_equal(dist.ppf([0.3, 0.6])[:, 0], dist.ppf(0.3))


@by_family
@pytest.mark.parametrize("index", [1, -1, np.int64(0), slice(1, None), [2, 0], np.array([True, False, True]), []])
def test_rows_can_be_taken_out(dist: Predictive, index: object) -> None:
    part = dist[index]
    wanted = np.atleast_1d(np.arange(3)[index])
    assert type(part) is type(dist)
    assert len(part) == len(wanted)
    for ask in (lambda d: d.mean(), lambda d: d.var(), lambda d: d.ppf(0.9), lambda d: d.crps(0.5)):
        np.testing.assert_allclose(ask(part), ask(dist)[wanted], rtol=1e-13)


@by_family
def test_ends_of_the_line(dist: Predictive) -> None:
    np.testing.assert_array_equal(dist.ppf([0.0, 1.0]), [[-np.inf, np.inf]] * 3)
    lower, upper = dist.interval(1.0)
    assert np.all(np.isneginf(lower) & np.isposinf(upper))
    np.testing.assert_array_equal(dist.cdf([[-np.inf, np.inf]] * 3), [[0.0, 1.0]] * 3)
    np.testing.assert_array_equal(dist.pdf([[-np.inf, np.inf]] * 3), np.zeros((3, 2)))


@by_family
def test_answers_may_be_written_to(dist: Predictive) -> None:
    before = dist.mean()
    for answer in (dist.mean(), dist.median(), dist.var(), dist.std()):
        answer += 1.0
    np.testing.assert_array_equal(dist.mean(), before)


@by_family
def test_wrong_questions_are_refused(dist: Predictive) -> None:
    with pytest.raises(InvalidParameterError, match=r"one row for each of the 3 predictions; got shape \(4,\)"):
        dist.logpdf(np.zeros(4))
    with pytest.raises(InvalidParameterError, match=r"got shape \(3, 1, 1\)"):
        dist.cdf(np.zeros((3, 1, 1)))
    with pytest.raises(InvalidParameterError, match=r"each within \[0, 1\]; got 1.5"):
        dist.ppf(1.5)
    with pytest.raises(InvalidParameterError, match="coverage must be a number >= 0 and <= 1; got 90"):
        dist.interval(90)
    with pytest.raises(InvalidParameterError, match=r"scale must be a number > 0; got -1.0"):
        dist.affine(-1.0, 0.0)
    with pytest.raises(InvalidParameterError, match=r"size must be an integer >= 0; got 2.5"):
        dist.rvs(2.5)


POINTS = [
    StudentT([0.3, 1.0, 5.0], [2.0, 2.0, 2.0], 0.0),
    StudentT(np.inf, [2.0, 2.0, 2.0], 0.0),
    Gaussian([2.0, 2.0, 2.0], 0.0),
    GaussianMixture(np.full((3, 4), 2.0), 0.0),
]


@pytest.mark.parametrize("dist", POINTS, ids=lambda dist: type(dist).__name__)
def test_scale_zero_is_a_point_mass(dist: Predictive) -> None:
    y = np.array([1.0, 2.0, 2.5])
    np.testing.assert_array_equal(dist.cdf(y), [0.0, 1.0, 1.0])
    np.testing.assert_array_equal(dist.logpdf(y), [-np.inf, np.inf, -np.inf])
    np.testing.assert_array_equal(dist.pdf(y), [0.0, np.inf, 0.0])
    np.testing.assert_array_equal(dist.ppf([0.0, 0.1, 0.5, 0.99, 1.0]), np.full((3, 5), 2.0))
    np.testing.assert_array_equal(dist.interval(0.9), np.full((2, 3), 2.0))
    np.testing.assert_allclose(dist.crps(y), [1.0, 0.0, 0.5], atol=1e-90)
    np.testing.assert_array_equal(dist.rvs(2, 0), np.full((3, 2), 2.0))
    np.testing.assert_array_equal(dist.var(), np.zeros(3))


@pytest.mark.parametrize("scale", [1e-12, 1e-60, 1e-120, 1e-200, 5e-324])
@pytest.mark.parametrize("family", ["t", "gaussian", "mixture"])
def test_tiny_scales_give_no_nan(family: str, scale: float) -> None:
    loc, tiny = np.array([1.0, 1.0, 1.0]), np.full(3, scale)
    dist: Predictive
    if family == "mixture":
        dist = GaussianMixture(np.stack([loc, loc], axis=1), np.stack([tiny, tiny], axis=1))
    else:
        dist = StudentT(4.0, loc, tiny) if family == "t" else Gaussian(loc, tiny)
    y = np.array([-1e5, 1.0, 3.0])
    np.testing.assert_allclose(dist.cdf(y), [0.0, 0.5, 1.0], atol=1e-12)
    np.testing.assert_allclose(dist.crps(y), [1e5 + 1, 0.0, 2.0], rtol=1e-9, atol=1e-11)
    assert not np.isnan(dist.logpdf(y)).any()
    np.testing.assert_allclose(dist.ppf(0.9), 1.0, rtol=1e-11)


@pytest.mark.parametrize("empty", [StudentT(3.0, [], []), Gaussian([], []), GaussianMixture(np.zeros((0, 2)), 1.0)])
def test_no_rows_are_no_trouble(empty: Predictive) -> None:
    assert len(empty) == 0
    for answer in (empty.mean(), empty.var(), empty.ppf(0.5), empty.logpdf([]), empty.cdf([]), empty.crps([])):
        assert answer.shape == (0,)
    assert empty.ppf([0.1, 0.9]).shape == (0, 2)
    assert empty.rvs(4).shape == (0, 4)
