"""Neighbours of a row in a forest, and the Gaussian components that they add to its prediction.

The neighbours of a row are the training rows that share leaves of a forest with it. Their targets, and their errors in
units of the scale predicted for them, are smoothed by Gaussians of a few bandwidths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bdkn.data.scaling import LIMIT, Standardizer
from bdkn.ensemble.copied_models import check_nodes
from bdkn.errors import DivergedError, InvalidParameterError
from bdkn.lazy import lazy
from bdkn.storage.fields import NonNegative, Positive, floats, integers, must, singles, stored
from bdkn.threads import run_on_threads
from bdkn.typing import BoolArray, Float32Array, FloatArray, IndexArray

Ints = NDArray[np.int32]

_SHARE_OF_INPUTS = 0.7
"""Fraction of the inputs that are tried for a split."""

_MOST_INPUTS = 12
"""Maximum number of inputs that are tried for a split."""

_MOST_TREES, _FEWEST_TREES = 100, 20
"""Maximum and minimum number of trees of a forest."""

_MOST_DRAWN = 2_000_000
"""Maximum number of rows that all trees draw together, as long as there are 20 trees; a forest then has some 60 MB."""


@stored
@dataclass(frozen=True, eq=False)
class Forest:
    """Regression trees, each grown on draws of the training rows with replacement.

    The nodes of all trees are in depth-first order: the left child of a node is the next one. ``feature`` is -1 in a
    leaf; rows with inputs up to ``threshold`` go left. ``rows[start:stop]`` are the numbers of the training rows below
    a node, drawn ``copies`` times.
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
        """Raise unless every path from a root ends in a leaf of its tree, and every node has training rows.

        Compiled code does not check indices.
        """
        n, drawn = len(self.feature), len(self.rows)
        lengths = {len(part) for part in (self.threshold, self.right, self.start, self.stop)}
        must(lengths == {n} and len(self.copies) == drawn, "arrays of nodes, and those of rows, must have one length")
        check_nodes(self.feature, self.right, self.roots)
        must(bool(((self.start >= 0) & (self.start < self.stop) & (self.stop <= drawn)).all()), "nodes must have rows")
        first, last = self.start[self.roots], self.stop[self.roots]
        must(np.array_equal(np.append(first, drawn), np.append(0, last)), "rows must be in the order of the trees")

    @lazy
    def nodes(self) -> NDArray[Any]:
        """Nodes as compiled code reads them."""
        from bdkn.kernels.trees import FOREST_NODE

        nodes = np.empty(len(self.feature), dtype=FOREST_NODE)
        nodes["feature"], nodes["threshold"], nodes["right"] = self.feature, self.threshold, self.right
        nodes["size"] = self.stop - self.start
        return nodes

    def absent(self, n: int) -> BoolArray:
        """Return which trees have not drawn each of n training rows, (n, trees)."""
        absent = np.ones((n, len(self.roots)), dtype=np.bool_)
        for tree, root in enumerate(self.roots):
            absent[self.rows[self.start[root] : self.stop[root]], tree] = False
        return absent


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
    """Grow a forest on rows that are drawn in proportion to their counts; rows of one group are drawn together.

    Parameters
    ----------
    X : array (n, p)
        Inputs, finite.
    y : array (n,)
        Targets.
    counts : array (n,) or None
        How often each row is counted (None: once).
    seed : SeedSequence
        Seed of the forest.
    groups : array (n,), optional
        Numbers of the groups, from 0 without gaps. By default each row is a group of its own.
    n_trees : int, optional
        Number of trees. By default 100, and fewer for more than 20 000 rows.
    n_jobs : int or None, default=1
        Number of threads.

    Returns
    -------
    forest : Forest
        The forest, the same for any number of threads.
    """
    from bdkn.kernels.trees import grow_tree

    n, p = X.shape
    n_trees = n_trees or int(np.clip(_MOST_DRAWN // n, _FEWEST_TREES, _MOST_TREES))
    tried = max(1, min(round(_SHARE_OF_INPUTS * p), _MOST_INPUTS))
    weights = np.ones(n) if counts is None else counts
    total = weights if groups is None else np.bincount(groups, weights)
    probabilities = total / total.sum()
    share = None if groups is None else weights * np.bincount(groups)[groups] / total[groups]  # in its group
    ranks, values, first = ranked(X)
    trees: list[Any] = [None] * n_trees

    def grow(k: int) -> None:
        rng = np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, k)))
        drawn = rng.multinomial(len(probabilities), probabilities).astype(np.float64)
        if share is not None:
            drawn = drawn[groups] * share
        rows = np.flatnonzero(drawn).astype(np.int32)
        feature, below, above, right, start, stop = grow_tree(ranks, y, drawn, rows, tried, int(rng.integers(2**31))).T
        threshold = midpoints(values[first[feature] + below], values[first[feature] + above])  # unused in leaves
        trees[k] = feature, threshold, right, start, stop, rows, drawn[rows].astype(np.float32)

    run_on_threads(grow, range(n_trees), n_jobs)
    return joined(trees)


def ranked(X: Float32Array) -> tuple[Ints, Float32Array, IndexArray]:
    """Return the ranks (n, p) of inputs, the distinct values of all columns, and where those of each column begin."""
    values, ranks = [], np.empty(X.shape, dtype=np.int32)
    for j, column in enumerate(X.T):
        distinct, ranks[:, j] = np.unique(column, return_inverse=True)
        values.append(distinct)
    return ranks, np.concatenate(values), np.cumsum([0, *map(len, values[:-1])])


def midpoints(below: Float32Array, above: Float32Array) -> Float32Array:
    """Return the midpoints between numbers, rounded down so that each is less than the one above."""
    middle = (below.astype(np.float64) + above.astype(np.float64)) / 2.0
    rounded = middle.astype(np.float32)
    return np.asarray(np.where(rounded > middle, np.nextafter(rounded, np.float32(-np.inf)), rounded))


def joined(trees: list[tuple[Any, ...]]) -> Forest:
    """Return the forest of trees, each a tuple of feature, threshold, right, start, stop, rows and copies."""
    node, place = (np.cumsum([0, *(len(tree[part]) for tree in trees)], dtype=np.int32) for part in (0, 5))
    moved = [
        (feature, threshold, right + node[k], start + place[k], stop + place[k], rows, copies)
        for k, (feature, threshold, right, start, stop, rows, copies) in enumerate(trees)
    ]
    feature, threshold, right, start, stop, rows, copies = map(np.concatenate, zip(*moved, strict=True))
    return Forest(feature, threshold, right, start, stop, node[:-1].copy(), rows, copies)


def encode_inputs(inputs: Standardizer, table: Any) -> Float32Array:
    """Return the inputs of a forest; missing values become larger than all others."""
    scaled = inputs.transform(table)
    return scaled if np.isfinite(scaled).all() else np.nan_to_num(scaled, nan=LIMIT)


_FLOOR = 0.6
"""Minimum bandwidth, in units of the median gap between neighbouring values of the target."""

_BROAD = 4
"""Minimum number of training rows of a broad node."""

_MOST_SLOTS = 1 << 16
"""Maximum number of components of a row."""

_FARTHEST = 1e37
"""Maximum distance of a component, in scales of a prediction, that single precision represents."""

_LEAST_AGREEMENT = 1e-3
"""Minimum agreement of trees; smaller values count as this."""


class Kind(NamedTuple):
    """Components of one source and bandwidth: targets or errors of neighbours, in leaves or broad nodes.

    A row has at most ``slots`` of them. The bandwidth is in units of a typical scale of predictions. Targets are
    weighted by their density under the Student-t to the power of ``power``, which gives likely targets more weight.
    """

    of_errors: bool
    is_broad: bool
    slots: int
    bandwidth: float
    power: float


KINDS = (
    Kind(False, False, 32, 0.02, 0.3),
    Kind(False, False, 32, 0.1, 0.3),
    Kind(False, False, 12, 0.5, 0.3),
    Kind(False, True, 32, 0.1, 1.0),
    Kind(False, True, 12, 0.5, 1.0),
    Kind(True, True, 32, 0.1, 0.0),
    Kind(True, True, 12, 0.5, 0.0),
)
"""Kinds of components from which a mixture is learned."""


class Components(NamedTuple):
    """Gaussian components of rows around a Student-t, in units of its scale, by kind.

    Positions, widths and masses are (n, slots); masses sum to one in each kind. ``log_agreement`` (n,) is the logarithm
    of the mean product of the shares that two trees give to the same training rows.
    """

    position: FloatArray
    width: FloatArray
    mass: FloatArray
    log_agreement: FloatArray


@stored
@dataclass(frozen=True, eq=False)
class Neighbours:
    """A forest over training rows, with their targets and standardised errors, in scaled units.

    ``unit`` is a typical scale of predictions, ``floor`` the least bandwidth. ``kinds`` (K, 5) are the numbers of each
    ``Kind``. ``rows`` are the numbers of the training rows if not all are used.
    """

    inputs: Standardizer
    forest: Forest
    targets: Annotated[FloatArray, floats("n")]
    errors: Annotated[FloatArray, floats("n")]
    unit: Positive
    floor: NonNegative
    kinds: Annotated[FloatArray, floats("K", 5)]
    rows: Annotated[IndexArray | None, integers("n")] = None

    def check(self) -> None:
        """Raise unless the forest, its rows and the kinds of components belong together.

        Compiled code does not check indices.
        """
        rows, p = self.forest.rows, self.inputs.n_columns
        must(bool(rows.min() >= 0 and rows.max() < len(self.targets)), "rows of the forest must be training rows")
        must(bool(self.forest.feature.max() < p), f"features of the forest must be from 0 to {p - 1}")
        flags, slots, numbers = self.kinds[:, :2], self.kinds[:, 2], self.kinds[:, 3:]
        must(bool(np.isin(flags, (0.0, 1.0)).all()), "flags of kinds must be 0 or 1")
        must(bool(((slots >= 1.0) & (slots == np.floor(slots))).all()), "slots must be whole numbers")
        must(bool(slots.sum() <= _MOST_SLOTS), f"kinds must have at most {_MOST_SLOTS} slots")
        must(bool((numbers[:, 0] > 0.0).all() and (numbers >= 0.0).all()), "bandwidths must be > 0, and powers >= 0")

    @lazy
    def kind_arrays(self) -> tuple[IndexArray, IndexArray, IndexArray, IndexArray, FloatArray, FloatArray]:
        """For each kind: whether it is of errors and of broad nodes, first and last slot, bandwidth and power."""
        of_errors, is_broad, slots, bandwidth, power = self.kinds.T
        last = np.cumsum(slots.astype(np.intp))
        width = np.where(of_errors > 0.0, bandwidth, bandwidth * self.unit)
        first = last - slots.astype(np.intp)
        return of_errors.astype(np.intp), is_broad.astype(np.intp), first, last, width, np.ascontiguousarray(power)

    def components(
        self, df: FloatArray, loc: FloatArray, scale: FloatArray, inputs: Float32Array, usable: BoolArray | None = None
    ) -> Components:
        """Return the components of rows around a Student-t.

        Parameters
        ----------
        df, loc, scale : array (n,)
            Degrees of freedom, location and scale, above zero, of the Student-t of each row.
        inputs : array (n, p)
            Inputs of the rows, as from ``encode_inputs``.
        usable : array (n, trees), optional
            Whether a row may use a tree. By default it may use all.

        Returns
        -------
        components : Components
            The components of each row.
        """
        from bdkn.kernels import trees as kernel

        n, forest, kinds = len(loc), self.forest, self.kind_arrays
        usable = np.ones((n, len(forest.roots)), dtype=np.bool_) if usable is None else usable
        if inputs.shape != (n, self.inputs.n_columns) or usable.shape != (n, len(forest.roots)):
            raise InvalidParameterError(f"rows must be (n, {self.inputs.n_columns}); got {inputs.shape} for {n} rows")
        largest, relative = self._largest
        with np.errstate(all="ignore"):
            farthest = (np.abs(loc).max(initial=0.0) + largest) / scale.min(initial=np.inf)
        if not max(farthest, relative) < _FARTHEST:
            raise DivergedError(
                "predictions are infinite, or so far from the training targets that their distance is no number: check "
                "the rows, or fit again with targets in other units"
            )
        nodes = kernel.find_nodes(forest.nodes, forest.roots, inputs, _BROAD)[: 1 + kinds[1].max()]
        drawn = (forest.start, forest.stop, forest.rows, forest.copies)
        student = (np.ascontiguousarray(df), loc, scale)
        position, width, mass = (np.empty((n, kinds[3][-1])) for _ in range(3))
        agreement = np.empty(n)
        out = (position, width, mass, agreement)
        kernel.components(nodes, usable, drawn, self.targets, self.errors, student, kinds, self.floor, out)
        return Components(position, width, mass, np.log(np.maximum(agreement, _LEAST_AGREEMENT)))

    @lazy
    def _largest(self) -> tuple[float, float]:
        """The largest target or bandwidth, and the largest error or bandwidth of errors, in scales of a prediction."""
        of_errors, width = self.kind_arrays[0] > 0, self.kind_arrays[4]
        values = np.concatenate([np.abs(self.targets), width[~of_errors], [self.floor]])
        return float(values.max()), float(np.concatenate([np.abs(self.errors), width[of_errors]]).max())


def filled(table: Any) -> Any:
    """Return the table with each column's mean in place of numbers that are not finite."""
    known = np.isfinite(table)
    if known.all():
        return table
    sums = np.where(known, table, 0.0).sum(axis=0)
    return np.where(known, table, sums / np.maximum(known.sum(axis=0), 1))


def equal_rows(inputs: Float32Array, y: FloatArray) -> IndexArray:
    """Return a number for each row that it shares with the rows whose inputs and targets are equal to its own."""
    odd = np.random.default_rng(0).integers(2**62, size=inputs.shape[1] + 1, dtype=np.uint64) * np.uint64(2)
    odd += np.uint64(1)
    keys = (inputs + np.float32(0.0)).view(np.int32)  # -0 becomes 0
    keys ^= (keys >> 31) & np.int32(0x7FFFFFFF)  # in the order of the inputs
    code = (y + 0.0).view(np.uint64) * odd[-1]
    for column, factor in zip(keys.T, odd, strict=False):
        code = (code ^ (code >> np.uint64(29))) * factor + column.astype(np.uint64)
    return np.asarray(np.unique(code, return_inverse=True)[1])


def least_bandwidth(y: FloatArray) -> float:
    """Return the minimum bandwidth, by the gaps between targets: a discrete target has no spikes at its values."""
    values = np.unique(y)
    return _FLOOR * float(np.median(np.diff(values))) if len(values) > 1 else 0.0
