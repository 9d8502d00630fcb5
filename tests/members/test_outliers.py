"""Columns with outliers are standardised robustly; all others by mean and standard deviation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bdkn.data.rows import Rows
from bdkn.data.scaling import BEND, Standardizer, robust_scale

RNG = np.random.default_rng(0)
X = RNG.normal(3, 2, size=(300, 3))


def fit(table):
    return Standardizer.fit(Rows(table, np.zeros(len(table))))


def test_ordinary_columns_have_mean_and_standard_deviation():
    rare = (np.arange(1000) % 250 == 0).astype(float)  # 4 ones among 996 zeros
    counts = np.where(RNG.random(1000) < 0.95, 0, RNG.poisson(5, 1000)).astype(float)
    table = np.column_stack([RNG.normal(size=1000), rare, RNG.lognormal(size=1000), counts, RNG.standard_t(3, 1000)])
    assert fit(np.column_stack([table, 1e9 + 1e-6 * RNG.normal(size=1000)])).outliers is None  # constant up to rounding
    scaler = fit(table)
    assert scaler.outliers is None
    np.testing.assert_allclose(scaler.mean, table.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(scaler.scale, table.std(axis=0))


@given(st.floats(1e5, 1e300), st.sampled_from([-1, 1]), st.integers(10, 300))
def test_one_outlier_changes_the_other_rows_little(size, sign, n):
    table = X[:n].copy()
    table[4, 1] = sign * size
    scaler, plain = fit(table), fit(X[:n])
    np.testing.assert_array_equal(scaler.outliers, [False, True, False])
    others = np.arange(n) != 4
    np.testing.assert_array_equal(scaler.mean[[0, 2]], plain.mean[[0, 2]])
    inputs = scaler.transform(table)
    assert 0.3 < inputs[others, 1].std() < 3
    assert BEND < sign * inputs[4, 1] < 1000


def test_inputs_grow_with_the_column_beyond_the_bend():
    table = X.copy()
    table[4, 1] = 1e9
    line = np.tile(X[:1], (400, 1))
    line[:, 1] = np.concatenate([-np.geomspace(1e12, 1e-3, 200), np.geomspace(1e-3, 1e12, 200)])
    assert (np.diff(fit(table).transform(line)[:, 1]) > 0).all()


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ([0, 0, 0, 0, 1], (0, 1)),
        ([7, 7, 7], (7, 0)),
        ([1, 2, 3, 4, 1e9], (3, 1)),
        ([1e308, -1e308, 1.7e308], (1e308, 0.7e308)),
    ],
)
def test_robust_scale(column, expected):
    centre, spread = robust_scale(np.array(column, dtype=float)[:, None])
    np.testing.assert_allclose([centre[0], spread[0] / 1.4826], expected)
