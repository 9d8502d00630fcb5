"""Compiled growth of trees, against a slow grower in NumPy, the definition of the best split, and that of a tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bdkn.kernels import trees as kernel


def ranks_of(X):
    return np.column_stack([np.unique(column, return_inverse=True)[1] for column in X.T]).astype(np.int32)


def grow(ranks, y, weights, tried, seed):
    """Return the nodes of the compiled tree, and the samples in their order."""
    samples = np.flatnonzero(weights).astype(np.int32)
    return kernel.grow_tree(ranks, y, weights, samples, tried, seed), samples


class SlowTree:
    """The same tree by recursion over arrays of samples; sums are added in the same order, so that ties are equal."""

    def __init__(self, ranks, y, weights, tried, seed):
        self.ranks, self.y, self.weights, self.tried, self.state = ranks, y, weights, tried, seed
        self.inputs, self.nodes, self.leaves = list(range(ranks.shape[1])), [], []
        self.add(np.flatnonzero(weights))
        self.samples = np.concatenate(self.leaves)

    def add(self, rows):
        node = [-1, 0, 0, 0, sum(map(len, self.leaves)), 0]
        self.nodes.append(node)
        node[5] = node[4] + len(rows)
        split = self.split(rows) if np.ptp(self.y[rows]) > 0.0 else None
        if split is None:
            self.leaves.append(rows)
            return
        f, highest = split
        own = self.ranks[rows, f]
        is_left = own <= highest
        node[:3] = f, own[is_left].max(), own[~is_left].min()
        self.add(rows[is_left])
        node[3] = len(self.nodes)
        self.add(rows[~is_left])

    def split(self, rows):
        w, y = self.weights[rows], self.y[rows]
        total = np.cumsum(w)[-1]
        deviation = w * (y - np.cumsum(w * y)[-1] / total)
        bins = min(256, 2 ** int(np.ceil(np.log2(4 * len(rows)))))
        best, divisor, found = -1.0, 1.0, None
        for visited in range(len(self.inputs)):
            if visited >= self.tried and found is not None:
                break
            f = self.draw(visited)
            offset = self.ranks[rows, f] - self.ranks[rows, f].min()
            width = 1
            while offset.max() // width >= bins:
                width *= 2
            b = offset // width
            left, weight = np.cumsum(np.bincount(b, deviation)), np.cumsum(np.bincount(b, w))
            for cut in np.unique(b)[:-1]:
                product = weight[cut] * (total - weight[cut])
                if product > 0.0 and left[cut] ** 2 * divisor > best * product:
                    best, divisor = left[cut] ** 2, product
                    found = f, self.ranks[rows, f].min() + (cut + 1) * width - 1
        return found

    def draw(self, visited):
        self.state = (1103515245 * self.state + 12345) % 2**31
        chosen = visited + self.state * (len(self.inputs) - visited) // 2**31
        self.inputs[visited], self.inputs[chosen] = self.inputs[chosen], self.inputs[visited]
        return self.inputs[visited]


def table(n, p, decimals, seed=0):
    """Return ranks of rounded inputs, targets, and how often rows are drawn."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, p)), decimals)
    y = np.tanh(X[:, 0]) + 0.3 * rng.normal(size=n)
    return ranks_of(X), y, np.maximum(rng.multinomial(n, np.full(n, 1.0 / n)).astype(np.float64), float(n == 1))


def check_same(*arguments):
    nodes, samples = grow(*arguments)
    slow = SlowTree(*arguments)
    np.testing.assert_array_equal(nodes, slow.nodes)
    np.testing.assert_array_equal(samples, slow.samples)


@pytest.mark.parametrize("decimals", [0, 1, 9])
@pytest.mark.parametrize(("n", "p", "tried"), [(1, 1, 1), (17, 2, 1), (300, 3, 2), (1000, 1, 1), (500, 12, 5)])
def test_trees_are_those_of_the_slow_grower(n, p, tried, decimals):
    check_same(*table(n, p, decimals), tried, n)


def test_trees_with_any_weights_constant_and_equal_columns_and_equal_targets():
    ranks, y, weights = table(600, 5, 1)
    ranks[:, 2], ranks[:, 3] = 0, ranks[:, 1]
    check_same(ranks, y, weights * np.random.default_rng(1).uniform(0.5, 2.0, 600), 2, 1)
    check_same(ranks, np.round(y), weights, 4, 2)


LEVELS = 7
"""Distinct values of a column: fewer than a node of two samples has bins, so that every cut is possible."""


@st.composite
def small_tables(draw):
    n, p = draw(st.integers(1, 40)), draw(st.integers(1, 4))
    ranks = draw(hnp.arrays(np.int32, (n, p), elements=st.integers(0, LEVELS - 1)))
    y = draw(hnp.arrays(np.float64, n, elements=st.floats(-5.0, 5.0, width=16)))
    weights = draw(hnp.arrays(np.float64, n, elements=st.sampled_from([0.0, 0.5, 1.0, 2.0])))
    weights[0] = 1.0
    return ranks, y, weights, draw(st.integers(1, p)), draw(st.integers(0, 2**31 - 1))


@given(small_tables())
def test_every_sample_is_in_one_leaf_to_which_its_inputs_lead(arguments):
    ranks, y, weights, *_ = arguments
    nodes, samples = grow(*arguments)
    leaves = nodes[nodes[:, kernel.FEATURE] < 0]
    np.testing.assert_array_equal(np.sort(samples), np.flatnonzero(weights))
    np.testing.assert_array_equal(leaves[:, kernel.START], np.append(0, leaves[:-1, kernel.STOP]))
    assert leaves[-1, kernel.STOP] == len(samples)
    for start, stop in leaves[:, [kernel.START, kernel.STOP]]:
        rows = samples[start:stop]
        assert len(rows) > 0
        assert (np.diff(rows) > 0).all()
        assert np.ptp(y[rows]) == 0.0 or (np.ptp(ranks[rows], axis=0) == 0).all()
    for place, row in enumerate(samples):
        node = 0
        while (feature := nodes[node, kernel.FEATURE]) >= 0:
            below, above, right = nodes[node, [kernel.BELOW, kernel.ABOVE, kernel.RIGHT]]
            assert ranks[row, feature] <= below or ranks[row, feature] >= above > below
            node = node + 1 if ranks[row, feature] <= below else right
        assert nodes[node, kernel.START] <= place < nodes[node, kernel.STOP]


def squared_error(y, weights):
    return float(np.sum(weights * (y - np.average(y, weights=weights)) ** 2))


@given(small_tables())
def test_no_split_reduces_the_squared_error_by_more(arguments):
    ranks, y, weights, _, seed = arguments
    nodes, samples = grow(ranks, y, weights, ranks.shape[1], seed)
    for feature, below, _, _, start, stop in nodes[nodes[:, kernel.FEATURE] >= 0]:
        rows = samples[start:stop]

        def error(column, highest, rows=rows):
            is_left = ranks[rows, column] <= highest
            return sum(squared_error(y[some], weights[some]) for some in (rows[is_left], rows[~is_left]))

        best = min(
            error(column, highest)
            for column in range(ranks.shape[1])
            for highest in np.unique(ranks[rows, column])[:-1]
        )
        assert error(feature, below) == pytest.approx(best, rel=1e-9, abs=1e-12)


def test_inputs_are_chosen_evenly():
    """With one input tried, each of three is the first split of about a third of the trees."""
    ranks = np.random.default_rng(0).integers(50, size=(20, 3)).astype(np.int32)
    first = [grow(ranks, np.arange(20.0), np.ones(20), 1, seed)[0][0, 0] for seed in range(0, 2**31, 2**31 // 900)]
    assert np.bincount(first, minlength=3) == pytest.approx(len(first) / 3, rel=0.15)
