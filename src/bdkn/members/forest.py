"""A forest as plain arrays: which training rows share its leaves with a row, and how closely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from bdkn.errors import InvalidParameterError
from bdkn.lazy import lazy
from bdkn.persistence.fields import integers, singles, stored
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


@stored
@dataclass(frozen=True, eq=False)
class Forest:
    """Regression trees, each grown on draws of the training rows with replacement.

    Nodes of all trees follow one another in depth-first order: the left child of a node is the next one. ``feature`` is
    -1 at a leaf; rows with inputs up to ``threshold`` go left. ``rows[start:stop]`` are the numbers of the training
    rows below a node, drawn ``copies`` times.
    """

    feature: Annotated[Ints, integers("N", types=("i4",), low=-1)]
    threshold: Annotated[Float32Array, singles("N")]
    right: Annotated[Ints, integers("N", types=("i4",))]
    start: Annotated[Ints, integers("N", types=("i4",))]
    stop: Annotated[Ints, integers("N", types=("i4",))]
    roots: Annotated[Ints, integers("T", types=("i4",))]
    rows: Annotated[Ints, integers("D", types=("i4",))]
    copies: Annotated[Float32Array, singles("D", above=0.0)]

    def check(self) -> None:
        """Raise unless every way from a root ends at a leaf of its tree, and every node has training rows.

        Compiled code, which does not check where it reads, relies on that. Children follow their node.
        """
        _require(self._is_sound, "nodes and rows that belong together")

    @lazy
    def _is_sound(self) -> bool:
        """True, or the check raises: it is done once."""
        n, drawn, roots = len(self.feature), len(self.rows), self.roots
        _require(all(len(part) == n for part in (self.threshold, self.right, self.start, self.stop)), "equal lengths")
        _require(len(self.copies) == drawn, "a number of copies for each row drawn")
        _require(len(roots) > 0 and roots[0] == 0 and (np.diff(roots) > 0).all() and roots[-1] < n, "roots in order")
        for root, end in zip(roots, [*roots[1:], n], strict=True):  # nodes of one tree stay in the processor's cache
            right, following = self.right[root:end], np.arange(root + 1, end + 1)
            is_inside = (following < right) & (right < end)
            _require((is_inside | (self.feature[root:end] < 0)).all(), "children inside of their tree")
        _require(((self.start >= 0) & (self.start < self.stop) & (self.stop <= drawn)).all(), "rows at each node")
        first, last = self.start[roots], self.stop[roots]
        _require(np.array_equal(np.append(first, drawn), np.append(0, last)), "the rows of all trees in their order")
        return True

    @lazy
    def nodes(self) -> Ints:
        """The nodes as compiled code reads them: feature, key of the threshold, right child, number of rows."""
        self.check()
        nodes = np.empty((len(self.feature), 4), dtype=np.int32)
        nodes[:, 0], nodes[:, 1], nodes[:, 2] = self.feature, sortable(self.threshold), self.right
        np.subtract(self.stop, self.start, out=nodes[:, 3])
        return nodes

    @property
    def drawn(self) -> tuple[Ints, Ints, Ints, Float32Array]:
        """First and last place of each node among the rows drawn, their numbers, and how often each was drawn."""
        return self.start, self.stop, self.rows, self.copies

    def absent(self, n: int) -> BoolArray:
        """Return which trees have not drawn each of n training rows, (n, trees)."""
        absent = np.ones((n, len(self.roots)), dtype=np.bool_)
        for tree, root in enumerate(self.roots):
            absent[self.rows[self.start[root] : self.stop[root]], tree] = False
        return absent


def _require(holds: bool | np.bool_, what: str) -> None:
    if not holds:
        raise InvalidParameterError(f"a forest must have {what}; this one is damaged: fit again")


def sortable(numbers: Float32Array) -> Ints:
    """Return integers in the order of these numbers."""
    bits = (numbers + np.float32(0.0)).view(np.int32)  # minus zero becomes zero
    bits ^= (bits >> 31) & np.int32(0x7FFFFFFF)
    return bits


def grow_forest(
    X: Float32Array,
    y: FloatArray,
    counts: FloatArray | None,
    seed: np.random.SeedSequence,
    *,
    groups: IndexArray | None = None,
    n_trees: int | None = None,
    n_jobs: int | None = 1,
) -> Forest:
    """Grow the trees; a row that counts twice is drawn twice as often, rows of one group are drawn together.

    ``X`` (n, p) are finite inputs. ``groups`` are numbers from 0 without gaps; None: each row is a group of its own. By
    default a forest has 100 trees, and fewer if it has more than 20 000 rows.
    """
    n_trees = n_trees or int(np.clip(_MOST_DRAWN // len(y), _FEWEST_TREES, _MOST_TREES))
    grown: list[Any] = [None] * n_trees
    seeds = [np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, k)) for k in range(n_trees)]
    draw = _Draw.of(np.ones(len(y)) if counts is None else counts, groups)
    inputs = _Ranks.of(X)

    def grow(k: int) -> None:
        rng = np.random.default_rng(seeds[k])
        drawn = draw(rng)
        grown[k] = _grow_tree(inputs, y, drawn, int(rng.integers(2**31)))

    run_on_threads(grow, range(n_trees), n_jobs)
    return _join(grown, n_jobs)


@dataclass(frozen=True, eq=False)
class _Draw:
    """How rows are drawn: probabilities of their groups, and how often a row counts where its group is drawn."""

    probabilities: FloatArray
    groups: IndexArray | None
    share: FloatArray

    @classmethod
    def of(cls, weights: FloatArray, groups: IndexArray | None) -> _Draw:
        """Return the draws of rows with these weights; those of one group are drawn together (None: one by one)."""
        if groups is None:
            return cls(weights / weights.sum(), None, np.ones(1))
        total = np.bincount(groups, weights)
        return cls(total / total.sum(), groups, weights * np.bincount(groups)[groups] / total[groups])

    def __call__(self, rng: np.random.Generator) -> FloatArray:
        """Return how often each row is drawn; each row of a group as often as the group, by its weight."""
        drawn = rng.multinomial(len(self.probabilities), self.probabilities).astype(np.float64)
        return drawn if self.groups is None else drawn[self.groups] * self.share


@dataclass(frozen=True, eq=False)
class _Ranks:
    """Inputs by rank: the distinct values of column j, in rising order, begin at ``values[first[j]]``."""

    values: Float32Array
    first: IndexArray
    ranks: Ints

    @classmethod
    def of(cls, X: Float32Array) -> _Ranks:
        """Return the ranks (n, p) of inputs."""
        values, ranks = [], np.empty(X.shape, dtype=np.int32)
        for j, column in enumerate(X.T):
            distinct, ranks[:, j] = np.unique(column, return_inverse=True)
            values.append(distinct)
        return cls(np.concatenate(values), np.cumsum([0, *map(len, values[:-1])]), ranks)

    def between(self, columns: Ints, low: Ints, high: Ints) -> Float32Array:
        """Return the middle between the values of two ranks, rounded down so that it is less than the higher one.

        A leaf, whose column is -1, gets a number without meaning.
        """
        below, above = (self.values[self.first[columns] + rank].astype(np.float64) for rank in (low, high))
        middle = (below + above) / 2.0
        rounded = middle.astype(np.float32)
        return np.asarray(np.where(rounded > middle, np.nextafter(rounded, np.float32(-np.inf)), rounded))


def _grow_tree(inputs: _Ranks, y: FloatArray, drawn: FloatArray, seed: int) -> tuple[Any, ...]:
    """Return the arrays of one tree: feature, threshold, right, start, stop, rows, copies."""
    from bdkn.kernels import tree as kernel

    rows = np.flatnonzero(drawn).astype(np.int32)
    tried = max(1, min(round(_SHARE_OF_INPUTS * inputs.ranks.shape[1]), _MOST_INPUTS))
    feature, low, high, right, start, stop = kernel.grow_tree(inputs.ranks, y, drawn, rows, tried, seed).T
    return feature, inputs.between(feature, low, high), right, start, stop, rows, drawn[rows]


def _join(trees: Sequence[tuple[Any, ...]], n_jobs: int | None = 1) -> Forest:
    """Return the forest of some trees, which threads write into arrays that are made once."""
    nodes, drawn = (np.cumsum([0, *(len(tree[part]) for tree in trees)], dtype=np.int32) for part in (0, 5))
    forest = _empty_forest(nodes, int(drawn[-1]))

    def write(k: int) -> None:
        feature, threshold, right, start, stop, rows, copies = trees[k]
        own, places = slice(nodes[k], nodes[k + 1]), slice(drawn[k], drawn[k + 1])
        forest.feature[own], forest.threshold[own] = feature, threshold
        np.add(right, nodes[k], out=forest.right[own])
        np.add(start, drawn[k], out=forest.start[own])
        np.add(stop, drawn[k], out=forest.stop[own])
        forest.rows[places], forest.copies[places] = rows, copies

    run_on_threads(write, range(len(trees)), n_jobs)
    return forest


def _empty_forest(nodes: Ints, drawn: int) -> Forest:
    """Return a forest to be filled; ``nodes`` (trees + 1,) are the first nodes of its trees, and their number."""
    feature, right, start, stop = (np.empty(nodes[-1], dtype=np.int32) for _ in range(4))
    threshold, copies = (np.empty(n, dtype=np.float32) for n in (nodes[-1], drawn))
    return Forest(feature, threshold, right, start, stop, nodes[:-1].copy(), np.empty(drawn, dtype=np.int32), copies)
