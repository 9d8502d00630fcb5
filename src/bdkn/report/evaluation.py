"""Evaluation of a model's predictions for the HTML report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from bdkn.analysis.inspection import held_out_targets, n_prototypes
from bdkn.analysis.tables import RawColumn, TableView
from bdkn.errors import no_extrapolation_warnings
from bdkn.estimators import SupportReport
from bdkn.predictive import Gaussian, Predictive
from bdkn.report.wording import number
from bdkn.typing import BoolArray, FloatArray

LEVEL = 0.9
"""Probability of the intervals in the HTML report."""

LEVELS = np.round(np.arange(0.05, 0.96, 0.05), 2)
"""Nominal coverages of central intervals in the reliability chart."""

PIT_BINS = 10
"""Number of bins of the histogram of the probability integral transform (PIT)."""

CHANCE = 0.95
"""Probability of the ranges in which the numbers of a calibrated model lie by chance."""

_RESAMPLES = 500
"""Number of bootstrap resamples for standard errors."""

_MAX_ROWS = 100
"""Maximum number of rows for which the effects of columns are computed."""

_BINS = 5
"""Number of ranges into which a numeric column is divided, with about equal numbers of rows."""

_MAX_VALUES = 6
"""Maximum number of values of a column that are shown separately; the others are shown together."""

_MIN_ROWS = 5
"""Minimum number of rows in a range, or with a value, for which errors are shown."""


class Evaluation:
    """Predictions of a model for rows with known targets, and their scores, as the HTML report shows them.

    Arrays have one element per row; ``interval`` and ``half`` hold the limits (n, 2) of the 90 % and 50 % intervals.
    """

    def __init__(self, model: Any, view: TableView, y: FloatArray) -> None:
        self.model, self.view, self.y = model, view, y
        with no_extrapolation_warnings():  # the report shows distances from the training rows
            self.dist: Predictive = model.predict_dist(view.table)
            self.interval: FloatArray = np.asarray(model.predict_interval(view.table, LEVEL))
            # None if the model has no summary of the training rows.
            self.support: SupportReport | None = model.support(view.table) if n_prototypes(model) else None
            parts = model.predict_var(view.table, decompose=True) if hasattr(model, "predict_var") else {}
        # The parts of the variance; empty if the model does not divide the variance, or if some parts are infinite.
        self.parts: dict[str, FloatArray] = parts if all(np.isfinite(part).all() for part in parts.values()) else {}
        lower, upper = self.interval.T
        self.mean, std = self.dist.mean(), self.dist.std()
        self.std = std if np.isfinite(std).all() else (upper - lower) / 3.3
        self.half: FloatArray = np.stack(self.dist.interval(0.5), axis=1)
        self.held: BoolArray = (lower <= y) & (y <= upper)
        self.pit = self.dist.cdf(y)
        self.pit_counts = np.histogram(np.clip(self.pit, 0.0, 1.0), bins=PIT_BINS, range=(0.0, 1.0))[0]
        # The observed coverage of central intervals at each of ``LEVELS``.
        self.covered: FloatArray = (np.abs(2.0 * self.pit - 1.0)[:, None] <= LEVELS).mean(axis=0)
        self.own_scores = scores_of(self.dist, y, lower, upper)
        # Scores of a baseline: a Gaussian with mean and standard deviation of the training targets, if they are known.
        known = held_out_targets(model)
        targets = y if known is None else known
        baseline = Gaussian(np.full(len(y), targets.mean()), float(targets.std()) or 1.0)
        self.baseline_scores = scores_of(baseline, y, *baseline.interval(LEVEL))


def scores_of(dist: Predictive, y: FloatArray, lower: FloatArray, upper: FloatArray) -> dict[str, FloatArray]:
    """Return arrays with one score per row, by the name of the measure."""
    error = dist.mean() - y
    return {
        "absolute": np.abs(error),
        "squared": error**2,
        "crps": dist.crps(y),
        "nll": -dist.logpdf(y),
        "held": ((lower <= y) & (y <= upper)).astype(np.float64),
        "width": upper - lower,
    }


def resample(n: int) -> FloatArray:
    """Return weights (resamples, n) with which bootstrap means of n scores are computed; the seed is fixed."""
    return np.random.default_rng(0).multinomial(n, np.full(n, 1.0 / n), size=_RESAMPLES) / n


def chance_of(n: int, share: float, probability: float = CHANCE) -> tuple[float, float]:
    """Return the range in which an observed share of n rows lies by chance if the true share is ``share``."""
    low, high = stats.binom.interval(probability, n, share)
    return float(low / n), float(high / n)


@dataclass(frozen=True)
class Driver:
    """Average effect of one column on predictions, with standard errors.

    ``mean`` is the effect on predicted means, in units of the target. ``variance`` is the effect on predicted
    variances, as a share of the average variance.
    """

    name: Any
    mean: float = 0.0
    mean_error: float = 0.0
    variance: float = 0.0
    variance_error: float = 0.0


def drivers_of(evaluation: Evaluation) -> list[Driver]:
    """Return the effect of each column on predictions, the largest first; zeros if the model has no ``explain``."""
    names, model = evaluation.view.names, evaluation.model
    if not hasattr(model, "explain"):
        return [Driver(name) for name in names]
    if getattr(model, "density_", None) is not None:
        model = model.without_shape()  # it predicts faster without densities of neighbours
    found = model.explain(evaluation.view.table, max_rows=_MAX_ROWS)
    mean, variance = found.number_of("mean"), found.number_of("variance")
    # Variances with few degrees of freedom are infinite.
    value, error, base = (
        np.nan_to_num(part, nan=0.0, posinf=0.0, neginf=0.0)
        for part in (found.importance(), found.importance_error(), found.base)
    )
    unit = np.array([1.0, float(base[variance]) or 1.0])
    values, errors = value[:, [mean, variance]] / unit, error[:, [mean, variance]] / unit
    own = {str(name): name for name in names}
    drivers = [
        Driver(own.get(column, names[j]), *np.column_stack([values[j], errors[j]]).ravel().tolist())
        for j, column in enumerate(found.columns)
    ]
    return sorted(drivers, key=lambda driver: -driver.mean)


@dataclass(frozen=True, eq=False)
class ColumnErrors:
    """Mean absolute errors of predictions in each range, or for each value, of one column.

    ``rows`` are numbers of rows, ``spread`` standard errors of ``error``, ``held`` observed coverages of intervals.
    ``chance`` is the p-value of the test that errors do not depend on the column.
    """

    name: str
    labels: tuple[str, ...]
    rows: tuple[int, ...]
    error: FloatArray
    spread: FloatArray
    held: FloatArray
    chance: float


def errors_by_column(evaluation: Evaluation) -> list[ColumnErrors]:
    """Return errors in the ranges of each column with at least two ranges, the clearest differences first."""
    size, found = evaluation.own_scores["absolute"], []
    for name in evaluation.view.names:
        groups = [(label, at) for label, at in divide(evaluation.view.column(name)) if at.sum() >= _MIN_ROWS]
        if len(groups) < 2:
            continue
        parts = [size[at] for _, at in groups]
        found.append(
            ColumnErrors(
                name=str(name),
                labels=tuple(label for label, _ in groups),
                rows=tuple(len(part) for part in parts),
                error=np.array([part.mean() for part in parts]),
                spread=np.array([part.std() / np.sqrt(len(part)) for part in parts]),
                held=np.array([evaluation.held[at].mean() for _, at in groups]),
                chance=float(stats.kruskal(*parts).pvalue) if np.ptp(size) > 0 else 1.0,
            )
        )
    return sorted(found, key=lambda errors: errors.chance)


def cell(column: RawColumn, i: int) -> str:
    """Return the value of a column in row ``i`` as text for the HTML report."""
    value = column.values[i]
    if value is None or value != value:
        return "missing"
    if column.kind == "boolean":
        return "yes" if value else "no"
    if column.kind == "date":
        return str(np.datetime64(0, "D") + np.timedelta64(int(np.floor(value)), "D"))
    return str(value) if column.kind == "text" else number(float(value))


def divide(column: RawColumn) -> list[tuple[str, BoolArray]]:
    """Divide rows into groups by the values of a column; return label and mask of each group.

    Groups are frequent values, or ranges of numbers or dates with about equal numbers of rows, or missing values.
    """
    if column.kind in ("text", "boolean"):
        text = np.array([cell(column, i) for i in range(len(column.values))])
        found, counts = np.unique(text, return_counts=True)
        first = found[np.argsort(-counts, kind="stable")][:_MAX_VALUES]
        groups = [(str(value), np.asarray(text == value)) for value in first]
        others = ~np.isin(text, first)
        return [*groups, ("others", others)] if others.any() else groups
    numbers, known = column.values, ~column.missing
    distinct = np.unique(numbers[known])
    if len(distinct) <= _MAX_VALUES:
        groups = [(cell(column, int(np.argmax(numbers == value))), numbers == value) for value in distinct]
    else:
        edges = np.unique(np.quantile(numbers[known], np.linspace(0.0, 1.0, _BINS + 1)))
        bins = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2)
        groups = []
        for k in range(len(edges) - 1):
            rows = np.flatnonzero(known & (bins == k))
            if len(rows):
                ends = rows[numbers[rows].argmin()], rows[numbers[rows].argmax()]
                least, most = (cell(column, int(i)) for i in ends)
                groups.append((least if least == most else f"{least} to {most}", known & (bins == k)))
    return groups if known.all() else [*groups, ("missing", ~known)]
