"""Rows that repeat others are found; rows that are equal by chance are not taken for copies."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from bdkn.data.repeated_rows import find_repeated_rows

RNG = np.random.default_rng(0)
X, y = RNG.normal(size=(100, 4)) * [1, 1e-3, 1e5, 1], RNG.normal(size=100)


@given(st.integers(1, 100), st.integers(0, 2**32 - 1))
def test_every_copy_is_found_and_nothing_else(n_copies, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.concatenate([np.arange(100), rng.integers(0, 100, n_copies)]))
    seen: set[int] = set()
    slow = [row in seen or bool(seen.add(row)) for row in order.tolist()]
    np.testing.assert_array_equal(find_repeated_rows(X[order], y[order]).copies, slow)


def test_different_rows_do_not_repeat():
    assert find_repeated_rows(X, y) is None
    assert find_repeated_rows(X.astype(np.float32), y) is None


@pytest.mark.parametrize("size", [1e-9, 1e-7])
def test_near_copies_are_found(size):
    twice = np.tile(np.arange(100), 2)
    near = X[twice] + size * X.std(axis=0) * RNG.normal(size=(200, 4))
    assert find_repeated_rows(near, y[twice]).copies.sum() >= 99


def test_tables_of_any_kind():
    twice = np.tile(np.arange(100), 2)
    frame = pd.DataFrame(X).assign(word=np.where(X[:, 0] > 0, "a", "b"), day=pd.Timestamp("2020-01-01"))
    frame.iloc[3, 0] = np.nan
    sparse = csr_matrix(np.where(X[:, 3:] > 0, X, [0.0, 1.0, 1.0, 0.0] * X))
    for table in (frame.iloc[twice], sparse[twice], frame.to_numpy()[twice]):
        found = find_repeated_rows(table, y[twice])
        np.testing.assert_array_equal(found.copies, np.arange(200) >= 100)
    assert find_repeated_rows(frame, y) is None


@pytest.mark.parametrize("columns", [1, 2, 5])
@pytest.mark.parametrize("noise", [0.0, 0.2, 1.0])
def test_columns_of_few_values_make_no_copies(columns, noise):
    table = np.random.default_rng(1).integers(0, 4, (1000, columns)).astype(float)
    target = np.round(table.sum(axis=1) + noise * RNG.normal(size=1000))
    assert find_repeated_rows(table, target) is None


def test_dense_rows_of_a_smooth_function_are_no_copies():
    x = np.random.default_rng(1).uniform(-2, 2, (5000, 1))
    assert find_repeated_rows(x, np.sin(x[:, 0])) is None
    found = find_repeated_rows(np.tile(x, (3, 1)), np.tile(np.sin(x[:, 0]), 3))
    assert found.copies.sum() == 10000


def test_rows_with_equal_inputs_are_kept_together_but_counted():
    three = np.tile(np.arange(100), 3)
    found = find_repeated_rows(X[three], RNG.normal(size=300))
    assert not found.copies.any()
    same = found.sets[:, None] == found.sets
    np.testing.assert_array_equal(same, three[:, None] == three)
    often = np.tile(np.arange(5), 60)  # a new row is likely to have one of these five settings
    assert find_repeated_rows(X[often], RNG.normal(size=300)) is None


def test_an_outlier_does_not_hide_copies():
    twice = np.tile(np.arange(100), 2)
    wild = X[twice]
    wild[7, 2] = 1e30
    assert find_repeated_rows(wild, y[twice]).copies.sum() == 99
