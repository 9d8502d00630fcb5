"""Densities of neighbouring training rows, mixed with the Student-t.

The neighbours of a row are the training rows that share leaves of a forest with it. Their targets, and their errors in
units of the scale predicted for them, are smoothed to densities by a few bandwidths each. ``members.shape`` learns the
weights of the mixture.

Training rows are predicted by trees that have not drawn them, so that one forest is enough: the weights of the mixture
maximise the mean log density of rows left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

from bdkn.blocks import THREAD_ROWS, row_slices
from bdkn.data.rows import Rows
from bdkn.data.scaling import LIMIT, Standardizer
from bdkn.errors import DivergedError, InvalidParameterError
from bdkn.inference.forecast import interpolation, stack_densities
from bdkn.lazy import lazy
from bdkn.predictive import StudentT, StudentTMixture
from bdkn.storage.fields import NonNegative, Number, Positive, floats, integers, must, singles, sizes, stored
from bdkn.threads import run_on_threads
from bdkn.typing import BoolArray, Float32Array, FloatArray, IndexArray

_MOST_SLOTS = 1 << 16
_BROAD = 4
"""Training rows of a broad node, at least."""

_FARTHEST = 1e37
"""Distances, in scales of a prediction, that a mixture can have: it keeps them in single precision."""


class Kind(NamedTuple):
    """A kind of component: of targets or errors of neighbours, in leaves or broad nodes, with a bandwidth.

    At most ``slots`` Gaussians are kept for a row. The bandwidth is in units of a typical scale of predictions. Targets
    are weighted by this power of their density under the Student-t, so that those it finds likely count for more.
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


@dataclass(frozen=True, eq=False)
class Components:
    """Gaussian components of rows around a Student-t, by kind, with masses that sum to one in each kind."""

    position: FloatArray
    width: FloatArray
    mass: FloatArray
    agreement: FloatArray

    @classmethod
    def empty(cls, n: int, slots: int) -> Components:
        """Return room for the components of n rows."""
        position, width, mass = (np.empty((n, slots)) for _ in range(3))
        return cls(position, width, mass, np.empty(n))

    def rows(self, numbers: IndexArray | slice) -> Components:
        """Return the components of some rows; of a slice without a copy."""
        return Components(*(getattr(self, field.name)[numbers] for field in fields(self)))

    def slots(self, chosen: IndexArray) -> Components:
        """Return some of the components of all rows."""
        position, width, mass = (
            np.ascontiguousarray(part[:, chosen]) for part in (self.position, self.width, self.mass)
        )
        return Components(position, width, mass, self.agreement)


@stored
@dataclass(frozen=True, eq=False)
class Neighbours:
    """A forest over training rows, with their targets and standardised errors, in scaled units.

    ``unit`` is a typical scale of predictions, ``floor`` the least bandwidth. ``kinds`` (K, 5) are those of components.
    ``rows`` are the numbers of the training rows if not all are used.
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

        Compiled code, which does not check where it reads, relies on that.
        """
        forest, n, p = self.forest, len(self.targets), self.inputs.n_columns
        forest.check()
        _require_neighbours(
            len(self.errors) == n and forest.rows.min() >= 0 and forest.rows.max() < n, "its rows in the forest"
        )
        _require_neighbours(forest.feature.max() < p, f"trees that divide columns from 0 to {p - 1}")
        _require_neighbours(self.kinds.ndim == 2 and self.kinds.shape[1] == 5, "kinds of 5 numbers")
        slots, numbers = self.kinds[:, 2], self.kinds[:, 3:]
        _require_neighbours(
            np.isin(self.kinds[:, :2], (0.0, 1.0)).all(), "kinds that say 0 or 1 of errors and broad nodes"
        )
        _require_neighbours(
            ((slots >= 1.0) & (slots == np.floor(slots))).all() and slots.sum() <= _MOST_SLOTS, "whole slots"
        )
        _require_neighbours((numbers[:, 0] > 0.0).all() and (numbers >= 0.0).all(), "bandwidths > 0 and powers >= 0")

    @lazy
    def _plan(self) -> tuple[IndexArray, IndexArray, IndexArray, IndexArray, FloatArray, FloatArray]:
        self.check()
        of_errors, is_broad, slots, bandwidth, power = self.kinds.T
        last = np.cumsum(slots.astype(np.intp))
        width = np.where(of_errors > 0.0, bandwidth, bandwidth * self.unit)
        first = last - slots.astype(np.intp)
        return of_errors.astype(np.intp), is_broad.astype(np.intp), first, last, width, np.ascontiguousarray(power)

    @property
    def slots(self) -> tuple[IndexArray, IndexArray]:
        """First and last slot of each kind of component."""
        return self._plan[2:4]

    def encode(self, table: Any) -> Ints:
        """Return the inputs as the forest reads them; missing values are larger than all others."""
        return sortable(encode_inputs(self.inputs, table))

    def components(self, student: StudentT, keys: Ints, absent: BoolArray | None = None) -> Components:
        """Return the components of rows around a Student-t; ``absent`` (n, trees): trees a row may use (None: all)."""
        found = self.room(len(keys))
        self.write_components(student, keys, absent, found)
        return found

    def room(self, n: int) -> Components:
        """Return room for the components of n rows."""
        return Components.empty(n, int(self.slots[1][-1]))

    def write_components(self, student: StudentT, keys: Ints, absent: BoolArray | None, out: Components) -> None:
        """Write to ``out`` what ``components`` returns."""
        from bdkn.kernels import trees as kernel

        n, forest = len(keys), self.forest
        may_use = np.ones((n, len(forest.roots)), dtype=np.bool_) if absent is None else absent
        self._check_rows(student, keys, may_use)
        room, values = (out.position, out.width, out.mass, out.agreement), (self.targets, self.errors)
        own = (np.ascontiguousarray(student.df), student.loc, student.scale)
        nodes = kernel.find_nodes(forest.nodes, forest.roots, keys, _BROAD)
        kernel.components(nodes, forest.drawn, may_use, values, own, self._plan, self.floor, room)

    def _check_rows(self, student: StudentT, keys: Ints, may_use: BoolArray) -> None:
        """Raise unless rows are as compiled code takes them: their distances from all targets must be numbers."""
        n = len(keys)
        if (
            len(student) != n
            or keys.shape != (n, self.inputs.n_columns)
            or may_use.shape != (n, len(self.forest.roots))
        ):
            raise InvalidParameterError(f"rows must be (n, {self.inputs.n_columns}); got {keys.shape}, {len(student)}")
        largest, relative = self._largest
        with np.errstate(all="ignore"):
            farthest = (np.abs(student.loc).max(initial=0.0) + largest) / student.scale.min(initial=np.inf)
        if not max(farthest, relative) < _FARTHEST:
            raise DivergedError(
                "predictions are infinite, or so far from the training targets that their distance is no number: check "
                "the rows, or fit again with targets in other units"
            )

    @lazy
    def _largest(self) -> tuple[float, float]:
        """The largest target or bandwidth, and the largest error or bandwidth of errors, in scales of a prediction."""
        of_errors, width = self._plan[0] > 0, self._plan[4]
        values = np.concatenate([np.abs(self.targets), width[~of_errors], [self.floor]])
        return float(values.max()), float(np.concatenate([np.abs(self.errors), width[of_errors]]).max())


def _require_neighbours(holds: bool | np.bool_, what: str) -> None:
    if not holds:
        raise InvalidParameterError(f"neighbours must have {what}; these are damaged: fit again")


def encode_inputs(inputs: Standardizer, table: Any) -> Float32Array:
    """Return the inputs of the forest; missing values are larger than all others."""
    scaled = inputs.transform(table)
    return scaled if np.isfinite(scaled).all() else np.nan_to_num(scaled, nan=LIMIT)


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
        _require_forest(self._is_sound, "nodes and rows that belong together")

    @lazy
    def _is_sound(self) -> bool:
        """True, or the check raises: it is done once."""
        n, drawn, roots = len(self.feature), len(self.rows), self.roots
        _require_forest(
            all(len(part) == n for part in (self.threshold, self.right, self.start, self.stop)), "equal lengths"
        )
        _require_forest(len(self.copies) == drawn, "a number of copies for each row drawn")
        _require_forest(
            len(roots) > 0 and roots[0] == 0 and (np.diff(roots) > 0).all() and roots[-1] < n, "roots in order"
        )
        for root, end in zip(roots, [*roots[1:], n], strict=True):  # nodes of one tree stay in the processor's cache
            right, following = self.right[root:end], np.arange(root + 1, end + 1)
            is_inside = (following < right) & (right < end)
            _require_forest((is_inside | (self.feature[root:end] < 0)).all(), "children inside of their tree")
        _require_forest(
            ((self.start >= 0) & (self.start < self.stop) & (self.stop <= drawn)).all(), "rows at each node"
        )
        first, last = self.start[roots], self.stop[roots]
        _require_forest(
            np.array_equal(np.append(first, drawn), np.append(0, last)), "the rows of all trees in their order"
        )
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


def _require_forest(holds: bool | np.bool_, what: str) -> None:
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
    from bdkn.kernels import trees as kernel

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


_LEAST_AGREEMENT = 1e-3


@stored
@dataclass(frozen=True, eq=False)
class NeighbourDensity:
    """How predictions are mixed from the Student-t and the densities of neighbours.

    ``shares`` (J, 1 + K) are the weights of the Student-t and of each kind of component at ``knots``, values of the
    logarithm of the agreement of the trees. Components far out in the mixture lose weight by the power ``tilt``, and
    the Student-t is made narrower by the factor ``narrowing``: a mixture of calibrated densities is too wide.
    ``columns`` are the names of the columns of a data frame that the forest sees; None: all columns.
    """

    neighbours: Annotated[Neighbours, sizes(K=lambda neighbours: len(neighbours.kinds))]
    knots: Annotated[FloatArray, floats("J")]
    shares: Annotated[FloatArray, floats("J", "K+1", low=0.0)]
    tilt: NonNegative = 0.0
    narrowing: Annotated[float, Number(low=0.1, high=1.0)] = 1.0
    columns: tuple[str, ...] | None = None

    def check(self) -> None:
        """Raise unless knots are in order, shares at most one, and the names those of all columns."""
        must(bool((np.diff(self.knots) >= 0.0).all()), "knots must be in order")
        must(bool((self.shares <= 1.0 + 1e-9).all()), "shares must not exceed one")
        p = self.neighbours.inputs.n_columns
        must(self.columns is None or len(self.columns) == p, f"must have the names of {p} columns")

    def mix(self, student: StudentT, table: Any, inside: FloatArray | None = None) -> StudentTMixture:
        """Return the mixture for rows of a table, in scaled units.

        ``inside`` (n,), between 0 and 1, is how far a row belongs to the training rows: where it is 0, the neighbours
        have no weight and the Student-t is as it was.
        """
        keys, n = self.neighbours.encode(table), len(student)
        trust = np.where(student.scale > 0.0, 1.0 if inside is None else inside, 0.0)  # a point mass has no shape
        around = StudentT(student.df, student.loc, np.where(student.scale > 0.0, student.scale, 1.0))
        out = self._room(n)

        def compute(rows: slice) -> None:
            parts = self.neighbours.components(around[rows], keys[rows])
            self._weigh(parts, trust[rows], tuple(array[rows] for array in out))

        run_on_threads(compute, row_slices(n, THREAD_ROWS))
        return self._mixture(student, trust, out)

    def weigh(self, student: StudentT, parts: Components) -> StudentTMixture:
        """Return the mixture of a Student-t and components that have masses by kind."""
        out, inside = self._room(len(student)), np.ones(len(student))
        self._weigh(parts, inside, out)
        return self._mixture(student, inside, out)

    def _room(self, n: int) -> tuple[FloatArray, Float32Array, Float32Array, Float32Array]:
        position, width, mass = (np.empty((n, self.neighbours.slots[1][-1]), dtype=np.float32) for _ in range(3))
        return np.empty(n), position, width, mass

    def _weigh(self, parts: Components, inside: FloatArray, out: tuple[Any, ...]) -> None:
        from bdkn.kernels import trees as kernel

        slots = self.neighbours.slots
        if self.shares.shape != (len(self.knots), 1 + len(slots[0])) or len(inside) != len(parts.agreement):
            raise InvalidParameterError(f"shares must be of all kinds at each knot; got shape {self.shares.shape}")
        even = math.exp(self.tilt * math.log(4.0) + float(betaln(1.0 + self.tilt, 1.0 + self.tilt)))
        calibration = (self.tilt, even, self.narrowing)
        arrays = (parts.position, parts.width, parts.mass)
        g = gate(parts.agreement)
        kernel.weigh(arrays, slots, g, self.knots, self.shares, inside, calibration, out)

    def _mixture(self, student: StudentT, inside: FloatArray, out: tuple[Any, ...]) -> StudentTMixture:
        scale = student.scale * (1.0 - inside * (1.0 - self.narrowing))
        return StudentTMixture(student.df, student.loc, scale, *out)

    def with_errors(self, errors: FloatArray) -> NeighbourDensity:
        """Return the density with other standardised errors of the training rows."""
        rows = self.neighbours.rows
        return replace(self, neighbours=replace(self.neighbours, errors=errors if rows is None else errors[rows]))


def carry(student: StudentT, mixture: StudentT | StudentTMixture, drawn: FloatArray) -> FloatArray:
    """Return draws (n, size) of the Student-t carried to the mixture, row by row and quantile to quantile."""
    if isinstance(mixture, StudentT):
        return drawn
    levels = np.clip(student.cdf(drawn), 1e-300, 1.0 - 1e-16)
    return mixture.carry(levels)


def gate(agreement: FloatArray) -> FloatArray:
    """Return the number that the weights of a row depend on."""
    return np.log(np.maximum(agreement, _LEAST_AGREEMENT))


FEWEST_ROWS = 100
"""With fewer rows no gain of a shape could be told from chance."""

_MOST_ROWS = 100_000
"""Rows of a table, at most, that are used; of larger tables some are chosen at random."""

_MOST_SCORED = 10_000
_MOST_CALIBRATED = 4_000
_MOST_CRPS = 2_000
"""Rows, at most, by which weights are learned, by which tilt and narrowing are, and by which the CRPS is compared."""

_AT_ONCE = 1 << 10
_SCORED_AT_ONCE = 1 << 8
"""Rows whose components one thread computes at once, while trees stay in its cache, and rows that it scores at once."""

_FEWEST_OTHER_TREES = 5
"""Trees, at least, that have not drawn a row by which weights are learned."""

_FLOOR = 0.6
"""The least bandwidth, in units of the median gap between neighbouring values of the target."""

_KNOTS = (0.05, 0.5, 0.95)
"""Levels of the quantiles of the agreement of trees at which weights are learned."""

_PRIOR_ROWS = 10.0
"""Rows that the Student-t is given in advance, and the weights common to all knots at each knot."""

_LITTLE = 0.05
"""A kind of component whose weight is nowhere greater is left out."""

_CLEARLY = 2.0
"""Standard errors by which the gain of the mixture must exceed its price."""

_BY_CHANCE = 1.0
"""Standard errors by which the CRPS of the mixture may exceed that of the Student-t."""

_TILTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
_NARROWINGS = (1.0, 0.9, 0.8, 0.7, 0.6)


@dataclass(frozen=True, eq=False)
class TrainingForest:
    """The forest of training rows and what else of a shape needs no prediction, so that it can be had before training.

    ``rows`` are the numbers of the rows that are used, None if all are; everything else is of these rows: ``keys`` are
    their inputs as the forest reads them, ``groups`` the numbers of those that are left out together, and ``absent``
    (n, trees) says which trees have not drawn a row.
    """

    inputs: Standardizer
    keys: Ints
    y: FloatArray
    counts: FloatArray | None
    groups: IndexArray
    forest: Forest
    absent: BoolArray
    rows: IndexArray | None

    @classmethod
    def grow(
        cls,
        table: Any,
        y: FloatArray,
        counts: FloatArray | None,
        seed: np.random.SeedSequence,
        n_jobs: int | None = 1,
        groups: IndexArray | None = None,
    ) -> TrainingForest:
        """Return the forest of a table; the parameters are those of ``fit_density``."""
        rows = _used_rows(len(y), seed)
        if rows is not None:
            table, y = table[rows], y[rows]
            counts = None if counts is None else counts[rows]
            groups = None if groups is None else groups[rows]
        inputs = Standardizer.fit(Rows(_filled(table), y, counts))
        encoded = encode_inputs(inputs, table)
        keys = sortable(encoded)
        together = equal_rows(keys, y) if groups is None else np.unique(groups, return_inverse=True)[1]
        forest = grow_forest(encoded, y, counts, seed, groups=together, n_jobs=n_jobs)
        forest.nodes  # noqa: B018 - computed here, and kept
        return cls(inputs, keys, y, counts, together, forest, forest.absent(len(y)), rows)

    def neighbours(self, student: StudentT) -> Neighbours:
        """Return the neighbours of all kinds, with the errors of a prediction of the rows that are used."""
        errors, unit = (self.y - student.loc) / student.scale, float(np.median(student.scale))
        kinds = np.array(KINDS, dtype=np.float64)
        return Neighbours(self.inputs, self.forest, self.y, errors, unit, least_bandwidth(self.y), kinds, self.rows)


def fit_density(
    table: Any,
    y: FloatArray,
    counts: FloatArray | None,
    student: StudentT,
    seed: np.random.SeedSequence,
    n_jobs: int | None = 1,
    groups: IndexArray | None = None,
) -> NeighbourDensity | None:
    """Return the mixture that predicts best, or None if the Student-t alone does about as well.

    Parameters
    ----------
    table : array (n, p)
        Columns of the training rows.
    y : array (n,)
        Targets, in scaled units.
    counts : array (n,) or None
        How often each row is counted.
    student : StudentT
        Prediction of each row from the others.
    seed : SeedSequence
        Seed of the forest.
    n_jobs : int or None, default=1
        Number of threads.
    groups : array (n,), optional
        Rows with the same number are left out together. By default rows that are equal, targets included.
    """
    from bdkn.kernels import trees as kernel
    from bdkn.kernels.code_cache import announce

    if len(y) < FEWEST_ROWS or np.ptp(y) == 0.0 or not (student.scale > 0.0).all() or student.df.min() <= 2.0:
        return None
    announce(kernel.components, "the neighbours of rows", 10)
    grown = TrainingForest.grow(table, y, counts, seed, n_jobs, groups)
    return _Stacking.of(grown, student if grown.rows is None else student[grown.rows], seed, n_jobs).best()


def equal_rows(keys: Ints, y: FloatArray) -> IndexArray:
    """Return a number for each row that it shares with the rows whose inputs and targets are equal to its own."""
    odd = np.random.default_rng(0).integers(2**62, size=keys.shape[1] + 1, dtype=np.uint64) * np.uint64(2) + np.uint64(
        1
    )
    code = (y + 0.0).view(np.uint64) * odd[-1]
    for column, factor in zip(keys.T, odd, strict=False):
        code = (code ^ (code >> np.uint64(29))) * factor + column.astype(np.uint64)
    numbers: IndexArray = np.unique(code, return_inverse=True)[1]
    return numbers


def _filled(table: Any) -> Any:
    """Return the table with each column's mean in place of numbers that are not finite."""
    known = np.isfinite(table)
    if known.all():
        return table
    sums = np.where(known, table, 0.0).sum(axis=0)
    return np.where(known, table, sums / np.maximum(known.sum(axis=0), 1))


def least_bandwidth(y: FloatArray) -> float:
    """Return the floor of bandwidths, by the gaps between targets: those on a lattice earn no spikes."""
    values = np.unique(y)
    return _FLOOR * float(np.median(np.diff(values))) if len(values) > 1 else 0.0


def _used_rows(n: int, seed: np.random.SeedSequence) -> IndexArray | None:
    """Return the numbers of the rows to use, None for all."""
    if n <= _MOST_ROWS:
        return None
    return np.sort(np.random.default_rng(seed).choice(n, _MOST_ROWS, replace=False))


def _scored_rows(absent: BoolArray, seed: np.random.SeedSequence) -> IndexArray:
    """Return the numbers of rows that enough trees have not drawn, and not too many of them."""
    enough = np.flatnonzero(absent.sum(axis=1) >= _FEWEST_OTHER_TREES)
    if len(enough) <= _MOST_SCORED:
        return enough
    return np.sort(np.random.default_rng(seed).choice(enough, _MOST_SCORED, replace=False))


@dataclass(frozen=True, eq=False)
class _Stacking:
    """Components of training rows from trees that have not drawn them, with the rows' own Student-t and targets."""

    neighbours: Neighbours
    student: StudentT
    y: FloatArray
    counts: FloatArray
    groups: IndexArray
    parts: Components
    n_jobs: int | None

    @classmethod
    def of(
        cls,
        grown: TrainingForest,
        student: StudentT,
        seed: np.random.SeedSequence,
        n_jobs: int | None,
    ) -> _Stacking:
        """Return the problem of those rows that enough trees have not drawn, and not of too many of them."""
        neighbours, keys, absent = grown.neighbours(student), grown.keys, grown.absent
        rows = _scored_rows(absent, seed)
        own, parts = student[rows], neighbours.room(len(rows))

        def compute(part: slice) -> None:
            some = rows[part]
            neighbours.write_components(own[part], keys[some], absent[some], parts.rows(part))

        run_on_threads(compute, row_slices(len(rows), _AT_ONCE), n_jobs)
        total = np.ones(len(rows)) if grown.counts is None else grown.counts[rows]
        return cls(neighbours, own, grown.y[rows], total, grown.groups[rows], parts, n_jobs)

    def best(self) -> NeighbourDensity | None:
        """Return the mixture of the kinds that have weight, calibrated, if it is clearly better than the Student-t.

        Its log score must be higher by clearly more than chance, and its CRPS not be worse. If that of all kinds is,
        those kinds are tried that are errors around the prediction, and leave its centre nearly as it is.
        """
        if len(self.y) < FEWEST_ROWS:
            return None
        has_weight = self._density().shares[:, 1:].max(axis=0) >= _LITTLE
        around = self.neighbours.kinds[:, 0] > 0.0
        for kinds in (has_weight, has_weight & around):
            density = self._only(np.flatnonzero(kinds))._better() if kinds.any() else None
            if density is not None:
                return density
        return None

    def _better(self) -> NeighbourDensity | None:
        """Return the calibrated mixture of all kinds, None unless it is better than the Student-t."""
        density = self._calibrated(self._density())
        gain = self._on_threads(lambda some: some._log_scores(density)) - self.student.logpdf(self.y)
        price = (density.shares.size - len(density.shares)) / len(np.unique(self.groups))
        mean, error = self._mean_and_error(gain)
        return density if mean - price > _CLEARLY * error and self._keeps_crps(density) else None

    def _keeps_crps(self, density: NeighbourDensity) -> bool:
        """Return whether the mean CRPS of the mixture exceeds that of the Student-t by chance at most."""
        some = self._some(_MOST_CRPS)
        mixed = some._on_threads(lambda part: density.weigh(part.student, part.parts).crps(part.y))
        mean, error = some._mean_and_error(mixed - some.student.crps(some.y))
        return mean <= _BY_CHANCE * error

    def _mean_and_error(self, gain: FloatArray) -> tuple[float, float]:
        """Return the mean of a number per row and its standard error, for which a group is one observation."""
        mean, total = float(np.average(gain, weights=self.counts)), float(self.counts.sum())
        sums = np.bincount(self.groups, self.counts * (gain - mean))
        return mean, float(np.sqrt(sums @ sums) / total)

    def _only(self, kinds: IndexArray) -> _Stacking:
        """Return the problem with some kinds of components."""
        first, last = self.neighbours.slots
        slots = np.concatenate([np.arange(first[k], last[k]) for k in kinds])
        neighbours = replace(self.neighbours, kinds=self.neighbours.kinds[kinds])
        return replace(self, neighbours=neighbours, parts=self.parts.slots(slots))

    def _some(self, most: int) -> _Stacking:
        """Return the problem with at most so many of the rows, evenly spaced."""
        return self._rows(np.arange(0, len(self.y), max(1, len(self.y) // most)))

    def _rows(self, rows: IndexArray | slice) -> _Stacking:
        """Return the problem with some of the rows."""
        student, parts = self.student[rows], self.parts.rows(rows)
        return replace(
            self, student=student, y=self.y[rows], counts=self.counts[rows], groups=self.groups[rows], parts=parts
        )

    def _on_threads(self, compute: Callable[[_Stacking], FloatArray]) -> FloatArray:
        """Return a number per row, computed on threads, each for a block of the rows."""
        found = np.empty(len(self.y))

        def write(rows: slice) -> None:
            found[rows] = compute(self._rows(rows))

        run_on_threads(write, row_slices(len(self.y), _SCORED_AT_ONCE), self.n_jobs)
        return found

    def _density(self) -> NeighbourDensity:
        """Return the stacked densities: weights for all rows first, which are the prior of those at each knot."""
        log_density, g = self._log_densities(), gate(self.parts.agreement)
        knots = np.quantile(g, _KNOTS)
        on_student = _PRIOR_ROWS * np.eye(log_density.shape[1])[:1]
        common = stack_densities(log_density, np.ones((len(g), 1)), on_student, self.counts)
        prior = _PRIOR_ROWS * np.repeat(common, len(knots), axis=0)
        shares = stack_densities(log_density, interpolation(g, knots), prior, self.counts)
        return NeighbourDensity(self.neighbours, knots, shares)

    def _log_densities(self) -> FloatArray:
        from bdkn.kernels import trees as kernel

        u = (self.y - self.student.loc) / self.student.scale
        found = kernel.component_densities(
            self.parts.position, self.parts.width, self.parts.mass, *self.neighbours.slots, u
        )
        with np.errstate(divide="ignore"):
            return np.column_stack([self.student.logpdf(self.y), np.log(found) - np.log(self.student.scale)[:, None]])

    def _calibrated(self, density: NeighbourDensity) -> NeighbourDensity:
        """Return the density with the tilt and the narrowing of the highest score, found in turn."""
        some, scores = self._some(_MOST_CALIBRATED), dict[tuple[float, float], float]()

        def compute(candidate: NeighbourDensity) -> None:
            score = float(np.average(some._log_scores(candidate), weights=some.counts))
            scores[candidate.tilt, candidate.narrowing] = score

        def best(candidates: list[NeighbourDensity]) -> NeighbourDensity:
            run_on_threads(compute, [c for c in candidates if (c.tilt, c.narrowing) not in scores], self.n_jobs)
            return max(candidates, key=lambda c: scores[c.tilt, c.narrowing])

        density = best([replace(density, tilt=tilt) for tilt in _TILTS])
        density = best([replace(density, narrowing=factor) for factor in _NARROWINGS])
        return best([replace(density, tilt=tilt) for tilt in _TILTS])

    def _log_scores(self, density: NeighbourDensity) -> FloatArray:
        return density.weigh(self.student, self.parts).logpdf(self.y)
