"""The shape of predictions: the Student-t of the combination, mixed with densities of neighbours.

The neighbours of a row are the training rows that share leaves of a forest with it. Their targets, and their errors in
units of the scale predicted for them, are smoothed to densities by a few bandwidths each; all of them and the Student-t
are stacked by the log densities of training rows, which are predicted by trees that have not drawn them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln

from bdkn.inference.pooling import interpolation, stack_densities
from bdkn.members.encoding import LIMIT, Standardizer
from bdkn.members.forest import Forest, Ints, grow_forest, sortable
from bdkn.predictive import StudentT, StudentTMixture
from bdkn.rows import Rows
from bdkn.threads import run_on_threads
from bdkn.typing import BoolArray, Float32Array, FloatArray, IndexArray

DENSITIES = ("auto", "student-t")

FEWEST_ROWS = 100
"""With fewer rows no gain of a shape could be told from chance."""

_MOST_SCORED = 20_000
_MOST_CALIBRATED = 4_000
_FEWEST_TREES = 10
_BLOCK_ROWS = 1 << 12
_BROAD = 4
"""Training rows of a broad node, at least."""

_FLOOR = 0.6
"""The least bandwidth, in units of the median gap between neighbouring values of the target."""

_KNOTS = (0.05, 0.5, 0.95)
_LEAST_AGREEMENT = 1e-3
_PRIOR_ROWS = 10.0
_LITTLE = 0.05
_CLEARLY = 2.0
_TILTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
_NARROWINGS = (1.0, 0.9, 0.8, 0.7, 0.6)


class Kind(NamedTuple):
    """A kind of component: of targets or errors of neighbours, in leaves or broad nodes, with a bandwidth.

    At most ``slots`` Gaussians are kept for a row. The bandwidth is in units of a typical scale of predictions.
    """

    of_errors: bool
    is_broad: bool
    slots: int
    bandwidth: float


KINDS = (
    Kind(False, False, 32, 0.02),
    Kind(False, False, 32, 0.1),
    Kind(False, False, 12, 0.5),
    Kind(False, True, 32, 0.1),
    Kind(False, True, 12, 0.5),
    Kind(True, True, 32, 0.1),
    Kind(True, True, 12, 0.5),
)


@dataclass(frozen=True, eq=False)
class Components:
    """Gaussian components of rows around a Student-t, by kind, with masses that sum to one in each kind."""

    position: FloatArray
    width: FloatArray
    mass: FloatArray
    agreement: FloatArray

    @classmethod
    def concatenate(cls, parts: Sequence[Components]) -> Components:
        """Return the components of the rows of all parts."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def rows(self, numbers: IndexArray) -> Components:
        """Return the components of some rows."""
        return Components(*(getattr(self, field.name)[numbers] for field in fields(self)))


@dataclass(frozen=True, eq=False)
class Neighbours:
    """A forest over training rows, with their targets and standardised errors, in scaled units.

    ``unit`` is a typical scale of predictions, ``floor`` the least bandwidth. ``kinds`` (K, 4) are those of components.
    """

    inputs: Standardizer
    forest: Forest
    targets: FloatArray
    errors: FloatArray
    unit: float
    floor: float
    kinds: FloatArray

    @cached_property
    def _plan(self) -> tuple[IndexArray, IndexArray, IndexArray, IndexArray, FloatArray]:
        of_errors, is_broad, slots, bandwidth = self.kinds.T
        last = np.cumsum(slots.astype(np.intp))
        width = np.where(of_errors > 0.0, bandwidth, bandwidth * self.unit)
        return of_errors.astype(np.intp), is_broad.astype(np.intp), last - slots.astype(np.intp), last, width

    @property
    def slots(self) -> tuple[IndexArray, IndexArray]:
        """First and last slot of each kind of component."""
        return self._plan[2:4]

    def encode(self, table: Any) -> Ints:
        """Return the inputs as the forest reads them; missing values are larger than all others."""
        return sortable(encode_inputs(self.inputs, table))

    def components(self, loc: FloatArray, scale: FloatArray, keys: Ints, absent: BoolArray | None = None) -> Components:
        """Return the components of rows around a Student-t; ``absent`` (n, trees): trees a row may use (None: all)."""
        from bdkn.kernels import forest as kernel

        n, forest = len(keys), self.forest
        may_use = np.ones((n, len(forest.roots)), dtype=np.bool_) if absent is None else absent
        position, width, mass = (np.empty((n, self.slots[1][-1])) for _ in range(3))
        found, values = (position, width, mass, np.empty(n)), (self.targets, self.errors)
        nodes = kernel.find_nodes(forest.nodes, forest.roots, keys, _BROAD)
        kernel.components(nodes, forest.drawn, may_use, values, loc, scale, self._plan, self.floor, found)
        return Components(*found)


@dataclass(frozen=True, eq=False)
class NeighbourDensity:
    """How predictions are mixed from the Student-t and the densities of neighbours.

    ``shares`` (J, 1 + K) are the weights of the Student-t and of each kind of component at ``knots``, values of the
    logarithm of the agreement of the trees. Components far out in the mixture lose weight by the power ``tilt``, and
    the Student-t is made narrower by the factor ``narrowing``: a mixture of calibrated densities is too wide.
    ``columns`` are the names of the columns of a data frame that the forest sees; None: all columns.
    """

    neighbours: Neighbours
    knots: FloatArray
    shares: FloatArray
    tilt: float = 0.0
    narrowing: float = 1.0
    columns: tuple[str, ...] | None = None

    def mix(self, student: StudentT, table: Any, inside: FloatArray | None = None) -> StudentTMixture:
        """Return the mixture for rows of a table, in scaled units.

        ``inside`` (n,), between 0 and 1, is how far a row belongs to the training rows: where it is 0, the neighbours
        have no weight and the Student-t is as it was.
        """
        keys, n = self.neighbours.encode(table), len(student)
        trust = np.where(student.scale > 0.0, 1.0 if inside is None else inside, 0.0)  # a point mass has no shape
        scale = np.where(student.scale > 0.0, student.scale, 1.0)
        out = self._room(n)

        def compute(rows: slice) -> None:
            parts = self.neighbours.components(student.loc[rows], scale[rows], keys[rows])
            self._weigh(parts, trust[rows], tuple(array[rows] for array in out))

        run_on_threads(compute, [slice(i, i + _BLOCK_ROWS) for i in range(0, n, _BLOCK_ROWS)])
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
        from bdkn.kernels import forest as kernel

        even = math.exp(self.tilt * math.log(4.0) + float(betaln(1.0 + self.tilt, 1.0 + self.tilt)))
        calibration = (self.tilt, even, self.narrowing)
        arrays = (parts.position, parts.width, parts.mass)
        g = gate(parts.agreement)
        kernel.weigh(arrays, self.neighbours.slots, g, self.knots, self.shares, inside, calibration, out)

    def _mixture(self, student: StudentT, inside: FloatArray, out: tuple[Any, ...]) -> StudentTMixture:
        scale = student.scale * (1.0 - inside * (1.0 - self.narrowing))
        return StudentTMixture(student.df, student.loc, scale, *out)

    def with_errors(self, errors: FloatArray) -> NeighbourDensity:
        """Return the density with other standardised errors of the training rows."""
        return replace(self, neighbours=replace(self.neighbours, errors=errors))


def carry(student: StudentT, mixture: StudentTMixture, drawn: FloatArray) -> FloatArray:
    """Return draws (n, size) of the Student-t carried to the mixture, row by row and quantile to quantile."""
    levels = np.clip(student.cdf(drawn), 1e-300, 1.0 - 1e-16)
    return mixture.carry(levels)


def gate(agreement: FloatArray) -> FloatArray:
    """Return the number that the weights of a row depend on."""
    return np.log(np.maximum(agreement, _LEAST_AGREEMENT))


def fit_density(
    table: Any,
    y: FloatArray,
    counts: FloatArray | None,
    student: StudentT,
    seed: np.random.SeedSequence,
    n_jobs: int | None = 1,
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
    """
    if len(y) < FEWEST_ROWS or not (student.scale > 0.0).all() or student.df.min() <= 2.0:
        return None
    inputs = Standardizer.fit(Rows(_filled(table), y, counts))
    encoded = encode_inputs(inputs, table)
    forest = grow_forest(encoded, y, counts, seed, n_jobs=n_jobs)
    errors, unit = (y - student.loc) / student.scale, float(np.median(student.scale))
    neighbours = Neighbours(inputs, forest, y, errors, unit, least_bandwidth(y), np.array(KINDS, dtype=np.float64))
    return _Stacking.of(neighbours, sortable(encoded), student, counts, seed, n_jobs).best()


def encode_inputs(inputs: Standardizer, table: Any) -> Float32Array:
    """Return the inputs of the forest; missing values are larger than all others."""
    scaled = inputs.transform(table)
    return scaled if np.isfinite(scaled).all() else np.nan_to_num(scaled, nan=LIMIT)


def _filled(table: Any) -> Any:
    """Return the table with each column's mean in place of numbers that are not finite."""
    known = np.isfinite(table)
    if known.all():
        return table
    sums = np.where(known, table, 0.0).sum(axis=0)
    return np.where(known, table, sums / np.maximum(known.sum(axis=0), 1))


def least_bandwidth(y: FloatArray) -> float:
    """Return the floor of bandwidths: targets on a lattice earn no spikes."""
    values = np.unique(y)
    return _FLOOR * float(np.median(np.diff(values))) if len(values) > 1 else 0.0


def _scored_rows(absent: BoolArray, seed: np.random.SeedSequence) -> IndexArray:
    """Return the numbers of rows that enough trees have not drawn, and not too many of them."""
    enough = np.flatnonzero(absent.sum(axis=1) >= _FEWEST_TREES)
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
    parts: Components

    @classmethod
    def of(
        cls,
        neighbours: Neighbours,
        keys: Ints,
        student: StudentT,
        counts: FloatArray | None,
        seed: np.random.SeedSequence,
        n_jobs: int | None,
    ) -> _Stacking:
        """Return the problem of those rows that enough trees have not drawn, and not of too many of them."""
        absent = neighbours.forest.absent(len(keys))
        rows = _scored_rows(absent, seed)
        own, found = student[rows], []

        def compute(part: slice) -> None:
            some = rows[part]
            found.append((part, neighbours.components(own.loc[part], own.scale[part], keys[some], absent[some])))

        run_on_threads(compute, [slice(i, i + _BLOCK_ROWS) for i in range(0, len(rows), _BLOCK_ROWS)], n_jobs)
        parts = Components.concatenate([some for _, some in sorted(found, key=lambda pair: pair[0].start)])
        total = np.ones(len(rows)) if counts is None else counts[rows]
        return cls(neighbours, own, neighbours.targets[rows], total, parts)

    def best(self) -> NeighbourDensity | None:
        """Return the mixture of the kinds that have weight, calibrated, if its gain is clearly above chance."""
        if len(self.y) < FEWEST_ROWS:
            return None
        has_weight = self._density().shares[:, 1:].max(axis=0) >= _LITTLE
        if not has_weight.any():
            return None
        chosen = self._only(np.flatnonzero(has_weight))
        density = chosen._calibrated(chosen._density())
        gain = chosen._log_scores(density) - chosen.student.logpdf(chosen.y)
        mean = float(np.average(gain, weights=self.counts))
        error = float(np.sqrt(np.average((gain - mean) ** 2, weights=self.counts) / self.counts.sum()))
        price = (density.shares.size - len(density.shares)) / float(self.counts.sum())
        return density if mean - price > _CLEARLY * error else None

    def _only(self, kinds: IndexArray) -> _Stacking:
        """Return the problem with some kinds of components."""
        first, last = self.neighbours.slots
        slots = np.concatenate([np.arange(first[k], last[k]) for k in kinds])
        taken = (
            np.ascontiguousarray(part[:, slots]) for part in (self.parts.position, self.parts.width, self.parts.mass)
        )
        neighbours = replace(self.neighbours, kinds=self.neighbours.kinds[kinds])
        return replace(self, neighbours=neighbours, parts=Components(*taken, self.parts.agreement))

    def _some(self, most: int) -> _Stacking:
        """Return the problem with at most so many of the rows, evenly spaced."""
        rows = np.arange(0, len(self.y), max(1, len(self.y) // most))
        own = {"student": self.student[rows], "y": self.y[rows], "counts": self.counts[rows]}
        return replace(self, **own, parts=self.parts.rows(rows))

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
        from bdkn.kernels import forest as kernel

        u = (self.y - self.student.loc) / self.student.scale
        found = kernel.component_densities(
            self.parts.position, self.parts.width, self.parts.mass, *self.neighbours.slots, u
        )
        with np.errstate(divide="ignore"):
            return np.column_stack([self.student.logpdf(self.y), np.log(found) - np.log(self.student.scale)[:, None]])

    def _calibrated(self, density: NeighbourDensity) -> NeighbourDensity:
        """Return the density with the tilt and the narrowing of the highest score, found in turn."""
        some = self._some(_MOST_CALIBRATED)

        def score(candidate: NeighbourDensity) -> float:
            return float(np.average(some._log_scores(candidate), weights=some.counts))

        density = max((replace(density, tilt=tilt) for tilt in _TILTS), key=score)
        density = max((replace(density, narrowing=factor) for factor in _NARROWINGS), key=score)
        return max((replace(density, tilt=tilt) for tilt in _TILTS), key=score)

    def _log_scores(self, density: NeighbourDensity) -> FloatArray:
        return density.weigh(self.student, self.parts).logpdf(self.y)
