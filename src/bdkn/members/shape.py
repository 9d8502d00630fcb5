"""Learning the shape of predictions: densities of neighbours stacked with the Student-t, or the Student-t alone.

Training rows are predicted by trees that have not drawn them, so that one forest is enough: the weights of the mixture
maximise the mean log density of rows left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bdkn.inference.pooling import interpolation, stack_densities
from bdkn.members.density import NeighbourDensity, gate
from bdkn.members.encoding import Standardizer
from bdkn.members.forest import Forest, Ints, grow_forest, sortable
from bdkn.members.neighbours import KINDS, Components, Neighbours, encode_inputs
from bdkn.predictive import StudentT
from bdkn.rows import Rows
from bdkn.threads import Ahead, run_on_threads
from bdkn.typing import BoolArray, FloatArray, IndexArray

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

_FEWEST_TREES = 5
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


ForestAhead = Ahead[TrainingForest | None]
"""A forest that may be grown ahead; None if none is needed."""


def may_have_shape(y: FloatArray) -> bool:
    """Return whether there are enough targets to learn a shape from, and not all of them are equal."""
    return len(y) >= FEWEST_ROWS and bool(np.ptp(y) != 0.0)


def fit_density(
    table: Any,
    y: FloatArray,
    counts: FloatArray | None,
    student: StudentT,
    seed: np.random.SeedSequence,
    n_jobs: int | None = 1,
    groups: IndexArray | None = None,
    ahead: ForestAhead | None = None,
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
    ahead : Ahead, optional
        The forest of the same rows, if it was begun before; else it is grown now.
    """
    from bdkn.kernels import forest as kernel
    from bdkn.kernels.compiled import announce

    if not may_have_shape(y) or not (student.scale > 0.0).all() or student.df.min() <= 2.0:
        return None
    announce(kernel.components, "the neighbours of rows", 10)
    known = ahead.result() if ahead is not None else None
    grown = known or TrainingForest.grow(table, y, counts, seed, n_jobs, groups)
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
    enough = np.flatnonzero(absent.sum(axis=1) >= _FEWEST_TREES)
    if len(enough) <= _MOST_SCORED:
        return enough
    return np.sort(np.random.default_rng(seed).choice(enough, _MOST_SCORED, replace=False))


def _blocks(n: int, size: int) -> list[slice]:
    """Return n rows in blocks of this size."""
    return [slice(i, i + size) for i in range(0, n, size)]


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

        run_on_threads(compute, _blocks(len(rows), _AT_ONCE), n_jobs)
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

        run_on_threads(write, _blocks(len(self.y), _SCORED_AT_ONCE), self.n_jobs)
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
        from bdkn.kernels import forest as kernel

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
