from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bdkn.errors import InvalidParameterError
from bdkn.metrics import calibration_curve, calibration_error, coverage, crps, interval_width, nll, pit, rmse, summary
from bdkn.predictive import Gaussian, GaussianMixture, Predictive, StudentT

LOC, SCALE = np.array([0.0, 1.0, -2.0, 4.0]), np.array([1.0, 0.5, 2.0, 3.0])
Y = np.array([0.5, 3.0, -2.0, -1.0])
DIST = StudentT(5.0, LOC, SCALE)
METRICS = [rmse, nll, crps, coverage, calibration_error]
by_metric = pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.__name__)


def test_rmse_by_hand() -> None:
    assert rmse(Y, DIST) == pytest.approx(np.sqrt((0.25 + 4 + 0 + 25) / 4))


def test_nll_is_the_mean_negative_log_density() -> None:
    assert nll(Y, DIST) == pytest.approx(-np.mean(stats.t(5.0, LOC, SCALE).logpdf(Y)))


def test_crps_is_the_mean_over_draws() -> None:
    """The energy form E|X - y| - E|X - X'| / 2, by sampling."""
    first, second = DIST.rvs(400_000, 0), DIST.rvs(400_000, 1)
    energy = np.abs(first - Y[:, None]).mean(axis=1) - np.abs(first - second).mean(axis=1) / 2
    assert crps(Y, DIST) == pytest.approx(energy.mean(), rel=0.01)


def test_coverage_and_width_by_hand() -> None:
    dist = Gaussian([0.0, 0.0, 0.0, 10.0], [1.0, 1.0, 1.0, 2.0])
    half = stats.norm.ppf(0.95)
    assert coverage([0.0, half - 1e-9, half + 1e-9, 10.0], dist) == 0.75
    assert interval_width(dist) == pytest.approx(2 * half * 1.25)
    assert coverage([0.0, 0.0, 5.0, 90.0], dist, level=1.0) == 1.0
    for n in range(1, 100):  # rounded, 1/n added up n times may exceed one
        assert coverage(np.zeros(n), Gaussian(np.zeros(n), np.ones(n))) == 1.0


def test_calibration_curve_counts_rows_inside_each_interval() -> None:
    levels, share = calibration_curve(Y, DIST, [0.2, 0.5, 0.9, 0.99])
    np.testing.assert_array_equal(levels, [0.2, 0.5, 0.9, 0.99])
    np.testing.assert_allclose(share, [coverage(Y, DIST, level) for level in levels])
    assert calibration_error(Y, DIST, levels) == pytest.approx(np.mean(np.abs(share - levels)))


def test_an_observation_at_an_end_of_the_interval_is_inside() -> None:
    point = Gaussian([0.0, 1.0], [0.0, 0.0])
    np.testing.assert_array_equal(calibration_curve([0.0, 1.0], point, [0.0, 0.5, 1.0])[1], 1.0)
    assert coverage([0.0, 1.0], point, 0.5) == 1.0


def test_default_levels_are_every_five_per_cent() -> None:
    np.testing.assert_allclose(calibration_curve(Y, DIST)[0], np.arange(1, 20) / 20)


@pytest.mark.no_cover
@pytest.mark.parametrize("family", ["t", "mixture"])
def test_a_true_model_is_calibrated_and_a_wrong_one_is_not(family: str) -> None:
    rng = np.random.default_rng(0)
    dist: Predictive
    if family == "t":
        dist = StudentT(4.0, rng.normal(size=3000), rng.uniform(0.5, 2, size=3000))
    else:
        dist = GaussianMixture(rng.normal(size=(3000, 3)), rng.uniform(0.1, 2, size=(3000, 3)))
    y = dist.rvs(1, 1)[:, 0]
    assert stats.kstest(pit(y, dist), "uniform").pvalue > 0.01
    assert calibration_error(y, dist) < 0.02
    overconfident = replace(dist, scale=dist.scale / 3)
    assert calibration_error(y, overconfident) > 0.1
    assert coverage(y, overconfident) < 0.8


@by_metric
@settings(max_examples=20)
@given(st.lists(st.integers(0, 3), min_size=4, max_size=4).filter(any))
def test_weights_are_repetitions(metric, counts: list[int]) -> None:
    """A row of weight k is worth k equal rows, and the size of the weights does not matter."""
    rows = np.repeat(np.arange(4), counts)
    repeated = metric(Y[rows], DIST[rows])
    assert metric(Y, DIST, sample_weight=counts) == pytest.approx(repeated, rel=1e-12)
    assert metric(Y, DIST, sample_weight=np.array(counts) * 7.5) == pytest.approx(repeated, rel=1e-12)


def test_width_is_weighted() -> None:
    assert interval_width(DIST, sample_weight=[0, 1, 0, 0]) == pytest.approx(interval_width(DIST[1]))


@given(st.floats(0.01, 100.0), st.floats(-100.0, 100.0))
def test_units_carry_through(scale: float, shift: float) -> None:
    y, dist = scale * Y + shift, DIST.affine(scale, shift)
    for metric in (rmse, crps):
        assert metric(y, dist) == pytest.approx(scale * metric(Y, DIST), rel=1e-9, abs=1e-9)
    assert interval_width(dist) == pytest.approx(scale * interval_width(DIST), rel=1e-9)
    assert nll(y, dist) == pytest.approx(nll(Y, DIST) + np.log(scale), rel=1e-9, abs=1e-9)
    assert coverage(y, dist) == coverage(Y, DIST)


def test_summary_names_every_metric() -> None:
    assert summary(Y, DIST, level=0.5, sample_weight=[1, 1, 2, 0]) == {
        "rmse": rmse(Y, DIST, [1, 1, 2, 0]),
        "nll": nll(Y, DIST, [1, 1, 2, 0]),
        "crps": crps(Y, DIST, [1, 1, 2, 0]),
        "coverage": coverage(Y, DIST, 0.5, [1, 1, 2, 0]),
        "interval_width": interval_width(DIST, 0.5, [1, 1, 2, 0]),
        "calibration_error": calibration_error(Y, DIST, sample_weight=[1, 1, 2, 0]),
    }
    assert all(type(value) is float for value in summary(Y, DIST).values())


def test_one_impossible_observation_makes_the_nll_infinite() -> None:
    """Row 0 is hit exactly by a point mass, row 1 is missed: certain and wrong outweighs certain and right."""
    dist = Gaussian([0.0, 0.0], [0.0, 0.0])
    assert nll([0.0, 1.0], dist) == np.inf
    assert nll([0.0, 0.0], dist) == -np.inf
    assert nll([0.0, 1.0], dist, sample_weight=[1, 0]) == -np.inf
    assert summary([0.0, 0.0], dist)["crps"] == 0.0
    assert coverage([0.0, 1.0], dist) == 0.5


@by_metric
def test_mismatched_rows_are_refused(metric) -> None:
    with pytest.raises(InvalidParameterError, match=r"one value for each of the 4 predicted rows; got shape \(3,\)"):
        metric(Y[:3], DIST)
    with pytest.raises(InvalidParameterError, match=r"got shape \(4, 1\)"):
        metric(Y[:, None], DIST)
    with pytest.raises(InvalidParameterError, match="y must be finite; 1 of 4 values are not"):
        metric([0.0, np.nan, 1.0, 2.0], DIST)
    with pytest.raises(
        InvalidParameterError, match=r"one weight >= 0 for each of 4 rows, not all zero; got shape \(2,"
    ):
        metric(Y, DIST, sample_weight=[1, 1])
    with pytest.raises(InvalidParameterError, match="with sum 0"):
        metric(Y, DIST, sample_weight=np.zeros(4))
    for weights in ([1, 1, 1, -1], [1, 1, 1, np.inf], [1, 1, 1, np.nan]):
        with pytest.raises(InvalidParameterError, match="one weight >= 0"):
            metric(Y, DIST, sample_weight=weights)


@pytest.mark.parametrize("levels", [[], 0.5, [0.5, 1.5], [-0.1, 0.5], [[0.5]]])
def test_impossible_levels_are_refused(levels: object) -> None:
    with pytest.raises(InvalidParameterError, match=r"levels must be a list of probabilities within \[0, 1\]; got"):
        calibration_curve(Y, DIST, levels)
