"""Forests as plain arrays, and the components of neighbours, against a count of shared leaves."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from bdkn.data.rows import Rows
from bdkn.data.scaling import Standardizer
from bdkn.kernels import trees as kernel
from bdkn.model.density import Kind, Neighbours, forest_of, grow_forest, midpoints, ranked

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(80, 3)).astype(np.float32), RNG.normal(size=80)
FOREST = grow_forest(X, Y, None, np.random.SeedSequence(0), n_trees=15)


def leaves(forest, rows):
    return kernel.find_nodes(forest.nodes, forest.roots, rows, 4)


def neighbours(errors, floor, *kinds):
    """Return the neighbours of all training rows, with these kinds of components."""
    inputs = Standardizer.fit(Rows(X, X[:, 0].astype(float)))
    return Neighbours(inputs, FOREST, Y, errors, 1.0, floor, np.array(kinds, dtype=float))


def test_nodes_lie_in_depth_first_order_and_hold_their_rows():
    leaf, broad = leaves(FOREST, X)
    for t, root in enumerate(FOREST.roots):
        first, last = FOREST.start[root], FOREST.stop[root]
        for place in range(first, last):
            node = leaf[FOREST.rows[place], t]
            assert FOREST.start[node] <= place < FOREST.stop[node]
            above = broad[FOREST.rows[place], t]
            assert FOREST.start[above] <= place < FOREST.stop[above]
            assert FOREST.stop[above] - FOREST.start[above] >= 4


def test_each_tree_draws_as_many_rows_as_there_are():
    total = [FOREST.copies[FOREST.start[root] : FOREST.stop[root]].sum() for root in FOREST.roots]
    np.testing.assert_array_equal(total, 80.0)
    absent = FOREST.absent(80)
    assert absent.shape == (80, 15)
    for t, root in enumerate(FOREST.roots):
        drawn = np.unique(FOREST.rows[FOREST.start[root] : FOREST.stop[root]])
        np.testing.assert_array_equal(np.flatnonzero(~absent[:, t]), drawn)


def test_trees_are_joined_one_after_the_other():
    trees = [
        ([1, -1, -1], [0.5, -2.0, -2.0], [2, 0, 0], [0, 0, 1], [3, 1, 3], [4, 7, 9], [1.0, 2.0, 1.0]),
        ([-1], [-2.0], [0], [0], [2], [3, 8], [1.0, 1.0]),
    ]
    forest = forest_of([tuple(map(np.array, tree)) for tree in trees])
    assert forest.right.tolist() == [2, 0, 0, 3]
    assert forest.start.tolist() == [0, 0, 1, 3]
    assert forest.stop.tolist() == [3, 1, 3, 5]
    assert forest.roots.tolist() == [0, 3]
    assert forest.rows.tolist() == [4, 7, 9, 3, 8]
    forest.check()


def test_threads_do_not_matter_and_counts_do():
    again = grow_forest(X, Y, None, np.random.SeedSequence(0), n_trees=15, n_jobs=3)
    for field in fields(FOREST):
        np.testing.assert_array_equal(getattr(again, field.name), getattr(FOREST, field.name))
    np.testing.assert_array_equal(again.nodes, FOREST.nodes)
    counts = np.where(np.arange(80) < 40, 1.0, 1e-9)
    weighted = grow_forest(X, Y, counts, np.random.SeedSequence(0), n_trees=5)
    assert weighted.rows.max() < 40


@settings(max_examples=200)
@given(hnp.arrays(np.float32, (2, 2), elements=st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_thresholds_divide_the_values_of_two_ranks(X):
    ranks, values, first = ranked(X)
    for column, own in enumerate(ranks.T):
        low, high = X[np.argsort(own), column]
        np.testing.assert_array_equal(values[first[column] + own], X[:, column])
        if low < high:
            (threshold,) = midpoints(np.array([low]), np.array([high]))
            assert low <= threshold < high
            middle = (float(low) + float(high)) / 2.0
            assert float(threshold) <= middle < float(np.nextafter(threshold, np.float32(np.inf)))


@given(hnp.arrays(np.float64, st.integers(1, 60), elements=st.sampled_from([0.0, 0.1, 0.5, 2.0]) | st.floats(0.0, 1.0)))
def test_selection_and_order_are_those_of_numpy(values):
    single, places = values.astype(np.float32), np.empty(len(values), np.int32)
    kernel._sort_places(single, places)
    np.testing.assert_array_equal(places, np.argsort(single, kind="stable"))
    for k, expected in enumerate(np.sort(values)):
        assert kernel._kth_smallest(values, len(values), k, np.empty(len(values))) == expected


def test_weights_are_shares_of_common_leaves():
    """Components with a slot for every row have the weights of the forest: average shares in the draws of a leaf."""
    everything = neighbours(-Y, 0.0, Kind(False, False, 80, 0.1, 0.0), Kind(True, True, 80, 1, 0.0))
    new = RNG.normal(size=(6, 3)).astype(np.float32)
    parts = everything.components(np.full(6, 5.0), np.zeros(6), np.full(6, 2.0), new)
    for level, nodes in enumerate(leaves(FOREST, new)):
        expected = np.zeros((6, 80))
        for i in range(6):
            for node in nodes[i]:
                inside = rows_taken(node)
                expected[i, FOREST.rows[inside]] += FOREST.copies[inside] / FOREST.copies[inside].sum() / 15
        at = Y / 2.0 if level == 0 else -Y
        slots = slice(80 * level, 80 * (level + 1))
        mean = np.sum(parts.mass[:, slots] * parts.position[:, slots], axis=1)
        np.testing.assert_allclose(mean, expected @ at, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(np.sort(parts.mass[:, slots], axis=1), np.sort(expected, axis=1), atol=1e-6)
    overlap = agreement_of(leaves(FOREST, new)[0])
    np.testing.assert_allclose(np.exp(parts.log_agreement), np.maximum(overlap, 1e-3), rtol=1e-6)


def rows_taken(node):
    """Return the places of the rows of a node that are used: at most 32."""
    step = max(1, -(-int(FOREST.stop[node] - FOREST.start[node]) // 32))
    return slice(FOREST.start[node], FOREST.stop[node], step)


def agreement_of(nodes):
    """Return the mean product of the shares that two different trees give to the same rows."""
    found = []
    for row in nodes:
        shares = np.zeros((len(row), 80))
        for t, node in enumerate(row):
            inside = rows_taken(node)
            shares[t, FOREST.rows[inside]] += FOREST.copies[inside] / FOREST.copies[inside].sum()
        products = shares @ shares.T
        found.append((products.sum() - np.trace(products)) / (len(row) * (len(row) - 1)))
    return found


def test_merged_components_keep_mean_and_variance():
    both = neighbours(Y, 0.0, Kind(False, True, 80, 0.1, 0.0), Kind(False, True, 6, 0.1, 0.0))
    parts = both.components(np.full(80, 5.0), np.zeros(80), np.ones(80), X)
    for moment in (lambda p, w: p, lambda p, w: p**2 + w**2):
        exact, merged = (
            np.sum(parts.mass[:, s] * moment(parts.position[:, s], parts.width[:, s]), axis=1)
            for s in (slice(0, 80), slice(80, 86))
        )
        np.testing.assert_allclose(merged, exact, rtol=1e-6, atol=1e-9)


def test_targets_that_the_student_t_finds_likely_count_for_more():
    """Weights times a power of the density of the Student-t, with sum one, by SciPy's density."""
    both = neighbours(Y, 0.0, Kind(False, True, 80, 0.1, 0.0), Kind(False, True, 80, 0.1, 0.7))
    df, loc, scale = np.linspace(3.0, 9.0, 80), Y + 0.3, np.linspace(0.5, 2.0, 80)
    parts = both.components(df, loc, scale, X)
    at, before, after = parts.position[:, :80], parts.mass[:, :80], parts.mass[:, 80:]
    expected = before * stats.t.pdf(at, df[:, None]) ** 0.7
    np.testing.assert_array_equal(at, parts.position[:, 80:])
    np.testing.assert_allclose(after, expected / expected.sum(axis=1, keepdims=True), rtol=1e-6, atol=1e-12)


def test_targets_whose_weight_is_too_small_for_a_number_have_no_component():
    """Targets hundreds of scales away have a weight of zero; components without weight have a finite place."""
    some = neighbours(Y, 0.0, Kind(False, True, 6, 0.1, 1.0))
    parts = some.components(np.full(80, 1e3), np.full(80, Y.min()), np.full(80, 0.004), X)
    assert (parts.mass == 0.0).any()
    assert np.isfinite(parts.position).all()
    assert np.isfinite(parts.width).all()
    np.testing.assert_allclose(parts.mass.sum(axis=1), 1.0)


def test_bandwidths_have_a_floor():
    some = neighbours(Y, 0.8, Kind(False, False, 9, 0.1, 0.0), Kind(True, False, 9, 0.1, 0.0))
    assert some.components(np.full(80, 5.0), np.zeros(80), np.full(80, 2.0), X).width.min() >= 0.4
