"""Densities of neighbouring training rows, mixed with the Student-t.

The neighbours of a row are the training rows that share leaves of a forest with it. Their targets, and their errors in
units of the predicted scale, are smoothed by Gaussians of a few bandwidths; a row's prediction is a mixture of these
and the Student-t. Weights of the mixture maximise the mean log density of held-out rows. One forest is enough, as
training rows are predicted out of bag, that is, by the trees that were grown without them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

from bdkn.blocks import THREAD_ROWS, row_slices
from bdkn.data.rows import Rows
from bdkn.data.scaling import LIMIT, Standardizer
from bdkn.ensemble.copied_models import check_nodes
from bdkn.errors import DivergedError, InvalidParameterError
from bdkn.lazy import lazy
from bdkn.predictive import StudentT, StudentTMixture
from bdkn.predictive.location_scale import student_t_logpdf
from bdkn.storage.fields import NonNegative, Number, Positive, floats, integers, must, singles, sizes, stored
from bdkn.threads import run_on_threads
from bdkn.typing import Array, BoolArray, Float32Array, FloatArray, IndexArray

Ints = NDArray[np.int32]

StudentParameters = tuple[float | FloatArray, FloatArray, FloatArray]
"""Type: degrees of freedom (one number or (n,)), locations (n,) and scales (n,) of n Student-t distributions."""

MixtureArrays = tuple[FloatArray, Float32Array, Float32Array, Float32Array]
"""Type: weight (n,) of the Student-t; means, standard deviations and weights (n, slots) of Gaussian components."""

MixtureParameters = tuple[FloatArray, FloatArray, FloatArray, FloatArray, Float32Array, Float32Array, Float32Array]
"""Type: parameters of a ``StudentTMixture``: degrees of freedom, locations, scales, then ``MixtureArrays``."""

MIN_ROWS = 100
"""Minimum number of training rows to fit a mixture; with fewer rows, the Student-t is used alone."""

_MAX_ROWS, _MAX_SCORED = 100_000, 10_000
"""Maximum numbers of training rows for the forest and for the mixture weights; of more, a random sample is used."""

_MAX_CALIBRATED, _MAX_CRPS = 4_000, 2_000
"""Maximum numbers of rows on which ``tilt`` and ``narrowing`` are chosen, and on which the CRPS is compared."""

_COMPONENT_ROWS, _SCORED_ROWS = 1 << 10, 1 << 8
"""Rows per block when threads compute Gaussian components, and scores: so that the arrays fit into the cache."""

_MIN_OUT_OF_BAG_TREES = 5
"""Mixture weights are learned only from rows that are out of bag in at least this number of trees."""

_KNOT_LEVELS = (0.05, 0.5, 0.95)
"""Mixture weights are learned at these quantiles of the log agreement (see ``Components``), and interpolated."""

_PRIOR_ROWS = 10.0
"""Strength of the Dirichlet prior of mixture weights, as a number of rows that are added to the observed ones."""

_STACKING_STEPS = 300
"""Number of expectation-maximisation steps for the weights of a mixture."""

_MIN_WEIGHT = 0.05
"""Minimum weight of a kind of Gaussian components in the mixture; kinds with less at every knot are removed."""

_MIN_GAIN_ERRORS = 2.0
"""Minimum gain of a mixture over the Student-t, in standard errors of the mean log score; else it is not used."""

_MAX_CRPS_ERRORS = 1.0
"""Maximum excess of the mean CRPS of a mixture over the CRPS of the Student-t, in standard errors."""

_TILTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
_NARROWINGS = (1.0, 0.9, 0.8, 0.7, 0.6)
"""Candidate values of ``tilt`` and ``narrowing``, the parameters that calibrate a ``NeighbourDensity``."""

_SHARE_OF_INPUTS, _MAX_INPUTS = 0.7, 12
"""Fraction of the inputs that are tried for each split of a tree, and their maximum number."""

_MAX_TREES, _MIN_TREES = 100, 20
"""Maximum and minimum number of trees of a forest."""

_MAX_DRAWN = 2_000_000
"""Maximum number of training rows times trees, to limit memory to about 60 MB; but a forest has at least 20 trees."""


_MIN_BANDWIDTH = 0.6
"""Minimum bandwidth of Gaussian components, in units of the median gap between neighbouring values of the target."""

_BROAD_ROWS = 4
"""Minimum number of training rows in a broad node: the last node with so many on the path from root to leaf."""

_MAX_SLOTS = 1 << 16
"""Maximum number of Gaussian components in the mixture of a row."""

_MAX_DISTANCE = 1e37
"""Maximum distance of a component from the predicted location, in predicted scales: single precision has no more."""

_MIN_AGREEMENT = 1e-3
"""Lower limit of the agreement of trees (see ``Components``), so that its logarithm is finite."""


class Kind(NamedTuple):
    """Settings of one kernel density of neighbours: around their targets or errors, in leaves or broad nodes of trees.

    A row has at most ``slots`` Gaussian components of a kind. ``bandwidth`` is in units of a typical predicted
    scale. Weights are multiplied by (Student-t density)^``power``, which gives likely targets more weight.
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
"""Kernel densities of neighbours that can be parts of a mixture; after learning, those with enough weight are kept."""


class Components(NamedTuple):
    """Gaussian components of the mixtures of n rows, relative to the location and scale of the Student-t of each row.

    Positions, standard deviations (``width``) and weights (``mass``) are (n, slots). Weights sum to one in each kind.
    ``log_agreement`` (n,) is larger if the trees find the same neighbours: it is the log of the mean of Σᵢ pᵢ qᵢ over
    pairs of trees, which give training row i the weights pᵢ and qᵢ.
    """

    position: FloatArray
    width: FloatArray
    mass: FloatArray
    log_agreement: FloatArray


@stored
@dataclass(frozen=True, eq=False)
class NeighbourDensity:
    """Mixture of the Student-t and a kernel density of similar training rows, the neighbours.

    ``shares`` (J, 1 + K) are the weights of the Student-t and of K kinds of components at J ``knots``: values of
    ``Components.log_agreement``. As a mixture of calibrated densities is too wide, components where it has the
    distribution function F are weighted by (4F(1 - F))^``tilt``, and the Student-t has its scale times ``narrowing``.
    ``columns`` are the names of the columns of a data frame that the forest uses (None: all columns).
    """

    neighbours: Annotated[Neighbours, sizes(K=lambda neighbours: len(neighbours.kinds))]
    knots: Annotated[FloatArray, floats("J")]
    shares: Annotated[FloatArray, floats("J", "K+1", low=0.0)]
    tilt: NonNegative = 0.0
    narrowing: Annotated[float, Number(low=0.1, high=1.0)] = 1.0
    columns: tuple[str, ...] | None = None

    def check(self) -> None:
        """Raise an error unless knots increase, weights are at most one, and all columns have names, or none has."""
        must(bool((np.diff(self.knots) >= 0.0).all()), "knots must be in order")
        must(bool((self.shares <= 1.0 + 1e-9).all()), "shares must not exceed one")
        p = self.neighbours.inputs.n_columns
        must(self.columns is None or len(self.columns) == p, f"must have the names of {p} columns")

    def mix(
        self, df: float, loc: FloatArray, scale: FloatArray, X: Any, inside: FloatArray | None = None
    ) -> MixtureParameters:
        """Return the predicted mixtures of rows X, given their Student-t distributions, as arrays in scaled units.

        ``inside`` (n,), from 0 to 1, multiplies the weights of neighbours (None: 1 everywhere). It is 0 far from the
        training rows: such rows keep their Student-t. Rows with a Student-t of scale zero keep it, too.
        """
        from bdkn.kernels.trees import weigh

        table, _ = numeric_table(X, self.columns)
        n, p = len(loc), len(self.neighbours.inputs.mean)
        if table is None or table.shape != (n, p):
            raise InvalidParameterError(f"rows must be ({n}, {p}); got {None if table is None else table.shape}")
        inputs, is_wide, dfs = encode_inputs(self.neighbours.inputs, table), scale > 0.0, np.full(n, df)
        inside = np.where(is_wide, 1.0 if inside is None else inside, 0.0)
        unit, out, calibration = np.where(is_wide, scale, 1.0), self.empty(n), self.calibration
        slots = self.neighbours.kind_arrays[2:4]

        def compute(rows: slice) -> None:
            parts = self.neighbours.components(dfs[rows], loc[rows], unit[rows], inputs[rows])
            some = out[0][rows], out[1][rows], out[2][rows], out[3][rows]
            weigh((*parts,), slots, self.knots, self.shares, inside[rows], calibration, some)

        if n <= THREAD_ROWS:
            compute(slice(n))
        else:
            run_on_threads(compute, row_slices(n, THREAD_ROWS))
        kept, position, width, mass = out  # weights in single precision sum to one up to rounding
        kept = np.clip(kept + (1.0 - (kept + mass.sum(axis=1, dtype=np.float64))), 0.0, 1.0)
        return dfs, loc, scale * (1.0 - inside * (1.0 - self.narrowing)), kept, position, width, mass

    def empty(self, n: int) -> MixtureArrays:
        """Return uninitialised arrays, into which compiled code writes the mixtures of n rows."""
        position, width, mass = (np.empty((n, self.neighbours.kind_arrays[3][-1]), np.float32) for _ in range(3))
        return np.empty(n), position, width, mass

    @property
    def calibration(self) -> tuple[float, float, float]:
        """Tilt t, the mean of (4F(1 - F))^t for uniform F, and narrowing: arguments of compiled code."""
        return self.tilt, math.exp(self.tilt * math.log(4.0) + betaln(1.0 + self.tilt, 1.0 + self.tilt)), self.narrowing

    def mixture_of(self, parts: Components) -> MixtureArrays:
        """Return the mixtures of training rows as arrays, given the Gaussian components of each row."""
        from bdkn.kernels.trees import weigh

        n, slots = len(parts.position), self.neighbours.kind_arrays[2:4]
        kept, position, width, mass = out = self.empty(n)
        weigh((*parts,), slots, self.knots, self.shares, np.ones(n), self.calibration, out)
        kept = np.clip(kept + (1.0 - (kept + mass.sum(axis=1, dtype=np.float64))), 0.0, 1.0)
        return kept, position, width, mass

    def with_errors(self, errors: FloatArray) -> NeighbourDensity:
        """Return a copy in which the standardised errors of the training rows are replaced by ``errors``."""
        rows = self.neighbours.rows
        return replace(self, neighbours=replace(self.neighbours, errors=errors if rows is None else errors[rows]))


@stored
@dataclass(frozen=True, eq=False)
class Neighbours:
    """A forest that finds similar training rows, with their targets in scaled units and their standardised errors.

    ``unit`` is the median predicted scale, ``floor`` the minimum bandwidth. ``kinds`` (K, 5) are the five fields of
    each ``Kind`` as numbers. ``rows`` are the numbers of the training rows that are used (None: all).
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
        """Raise an error unless the forest, its training rows and the kinds of components are consistent.

        This is needed because compiled code does not check array indices.
        """
        rows, p = self.forest.rows, self.inputs.n_columns
        must(bool(rows.min() >= 0 and rows.max() < len(self.targets)), "rows of the forest must be training rows")
        must(bool(self.forest.feature.max() < p), f"features of the forest must be from 0 to {p - 1}")
        flags, slots, numbers = self.kinds[:, :2], self.kinds[:, 2], self.kinds[:, 3:]
        must(bool(np.isin(flags, (0.0, 1.0)).all()), "flags of kinds must be 0 or 1")
        must(bool(((slots >= 1.0) & (slots == np.floor(slots))).all()), "slots must be whole numbers")
        must(bool(slots.sum() <= _MAX_SLOTS), f"kinds must have at most {_MAX_SLOTS} slots")
        must(bool((numbers[:, 0] > 0.0).all() and (numbers >= 0.0).all()), "bandwidths must be > 0, and powers >= 0")

    @lazy
    def kind_arrays(self) -> tuple[IndexArray, IndexArray, IndexArray, IndexArray, FloatArray, FloatArray]:
        """Settings of the K kinds of components, one array per setting, for compiled code; slots as start and stop."""
        of_errors, is_broad, slots, bandwidth, power = self.kinds.T
        last = np.cumsum(slots.astype(np.intp))
        width = np.where(of_errors > 0.0, bandwidth, bandwidth * self.unit)
        first = last - slots.astype(np.intp)
        return of_errors.astype(np.intp), is_broad.astype(np.intp), first, last, width, np.ascontiguousarray(power)

    @lazy
    def _largest(self) -> tuple[float, float]:
        """Largest absolute target and error of training rows, or their bandwidth if larger: to prevent overflow."""
        of_errors, width = self.kind_arrays[0] > 0, self.kind_arrays[4]
        values = np.concatenate([np.abs(self.targets), width[~of_errors], [self.floor]])
        return float(values.max()), float(np.concatenate([np.abs(self.errors), width[of_errors]]).max())

    def components(
        self, df: FloatArray, loc: FloatArray, scale: FloatArray, inputs: Float32Array, usable: BoolArray | None = None
    ) -> Components:
        """Return the Gaussian components of rows, given the parameters of their Student-t; scales must be above zero.

        ``inputs`` (n, p) come from ``encode_inputs``. ``usable`` (n, trees) is True where a row may use a tree (None:
        all trees).
        """
        from bdkn.kernels import trees as kernel

        n, forest, kinds, (largest, relative) = len(loc), self.forest, self.kind_arrays, self._largest
        with np.errstate(all="ignore"):
            farthest = (np.abs(loc).max(initial=0.0) + largest) / scale.min(initial=np.inf)
        if not max(farthest, relative) < _MAX_DISTANCE:
            raise DivergedError(
                "predictions are infinite, or so far from the training targets that their distance is no number: check "
                "the rows, or fit again with targets in other units"
            )
        usable = np.ones((n, len(forest.roots)), dtype=np.bool_) if usable is None else usable
        nodes = kernel.find_nodes(forest.nodes, forest.roots, inputs, _BROAD_ROWS)[: 1 + kinds[1].max()]
        drawn = (forest.start, forest.stop, forest.rows, forest.copies)
        position, width, mass = (np.empty((n, kinds[3][-1])) for _ in range(3))
        agreement, student = np.empty(n), (df, loc, scale)
        out = (position, width, mass, agreement)
        kernel.components(nodes, usable, drawn, self.targets, self.errors, student, kinds, self.floor, out)
        return Components(position, width, mass, np.log(np.maximum(agreement, _MIN_AGREEMENT)))


@stored
@dataclass(frozen=True, eq=False)
class Forest:
    """Regression trees, each grown on training rows drawn with replacement.

    The nodes of all trees are in depth-first order: the left child of a node is the next node. ``feature`` is -1 in a
    leaf; rows with inputs up to ``threshold`` go left. ``rows[start:stop]`` are the numbers of the training rows in a
    node, and ``copies`` is how often each was drawn.
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
        """Raise an error unless every path from a root ends in a leaf of its tree, and every node has training rows.

        This is needed because compiled code does not check array indices.
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
        """All nodes as one structured NumPy array, the form in which compiled code reads them."""
        from bdkn.kernels.trees import FOREST_NODE

        nodes = np.empty(len(self.feature), dtype=FOREST_NODE)
        nodes["feature"], nodes["threshold"], nodes["right"] = self.feature, self.threshold, self.right
        nodes["size"] = self.stop - self.start
        return nodes

    def out_of_bag(self, n: int) -> BoolArray:
        """Return the out-of-bag mask (n, trees): True if a tree has not drawn the training row."""
        absent = np.ones((n, len(self.roots)), dtype=np.bool_)
        for tree, root in enumerate(self.roots):
            absent[self.rows[self.start[root] : self.stop[root]], tree] = False
        return absent


def numeric_table(X: Any, names: tuple[Any, ...] | None = None) -> tuple[Array | None, tuple[Any, ...] | None]:
    """Return a table as an array of numbers, and the names of the columns of a data frame that were used.

    ``names`` are the columns to use (None: all numeric ones). The array is None if X is sparse or has no numbers.
    """
    if hasattr(X, "indptr"):
        return None, None
    if not hasattr(X, "columns"):
        return X if isinstance(X, np.ndarray) and X.dtype in (np.float32, np.float64) else _numbers(X), None
    columns = {name: _numbers(X[name]) for name in (X.columns if names is None else names)}
    known = {name: column for name, column in columns.items() if column is not None}
    return np.column_stack([*known.values()]) if known else None, tuple(known)


def _numbers(values: Any) -> FloatArray | None:
    """Return ``values`` as an array of float64; None if they are not numbers."""
    array: NDArray[Any] = np.asarray(values)
    try:
        return None if array.dtype.kind in "SUmM" else array.astype(np.float64)
    except (TypeError, ValueError):
        return None


def encode_inputs(inputs: Standardizer, table: Any) -> Float32Array:
    """Return the standardized table, on which a forest is grown; missing values become larger than all others."""
    scaled = inputs.transform(table)
    return scaled if np.isfinite(scaled).all() else np.nan_to_num(scaled, nan=LIMIT)


# Learning


@cache
def _announce() -> None:
    from bdkn.kernels.code_cache import announce
    from bdkn.kernels.trees import components

    announce(components, "the neighbours of rows", 10)


def fit_density(
    X: Any,
    y: FloatArray,
    counts: FloatArray | None,
    student: StudentParameters,
    seed: np.random.SeedSequence,
    n_jobs: int | None = 1,
    groups: IndexArray | None = None,
) -> NeighbourDensity | None:
    """Fit a mixture of the Student-t and densities of neighbours; return None if it is not clearly better.

    Compared with the Student-t alone, its mean log score must be clearly higher, and its mean CRPS not worse.
    ``student`` are the Student-t predictions of all rows of the table X, each predicted without its own target. They
    and the targets ``y`` are in scaled units. Rows with the same number in ``groups`` are held out together (None: rows
    with equal inputs and targets). The forest is the same for any number of threads.
    """
    table, names = numeric_table(X)
    df, loc, scale = student
    if table is None or len(y) < MIN_ROWS or np.ptp(y) == 0.0 or not (scale > 0.0).all() or np.min(df) <= 2.0:
        return None
    from bdkn.kernels.trees import component_densities

    _announce()
    used, df = None, np.broadcast_to(df, loc.shape)
    if len(y) > _MAX_ROWS:
        used = _sample(np.arange(len(y)), _MAX_ROWS, seed)
        table, y, df, loc, scale = table[used], y[used], df[used], loc[used], scale[used]
        counts, groups = None if counts is None else counts[used], None if groups is None else groups[used]

    # Neighbours: a forest; missing numbers are ignored when its inputs are scaled
    known = np.isfinite(table)
    means = np.where(known, table, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    standardizer = Standardizer.fit(Rows(table if known.all() else np.where(known, table, means), y, counts))
    inputs = encode_inputs(standardizer, table)
    groups = equal_rows(inputs, y) if groups is None else np.unique(groups, return_inverse=True)[1]
    forest = grow_forest(inputs, y, counts, seed, groups=groups, n_jobs=n_jobs)
    errors, unit, kinds = (y - loc) / scale, float(np.median(scale)), np.array(KINDS, dtype=np.float64)
    neighbours = Neighbours(standardizer, forest, y, errors, unit, least_bandwidth(y), kinds, used)

    # Components of rows that are out of bag in enough trees, computed by these trees
    absent = forest.out_of_bag(len(y))
    scored = _sample(np.flatnonzero(absent.sum(axis=1) >= _MIN_OUT_OF_BAG_TREES), _MAX_SCORED, seed)
    if len(scored) < MIN_ROWS:
        return None
    y, df, loc, scale, groups = y[scored], df[scored], loc[scored], scale[scored], groups[scored]
    inputs, absent, counts = inputs[scored], absent[scored], np.ones(len(y)) if counts is None else counts[scored]
    slices = row_slices(len(scored), _COMPONENT_ROWS)
    found: list[Any] = [None] * len(slices)

    def compute(k: int) -> None:
        rows = slices[k]
        found[k] = neighbours.components(df[rows], loc[rows], scale[rows], inputs[rows], absent[rows])

    run_on_threads(compute, range(len(slices)), n_jobs)
    parts = Components(*map(np.concatenate, zip(*found, strict=True)))
    with np.errstate(divide="ignore"):
        of_kinds = np.log(component_densities(*parts[:3], *neighbours.kind_arrays[2:4], (y - loc) / scale))
    log_density = np.column_stack([student_t_logpdf(y, df, loc, scale), of_kinds - np.log(scale)[:, None]])
    rows = ScoredRows(y, df, loc, scale, counts, groups, log_density, parts)

    # Weights by stacking. If the mixture of all kinds with enough weight is not better than the Student-t, only the
    # kinds that use errors are tried, which hardly change the centre of a prediction.
    has_weight = learn_weights(neighbours, rows).shares[:, 1:].max(axis=0) >= _MIN_WEIGHT
    for chosen in (has_weight, has_weight & (kinds[:, 0] > 0.0)):
        if chosen.any():
            own = rows.with_kinds(neighbours, np.flatnonzero(chosen))
            density = choose_calibration(learn_weights(replace(neighbours, kinds=kinds[chosen]), own), own, n_jobs)
            if is_better(density, own, n_jobs):
                return replace(density, columns=names)
    return None


def _sample(rows: IndexArray, most: int, seed: np.random.SeedSequence) -> IndexArray:
    """Return ``rows``, or a sorted random sample of ``most`` of them if there are more."""
    return rows if len(rows) <= most else np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))


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
    """Grow a forest on bootstrap samples of rows, weighted by ``counts``; rows of one group are drawn together.

    Groups are numbered from 0 without gaps (None: no groups). There are 100 trees, and fewer for more than 20 000
    rows. The forest is the same for any number of threads.
    """
    from bdkn.kernels.trees import grow_tree

    n, p = X.shape
    n_trees = n_trees or int(np.clip(_MAX_DRAWN // n, _MIN_TREES, _MAX_TREES))
    tried = max(1, min(round(_SHARE_OF_INPUTS * p), _MAX_INPUTS))
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
    return forest_of(trees)


def ranked(X: Float32Array) -> tuple[Ints, Float32Array, IndexArray]:
    """Return ranks (n, p) in each column, the distinct values of all columns, joined, and where each column starts."""
    values, ranks = [], np.empty(X.shape, dtype=np.int32)
    for j, column in enumerate(X.T):
        distinct, ranks[:, j] = np.unique(column, return_inverse=True)
        values.append(distinct)
    return ranks, np.concatenate(values), np.cumsum([0, *map(len, values[:-1])])


def midpoints(below: Float32Array, above: Float32Array) -> Float32Array:
    """Return the midpoints of ``below`` and ``above``, rounded down so that each is less than ``above``."""
    middle = (below.astype(np.float64) + above.astype(np.float64)) / 2.0
    rounded = middle.astype(np.float32)
    return np.asarray(np.where(rounded > middle, np.nextafter(rounded, np.float32(-np.inf)), rounded))


def forest_of(trees: list[tuple[Any, ...]]) -> Forest:
    """Return a forest; each tree is a tuple of the arrays feature, threshold, right, start, stop, rows and copies."""
    node, place = (np.cumsum([0, *(len(tree[part]) for tree in trees)], dtype=np.int32) for part in (0, 5))
    moved = [
        (feature, threshold, right + node[k], start + place[k], stop + place[k], rows, copies)
        for k, (feature, threshold, right, start, stop, rows, copies) in enumerate(trees)
    ]
    feature, threshold, right, start, stop, rows, copies = map(np.concatenate, zip(*moved, strict=True))
    return Forest(feature, threshold, right, start, stop, node[:-1].copy(), rows, copies)


def equal_rows(inputs: Float32Array, y: FloatArray) -> IndexArray:
    """Return a group number for each row; rows with equal inputs and targets have the same number."""
    odd = np.random.default_rng(0).integers(2**62, size=inputs.shape[1] + 1, dtype=np.uint64) * np.uint64(2)
    odd += np.uint64(1)
    keys = (inputs + np.float32(0.0)).view(np.int32)  # -0 becomes 0
    keys ^= (keys >> 31) & np.int32(0x7FFFFFFF)  # in the order of the inputs
    code = (y + 0.0).view(np.uint64) * odd[-1]
    for column, factor in zip(keys.T, odd, strict=False):
        code = (code ^ (code >> np.uint64(29))) * factor + column.astype(np.uint64)
    return np.asarray(np.unique(code, return_inverse=True)[1])


def least_bandwidth(y: FloatArray) -> float:
    """Return the minimum bandwidth, from the gaps between targets; it prevents density spikes at discrete values."""
    values = np.unique(y)
    return _MIN_BANDWIDTH * float(np.median(np.diff(values))) if len(values) > 1 else 0.0


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Training rows on which mixtures are learned and scored; each row is predicted without its own target.

    ``df``, ``loc`` and ``scale`` (n,) are the parameters of the Student-t. Rows with the same number in ``groups`` are
    held out together. ``log_density`` (n, 1 + K) are log densities of the targets under the Student-t and under K
    kinds of Gaussian components. ``parts`` are the components of each row, from trees grown without it.
    """

    y: FloatArray
    df: FloatArray
    loc: FloatArray
    scale: FloatArray
    counts: FloatArray
    groups: IndexArray
    log_density: FloatArray
    parts: Components

    def rows(self, rows: IndexArray | slice) -> ScoredRows:
        """Return a subset of the rows, by row number or slice."""
        parts = Components(*[part[rows] for part in self.parts])
        y, df, loc, scale, counts = (part[rows] for part in (self.y, self.df, self.loc, self.scale, self.counts))
        return ScoredRows(y, df, loc, scale, counts, self.groups[rows], self.log_density[rows], parts)

    def evenly_spaced(self, most: int) -> ScoredRows:
        """Return a subset of about ``most`` rows, evenly spaced."""
        return self.rows(np.arange(0, len(self.y), max(1, len(self.y) // most)))

    def with_kinds(self, neighbours: Neighbours, kinds: IndexArray) -> ScoredRows:
        """Return the same rows, but only the kinds of Gaussian components with the indices ``kinds``."""
        first, last = neighbours.kind_arrays[2:4]
        slots = np.concatenate([np.arange(first[k], last[k]) for k in kinds])
        position, width, mass = (part.take(slots, axis=1) for part in self.parts[:3])
        parts = Components(position, width, mass, self.parts.log_agreement)
        return replace(self, log_density=self.log_density.take(np.append(0, 1 + kinds), axis=1), parts=parts)

    def mean_and_error(self, gain: FloatArray) -> tuple[float, float]:
        """Return the weighted mean of ``gain`` (n,) and its standard error; each group counts as one observation."""
        mean = float(np.average(gain, weights=self.counts))
        sums = np.bincount(self.groups, self.counts * (gain - mean))
        return mean, float(np.sqrt(sums @ sums) / self.counts.sum())

    def on_threads(self, compute: Callable[[ScoredRows], FloatArray], n_jobs: int | None) -> FloatArray:
        """Return ``compute`` of all rows, one number per row; several threads apply it to blocks of rows."""
        found = np.empty(len(self.y))

        def write(rows: slice) -> None:
            found[rows] = compute(self.rows(rows))

        run_on_threads(write, row_slices(len(self.y), _SCORED_ROWS), n_jobs)
        return found


def interpolation(g: FloatArray, knots: FloatArray) -> FloatArray:
    """Return weights (n, J), by which values at J knots are linearly interpolated at points ``g`` (n,)."""
    unit = np.eye(len(knots))
    return np.column_stack([np.interp(g, knots, unit[j]) for j in range(len(knots))])


def stack_densities(
    log_density: FloatArray, shares: FloatArray, prior: FloatArray, counts: FloatArray | None = None
) -> FloatArray:
    """Return weights (J, K) of K densities in a mixture, at J knots; they maximise the posterior density, by EM.

    Stacking (Yao et al., 2018) chooses weights with the highest mean log density of held-out rows, a concave problem.
    Here the weights of a row are interpolated between the weights at a few knots, Σ_j u_j w_j with u_j ≥ 0 and
    Σ_j u_j = 1, and the problem is still concave.

    ``log_density`` (n, K) are the log densities of the targets under K components that were computed without these
    targets. ``shares`` (n, J) are the u_j of each row, from ``interpolation``. ``prior`` (J, K) are rows that each
    component is given in advance at each knot: a Dirichlet prior with these numbers plus one.
    """
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    total = np.ones(len(density)) if counts is None else counts
    J, K = shares.shape[1], density.shape[1]
    weights = np.full((J, K), 1.0 / K)
    for _ in range(_STACKING_STEPS):
        mixed = _mixed(shares, weights, density)
        weights = weights * ((shares * (total / mixed)[:, None]).T @ density) + prior
        weights /= weights.sum(axis=1, keepdims=True)
    return weights


def _mixed(shares: FloatArray, weights: FloatArray, density: FloatArray) -> FloatArray:
    """Return the mixture density of each row, Σ_jk u_j w_jk p_k, for ``shares`` u, ``weights`` w and ``density`` p."""
    J, K = weights.shape
    if K > J:
        return np.asarray(np.vecdot(density @ weights.T, shares))
    return np.asarray(np.vecdot((weights.T @ shares.T).T, density))


def learn_weights(neighbours: Neighbours, rows: ScoredRows) -> NeighbourDensity:
    """Learn mixture weights by stacking: first equal for all rows; then with these as prior, by log agreement."""
    g, log_density = rows.parts.log_agreement, rows.log_density
    knots = np.quantile(g, _KNOT_LEVELS)
    on_student = _PRIOR_ROWS * np.eye(log_density.shape[1])[:1]
    common = stack_densities(log_density, np.ones((len(g), 1)), on_student, rows.counts)
    prior = _PRIOR_ROWS * np.repeat(common, len(knots), axis=0)
    shares = stack_densities(log_density, interpolation(g, knots), prior, rows.counts)
    return NeighbourDensity(neighbours, knots, shares)


def choose_calibration(density: NeighbourDensity, rows: ScoredRows, n_jobs: int | None) -> NeighbourDensity:
    """Return a copy with the values of ``tilt`` and ``narrowing`` that have the best mean log score."""
    some = rows.evenly_spaced(_MAX_CALIBRATED)

    def best(candidates: list[NeighbourDensity]) -> NeighbourDensity:
        scores = np.empty(len(candidates))

        def compute(k: int) -> None:
            scores[k] = np.average(log_scores(candidates[k], some), weights=some.counts)

        run_on_threads(compute, range(len(candidates)), n_jobs)
        return candidates[int(np.argmax(scores))]

    density = best([replace(density, tilt=tilt) for tilt in _TILTS])
    density = best([replace(density, narrowing=factor) for factor in _NARROWINGS])
    return density if density.narrowing == 1.0 else best([replace(density, tilt=tilt) for tilt in _TILTS])


def is_better(density: NeighbourDensity, rows: ScoredRows, n_jobs: int | None) -> bool:
    """Return whether the mixture has a clearly better log score than the Student-t, and a CRPS that is not worse."""
    gain = rows.on_threads(lambda part: log_scores(density, part), n_jobs) - rows.log_density[:, 0]
    penalty = (density.shares.size - len(density.shares)) / len(np.unique(rows.groups))
    mean, error = rows.mean_and_error(gain)
    if not mean - penalty > _MIN_GAIN_ERRORS * error:
        return False
    some = rows.evenly_spaced(_MAX_CRPS)
    mean, error = some.mean_and_error(some.on_threads(lambda part: excess_crps(density, part), n_jobs))
    return mean <= _MAX_CRPS_ERRORS * error


def log_scores(density: NeighbourDensity, rows: ScoredRows) -> FloatArray:
    """Return the log density (n,) of each row's mixture at its target."""
    from bdkn.kernels.student_mixture import log_density

    scale = density.narrowing * rows.scale
    u = (rows.y - rows.loc) / scale
    return log_density((rows.df, *density.mixture_of(rows.parts)), u[:, None])[:, 0] - np.log(scale)


def excess_crps(density: NeighbourDensity, rows: ScoredRows) -> FloatArray:
    """Return the CRPS of the mixture minus the CRPS of the Student-t, for each target."""
    y, scale = rows.y[:, None], density.narrowing * rows.scale
    own = StudentT.unchecked(rows.df, rows.loc, rows.scale)._crps(y)[:, 0]
    return StudentTMixture.unchecked(rows.df, rows.loc, scale, *density.mixture_of(rows.parts))._crps(y)[:, 0] - own
