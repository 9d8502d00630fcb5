"""A forest as plain arrays: which training rows share its leaves with a row, and how closely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.errors import InvalidParameterError
from bdkn.lazy import lazy
from bdkn.threads import run_on_threads
from bdkn.typing import BoolArray, Float32Array, FloatArray, IndexArray

_SHARE_OF_INPUTS = 0.7
_MOST_INPUTS = 12
"""Inputs that are tried for a split: this share of them, and no more than this number."""

_MOST_TREES = 100
_FEWEST_TREES = 20
_MOST_DRAWN = 2_000_000
"""Rows that all trees draw together, at most: a larger table has fewer trees. It bounds a forest to some 60 MB."""

Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Forest:
    """Regression trees, each grown on draws of the training rows with replacement.

    Nodes of all trees follow one another in depth-first order: the left child of a node is the next one. ``feature`` is
    -1 at a leaf; rows with inputs up to ``threshold`` go left. ``rows[start:stop]`` are the numbers of the training
    rows below a node, drawn ``copies`` times.
    """

    feature: Ints
    threshold: Float32Array
    right: Ints
    start: Ints
    stop: Ints
    roots: Ints
    rows: Ints
    copies: Float32Array

    def check(self) -> None:
        """Raise unless every way from a root ends at a leaf of its tree, and every node has training rows.

        Compiled code, which does not check where it reads, relies on that. Children follow their node.
        """
        n, drawn, roots = len(self.feature), len(self.rows), self.roots
        _require(all(len(part) == n for part in (self.threshold, self.right, self.start, self.stop)), "equal lengths")
        _require(len(self.copies) == drawn, "a number of copies for each row drawn")
        _require(len(roots) > 0 and roots[0] == 0 and (np.diff(roots) > 0).all() and roots[-1] < n, "roots in order")
        number, inner = np.arange(n), self.feature >= 0
        end = np.append(roots[1:], n)[np.searchsorted(roots, number, side="right") - 1]
        _require(((number + 1 < self.right) & (self.right < end))[inner].all(), "children inside of their tree")
        _require(((self.start >= 0) & (self.start < self.stop) & (self.stop <= drawn)).all(), "rows at each node")
        first, last = self.start[roots], self.stop[roots]
        _require(np.array_equal(np.append(first, drawn), np.append(0, last)), "the rows of all trees in their order")

    @lazy
    def nodes(self) -> Ints:
        """The nodes as compiled code reads them: feature, key of the threshold, right child, number of rows."""
        self.check()
        columns = (self.feature, sortable(self.threshold), self.right, self.stop - self.start)
        return np.ascontiguousarray(np.column_stack(columns), dtype=np.int32)

    @property
    def drawn(self) -> tuple[Ints, Ints, Ints, Float32Array]:
        """First and last place of each node among the rows drawn, their numbers, and how often each was drawn."""
        return self.start, self.stop, self.rows, self.copies

    def absent(self, n: int) -> BoolArray:
        """Return which trees have not drawn each of n training rows, (n, trees)."""
        trees = np.searchsorted(self.start[self.roots], np.arange(len(self.rows)), side="right") - 1
        absent = np.ones((n, len(self.roots)), dtype=np.bool_)
        absent[self.rows, trees] = False
        return absent


def _require(holds: bool | np.bool_, what: str) -> None:
    if not holds:
        raise InvalidParameterError(f"a forest must have {what}; this one is damaged: fit again")


def sortable(numbers: Float32Array) -> Ints:
    """Return integers in the order of these numbers."""
    bits = (numbers + np.float32(0.0)).view(np.int32)  # minus zero becomes zero
    return np.where(bits >= 0, bits, bits ^ np.int32(0x7FFFFFFF))


def grow_forest(
    inputs: Float32Array,
    y: FloatArray,
    counts: FloatArray | None,
    seed: np.random.SeedSequence,
    *,
    groups: IndexArray | None = None,
    n_trees: int | None = None,
    n_jobs: int | None = 1,
) -> Forest:
    """Grow the trees; a row that counts twice is drawn twice as often, rows of one group are drawn together.

    ``groups`` are numbers from 0 without gaps; None: each row is a group of its own. By default a forest has 100 trees,
    and fewer if it has more than 20 000 rows.
    """
    n_trees = n_trees or int(np.clip(_MOST_DRAWN // len(y), _FEWEST_TREES, _MOST_TREES))
    grown: list[Any] = [None] * n_trees
    seeds = [np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, k)) for k in range(n_trees)]
    weights, finite = np.ones(len(y)) if counts is None else counts, bool(np.isfinite(inputs).all())

    def grow(k: int) -> None:
        rng = np.random.default_rng(seeds[k])
        drawn = _draw_rows(weights, groups, rng)
        grown[k] = _grow_tree(inputs, y, drawn, int(rng.integers(2**31)), finite=finite)

    run_on_threads(grow, range(n_trees), n_jobs)
    return _join(grown)


def _draw_rows(weights: FloatArray, groups: IndexArray | None, rng: np.random.Generator) -> FloatArray:
    """Return how often each row is drawn; with groups, each row of a group as often as the group, by its weight."""
    total = weights if groups is None else np.bincount(groups, weights)
    drawn = rng.multinomial(len(total), total / total.sum()).astype(np.float64)
    return drawn if groups is None else drawn[groups] * (weights * np.bincount(groups)[groups] / total[groups])


def _grow_tree(inputs: Float32Array, y: FloatArray, drawn: FloatArray, seed: int, *, finite: bool) -> tuple[Any, ...]:
    """Return the arrays of one tree: feature, threshold, right, start, stop, rows, copies.

    Neither the parameters nor finite inputs are checked for each tree again, which takes as long as a small tree.
    """
    from sklearn import config_context
    from sklearn.tree import DecisionTreeRegressor

    rows = np.flatnonzero(drawn)
    tried = max(1, min(round(_SHARE_OF_INPUTS * inputs.shape[1]), _MOST_INPUTS))
    model = DecisionTreeRegressor(max_features=tried, random_state=seed)
    with config_context(skip_parameter_validation=True):
        tree = model.fit(inputs[rows], y[rows], sample_weight=drawn[rows], check_input=not finite).tree_
    leaves = tree.apply(inputs[rows])
    order = np.argsort(leaves, kind="stable")
    start = np.searchsorted(leaves[order], np.arange(tree.node_count)).astype(np.int32)
    stop = start + tree.n_node_samples.astype(np.int32)
    is_leaf = tree.children_left < 0
    feature = np.where(is_leaf, -1, tree.feature).astype(np.int32)
    right = np.where(is_leaf, 0, tree.children_right).astype(np.int32)
    taken = rows[order]
    return feature, _rounded_down(tree.threshold), right, start, stop, taken.astype(np.int32), drawn[taken]


def _rounded_down(threshold: FloatArray) -> Float32Array:
    """Return the largest numbers of single precision that are not greater; inputs in it compare as before."""
    single = threshold.astype(np.float32)
    return np.where(single > threshold, np.nextafter(single, np.float32(-np.inf)), single)


def _join(trees: Sequence[tuple[Any, ...]]) -> Forest:
    """Return the forest of some trees."""
    sizes, drawn = [len(tree[0]) for tree in trees], [len(tree[5]) for tree in trees]
    roots, before = (np.cumsum([0, *some[:-1]], dtype=np.int32) for some in (sizes, drawn))
    feature, threshold, right, start, stop, rows, copies = (np.concatenate(parts) for parts in zip(*trees, strict=True))
    node_shift, row_shift = np.repeat(roots, sizes), np.repeat(before, sizes)
    return Forest(
        feature=feature,
        threshold=threshold,
        right=right + node_shift,
        start=start + row_shift,
        stop=stop + row_shift,
        roots=roots,
        rows=rows,
        copies=copies.astype(np.float32),
    )
