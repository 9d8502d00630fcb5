"""Densities of neighbouring training rows, mixed with the Student-t.

A row's prediction is a mixture of a Student-t and of Gaussian components around the targets and errors of its
neighbours. Training rows are predicted by trees that have not drawn them, so that one forest is enough: the weights of
the mixture maximise the mean log density of held-out rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from scipy.special import betaln

from bdkn.blocks import THREAD_ROWS, row_slices
from bdkn.data.rows import Rows
from bdkn.data.scaling import Standardizer
from bdkn.model.neighbours import (
    KINDS,
    Components,
    Neighbours,
    encode_inputs,
    equal_rows,
    filled,
    grow_forest,
    least_bandwidth,
)
from bdkn.predictive import StudentT, StudentTMixture
from bdkn.predictive.location_scale import student_t_logpdf
from bdkn.storage.fields import NonNegative, Number, floats, must, sizes, stored
from bdkn.threads import run_on_threads
from bdkn.typing import Float32Array, FloatArray, IndexArray

FEWEST_ROWS = 100
"""Minimum number of rows; with fewer, no gain of a mixture is significant."""

_MOST_ROWS = 100_000
"""Maximum number of rows of the forest; of larger tables a random sample is used."""

_MOST_SCORED = 10_000
"""Maximum number of rows by which weights are learned."""

_MOST_CALIBRATED = 4_000
"""Maximum number of rows by which tilt and narrowing are chosen."""

_MOST_CRPS = 2_000
"""Maximum number of rows by which the CRPS is compared."""

_COMPONENT_ROWS = 1 << 10
"""Rows whose components one thread computes at a time, while trees stay in its cache."""

_SCORED_ROWS = 1 << 8
"""Rows that one thread scores at a time."""

_FEWEST_OTHER_TREES = 5
"""Minimum number of trees that have not drawn a row by which weights are learned."""

_KNOTS = (0.05, 0.5, 0.95)
"""Levels of the quantiles of the trees' agreement at which weights are learned."""

_PRIOR_ROWS = 10.0
"""Prior number of rows of the Student-t, and of the weights common to all knots at each knot."""

_STACKING_STEPS = 300
"""Steps of expectation and maximisation for the weights of a mixture."""

_LITTLE = 0.05
"""Weight that a kind of component must reach at some knot to be used."""

_CLEARLY = 2.0
"""Standard errors by which the mean gain in log score must exceed the price of the weights."""

_BY_CHANCE = 1.0
"""Standard errors by which the mean CRPS of the mixture may exceed that of the Student-t."""

_TILTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
_NARROWINGS = (1.0, 0.9, 0.8, 0.7, 0.6)
"""Tilts and narrowings that are compared."""

MixtureArrays = tuple[FloatArray, Float32Array, Float32Array, Float32Array]
"""Share of the Student-t (n,), and positions, widths and masses (n, slots) of the components."""


@stored
@dataclass(frozen=True, eq=False)
class NeighbourDensity:
    """Mixture of the Student-t and the densities of neighbours.

    ``shares`` (J, 1 + K) are the weights of the Student-t and of each kind of component at ``knots``, values of the
    logarithm of the agreement of the trees. Components far out in the mixture lose weight by the power ``tilt``, and
    the Student-t is made narrower by the factor ``narrowing``: a mixture of calibrated densities is too wide.
    ``columns`` are the names of the columns of a data frame that the forest uses (None: all columns).
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

        ``inside`` (n,), from 0 to 1, is a factor of the weights of neighbours: where it is 0, outside of the training
        rows, the Student-t stays as it is (None: 1 everywhere).
        """
        inputs, is_wide = encode_inputs(self.neighbours.inputs, table), student.scale > 0.0
        inside = np.where(is_wide, 1.0 if inside is None else inside, 0.0)  # a point mass stays one
        scale, out = np.where(is_wide, student.scale, 1.0), self.empty(len(student))

        def compute(rows: slice) -> None:
            parts = self.neighbours.components(student.df[rows], student.loc[rows], scale[rows], inputs[rows])
            self.weigh(parts, inside[rows], (out[0][rows], out[1][rows], out[2][rows], out[3][rows]))

        run_on_threads(compute, row_slices(len(student), THREAD_ROWS))
        scale = student.scale * (1.0 - inside * (1.0 - self.narrowing))
        return StudentTMixture.unchecked(student.df, student.loc, scale, *out)

    def empty(self, n: int) -> MixtureArrays:
        """Return the arrays of the mixtures of n rows, to be written by ``weigh``."""
        position, width, mass = (np.empty((n, self.neighbours.kind_arrays[3][-1]), np.float32) for _ in range(3))
        return np.empty(n), position, width, mass

    def weigh(
        self, parts: Components, inside: FloatArray | None = None, out: MixtureArrays | None = None
    ) -> MixtureArrays:
        """Return the mixtures of rows with these components, written to ``out``; ``inside`` is that of ``mix``."""
        from bdkn.kernels.trees import weigh

        inside = np.ones(len(parts.position)) if inside is None else inside
        out = self.empty(len(inside)) if out is None else out
        mean_tilt = math.exp(self.tilt * math.log(4.0) + float(betaln(1.0 + self.tilt, 1.0 + self.tilt)))
        calibration = (self.tilt, mean_tilt, self.narrowing)
        weigh((*parts,), self.neighbours.kind_arrays[2:4], self.knots, self.shares, inside, calibration, out)
        kept, _, _, mass = out  # masses in single precision have a sum of one but for rounding: the Student-t takes it
        kept[:] = np.clip(kept + (1.0 - (kept + mass.sum(axis=1, dtype=np.float64))), 0.0, 1.0)
        return out

    def with_errors(self, errors: FloatArray) -> NeighbourDensity:
        """Return the density with other standardised errors of the training rows."""
        rows = self.neighbours.rows
        return replace(self, neighbours=replace(self.neighbours, errors=errors if rows is None else errors[rows]))


def carry(student: StudentT, mixture: StudentT | StudentTMixture, drawn: FloatArray) -> FloatArray:
    """Return draws (n, size) of the Student-t carried to the mixture, row by row and quantile to quantile."""
    if isinstance(mixture, StudentT):
        return drawn
    return mixture.carry(np.clip(student.cdf(drawn), 1e-300, 1.0 - 1e-16))


def fit_density(
    table: Any,
    y: FloatArray,
    counts: FloatArray | None,
    student: StudentT,
    seed: np.random.SeedSequence,
    n_jobs: int | None = 1,
    groups: IndexArray | None = None,
) -> NeighbourDensity | None:
    """Fit the mixture that predicts best; return None if the Student-t alone does about as well.

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
        Rows with the same number are held out together. By default rows that are equal, targets included.

    Returns
    -------
    density : NeighbourDensity or None
        The mixture. Its mean log score is higher than that of the Student-t by clearly more than chance, and its mean
        CRPS is not worse.
    """
    from bdkn.kernels.code_cache import announce
    from bdkn.kernels.trees import component_densities, components

    df, loc, scale = student.df, student.loc, student.scale
    if len(y) < FEWEST_ROWS or np.ptp(y) == 0.0 or not (scale > 0.0).all() or df.min() <= 2.0:
        return None
    announce(components, "the neighbours of rows", 10)
    used = None
    if len(y) > _MOST_ROWS:
        used = _sample(np.arange(len(y)), _MOST_ROWS, seed)
        table, y, df, loc, scale = table[used], y[used], df[used], loc[used], scale[used]
        counts, groups = None if counts is None else counts[used], None if groups is None else groups[used]

    standardizer = Standardizer.fit(Rows(filled(table), y, counts))
    inputs = encode_inputs(standardizer, table)
    groups = equal_rows(inputs, y) if groups is None else np.unique(groups, return_inverse=True)[1]
    forest = grow_forest(inputs, y, counts, seed, groups=groups, n_jobs=n_jobs)
    errors, unit, kinds = (y - loc) / scale, float(np.median(scale)), np.array(KINDS, dtype=np.float64)
    neighbours = Neighbours(standardizer, forest, y, errors, unit, least_bandwidth(y), kinds, used)

    absent = forest.absent(len(y))
    scored = _sample(np.flatnonzero(absent.sum(axis=1) >= _FEWEST_OTHER_TREES), _MOST_SCORED, seed)
    if len(scored) < FEWEST_ROWS:
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

    # If the mixture of all kinds with weight is not better, those kinds are tried that are errors around the
    # prediction, and leave its centre nearly as it is.
    has_weight = stacked(neighbours, rows).shares[:, 1:].max(axis=0) >= _LITTLE
    for chosen in (has_weight, has_weight & (kinds[:, 0] > 0.0)):
        if chosen.any():
            own = rows.only(neighbours, np.flatnonzero(chosen))
            fewer = replace(neighbours, kinds=kinds[chosen])
            density = calibrated(stacked(fewer, own), own, n_jobs)
            if is_better(density, own, n_jobs):
                return density
    return None


def _sample(rows: IndexArray, most: int, seed: np.random.SeedSequence) -> IndexArray:
    """Return a random sample of at most this number of rows, in order."""
    return rows if len(rows) <= most else np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Training rows by which mixtures are learned and scored, each predicted without itself.

    ``df``, ``loc`` and ``scale`` (n,) are those of the Student-t, ``groups`` the numbers of rows that are held out
    together, ``log_density`` (n, 1 + K) that of the Student-t and of each kind of component at the targets, ``parts``
    the components by trees that have not drawn a row.
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
        """Return some of the rows."""
        parts = Components(*[part[rows] for part in self.parts])
        y, df, loc, scale, counts = (part[rows] for part in (self.y, self.df, self.loc, self.scale, self.counts))
        return ScoredRows(y, df, loc, scale, counts, self.groups[rows], self.log_density[rows], parts)

    def spaced(self, most: int) -> ScoredRows:
        """Return about this number of rows, evenly spaced."""
        return self.rows(np.arange(0, len(self.y), max(1, len(self.y) // most)))

    def only(self, neighbours: Neighbours, kinds: IndexArray) -> ScoredRows:
        """Return the rows with some of the kinds of components."""
        first, last = neighbours.kind_arrays[2:4]
        slots = np.concatenate([np.arange(first[k], last[k]) for k in kinds])
        position, width, mass = (part.take(slots, axis=1) for part in self.parts[:3])
        parts = Components(position, width, mass, self.parts.log_agreement)
        return replace(self, log_density=self.log_density.take(np.append(0, 1 + kinds), axis=1), parts=parts)

    def mean_and_error(self, gain: FloatArray) -> tuple[float, float]:
        """Return the mean of a number per row and its standard error, for which a group is one observation."""
        mean = float(np.average(gain, weights=self.counts))
        sums = np.bincount(self.groups, self.counts * (gain - mean))
        return mean, float(np.sqrt(sums @ sums) / self.counts.sum())

    def on_threads(self, compute: Callable[[ScoredRows], FloatArray], n_jobs: int | None) -> FloatArray:
        """Return a number per row, computed for blocks of rows on threads."""
        found = np.empty(len(self.y))

        def write(rows: slice) -> None:
            found[rows] = compute(self.rows(rows))

        run_on_threads(write, row_slices(len(self.y), _SCORED_ROWS), n_jobs)
        return found


def interpolation(g: FloatArray, knots: FloatArray) -> FloatArray:
    """Return u (n, J), the share of each knot in the weights of rows; beyond the last knot its share is one."""
    unit = np.eye(len(knots))
    return np.column_stack([np.interp(g, knots, unit[j]) for j in range(len(knots))])


def stack_densities(
    log_density: FloatArray, shares: FloatArray, prior: FloatArray, counts: FloatArray | None = None
) -> FloatArray:
    """Return the weights (J, K) of maximal posterior density, by expectation and maximisation.

    Weights of the highest mean log density of held-out rows are those of Yao et al. (2018), a concave problem. Here the
    weights of a row are interpolated between those at a few knots, Σ_j u_j w_j with u_j ≥ 0 and Σ_j u_j = 1, which
    keeps the problem concave.

    Parameters
    ----------
    log_density : array (n, K)
        Log densities of the targets under each of K components that were made without them.
    shares : array (n, J)
        Share of each knot in the weights of a row, as from ``interpolation``.
    prior : array (J, K)
        Rows that each component is given in advance, at each knot: a Dirichlet prior with these numbers plus one.
    counts : array (n,), optional
        How often each row is counted.

    Returns
    -------
    array (J, K)
        Weights, not negative, with the sum one at each knot.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.model.density import stack_densities
    >>> log_density = np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])
    >>> print(stack_densities(log_density, np.ones((3, 1)), np.zeros((1, 2))).round(2))
    [[0.71 0.29]]
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
    """Return the density of the mixture of each row, Σ_jk u_j w_jk p_k: the shorter of j and k is summed over last."""
    J, K = weights.shape
    if K > J:
        return np.asarray(np.vecdot(density @ weights.T, shares))
    return np.asarray(np.vecdot((weights.T @ shares.T).T, density))


def stacked(neighbours: Neighbours, rows: ScoredRows) -> NeighbourDensity:
    """Return the density with weights by stacking: first those for all rows, which are the prior of those at knots."""
    g, log_density = rows.parts.log_agreement, rows.log_density
    knots = np.quantile(g, _KNOTS)
    on_student = _PRIOR_ROWS * np.eye(log_density.shape[1])[:1]
    common = stack_densities(log_density, np.ones((len(g), 1)), on_student, rows.counts)
    prior = _PRIOR_ROWS * np.repeat(common, len(knots), axis=0)
    return NeighbourDensity(
        neighbours, knots, stack_densities(log_density, interpolation(g, knots), prior, rows.counts)
    )


def calibrated(density: NeighbourDensity, rows: ScoredRows, n_jobs: int | None) -> NeighbourDensity:
    """Return the density with the tilt and the narrowing of the highest score, chosen in turn."""
    some = rows.spaced(_MOST_CALIBRATED)

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
    """Return whether the log score exceeds that of the Student-t by more than chance, and the CRPS is not worse."""
    gain = rows.on_threads(lambda part: log_scores(density, part), n_jobs) - rows.log_density[:, 0]
    price = (density.shares.size - len(density.shares)) / len(np.unique(rows.groups))
    mean, error = rows.mean_and_error(gain)
    if not mean - price > _CLEARLY * error:
        return False
    some = rows.spaced(_MOST_CRPS)
    own = StudentT.unchecked(some.df, some.loc, some.scale)._crps(some.y[:, None])[:, 0]
    mean, error = some.mean_and_error(some.on_threads(lambda part: crps(density, part), n_jobs) - own)
    return mean <= _BY_CHANCE * error


def log_scores(density: NeighbourDensity, rows: ScoredRows) -> FloatArray:
    """Return the log density of the mixture at each target, as ``StudentTMixture.logpdf`` does."""
    from bdkn.kernels.student_mixture import log_density

    scale = density.narrowing * rows.scale
    u = (rows.y - rows.loc) / scale
    return log_density((rows.df, *density.weigh(rows.parts)), u[:, None])[:, 0] - np.log(scale)


def crps(density: NeighbourDensity, rows: ScoredRows) -> FloatArray:
    """Return the CRPS of the mixture at each target."""
    scale = density.narrowing * rows.scale
    mixture = StudentTMixture.unchecked(rows.df, rows.loc, scale, *density.weigh(rows.parts))
    return mixture._crps(rows.y[:, None])[:, 0]
