"""Cross-conformal intervals against their definition, row by row, and their coverage by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bdkn.inference import Prior, Statistics, conformal, posterior
from bdkn.inference.conformal import HeldOutPredictors, upper_end, weights_without_each


def predictors(rng, n=12, K=3, H=2, τ=0.8):
    fits = rng.integers(0, K, size=(n, H))
    weights, constants, scores = rng.normal(size=(n, H)), rng.normal(size=n), np.abs(rng.normal(size=n))
    return HeldOutPredictors(fits, fits, weights, constants, scores, τ)


def outputs(rng, m=5, K=3, H=2):
    return rng.normal(size=(K, m, H)), rng.uniform(0.1, 1.0, size=(K, m, H)), rng.uniform(size=m)


def test_centres_and_widths_are_those_of_each_predictor():
    rng = np.random.default_rng(0)
    given_, (all_means, variances, extra) = predictors(rng), outputs(rng)
    centre, width = next(given_.ends((all_means, variances, extra)))
    for i, fits in enumerate(given_.fits):
        for j in range(5):
            means = np.array([all_means[k, j, h] for h, k in enumerate(fits)])
            v = np.mean([variances[k, j, h] for h, k in enumerate(fits)]) + means.var()
            np.testing.assert_allclose(centre[i, j], means @ given_.weights[i] + given_.constants[i], rtol=1e-12)
            np.testing.assert_allclose(width[i, j], given_.scores[i] * np.sqrt(v**0.8 + extra[j]), rtol=1e-12)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 40), level=st.sampled_from([0.5, 0.8, 0.9, 0.95]))
def test_ends_are_order_statistics(seed, n, level):
    values = np.random.default_rng(seed).normal(size=(n, 3))
    found = upper_end(values, level)
    k = int(np.ceil(np.round(level * (n + 1), 9)))
    expected = np.sort(values, axis=0)[k - 1] if k <= n else np.full(3, np.inf)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(upper_end(values, level, np.ones(n), np.ones(3)), expected)
    np.testing.assert_array_equal(upper_end(values, level, np.ones(n)), expected)
    np.testing.assert_array_equal(upper_end(values, level, np.full(n, 7.0), np.full(3, 7.0)), expected)


@pytest.mark.parametrize("at_once", [2**22, 24, 1])
def test_intervals_are_made_of_order_statistics_of_the_ends(monkeypatch, at_once):
    monkeypatch.setattr(conformal, "LARGE_CELLS", at_once)
    rng = np.random.default_rng(2)
    fits, variance_fits = rng.integers(0, 3, size=(12, 2)), rng.integers(0, 3, size=(12, 1))
    weights, constants, scores = rng.normal(size=(12, 2)), rng.normal(size=12), np.abs(rng.normal(size=12))
    given_ = HeldOutPredictors(fits, variance_fits, weights, constants, scores, 0.8)
    out = all_means, variances, extra = (
        rng.normal(size=(3, 5, 2)),
        rng.uniform(0.1, 1.0, size=(3, 5, 1)),
        rng.uniform(size=5),
    )
    lower, upper = np.empty((12, 5)), np.empty((12, 5))
    for i, j in np.ndindex(12, 5):
        means = np.array([all_means[fits[i, h], j, h] for h in range(2)])
        scale = np.sqrt((variances[variance_fits[i, 0], j, 0] + means.var()) ** 0.8 + extra[j])
        centre = means @ weights[i] + constants[i]
        lower[i, j], upper[i, j] = centre - scores[i] * scale, centre + scores[i] * scale
    # With 12 predictors and a coverage of 0.7: the third smallest and the tenth smallest.
    expected = np.column_stack([np.sort(lower, axis=0)[2], np.sort(upper, axis=0)[9]])
    np.testing.assert_allclose(given_.interval(out, 0.7), expected, rtol=1e-12)
    np.testing.assert_allclose(given_.interval(out, 0.7, np.ones(12), np.ones(5)), expected, rtol=1e-12)
    found = given_.interval(out, 0.7, np.ones(12), np.array([1.0, 1e9, 1.0, 1.0, 1e9]))
    np.testing.assert_allclose(found[[0, 2, 3]], expected[[0, 2, 3]], rtol=1e-12)
    np.testing.assert_array_equal(found[[1, 4]], [[-np.inf, np.inf]] * 2)


def test_no_coverage_ends_at_the_smallest_value():
    values = np.random.default_rng(0).normal(size=(6, 3))
    np.testing.assert_array_equal(upper_end(values, 0.0), values.min(axis=0))
    np.testing.assert_array_equal(upper_end(values, 0.0, np.ones(6)), values.min(axis=0))


def test_rows_that_count_twice_are_two_rows():
    values = np.random.default_rng(0).normal(size=(30, 4))
    twice = upper_end(np.vstack([values, values]), 0.9)
    np.testing.assert_array_equal(upper_end(values, 0.9, np.full(30, 2.0)), twice)


def test_weights_without_each_row_are_those_of_another_posterior():
    rng = np.random.default_rng(1)
    Phi, y, w, c = rng.normal(size=(15, 3)), rng.normal(size=15), rng.uniform(0.5, 2.0, 15), rng.uniform(0.5, 2.0, 15)
    prior = Prior.isotropic(3, 0.7, mean=1 / 3)
    found = weights_without_each(posterior(Statistics.from_rows(Phi, y, precision=w, counts=c), prior), Phi, y, w, c)
    for i in range(15):
        rest = np.arange(15) != i
        others = Statistics.from_rows(Phi[rest], y[rest], precision=w[rest], counts=c[rest])
        np.testing.assert_allclose(found[i], posterior(others, prior).mean, rtol=1e-10)


def line(x, y, at, degree):
    """Return the least-squares polynomial of a little ridge at other points."""
    V, W = np.vander(x, degree + 1), np.vander(at, degree + 1)
    return W @ np.linalg.solve(V.T @ V + 1e-3 * np.eye(degree + 1), V.T @ y)


def one_interval(rng, n=30, K=5, *, shifted=False, coverage=0.8):
    """Return the target and the interval of a new row: two members, folds common to both, equal weights.

    Noise grows with x. Shifted, new rows have density 2x in place of 1 on [0, 1].
    """
    x = rng.uniform(size=n + 1)
    if shifted:
        x[-1] = np.sqrt(x[-1])
    y = np.sin(5 * x) + (0.1 + x) * rng.standard_t(4.0, size=n + 1)
    fold = rng.permutation(n) % K
    means = np.empty((K, 1, 2))
    held_out = np.empty((n, 2))
    for k in range(K):
        kept = np.flatnonzero(fold != k)
        for h, degree in enumerate((1, 3)):
            predicted = line(x[kept], y[kept], x, degree)
            means[k, 0, h], held_out[fold == k, h] = predicted[-1], predicted[:-1][fold == k]
    variance = (0.1 + x) ** 2
    scores = np.abs(y[:-1] - held_out.mean(axis=1)) / np.sqrt(variance[:-1] + held_out.var(axis=1))
    fits = np.column_stack([fold, fold])
    given_ = HeldOutPredictors(fits, fits, np.full((n, 2), 0.5), np.zeros(n), scores, 1.0)
    out = (means, np.full((K, 1, 2), variance[-1]), np.zeros(1))
    weights = (2 * x[:-1], 2 * x[-1:]) if shifted else (None, None)
    return y[-1], given_.interval(out, coverage, *weights)[0]


@pytest.mark.parametrize("shifted", [False, True])
def test_coverage_is_that_of_the_theorem(shifted):
    rng, rounds = np.random.default_rng(0), 600
    drawn = [one_interval(rng, shifted=shifted) for _ in range(rounds)]
    share = np.mean([low <= y <= high for y, (low, high) in drawn])
    assert share > 0.6  # the theorem, 1 - 2α
    assert 0.74 < share < 0.9  # 1 - α in practice; the standard error is 0.016


def test_too_few_rows_have_no_finite_end():
    rng = np.random.default_rng(0)
    found = predictors(rng, n=8).interval(outputs(rng), 0.9)
    assert np.isneginf(found[:, 0]).all()
    assert np.isposinf(found[:, 1]).all()
