import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bdkn.data.rows import Rows
from bdkn.data.scaling import LIMIT, Standardizer, TargetScaler

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def fit(X, counts=None):
    return Standardizer.fit(Rows(np.asarray(X), np.zeros(len(X)), counts))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_agrees_with_the_plain_formula(dtype, order):
    X = np.asarray(np.random.default_rng(0).normal(3, [1, 10, 1e-3], (500, 3)), dtype=dtype, order=order)
    scaler = fit(X)
    wide = X.astype(np.float64)
    np.testing.assert_allclose(scaler.mean, wide.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(scaler.scale, wide.std(axis=0), rtol=1e-9)
    scaled = scaler.transform(X)
    assert scaled.dtype == np.float32
    assert scaled.flags.c_contiguous
    np.testing.assert_allclose(scaled, (wide - wide.mean(axis=0)) / wide.std(axis=0), rtol=1e-5, atol=1e-6)


def test_counts_are_repetitions():
    rng = np.random.default_rng(1)
    X, counts = rng.normal(size=(50, 4)), rng.integers(0, 4, 50)
    weighted, repeated = fit(X, counts.astype(float)), fit(np.repeat(X, counts, axis=0))
    np.testing.assert_allclose(weighted.mean, repeated.mean, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(weighted.scale, repeated.scale, rtol=1e-12)


def test_blocks_do_not_change_the_standardizer(monkeypatch):
    X = np.random.default_rng(2).normal(size=(1000, 7))
    whole, whole_rows = fit(X), fit(X).transform(X)
    monkeypatch.setattr("bdkn.data.scaling.CACHED_CELLS", 50)
    chunked = fit(X)
    np.testing.assert_allclose(chunked.mean, whole.mean, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(chunked.scale, whole.scale, rtol=1e-12)
    np.testing.assert_array_equal(whole_rows, Standardizer(whole.mean, whole.scale).transform(X))


def test_constant_column_is_centred_and_not_scaled():
    X = np.column_stack([np.full(999, 0.1), np.arange(999.0)])
    scaler = fit(X)
    assert scaler.mean[0] == 0.1
    assert scaler.scale[0] == 1.0
    np.testing.assert_array_equal(scaler.transform(X)[:, 0], 0)


def test_a_standard_deviation_that_underflows_counts_as_constant():
    scaler = fit(np.array([[0.0], [0.0], [0.0], [5e-324]]))
    assert scaler.scale[0] == 1.0


def test_accumulates_in_double_precision():
    X = (1e4 + np.random.default_rng(3).normal(size=(100_000, 1))).astype(np.float32)
    scaler = fit(X)
    assert scaler.mean[0] == pytest.approx(X.astype(np.float64).mean(), rel=1e-12)
    assert scaler.scale[0] == pytest.approx(X.astype(np.float64).std(), rel=1e-8)


@given(arrays(np.float64, (6, 2), elements=FINITE), arrays(np.float64, (3, 2), elements=FINITE))
def test_finite_inputs_remain_finite(X, more):
    scaler = fit(X)
    assert np.isfinite(scaler.mean).all()
    assert np.isfinite(scaler.scale).all()
    assert (scaler.scale > 0).all()
    for rows in (X, more):
        scaled = scaler.transform(rows)
        assert np.isfinite(scaled).all()
        assert np.abs(scaled).max() <= np.float32(LIMIT)


def test_target_round_trip():
    y = np.array([3.0, 5.0, 10.0])
    counts = np.array([1.0, 2.0, 1.0])
    scaler = TargetScaler.fit(y, counts)
    assert scaler.mean == pytest.approx(5.75)
    assert scaler.scale == pytest.approx(np.repeat(y, [1, 2, 1]).std())
    np.testing.assert_allclose(scaler.mean + scaler.scale * scaler.transform(y), y, rtol=1e-15)


def test_default_target_scaler_does_not_change_the_target():
    y = np.array([3.0, 5.0])
    np.testing.assert_array_equal(TargetScaler().transform(y), y)
