from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bdkn.inference import Forecast

shapes = st.tuples(st.integers(1, 4), st.integers(0, 5), st.integers(1, 4), st.integers(1, 4))


@given(shapes, st.integers(0, 2**32 - 1))
def test_folds_are_averaged_and_members_disagree_within_a_fold(shape, seed):
    (folds, n, H, own), rng = shape, np.random.default_rng(seed)
    means, variances = rng.normal(size=(folds, n, H)), rng.uniform(0.1, 2.0, (folds, n, own))
    found = Forecast.of(means, variances)
    assert len(found) == n
    for i in range(n):
        for h in range(H):
            assert found.means[i, h] == pytest.approx(sum(means[k, i, h] for k in range(folds)) / folds)
        assert found.noise[i] == pytest.approx(np.mean([variances[k, i].mean() for k in range(folds)]))
        assert found.disagreement[i] == pytest.approx(np.mean([means[k, i].var() for k in range(folds)]), abs=1e-15)
    np.testing.assert_array_equal(found.variance, found.noise + found.disagreement)


def test_without_folds_it_is_the_prediction_of_the_members():
    rng = np.random.default_rng(0)
    means, variances = rng.normal(size=(6, 3)), rng.uniform(0.1, 2.0, (6, 3))
    plain, folded = Forecast.of(means, variances), Forecast.of(means[None], variances[None])
    np.testing.assert_array_equal(plain.means, means)
    for name in ("means", "noise", "disagreement"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(folded, name))


def test_one_member_agrees_with_itself():
    found = Forecast.of(np.arange(4.0)[:, None], np.ones((4, 1)))
    np.testing.assert_array_equal(found.disagreement, 0.0)
    np.testing.assert_array_equal(found.variance, 1.0)


@pytest.mark.parametrize("sizes", [[5], [2, 3], [0, 4, 1]])
def test_parts_are_put_together(sizes):
    rng = np.random.default_rng(0)
    means, variances = rng.normal(size=(5, 3)), rng.uniform(0.1, 2.0, (5, 3))
    cuts = np.cumsum(sizes)[:-1]
    parts = [Forecast.of(*pair) for pair in zip(np.split(means, cuts), np.split(variances, cuts), strict=True)]
    joined, whole = Forecast.concatenate(parts), Forecast.of(means, variances)
    assert len(joined) == 5
    for name in ("means", "noise", "disagreement", "variance"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name))
