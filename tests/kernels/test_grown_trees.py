"""Trees that compiled code grows, against those of scikit-learn, number by number."""

from __future__ import annotations

import platform

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils._sorting import _py_simultaneous_sort

from bdkn.kernels import tree as kernel
from bdkn.members.forest import sortable

same_rounding = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="elsewhere scikit-learn is compiled with other rounding"
)


def has_same_sort():
    """Return whether scikit-learn's sort leaves equal numbers in the order of the version that was followed."""
    try:
        _py_simultaneous_sort(np.zeros(2), np.arange(2), 2, use_three_way_partition=True)
    except TypeError:
        return False
    return True


same_sort = pytest.mark.skipif(not has_same_sort(), reason="an earlier scikit-learn orders equal numbers otherwise")


def grown(X, y, weights, tried, seed):
    """Return the tree of compiled code, and the rows in the order of its leaves."""
    samples = np.flatnonzero(weights).astype(np.int32)
    state = np.random.RandomState(seed).randint(0, 2**31 - 1)
    columns = np.ascontiguousarray(sortable(X).T)
    return (*kernel.grow_tree(columns, y, weights, samples, tried, state), samples)


def of_scikit(X, y, weights, tried, seed):
    """Return the same of scikit-learn."""
    rows = np.flatnonzero(weights)
    model = DecisionTreeRegressor(max_features=tried, random_state=seed)
    tree = model.fit(X[rows], y[rows], sample_weight=weights[rows]).tree_
    leaves, is_leaf = tree.apply(X[rows]), tree.children_left < 0
    order = np.argsort(leaves, kind="stable")
    start = np.searchsorted(leaves[order], np.arange(tree.node_count))
    feature, right = np.where(is_leaf, -1, tree.feature), np.where(is_leaf, 0, tree.children_right)
    return feature, tree.threshold, right, start, start + tree.n_node_samples, rows[order]


def check_same(*arguments):
    for ours, theirs in zip(grown(*arguments), of_scikit(*arguments), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def table(n, p, seed=0):
    """Return inputs, targets, and how often rows are drawn."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)).astype(np.float32)
    y = np.tanh(X[:, 0]) + 0.3 * rng.normal(size=n)
    return X, y, rng.multinomial(n, np.full(n, 1.0 / n)).astype(np.float64)


@same_rounding
@pytest.mark.parametrize(("n", "p", "tried"), [(1, 1, 1), (17, 2, 1), (300, 3, 2), (9000, 9, 6), (3000, 60, 12)])
def test_trees_are_those_of_scikit_learn(n, p, tried):
    X, y, weights = table(n, p)
    check_same(X, y, np.maximum(weights, 1.0) if n == 1 else weights, tried, n)


@same_rounding
@same_sort
@pytest.mark.parametrize("decimals", [0, 1, 2])
def test_equal_numbers_and_constant_columns_do_not_matter(decimals):
    X, y, weights = table(2000, 6)
    X = np.round(X, decimals)
    X[:, 2], X[:, 3] = 0.5, X[:, 1]
    check_same(X, y, weights, 4, 1)
    check_same(X, np.round(y, decimals), weights * np.random.default_rng(1).uniform(0.5, 2.0, 2000), 6, 2)


@same_rounding
@same_sort
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_small_table(data):
    n, p = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 4))
    X = data.draw(hnp.arrays(np.float32, (n, p), elements=st.sampled_from([-2.5, -1.0, -0.0, 0.0, 1e-8, 1.0, 3.0])))
    y = data.draw(hnp.arrays(np.float64, n, elements=st.floats(-5.0, 5.0)))
    weights = data.draw(hnp.arrays(np.float64, n, elements=st.sampled_from([0.0, 0.5, 1.0, 2.0])))
    weights[0] = 1.0
    check_same(X, y, weights, data.draw(st.integers(1, p)), data.draw(st.integers(0, 100)))


@same_sort
@pytest.mark.parametrize("distinct", [2, 30, 1000])
@pytest.mark.parametrize("n", [1, 15, 16, 100, 5000])
def test_equal_keys_are_left_in_the_order_of_scikit_learn(n, distinct):
    keys = np.random.default_rng(n).integers(distinct, size=n).astype(np.int32)
    values, indices, order = keys.astype(np.float32), np.arange(n), np.arange(n, dtype=np.int32)
    _py_simultaneous_sort(values, indices, n, use_three_way_partition=True)
    kernel.sort_as_scikit(keys, order, n)
    np.testing.assert_array_equal(keys, values)
    np.testing.assert_array_equal(order, indices)


def test_keys_are_sorted_as_a_heap():
    """Which is what the sort does where it went too deep."""
    keys, order = np.random.default_rng(0).integers(50, size=200).astype(np.int32), np.arange(200, dtype=np.int32)
    before = keys.copy()
    kernel._sort_heap(keys, order, 0, 200)
    np.testing.assert_array_equal(keys, np.sort(before))
    np.testing.assert_array_equal(keys, before[order])
