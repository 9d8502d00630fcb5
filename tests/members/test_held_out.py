from __future__ import annotations

import numpy as np
import pytest

from bdkn.ensemble.selection import HeldOut
from bdkn.inference import Forecast
from bdkn.networks import MIN_VARIANCE

rng = np.random.default_rng(0)
MEANS, VARIANCES, Y = rng.normal(size=(12, 3)), rng.uniform(0.1, 2.0, (12, 3)), rng.normal(size=12)
COUNTS = rng.integers(1, 4, 12)
FOLD_VARIANCE = MEANS**2
NEW = rng.normal(size=(2, 5, 3)), rng.uniform(0.1, 2.0, (2, 5, 3))


def assert_same(one: Forecast, other: Forecast) -> None:
    for name in ("means", "noise", "disagreement"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-12)


def test_selecting_members():
    some = HeldOut(MEANS, VARIANCES, FOLD_VARIANCE, Y, COUNTS)[np.array([2, 0])]
    np.testing.assert_array_equal(some.means, MEANS[:, [2, 0]])
    np.testing.assert_array_equal(some.variances, VARIANCES[:, [2, 0]])
    np.testing.assert_array_equal(some.fold_variance, FOLD_VARIANCE[:, [2, 0]])
    assert some.y is Y
    assert some.counts is COUNTS


def test_join_appends_the_members_of_another():
    whole = HeldOut(MEANS, VARIANCES, FOLD_VARIANCE, Y)
    joined = whole[np.array([0, 1])].join(whole[np.array([2])])
    np.testing.assert_array_equal(joined.means, MEANS)
    np.testing.assert_array_equal(joined.variances, VARIANCES)
    np.testing.assert_array_equal(joined.fold_variance, FOLD_VARIANCE)


def test_members_with_variances_are_averaged():
    held_out = HeldOut(MEANS, VARIANCES, FOLD_VARIANCE, Y)
    assert_same(held_out.forecast(), Forecast.of(MEANS, VARIANCES))
    assert_same(held_out.pool(*NEW), Forecast.of(*NEW))


def test_noise_is_averaged_over_the_members_with_variances():
    lacking = VARIANCES.copy()
    lacking[:, 1] = np.nan
    held_out = HeldOut(MEANS, lacking, FOLD_VARIANCE, Y)
    assert_same(held_out.forecast(), Forecast.of(MEANS, VARIANCES[:, [0, 2]]))
    assert_same(held_out.pool(*NEW), Forecast.of(NEW[0], NEW[1][..., [0, 2]]))


@pytest.mark.parametrize("counts", [None, COUNTS])
def test_where_none_has_a_variance_the_noise_is_the_error_of_their_mean(counts):
    rows = np.repeat(np.arange(12), 1 if counts is None else counts)
    error = np.mean((MEANS.mean(axis=1) - Y)[rows] ** 2)
    held_out = HeldOut(MEANS, np.full_like(MEANS, np.nan), FOLD_VARIANCE, Y, counts)
    np.testing.assert_allclose(held_out.forecast().noise, error, rtol=1e-12)
    np.testing.assert_allclose(held_out.pool(*NEW).noise, error, rtol=1e-12)
    np.testing.assert_allclose(held_out.pool(*NEW).disagreement, NEW[0].var(axis=-1).mean(axis=0), rtol=1e-12)


def test_a_perfect_ensemble_has_the_least_variance_of_a_network():
    exact = HeldOut(np.column_stack([Y, Y]), np.full((12, 2), np.nan), np.zeros((12, 2)), Y)
    np.testing.assert_array_equal(exact.forecast().noise, MIN_VARIANCE)


def test_missing_variances_are_filled_with_the_squared_error():
    lacking = VARIANCES.copy()
    lacking[:, 1] = np.nan
    scores, full = (
        HeldOut(MEANS, lacking, FOLD_VARIANCE, Y, COUNTS).filled().scores(),
        HeldOut(MEANS, VARIANCES, FOLD_VARIANCE, Y, COUNTS).scores(),
    )
    np.testing.assert_allclose(scores.mse, full.mse, rtol=1e-12)
    np.testing.assert_allclose(scores.nll[[0, 2]], full.nll[[0, 2]], rtol=1e-12)
    assert scores.nll[1] == pytest.approx(np.log(2 * np.pi * scores.mse[1]) / 2 + 0.5, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_informative_variances_are_corrected_by_a_factor(weighted):
    rng = np.random.default_rng(1)
    y, stds, counts = rng.normal(size=60), rng.uniform(0.2, 3.0, (60, 3)), rng.integers(1, 4, 60)
    errors = stds * rng.normal(size=(60, 3)) * [5.0, 1.0, 1.0]
    errors[:, 1], stds[:, 2] = rng.permutation(errors[:, 1]), 1 / stds[:, 2]
    rows = np.repeat(np.arange(60), counts if weighted else 1)
    factors = HeldOut(
        y[:, None] + errors, stds**2, np.zeros_like(errors), y, counts if weighted else None
    ).variance_factors()
    assert np.isnan(factors).tolist() == [False, True, True]
    assert factors[0] == pytest.approx(np.mean(errors[rows, 0] ** 2) / np.mean(stds[rows, 0] ** 2), rel=1e-12)


def test_random_variances_are_rarely_used():
    rng = np.random.default_rng(2)
    y = rng.normal(size=80)
    held_out = HeldOut(
        y[:, None] + rng.standard_t(5, size=(80, 2000)), np.exp(rng.normal(size=(80, 2000))), FOLD_VARIANCE, y
    )
    assert 0.01 < np.isfinite(held_out.variance_factors()).mean() < 0.04  # two standard errors: 2.3 %


def test_variances_that_are_constant_zero_or_not_finite_are_not_used():
    odd = np.stack([np.full(12, part) for part in (np.nan, np.inf, 0.0, 1e-18, 0.1, 7e9)], axis=1)
    odd[0, 2] = 1.0
    assert np.isnan(HeldOut(np.repeat(MEANS, 2, axis=1), odd, FOLD_VARIANCE, Y).variance_factors()).all()
    assert np.isnan(HeldOut(Y[:, None], VARIANCES[:, :1], FOLD_VARIANCE, Y).variance_factors()).all()
