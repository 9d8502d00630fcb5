"""Evaluation of a model on the rows of a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from bdkn.arrays import read_numbers
from bdkn.data.reading import RawColumn
from bdkn.estimators import BDKNRegressor, SupportReport
from bdkn.lazy import lazy
from bdkn.predictive import Gaussian, Predictive
from bdkn.report.tables import TableView
from bdkn.report.wording import number
from bdkn.typing import BoolArray, FloatArray


class ConstantGaussian:
    """Regressor that predicts the same Gaussian for every row: mean and standard deviation of the training targets."""

    mean_: float
    std_: float

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Compute the mean and the standard deviation of ``y``; ``X`` is ignored."""
        targets = read_numbers("y", y)
        self.mean_, self.std_ = float(targets.mean()), float(targets.std())
        return self

    def predict_dist(self, X: Any) -> Gaussian:
        """Return the same Gaussian for each row of ``X``."""
        return Gaussian(np.full(len(X), self.mean_), self.std_)

    def __repr__(self) -> str:
        return "ConstantGaussian()"


_MOST_ROWS = 100
"""Rows that are explained."""


@dataclass(frozen=True)
class Driver:
    """How much a column drives predictions, on average over rows, with standard errors.

    ``mean`` is how much it moves the mean, in units of the target; ``variance`` how much it moves the variance, as a
    share of the average variance.
    """

    name: Any
    mean: float = 0.0
    mean_error: float = 0.0
    variance: float = 0.0
    variance_error: float = 0.0


def drivers_of(evaluation: Evaluation) -> list[Driver]:
    """Return how much each column drives predictions, the strongest first; zeros if the model cannot explain them."""
    names = evaluation.view.names
    if not hasattr(evaluation.model, "explain"):
        return [Driver(name) for name in names]
    found = fast_model(evaluation.model).explain(evaluation.view.table, max_rows=_MOST_ROWS)
    value, error = _known(found.importance()), _known(found.importance_error())
    mean, variance = found.number_of("mean"), found.number_of("variance")
    unit = float(_known(found.base[variance : variance + 1])[0]) or 1.0
    given = {str(name): name for name in names}
    drivers = [
        Driver(
            given.get(column, names[j]),
            float(value[j, mean]),
            float(error[j, mean]),
            float(value[j, variance] / unit),
            float(error[j, variance] / unit),
        )
        for j, column in enumerate(found.columns)
    ]
    return sorted(drivers, key=lambda driver: -driver.mean)


def fast_model(model: Any) -> Any:
    """Return the model without densities of neighbours, which predicts faster."""
    return model.without_shape() if isinstance(model, BDKNRegressor) and model.density_ is not None else model


def _known(values: FloatArray) -> FloatArray:
    """Return values, with 0 in place of what is not finite: variances of few degrees of freedom are infinite."""
    return np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)


_BINS = 5
"""Ranges of a column of numbers, each with equally many rows."""

_MOST_VALUES = 6
"""Values of a column that are shown by themselves; the others are put together."""

_FEWEST = 5
"""Rows that a range or a value has at least."""


@dataclass(frozen=True, eq=False)
class ColumnErrors:
    """Errors in ranges or values of one column: labels, rows, mean absolute errors and their standard errors.

    ``chance`` is the probability of differences as large as these if errors did not depend on the column.
    """

    name: str
    labels: tuple[str, ...]
    rows: tuple[int, ...]
    error: FloatArray
    spread: FloatArray
    held: FloatArray
    chance: float


def errors_by_column(evaluation: Evaluation) -> list[ColumnErrors]:
    """Return the errors along each column that has at least two ranges, those that differ most first."""
    found = [_along(evaluation, name) for name in evaluation.view.names]
    return sorted((errors for errors in found if errors is not None), key=lambda errors: errors.chance)


def _along(evaluation: Evaluation, name: Any) -> ColumnErrors | None:
    size = evaluation.own_scores["absolute"]
    groups = [(label, at) for label, at in divide(evaluation.view.column(name)) if at.sum() >= _FEWEST]
    if len(groups) < 2:
        return None
    parts = [size[at] for _, at in groups]
    chance = float(stats.kruskal(*parts).pvalue) if np.ptp(size) > 0 else 1.0
    return ColumnErrors(
        str(name),
        tuple(label for label, _ in groups),
        tuple(len(part) for part in parts),
        np.array([part.mean() for part in parts]),
        np.array([part.std() / np.sqrt(len(part)) for part in parts]),
        np.array([evaluation.held[at].mean() for _, at in groups]),
        chance,
    )


def divide(column: RawColumn) -> list[tuple[str, BoolArray]]:
    """Return labels, and which rows they are for: ranges of numbers, or values, most frequent first."""
    if column.kind in ("text", "boolean"):
        return _by_value(np.array([cell(column, i) for i in range(len(column.values))]))
    return _ranges(column)


def cell(column: RawColumn, i: int) -> str:
    """Return a value of a column in words."""
    value = column.values[i]
    if value is None or value != value:
        return "missing"
    if column.kind == "boolean":
        return "yes" if value else "no"
    if column.kind == "date":
        return day(float(value))
    return str(value) if column.kind == "text" else number(float(value))


def day(days: float) -> str:
    """Return the date that is so many days after the beginning of 1970."""
    return str(np.datetime64(0, "D") + np.timedelta64(int(np.floor(days)), "D"))


def _by_value(text: NDArray[np.str_]) -> list[tuple[str, BoolArray]]:
    found, counts = np.unique(text, return_counts=True)
    first = found[np.argsort(-counts, kind="stable")][:_MOST_VALUES]
    groups = [(str(value), np.asarray(text == value)) for value in first]
    others = ~np.isin(text, first)
    return [*groups, ("others", others)] if others.any() else groups


def _ranges(column: RawColumn) -> list[tuple[str, BoolArray]]:
    """Return ranges of equally many rows, or single values if there are few; missing numbers by themselves."""
    numbers, known = column.values, ~column.missing
    distinct = np.unique(numbers[known])
    if len(distinct) <= _MOST_VALUES:
        groups = [(cell(column, int(np.argmax(numbers == value))), numbers == value) for value in distinct]
    else:
        edges = np.unique(np.quantile(numbers[known], np.linspace(0.0, 1.0, _BINS + 1)))
        bins = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2)
        groups = [(_range_label(column, at), at) for k in range(len(edges) - 1) if (at := known & (bins == k)).any()]
    return groups if known.all() else [*groups, ("missing", ~known)]


def _range_label(column: RawColumn, at: BoolArray) -> str:
    rows = np.flatnonzero(at)
    ends = rows[column.values[rows].argmin()], rows[column.values[rows].argmax()]
    first, last = (cell(column, int(i)) for i in ends)
    return first if first == last else f"{first} to {last}"


LEVEL = 0.9
"""Probability of the intervals that the page shows."""

LEVELS = np.round(np.arange(0.05, 0.96, 0.05), 2)
"""Levels of the reliability chart."""

CHANCE = 0.95
"""Probability of the bands of what chance allows."""

_RESAMPLES = 500


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A model, rows and their targets; everything else is computed from these when it is asked for."""

    model: Any
    view: TableView
    y: FloatArray

    @lazy
    def dist(self) -> Predictive:
        """The predictive distribution of each row."""
        found: Predictive = self.model.predict_dist(self.view.table)
        return found

    @lazy
    def mean(self) -> FloatArray:
        """The predicted mean of each row."""
        return self.dist.mean()

    @lazy
    def std(self) -> FloatArray:
        """The predicted standard deviation of each row; the width of intervals where it is infinite."""
        std = self.dist.std()
        return std if np.isfinite(std).all() else np.asarray(self.interval[:, 1] - self.interval[:, 0]) / 3.3

    @lazy
    def interval(self) -> FloatArray:
        """The ends (n, 2) of the 90 % interval of each row."""
        return np.asarray(self.model.predict_interval(self.view.table, LEVEL))

    @lazy
    def half(self) -> FloatArray:
        """The ends (n, 2) of the 50 % interval of each row."""
        return np.stack(self.dist.interval(0.5), axis=1)

    @lazy
    def held(self) -> Any:
        """Whether the 90 % interval of each row holds its target."""
        return (self.interval[:, 0] <= self.y) & (self.y <= self.interval[:, 1])

    @lazy
    def pit(self) -> FloatArray:
        """The probability that is predicted below each target."""
        return self.dist.cdf(self.y)

    @lazy
    def covered(self) -> FloatArray:
        """The share of the targets in central intervals of each of ``LEVELS``."""
        apart = np.abs(2.0 * self.pit - 1.0)
        return np.asarray((apart[:, None] <= LEVELS).mean(axis=0))

    @lazy
    def support(self) -> SupportReport | None:
        """How far the rows are from the training rows; None where the model does not know."""
        known = isinstance(self.model, BDKNRegressor) and self.model.model_.extrapolation is not None
        return self.model.support(self.view.table) if known else None

    @lazy
    def parts(self) -> dict[str, FloatArray]:
        """The parts of the variance of each row; none where the model does not divide it."""
        if not isinstance(self.model, BDKNRegressor):
            return {}
        parts = self.model.predict_var(self.view.table, decompose=True)
        return parts if all(np.isfinite(part).all() for part in parts.values()) else {}

    @lazy
    def baseline(self) -> Gaussian:
        """The same Gaussian for each row: mean and standard deviation of the training targets, if they are known."""
        y = _training_targets(self.model)
        known = self.y if y is None else y
        return Gaussian(np.full(len(self.y), known.mean()), float(known.std()) or 1.0)

    def scores(self, dist: Predictive, held: Any, width: FloatArray) -> dict[str, FloatArray]:
        """Return the score of each row under each measure."""
        error = dist.mean() - self.y
        return {
            "absolute": np.abs(error),
            "squared": error**2,
            "crps": dist.crps(self.y),
            "nll": -dist.logpdf(self.y),
            "held": np.asarray(held, dtype=np.float64),
            "width": width,
        }

    @lazy
    def own_scores(self) -> dict[str, FloatArray]:
        """The scores of the model's predictions."""
        return self.scores(self.dist, self.held, self.interval[:, 1] - self.interval[:, 0])

    @lazy
    def baseline_scores(self) -> dict[str, FloatArray]:
        """The scores of predicting the mean for all rows."""
        lower, upper = self.baseline.interval(LEVEL)
        return self.scores(self.baseline, (lower <= self.y) & (self.y <= upper), upper - lower)


def _training_targets(model: Any) -> FloatArray | None:
    held_out = getattr(model, "held_out_", None)
    return None if held_out is None else model.target_scaler_.inverse(held_out.y)


def resample(n: int) -> FloatArray:
    """Return weights (resamples, n) of the bootstrap: how often each row is drawn, over n; always the same."""
    return np.random.default_rng(0).multinomial(n, np.full(n, 1.0 / n), size=_RESAMPLES) / n


def chance_of(n: int, share: float, probability: float = CHANCE) -> tuple[float, float]:
    """Return the range of shares that n rows show by chance, with this probability, if each counts so often."""
    low, high = stats.binom.interval(probability, n, share)
    return float(low / n), float(high / n)
